// The last steps of a reduction within a warp, as written before Volta: no __syncwarp.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void sum(const int* in, int* out) {
  __shared__ int part[64];
  int t = threadIdx.x;
  part[t] = in[t];
  __syncthreads();
  if (t < 32) {
    for (int half = 32; half > 0; half /= 2) {
      int v = part[t + half];  // HERE
      REPAIR(__syncwarp();)
      if (t < half) part[t] += v;  // HERE
      REPAIR(__syncwarp();)
    }
  }
  if (t == 0) *out = part[0];
}

PROGRAM(race_warp_sync) {
  Buffer<int> in(counting(64)), out(1);
  sum<<<1, 64>>>(in, out);
  return finished() && same(out.host(), {2016});
}
