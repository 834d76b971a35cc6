// A TMA tile that is read after a barrier instead of after its mbarrier.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"

__global__ void load(const __grid_constant__ CUtensorMap map, int* out) {
  __shared__ alignas(128) int tile[16 * 32];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, 16 * 32 * 4);
    TMA_LOAD(tile, &map, 32, 16, &bar);  // HERE
  }
  __syncthreads();
  REPAIR(MBAR_WAIT(&bar, 0);)
  for (int i = t; i < 16 * 32; i += 128) out[i] = tile[i];  // HERE
}

PROGRAM(async_tma_no_wait) {
  Buffer<int> in(counting(64 * 64)), out(512);
  load<<<1, 128>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, in, 64, 64, 32, 16), out);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = (16 + i / 32) * 64 + 32 + i % 32;
  return finished() && same(out.host(), want);
}
