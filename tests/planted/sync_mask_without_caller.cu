// A __syncwarp whose mask leaves out lanes that execute it.
// planted: synccheck
// finding: warp-mask
#include "planted.h"

__global__ void neighbours(int* out) {
  __shared__ int x[32];
  int t = threadIdx.x;
  x[t] = t;
  asm volatile("bar.warp.sync %0;" ::"r"(BUG(0x0000ffff) REPAIR(0xffffffff)) : "memory");  // HERE
  out[t] = x[t ^ 1];
}

PROGRAM(sync_mask_without_caller) {
  Buffer<int> out(32);
  neighbours<<<1, 32>>>(out);
  std::vector<int> want(32);
  for (int t = 0; t < 32; t++) want[t] = t ^ 1;
  return finished() && same(out.host(), want);
}
