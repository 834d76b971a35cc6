// exec/decode.h: a program in the form that the interpreter steps through.
//
// Decoding happens once per program: every instruction gets the function that executes it (Handler), and its operands
// become places: an array of 32 lanes in the warp's register frame or in the program's pool of constants. Handlers
// never look at names or operand kinds again.
//
// Invariant: refs of an instruction stand in operand order, destinations first, vectors and pairs flattened; the
// immediate constants have the width that the instruction reads.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "exec/launch.h"
#include "exec/warp.h"
#include "lower/program.h"
#include "sem/pure.h"

namespace orrery::exec {

enum class RefKind : uint8_t { none, frame, constant, sreg, local_address, sink };

/// Where one operand's 32 lanes are.
struct Ref {
  RefKind kind = RefKind::none;
  uint8_t bits = 32;          // width of the place: 1, 32, 64 or 128
  uint8_t want = 32;          // width in which the instruction reads or writes it
  bool negated = false;       // predicate operand read inverted
  isa::Mod selector = isa::Mod::count;
  uint32_t offset = 0;        // bytes in the frame or the pool; the Sreg
  int64_t value = 0;          // the immediate again; offset in the local frame
};

/// An address operand: [base + value].
struct AddressRef {
  Ref base;                   // none: absolute
  int64_t value = 0;
  bool local_frame = false;   // value counts from the function's local frame
};

struct Stepper;               // exec/stepper.h
struct Decoded;

enum class Next : uint8_t { next, jump, block, regroup, fault };  // block: compiled code must leave and wait
using Handler = Next (*)(Stepper&, const Decoded&);

struct Decoded {
  Handler run = nullptr;
  Handler inner = nullptr;             // observed: the handler that does the work
  sem::PureFn pure = nullptr;
  const ptx::Instr* instr = nullptr;
  uint32_t guard = UINT32_MAX;         // frame offset of the guard predicate
  bool guard_negated = false;
  uint8_t n_dst = 0, n_src = 0;
  uint32_t first_ref = 0;              // into DecodedProgram::refs
  int32_t address = -1;                // into DecodedProgram::addresses, -1: none
  uint32_t target = 0;                 // instruction index of a branch
  uint32_t extra = 0;                  // handler's own (space, builtin number, byte count, ...)
};

struct DecodedProgram {
  std::shared_ptr<const lower::Program> program;
  std::vector<Decoded> code;
  std::vector<Ref> refs;
  std::vector<AddressRef> addresses;
  std::vector<uint64_t> pool;          // constants, 64-byte aligned offsets
  std::vector<std::vector<uint32_t>> tables;  // brx.idx: instruction indices
  std::vector<uint8_t> spin_edge;      // per instruction: a backward jump of a loop that may spin
  std::vector<bool> block_start;
};

class Kernel {
 public:
  std::shared_ptr<const DecodedProgram> entry;
  std::vector<std::shared_ptr<const DecodedProgram>> functions;  // by function of the module
  std::map<uint64_t, uint32_t> function_at;  // function pointer -> function
  std::vector<uint64_t> pointer_of;          // function -> pointer
};

/// `observe` as make_kernel has it.
std::shared_ptr<const DecodedProgram> decode(std::shared_ptr<const lower::Program> program, unsigned observe = 0);

/// The handler that reports an instruction to Machine::observer and goes on to Decoded::inner; null when nobody asks.
Handler find_observed_handler(const Decoded& d, unsigned observe);
/// Makes instructions report that use registers which the program's wgmma instructions work on.
void observe_wgmma_registers(DecodedProgram& program);

/// The handler of a form, null when it is neither pure nor known to exec/. One table per family of instructions.
Handler find_memory_handler(const isa::Form& form);
Handler find_atomic_handler(const isa::Form& form);
Handler find_warp_handler(const isa::Form& form);
Handler find_control_handler(const isa::Form& form);
Handler find_sync_handler(const isa::Form& form);
Handler find_async_handler(const isa::Form& form);
Handler find_texture_handler(const isa::Form& form);
Handler find_tensor_handler(const isa::Form& form);

}  // namespace orrery::exec
