// A tile written by threads and stored by TMA without the fence between the two proxies.
// planted: asynccheck
// finding: missing-proxy-fence
#include "planted.h"

__global__ void store(const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) int tile[8 * 32];
  int t = threadIdx.x;
  tile[t] = t * 3;  // HERE
  REPAIR(FENCE_PROXY_ASYNC();)
  __syncthreads();
  if (t == 0) {
    TMA_STORE(&map, 0, 0, tile);  // HERE
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}

PROGRAM(async_store_no_fence) {
  Buffer<int> out(256);
  store<<<1, 256>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, out, 32, 8, 32, 8));
  return finished() && same(out.host(), counting(256, 3));
}
