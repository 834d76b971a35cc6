// A stencil in place: a block reads cells that its neighbour may already have replaced.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void smooth(const int* from, int* to, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int left = i > 0 ? from[i - 1] : 0, right = i + 1 < n ? from[i + 1] : 0;  // HERE
  __syncthreads();
  to[i] = left + right;  // HERE
}

PROGRAM(race_halo_blocks) {
  Buffer<int> a(std::vector<int>(512, 1)), b(512);
  smooth<<<4, 128>>>(a, BUG(a) REPAIR(b), 512);
  std::vector<int> want(512, 2);
  want[0] = want[511] = 1;
  return finished() && same((BUG(a) REPAIR(b)).host(), want);
}
