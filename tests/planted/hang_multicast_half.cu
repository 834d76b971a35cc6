// A pair of blocks in which each loads half of a tile for both; one block leaves its half out.
// planted: hang
// finding: hang
// says: 512 bytes
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) share(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(128) int tile[8 * 32];
  __shared__ uint64_t bar;
  int t = threadIdx.x, rank = cluster_rank();
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, 1024);  // HERE
  }
  CLUSTER_SYNC();
  if (t == 0 BUG(&& rank == 0)) TMA_LOAD_MULTICAST(tile + rank * 128, &map, 0, rank * 4, &bar, uint16_t(3));
  MBAR_WAIT(&bar, 0);  // HERE
  out[blockIdx.x * 256 + t] = tile[t];
  CLUSTER_SYNC();
}

PROGRAM(hang_multicast_half) {
  Buffer<int> in(counting(256)), out(512);
  share<<<2, 256>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, in, 32, 8, 32, 4), out);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = i % 256;
  return finished() && same(out.host(), want);
}
