// A consumer whose parity flips every third step in a ring of two stages: some waits pass because of the phase before.
// planted: asynccheck
// finding: parity
#include "planted.h"
#include "planted_ring.h"

__global__ void sums(const int* in, int* out) {
  constexpr int kStages = 2, kTiles = 6;
  RING(kStages);
  const int t = threadIdx.x;
  if (t == 128) {
    RING_FILL(in, kTiles, kStages);
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

PROGRAM(async_parity_flips_late) { return run_ring(sums, 6, 1); }
