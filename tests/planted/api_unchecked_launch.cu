// A launch with too many threads, whose error nobody looks at: the results are those of no kernel.
// planted: apicheck
// finding: unchecked-launch
// says: fill
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x + blockIdx.x * blockDim.x] = 1; }

PROGRAM(api_unchecked_launch) {
  Buffer<int> x(2048);
  x.zero();
  fill<<<BUG(1) REPAIR(2), BUG(2048) REPAIR(1024)>>>(x);
  return same(x.host(), std::vector<int>(2048, 1));
}
