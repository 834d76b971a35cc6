// Blocks wait for a flag that the last block should set; it checks for the wrong number of blocks.
// planted: hang
// finding: livelock | hang
#include "planted.h"

__global__ void grid_barrier(unsigned* count, unsigned* flag, int* out) {
  if (threadIdx.x) return;
  unsigned f;
  if (atomicAdd(count, 1u) == gridDim.x BUG(+ 0) REPAIR(- 1)) {
    asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
  } else {
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory");  // HERE
    while (f == 0);
  }
  out[blockIdx.x] = 1;
}

PROGRAM(hang_flag_never_set) {
  Buffer<unsigned> count(1), flag(1);
  Buffer<int> out(4);
  count.zero(), flag.zero();
  grid_barrier<<<4, 32>>>(count, flag, out);
  return finished() && same(out.host(), std::vector<int>(4, 1));
}
