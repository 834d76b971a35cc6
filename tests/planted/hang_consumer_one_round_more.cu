// A consumer loop that runs one round more than its producer.
// planted: hang
// finding: hang
#include "planted.h"

__global__ void pipe(const int* in, int* out, int steps) {
  __shared__ alignas(128) int stage[2][32];
  __shared__ uint64_t full[2], empty[2];
  int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < 2; s++) {
      MBAR_INIT(&full[s], 1);
      MBAR_INIT(&empty[s], 32);
    }
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  if (t < 32) {
    int sum = 0;
    for (int i = 0; i BUG(<=) REPAIR(<) steps; i++) {
      MBAR_WAIT(&full[i % 2], i / 2 % 2);  // HERE
      sum += stage[i % 2][t];
      MBAR_ARRIVE(&empty[i % 2]);
    }
    out[t] = sum;
  } else if (t == 32) {
    for (int i = 0; i < steps; i++) {
      MBAR_WAIT(&empty[i % 2], i / 2 % 2 ^ 1);
      MBAR_EXPECT(&full[i % 2], 128);
      BULK_LOAD(stage[i % 2], in + i * 32, 128, &full[i % 2]);
    }
  }
}

PROGRAM(hang_consumer_one_round_more) {
  Buffer<int> in(counting(160)), out(32);
  pipe<<<1, 64>>>(in, out, 5);
  std::vector<int> want(32);
  for (int t = 0; t < 32; t++) want[t] = 5 * t + 320;
  return finished() && same(out.host(), want);
}
