// A tensor map changed in global memory and used for a copy without fence.proxy.tensormap.
// planted: asynccheck
// finding: stale-tensor-map
#include "planted.h"

__global__ void retarget(CUtensorMap* map, const int* other, int* out) {
  __shared__ alignas(128) int tile[8 * 32];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(map), "l"(other) : "memory");  // HERE
    REPAIR(asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
           asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");)
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, 1024);
    TMA_LOAD(tile, map, 0, 0, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  out[t] = tile[t];
}

PROGRAM(async_tensor_map_stale) {
  Buffer<int> one(counting(256)), two(counting(256, 2)), out(256);
  CUtensorMap host = matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, one, 32, 8, 32, 8);
  Buffer<CUtensorMap> map(std::vector<CUtensorMap>(1, host));
  retarget<<<1, 256>>>(map, two, out);
  return finished() && same(out.host(), counting(256, 2));
}
