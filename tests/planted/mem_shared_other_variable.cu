// An index that runs from one shared array into the next one: no byte is outside the block's shared memory.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void rotate(const int* in, int* out) {
  __shared__ int low[64];
  __shared__ int high[64];
  int t = threadIdx.x;
  low[t] = in[t];
  high[t] = -1;
  __syncthreads();
  out[t] = low[BUG(t + 1) REPAIR((t + 1) % 64)] + high[t];  // HERE
}

PROGRAM(mem_shared_other_variable) {
  Buffer<int> in(counting(64)), out(64);
  rotate<<<1, 64>>>(in, out);
  std::vector<int> want(64);
  for (int t = 0; t < 64; t++) want[t] = (t + 1) % 64 - 1;
  return finished() && same(out.host(), want);
}
