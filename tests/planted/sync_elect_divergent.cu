// elect.sync with a full mask by lanes that are alone in a branch.
// planted: synccheck
// finding: warp-mask
#include "planted.h"

__global__ void leader(int* out) {
  unsigned chosen = 0;
  int t = threadIdx.x;
  if (t >= 8) {
    asm volatile("{ .reg .pred p; elect.sync _|p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(chosen) : "r"(BUG(0xffffffff) REPAIR(0xffffff00)));  // HERE
  } BUG(else return;)
  if (chosen) *out = t;
}

PROGRAM(sync_elect_divergent) {
  Buffer<int> out(1);
  leader<<<1, 32>>>(out);
  return finished() && same(out.host(), {8});
}
