// A ring of three stages used by two consumer groups in turn: each stage is waited for by both alternately, so that a
// group waits for every second phase only and may pass because of the one before last.
// planted: asynccheck
// finding: parity
#include "planted.h"

__global__ void turns(const int* in, int* out) {
  constexpr int kStages = BUG(3) REPAIR(4), kTiles = 12;
  __shared__ alignas(128) int tile[kStages][128];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int t = threadIdx.x, group = t / 128;
  if (t == 0) {
    for (int s = 0; s < kStages; s++) {
      MBAR_INIT(&full[s], 1);
      MBAR_INIT(&empty[s], 128);
    }
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  if (t == 256) {
    for (int i = 0; i < kTiles; i++) {
      const int s = i % kStages;
      if (i >= kStages) MBAR_WAIT(&empty[s], (i / kStages - 1) % 2);  // HERE
      MBAR_EXPECT(&full[s], 512);
      BULK_LOAD(tile[s], in + 128 * i, 512, &full[s]);
    }
  } else if (group < 2) {
    int sum = 0;
    for (int i = group; i < kTiles; i += 2) {
      MBAR_WAIT(&full[i % kStages], i / kStages % 2);  // HERE
      sum += tile[i % kStages][t % 128];
      MBAR_ARRIVE(&empty[i % kStages]);
    }
    out[t] = sum;
  }
}

PROGRAM(async_parity_shared_ring) {
  Buffer<int> in(counting(12 * 128)), out(256);
  turns<<<1, 288>>>(in, out);
  std::vector<int> want(256);
  for (int t = 0; t < 256; t++)
    for (int i = t / 128; i < 12; i += 2) want[t] += 128 * i + t % 128;
  return finished() && same(out.host(), want);
}
