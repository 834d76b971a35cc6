// Sums over the lanes of a warp up to each of them: what scans, ranks and sorts number their items by.
#pragma once
#include <cuda_runtime.h>

namespace orrery::kernels {

/// The sum of the values of this lane and of those before it; by a whole warp. Modulo 2^32 where T is uint32_t.
template <class T>
__device__ __forceinline__ T sum_up_to(T v) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const T other = __shfl_up_sync(~0u, v, d);
    if (lane >= d) v += other;
  }
  return v;
}

}  // namespace orrery::kernels
