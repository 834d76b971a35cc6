// A flag that is written relaxed: the data behind it may come later than the flag.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void pass(int* data, int* flag, int* out) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    *data = 42;  // HERE
    BUG(asm volatile("st.relaxed.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");)
    REPAIR(asm volatile("st.release.gpu.global.s32 [%0], 1;" ::"l"(flag) : "memory");)
  } else {
    int f;
    do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(f) : "l"(flag) : "memory");
    while (!f);
    *out = *data;  // HERE
  }
}

PROGRAM(race_flag_relaxed) {
  Buffer<int> data(1), flag(1), out(1);
  data.zero(), flag.zero(), out.zero();
  pass<<<2, 32>>>(data, flag, out);
  return finished() && same(out.host(), {42});
}
