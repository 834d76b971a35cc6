// A consumer whose parity flips every third step in a ring of two stages: some waits pass because of the phase before.
// planted: asynccheck
// finding: parity
#include "planted.h"

__global__ void sums(const int* in, int* out) {
  constexpr int kStages = 2, kTiles = 6;
  __shared__ alignas(128) int tile[kStages][128];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < kStages; s++) {
      MBAR_INIT(&full[s], 1);
      MBAR_INIT(&empty[s], 128);
    }
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  if (t == 128) {
    for (int i = 0; i < kTiles; i++) {
      const int s = i % kStages;
      if (i >= kStages) MBAR_WAIT(&empty[s], (i / kStages - 1) % 2);
      MBAR_EXPECT(&full[s], 512);
      BULK_LOAD(tile[s], in + 128 * i, 512, &full[s]);
    }
  } else if (t < 128) {
    int sum = 0;
    for (int i = 0; i < kTiles; i++) {
      MBAR_WAIT(&full[i % kStages], i / BUG(3) REPAIR(kStages) % 2);  // HERE
      sum += tile[i % kStages][t];
      MBAR_ARRIVE(&empty[i % kStages]);  // HERE
    }
    out[t] = sum;
  }
}

PROGRAM(async_parity_flips_late) {
  Buffer<int> in(counting(6 * 128)), out(128);
  sums<<<1, 160>>>(in, out);
  std::vector<int> want(128);
  for (int t = 0; t < 128; t++)
    for (int i = 0; i < 6; i++) want[t] += 128 * i + t;
  return finished() && same(out.host(), want);
}
