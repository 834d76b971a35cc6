// The two sides of a branch meet at different __syncthreads.
// planted: synccheck
// finding: divergent-barrier
#include "planted.h"

__global__ void split(int* x) {
  __shared__ int part[64];
  int t = threadIdx.x;
  part[t] = t;
  BUG(if (t % 32 < 16) {  // HERE
    __syncthreads();  // HERE
    x[t] = part[63 - t];
  } else {
    __syncthreads();  // HERE
    x[t] = -part[63 - t];
  })
  REPAIR(__syncthreads(); x[t] = t % 32 < 16 ? part[63 - t] : -part[63 - t];)
}

PROGRAM(sync_two_barriers) {
  Buffer<int> x(64);
  split<<<1, 64>>>(x);
  std::vector<int> want(64);
  for (int t = 0; t < 64; t++) want[t] = t % 32 < 16 ? 63 - t : t - 63;
  return finished() && same(x.host(), want);
}
