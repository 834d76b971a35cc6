// Global memory that a bulk store writes is read after wait_group.read, which waits for the source only.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void store(int* out, int* sum) {
  __shared__ alignas(128) int tile[64];
  int t = threadIdx.x;
  tile[t] = t;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  if (t == 0) {
    BULK_STORE(out, tile, 256);  // HERE
    BULK_COMMIT();
    BUG(BULK_WAIT_READ(0);)
    REPAIR(BULK_WAIT(0);)
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  atomicAdd(sum, out[63 - t]);  // HERE
}

PROGRAM(async_store_read_back) {
  Buffer<int> out(64), sum(1);
  out.zero(), sum.zero();
  store<<<1, 64>>>(out, sum);
  return finished() && same(sum.host(), {2016});
}
