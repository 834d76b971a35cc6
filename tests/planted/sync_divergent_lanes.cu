// A barrier inside a branch that only half of each warp takes.
// planted: synccheck
// finding: divergent-barrier | race
#include "planted.h"

__global__ void fold(int* x) {
  __shared__ int part[64];
  int t = threadIdx.x;
  part[t] = x[t];
  REPAIR(__syncthreads();)
  if (t % 32 < 16) {
    BUG(__syncthreads();)  // HERE
    x[t] = part[t] + part[t ^ 16];  // HERE
  }
}

PROGRAM(sync_divergent_lanes) {
  Buffer<int> x(std::vector<int>(64, 4));
  fold<<<1, 64>>>(x);
  std::vector<int> want(64, 4);
  for (int t = 0; t < 64; t++) want[t] = t % 32 < 16 ? 8 : 4;
  return finished() && same(x.host(), want);
}
