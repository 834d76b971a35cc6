// Two warps take two named barriers in opposite order.
// planted: hang
// finding: hang
#include "planted.h"

__global__ void cross(int* out) {
  int t = threadIdx.x;
  if (t < 32) {
    asm volatile("barrier.sync 1, 64;" ::: "memory");  // HERE
    asm volatile("barrier.sync 2, 64;" ::: "memory");
  } else {
    asm volatile("barrier.sync %0, 64;" ::"n"(BUG(2) REPAIR(1)) : "memory");  // HERE
    asm volatile("barrier.sync %0, 64;" ::"n"(BUG(1) REPAIR(2)) : "memory");
  }
  out[t] = t;
}

PROGRAM(hang_crossed_barriers) {
  Buffer<int> out(64);
  cross<<<1, 64>>>(out);
  return finished() && same(out.host(), counting(64));
}
