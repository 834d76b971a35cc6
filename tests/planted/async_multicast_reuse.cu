// A multicast refills the tile of both blocks as soon as the issuing block has read its own copy.
// planted: asynccheck
// finding: stage-reused | race
#include "planted.h"

__global__ void __cluster_dims__(2, 1, 1) share(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(128) int tile[8 * 32];
  __shared__ uint64_t bar;
  int t = threadIdx.x, sum = 0;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
  }
  CLUSTER_SYNC();
  for (int s = 0; s < 3; s++) {
    if (t == 0) MBAR_EXPECT(&bar, 1024);
    BUG(__syncthreads(); if (s == 0)) CLUSTER_SYNC();
    if (t == 0 && cluster_rank() == 0) TMA_LOAD_MULTICAST(tile, &map, 0, s * 8, &bar, uint16_t(3));  // HERE
    MBAR_WAIT(&bar, s % 2);
    sum += tile[255 - t];  // HERE
  }
  out[blockIdx.x * 256 + t] = sum;
  CLUSTER_SYNC();
}

PROGRAM(async_multicast_reuse) {
  Buffer<int> in(counting(768)), out(512);
  share<<<2, 256>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, in, 32, 24, 32, 8), out);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = 3 * (255 - i % 256) + 768;
  return finished() && same(out.host(), want);
}
