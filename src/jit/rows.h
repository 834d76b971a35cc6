// jit/rows.h: loops in which a block walks through memory row by row.
//
//   for (i = threadIdx.x; i < n; i += blockDim.x) ... a[i] ...
//   for (i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) ... a[i] ...
//
// Run warp after warp, such a loop takes 128 bytes of every block-wide row in turn: memory is read in strides, which the
// host's prefetchers do not follow (9 to 15 instead of 31 GB/s a core, with the best prefetch instructions). Run with
// all warps taking turns at every iteration, it is read in order of addresses.
#pragma once
#include <set>

#include "jit/plan.h"
#include "lower/schedule.h"

namespace orrery::jit {

/// The latch of the loop of a region in whose iterations warps are worth switching: of several, the one that goes furthest
/// in an iteration (compilers unroll the loop and leave a short one for the rest). lower::kNone: none.
uint32_t find_row_loop(const Plan& plan, const lower::Schedule& schedule);

/// Registers that a warp needs when it goes on from the start of `node`: those live there and where lanes wait.
std::vector<uint32_t> live_at(const Plan& plan, const lower::Schedule& schedule, uint32_t node);

/// Registers that the region may write from the start of `node` on.
std::set<uint32_t> written_from(const Plan& plan, const lower::Schedule& schedule, uint32_t node);

}  // namespace orrery::jit
