// lower/program.h: one function of a module, resolved and ready to execute.
//
// The interpreter, the JIT and the timing model all read a Program; none of them sees names.
//
// What lowering guarantees, beyond the parser's invariant:
//   - no operand of kind var: addresses of module variables are immediates (device address; offset for .shared);
//   - kernel parameters: an address without base in space param, value = offset in the parameter buffer;
//   - .local variables and the .param variables of calls live in the function's local frame: an address or operand of
//     kind local_var has value = offset in that frame (the frame of a kernel starts at local address 0); the formal
//     parameters and results of a device function start its frame (Program::params, rets first);
//   - branch targets are block numbers (kind label, id = block, also in prototypes' targets); a block ends in a
//     terminator or falls into the next one; a guarded jump may be followed by one plain bra (reordering needs it);
//     blocks are in reverse post-order with loops contiguous: always executing
//     the lowest-numbered block that has waiting lanes reconverges as early as the graph allows;
//   - a call is ops = {vec of results, func | reg, vec of arguments, prototype or none}; arguments and results are
//     registers, immediates or local_var operands; where the target is a register and marked as negated, hardly any lane
//     comes here (merge_calls.h: it is left for pointers to functions that nobody seems to take the address of);
//   - addc/subc/madc and .cc carry the condition code as an extra predicate operand (last destination, last source);
//   - guards are kept; a guard on a terminator makes it conditional.
//
// Registers live in a frame in memory when the interpreter runs: Register::offset, laid out by kind
//   pred          one uint32_t, bit per lane
//   8..32 bits    uint32_t[32], the value in the low bits, upper bits unspecified
//   64 bits       uint64_t[32]
//   128 bits      uint64_t[64]: low halves [0,32), high halves [32,64)
// Registers whose lives do not overlap share frame space: write a lane's slot only while that lane is at a point where
// the register is live. The JIT uses the same layout when a warp leaves compiled code, so either can continue the
// other's warp.
//
// Source: PTX ISA manual; post-dominators and natural loops as in any compiler textbook.
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
  uint32_t loop_header = kNone;         // header of the innermost loop around this block (itself for a header)
  bool may_spin = false;                // loop header: its loop may wait for other threads (volatile, acquire or
                                        // atomic access, mbarrier test, nanosleep inside)
};

struct Param {
  uint32_t offset = 0, size = 0, align = 1;
};

/// A variable in shared memory, for messages: its name in the PTX and where it lies.
struct SharedVar {
  std::string name;
  uint32_t offset = 0, bytes = 0;  // bytes: 0 for what starts dynamic shared memory
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
  std::vector<std::vector<uint32_t>> branch_tables;  // per prototype of the source (not merged): blocks of a brx.idx table
  std::vector<std::vector<uint32_t>> live_in;  // per block: registers live at its start
  std::vector<Param> params;                // kernel: in the parameter buffer; function: rets then params, in its frame
  uint32_t param_bytes = 0;
  uint32_t local_bytes = 0;                 // per-thread frame (.local variables, .param variables of calls)
  std::vector<uint64_t> local_at;           // by variable of the source: where it is in that frame (or the parameter buffer)
  bool is_merged = false;                   // with functions that it calls (merge_calls.h): code is not of `source` alone
  uint32_t shared_bytes = 0;                // static shared memory that this kernel can reach
  uint32_t dynamic_shared_offset = 0;       // where dynamic shared memory starts (kSharedStart + static, aligned)
  bool has_dynamic_shared = false;
  std::vector<SharedVar> shared_vars;       // of the kernel and all it can call, by offset
  bool has_calls = false;                   // calls to functions with a body, or indirect ones
  bool prints = false;                      // calls vprintf
  bool counts_phases = false;               // barrier.cluster, wgmma.commit_group: its warps keep count of them
  bool order_sensitive = false;             // results may depend on the order of blocks (see exec/launch.h)
  uint64_t hash = 0;                        // of everything that decides its meaning: the key of code caches
};

/// The function whose text the instruction is from, and the instruction as PTX text.
const ptx::Function& function_of(const Program& program, uint32_t inst);
std::string text_of(const Program& program, uint32_t inst);

/// Shared memory below this offset belongs to the system, as on compute capability 8.0 and later.
constexpr uint32_t kSharedStart = 1024;

/// Where the loader put a module's variables and functions.
struct Addresses {
  std::vector<uint64_t> var;       // by module variable: device address (global, const); ignored for shared
  std::vector<uint64_t> function;  // by function: the value of a function pointer
};

/// A kernel and the functions it can call, resolved against one layout of shared memory.
struct KernelPrograms {
  std::shared_ptr<const Program> entry;
  std::vector<std::shared_ptr<const Program>> functions;  // by function of the module; null: not reachable
};

/// Resolves the kernel `function` and everything it can call; all of the module's functions when it calls indirectly.
/// Calls are as in the text (merge_calls.h changes that). The module must outlive the result. Throws base::Error when the function has no body or a symbol is unresolved.
KernelPrograms lower_kernel(const ptx::Module& module, uint32_t function, const Addresses& addresses);

}  // namespace orrery::lower
