// setmaxnreg by one warp of a warpgroup.
// planted: synccheck
// finding: divergent-warp
#include "planted.h"

__global__ void __launch_bounds__(256) roles(int* out) {
  if (threadIdx.x / BUG(32) REPAIR(128) == 0) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");  // HERE
  out[threadIdx.x] = threadIdx.x;
}

PROGRAM(sync_setmaxnreg_divergent) {
  Buffer<int> out(256);
  roles<<<1, 256>>>(out);
  return finished() && same(out.host(), counting(256));
}
