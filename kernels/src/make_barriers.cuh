// How the barriers of a block are made: some by each warp, by one thread of it.
//
// The instruction takes its address from a uniform register. Where lanes make a barrier each, or one thread that was found by its number makes
// all, ptxas puts a loop over the lanes that might be there around each instruction, and a turn of it takes 61 cycles: for a ring of eight
// stages more than half a microsecond at the start of a launch, before anything is asked for (NOTES.md).
#pragma once
#include "ptx.cuh"

namespace orrery::kernels {

/// Calls make(i) for each i below kItems, an item by one thread of the (i % kWarps)th of kWarps warps, of which this is `warp`, and makes what it
/// made seen by the copy engine and other CTAs. By all of these warps; all of the block has to meet before it uses any of it.
template <int kWarps, int kItems, class Make>
__device__ __forceinline__ void make_barriers(int warp, Make make) {
  if (ptx::elect_one()) {
#pragma unroll
    for (int first = 0; first < kItems; first += kWarps)
      if (kItems - first >= kWarps || first + warp < kItems) make(first + warp);
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
}

/// The same by all of a block's kWarps warps.
template <int kWarps, int kItems, class Make>
__device__ __forceinline__ void make_barriers(Make make) {
  make_barriers<kWarps, kItems>(__shfl_sync(~0u, int(threadIdx.x / 32), 0), make);
}

}  // namespace orrery::kernels
