// The source of a bulk store is overwritten before the store has read it.
// planted: asynccheck
// finding: stage-reused
#include "planted.h"

__global__ void store(int* out) {
  __shared__ alignas(128) int tile[128];
  int t = threadIdx.x;
  for (int s = 0; s < 4; s++) {
    tile[t] = s * 1000 + t;  // HERE
    FENCE_PROXY_ASYNC();
    __syncthreads();
    if (t == 0) {
      BULK_STORE(out + s * 128, tile, 512);  // HERE
      BULK_COMMIT();
      REPAIR(BULK_WAIT_READ(0);)
    }
    __syncthreads();
  }
  if (t == 0) BULK_WAIT(0);
}

PROGRAM(async_store_source_reused) {
  Buffer<int> out(512);
  store<<<1, 128>>>(out);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = i / 128 * 1000 + i % 128;
  return finished() && same(out.host(), want);
}
