// An "empty" mbarrier that counts warpgroups of consumers, where one warp consumes: it is made for no arrivals at all.
// planted: asynccheck
// finding: mbarrier-count
#include "planted.h"

__global__ void pass(const int* in, int* out) {
  __shared__ int tile[32];
  __shared__ uint64_t full, empty;
  const int t = threadIdx.x, consumers = blockDim.x - 32;
  if (t == 0) {
    MBAR_INIT(&full, 32);
    MBAR_INIT(&empty, BUG(consumers / 128) REPAIR(consumers));  // HERE
  }
  __syncthreads();
  if (t < 32) {
    tile[t] = in[t];
    MBAR_ARRIVE(&full);
    REPAIR(MBAR_WAIT(&empty, 0);)
  } else {
    MBAR_WAIT(&full, 0);
    out[t - 32] = tile[t - 32];
    REPAIR(MBAR_ARRIVE(&empty);)
  }
}

PROGRAM(async_mbarrier_count) {
  Buffer<int> in(counting(32)), out(32);
  pass<<<1, 64>>>(in, out);
  return finished() && same(out.host(), counting(32));
}
