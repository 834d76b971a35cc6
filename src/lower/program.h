// lower/program.h: one function of a module, resolved and ready to execute.
//
// The interpreter, the JIT and the timing model all read a Program; none of them sees names.
//
// What lowering guarantees, beyond the parser's invariant:
//   - no operand of kind var, local_var or func: addresses of variables are immediates (64-bit), a parameter or
//     shared or local variable in an address is its offset (base none, or base reg) in that space;
//   - branch targets are block numbers (kind label, id = block); every block ends in a terminator or falls into the
//     next one; blocks are in reverse post-order with loops contiguous: executing the lowest-numbered block that has
//     waiting lanes reconverges as early as the graph allows (see Block::ipdom);
//   - addc/subc/madc and .cc carry the condition code as an extra predicate operand (last destination, last source);
//   - guards are kept; a guard on a terminator makes it conditional.
//
// Registers live in a frame in memory when the interpreter runs: Register::offset, laid out by kind
//   pred          one uint32_t, bit per lane
//   8..32 bits    uint32_t[32], the value in the low bits, upper bits unspecified
//   64 bits       uint64_t[32]
//   128 bits      uint64_t[64]: low halves [0,32), high halves [32,64)
// The JIT uses the same layout when a warp leaves compiled code, so either can continue the other's warp.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ptx/module.h"

namespace orrery::lower {

constexpr uint32_t kNone = UINT32_MAX;

enum class RegKind : uint8_t { pred, word, dword, qword };  // 1, <=32, 64, 128 bits
struct Register {
  RegKind kind = RegKind::word;
  isa::Type type = isa::Type::none;
  uint32_t offset = 0;  // bytes into the frame
};

struct Block {
  uint32_t first = 0, last = 0;         // instructions [first, last)
  std::vector<uint32_t> successors;     // block numbers; fall-through first
  std::vector<uint32_t> predecessors;
  uint32_t ipdom = kNone;               // immediate post-dominator, kNone: the exit
  uint32_t loop_header = kNone;         // header of the innermost loop around this block
};

struct CallSite;
struct Param {
  uint32_t offset = 0, size = 0, align = 1;
};

struct Program {
  std::string name;
  bool is_entry = false;
  const ptx::Module* module = nullptr;      // for messages; outlives the program
  const ptx::Function* source = nullptr;
  std::vector<Register> regs;
  uint32_t frame_bytes = 0;                 // register frame of one warp, multiple of 64
  std::vector<ptx::Instr> code;
  std::vector<Block> blocks;                // block 0 is the entry
  std::vector<uint32_t> block_of;           // instruction -> block
  std::vector<std::vector<uint32_t>> live_in;  // per block: registers live at its start
  std::vector<Param> params;                // kernel: in the parameter buffer; function: in its local frame
  uint32_t param_bytes = 0;
  uint32_t local_bytes = 0;                 // per-thread frame (.local variables, .param variables of calls)
  uint32_t shared_bytes = 0;                // static shared memory of the module that this kernel can reach
  bool has_dynamic_shared = false;
  bool has_calls = false;                   // calls that inlining left
  uint64_t hash = 0;                        // of everything that decides its meaning: the key of code caches
};

/// Where the linker put a module's variables and functions.
struct Addresses {
  std::vector<uint64_t> var;       // by module variable: device address (global, const), offset (shared)
  std::vector<uint64_t> function;  // by function: the value of a function pointer
};

/// Lays out the module's shared variables that `function` (and what it calls) can reach and resolves the function.
/// Throws base::Error when the function has no body.
Program lower(const ptx::Module& module, uint32_t function, const Addresses& addresses);

}  // namespace orrery::lower
