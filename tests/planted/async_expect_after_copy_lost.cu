// A plain arrival where arrive.expect_tx was meant: the phase ends at once and the tile is read before it is there.
// planted: asynccheck
// finding: transaction-bytes | copy-not-waited
#include "planted.h"

__global__ void load(const int* in, int* out) {
  __shared__ alignas(128) int tile[128];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
    BUG(MBAR_ARRIVE(&bar);)  // HERE
    REPAIR(MBAR_EXPECT(&bar, 512);)
    BULK_LOAD(tile, in, 512, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  out[t] = tile[t];  // HERE
}

PROGRAM(async_expect_after_copy_lost) {
  Buffer<int> in(counting(128)), out(128);
  load<<<1, 128>>>(in, out);
  return finished() && same(out.host(), counting(128));
}
