// Producer and consumer warps with a named barrier for "full" but none for "empty": the buffer is refilled too early.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void pipe(const int* in, int* out) {
  __shared__ int buffer[32];
  int lane = threadIdx.x % 32, sum = 0;
  if (threadIdx.x < 32) {
    for (int i = 0; i < 4; i++) {
      REPAIR(if (i > 0) asm volatile("barrier.sync 2, 64;" ::: "memory");)
      buffer[lane] = in[i * 32 + lane];  // HERE
      asm volatile("barrier.sync 1, 64;" ::: "memory");
    }
  } else {
    for (int i = 0; i < 4; i++) {
      asm volatile("barrier.sync 1, 64;" ::: "memory");
      sum += buffer[31 - lane];  // HERE
      REPAIR(if (i < 3) asm volatile("barrier.sync 2, 64;" ::: "memory");)
    }
    out[lane] = sum;
  }
}

PROGRAM(race_named_barrier) {
  Buffer<int> in(counting(128)), out(32);
  pipe<<<1, 64>>>(in, out);
  std::vector<int> want(32);
  for (int l = 0; l < 32; l++) want[l] = 4 * (31 - l) + 192;
  return finished() && same(out.host(), want);
}
