// A tensor map over the host's copy of a matrix instead of the device's.
// planted: memcheck
// finding: host-pointer
#include "planted.h"

__global__ void store(const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) int tile[16 * 32];
  int t = threadIdx.x;
  for (int i = t; i < 16 * 32; i += 128) tile[i] = 1000 + i;
  FENCE_PROXY_ASYNC();
  __syncthreads();
  if (t == 0) {
    TMA_STORE(&map, 0, 0, tile);  // HERE
    BULK_COMMIT();
    BULK_WAIT(0);
  }
}

PROGRAM(mem_tensor_map_host) {
  std::vector<int> host(16 * 32 + 16), want(16 * 32);
  for (int i = 0; i < 16 * 32; i++) want[i] = 1000 + i;
  Buffer<int> device(16 * 32);
  store<<<1, 128>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, BUG((void*)((uintptr_t(host.data()) + 63) / 64 * 64)) REPAIR(device), 32, 16, 32, 16));
  return finished() && same(device.host(), want);
}
