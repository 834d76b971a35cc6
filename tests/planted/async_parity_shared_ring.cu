// A ring of three stages used by two consumer groups in turn: each stage is waited for by both alternately, so that a
// group waits for every second phase only and may pass because of the one before last.
// planted: asynccheck
// finding: parity
#include "planted.h"
#include "planted_ring.h"

__global__ void turns(const int* in, int* out) {
  constexpr int kStages = BUG(3) REPAIR(4), kTiles = 12;
  RING(kStages);
  const int t = threadIdx.x, group = t / 128;
  if (t == 256) {
    RING_FILL(in, kTiles, kStages);  // HERE
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

PROGRAM(async_parity_shared_ring) { return run_ring(turns, 12, 2); }
