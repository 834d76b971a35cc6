// exec/native.h: compiled code as the executor sees it. The JIT provides it; exec/ does not depend on the JIT.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "exec/warp.h"

namespace orrery::exec {

/// Runs `n` neighbouring warps of a block, in an order of its own, from the entry point until each stops; every warp's
/// ready group is all its live lanes at that point. Each warp's Stop is in WarpContext::stop; the result is that of all
/// of them, Stop::mixed when they differ, or Stop::fault at once. When a warp stops, its live registers are in the
/// frame, the groups are written (pc of a service stop = the instruction to be serviced), and w->live has lost the lanes
/// that exited (exec/ keeps the counts); except for Stop::done (all lanes exited, whatever `live` says) and Stop::arrived:
/// then the frame lacks registers until the code at the next instruction is called with n = 0, which fills it.
using RegionFn = uint32_t (*)(WarpContext* first, uint32_t n);

struct NativeCode {
  std::vector<RegionFn> entries;    // code for entry number i
  std::vector<uint32_t> entry_pc;   // instruction index where entry i starts
  std::vector<int32_t> entry_of;    // instruction index -> entry number, -1 when code cannot start there
  uint32_t width = 32;              // lanes per vector
  int tier = 0;
};

/// What compiled code may call back (all with C linkage and plain arguments; filled by exec/, read by the JIT).
struct RuntimeCalls {
  static constexpr uint32_t kMustWait = 2;
  /// Executes instruction `inst` for the lanes in `mask`, which neither jumps nor synchronises; operands are read from
  /// and written to the frame. Returns 0, 1 after a fault, or kMustWait when it has to wait: nothing has changed then.
  uint32_t (*execute)(WarpContext*, uint32_t inst, uint32_t mask);
  /// A memory access of `bytes` per lane that failed the inline checks (misaligned, outside device memory, generic
  /// window, registered host memory): `addresses` has 32 entries. Executes it like `execute` (same contract).
  uint32_t (*execute_memory)(WarpContext*, uint32_t inst, uint32_t mask, const uint64_t* addresses);
  /// Polled by long loops: nonzero when the launch must stop (timeout, interrupt, fault elsewhere).
  uint32_t (*should_stop)(WarpContext*);
};
const RuntimeCalls& runtime_calls();

}  // namespace orrery::exec
