// The proxy fence by the thread that stores, which wrote only a part of the tile: it does not cover the others' writes.
// planted: asynccheck
// finding: missing-proxy-fence
#include "planted.h"

__global__ void store(int* out) {
  __shared__ alignas(128) int tile[256];
  int t = threadIdx.x;
  tile[t] = t * 3;  // HERE
  BUG(if (t == 0) FENCE_PROXY_ASYNC();)
  REPAIR(FENCE_PROXY_ASYNC();)
  __syncthreads();
  if (t == 0) {
    BULK_STORE(out, tile, 1024);  // HERE
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}

PROGRAM(async_store_fence_too_late) {
  Buffer<int> out(256);
  store<<<1, 256>>>(out);
  return finished() && same(out.host(), counting(256, 3));
}
