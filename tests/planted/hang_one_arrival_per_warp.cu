// An "empty" mbarrier that counts 128 arrivals while one thread of each consumer warp arrives.
// planted: hang
// finding: hang
// says: 4 of 128
#include "planted.h"

__global__ void pipe(const int* in, int* out, int steps) {
  __shared__ alignas(128) int stage[128];
  __shared__ uint64_t full, empty;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&full, 1);
    MBAR_INIT(&empty, BUG(128) REPAIR(4));  // HERE
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  if (t >= 128) {
    if (t == 128)
      for (int i = 0; i < steps; i++) {
        if (i > 0) MBAR_WAIT(&empty, (i - 1) % 2);  // HERE
        MBAR_EXPECT(&full, 512);
        BULK_LOAD(stage, in + i * 128, 512, &full);
      }
  } else {
    int sum = 0;
    for (int i = 0; i < steps; i++) {
      MBAR_WAIT(&full, i % 2);  // HERE
      sum += stage[t];
      __syncwarp();
      if (t % 32 == 0) MBAR_ARRIVE(&empty);  // HERE
    }
    out[t] = sum;
  }
}

PROGRAM(hang_one_arrival_per_warp) {
  Buffer<int> in(counting(512)), out(128);
  pipe<<<1, 160>>>(in, out, 4);
  std::vector<int> want(128);
  for (int t = 0; t < 128; t++) want[t] = 4 * t + 768;
  return finished() && same(out.host(), want);
}
