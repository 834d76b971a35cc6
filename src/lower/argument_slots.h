// lower/argument_slots.h: parameters of calls as registers.
//
// PTX hands arguments over in variables of space .param: the caller stores to its own, the call names it, the callee loads from
// a formal of its own. Where all who are connected by calls that became jumps (call_plan.h) cut these bytes in the same way, each
// piece is a register of each variable instead, and a call moves registers.
//
// Invariant: a variable either has slots for all bytes that anybody looks at, or stays memory, together with all that calls
// connect it with.
// Not here: the code that moves them (merge_calls.cc).
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "lower/call_plan.h"

namespace orrery::lower {

/// A variable of a function, by instance: (instance, number in Function::locals).
using Argument = std::pair<uint32_t, uint32_t>;

struct Slot {
  uint32_t bytes = 0, reg = 0;  // 1, 2 and 4 bytes are in a 32-bit register, the bits above anything
};
using Slots = std::map<uint32_t, Slot>;  // by offset in the variable

/// What stands for the arguments of a plan. New registers are appended to `regs`.
std::map<Argument, Slots> find_argument_slots(const CallPlan& plan, std::vector<Register>& regs);

/// The piece that a load or store of a parameter is about: its first element.
struct ArgumentAccess {
  uint32_t local = 0, offset = 0, bytes = 0;
  const ptx::Operand* value = nullptr;  // register, immediate, or a vector of these
};
/// False when the instruction is no load or store of a .param variable of the function.
bool is_argument_access(const Program& p, const ptx::Instr& in, ArgumentAccess& out);

}  // namespace orrery::lower
