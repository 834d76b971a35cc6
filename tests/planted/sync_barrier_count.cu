// A named barrier for two warps that three warps use.
// planted: synccheck
// finding: barrier-count
#include "planted.h"

__global__ void meet(int* out) {
  __shared__ int value;
  if (threadIdx.x == 0) value = 9;
  if (threadIdx.x < 96) {
    asm volatile("barrier.sync 1, %0;" ::"n"(BUG(64) REPAIR(96)) : "memory");  // HERE
    out[threadIdx.x] = value;
  }
  REPAIR(__syncthreads();)
  BUG(if (threadIdx.x >= 96) asm volatile("barrier.sync 1, 64;" ::: "memory");)  // HERE
}

PROGRAM(sync_barrier_count) {
  Buffer<int> out(96);
  meet<<<1, 128>>>(out);
  return finished() && same(out.host(), std::vector<int>(96, 9));
}
