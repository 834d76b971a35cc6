// A tree reduction in shared memory without the barrier between its levels.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void sum(const int* in, int* out) {
  __shared__ int part[256];
  int t = threadIdx.x;
  part[t] = in[t];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];  // HERE
    REPAIR(__syncthreads();)
  }
  if (t == 0) *out = part[0];  // HERE
}

PROGRAM(race_reduction) {
  Buffer<int> in(counting(256)), out(1);
  sum<<<1, 256>>>(in, out);
  return finished() && same(out.host(), {255 * 128});
}
