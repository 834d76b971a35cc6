// A tensor map whose pitch counts the columns of another matrix: its last rows lie beyond the allocation.
// planted: memcheck
// finding: out-of-bounds
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
    TMA_LOAD(tile, &map, 0, 48, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  for (int i = t; i < 16 * 32; i += 128) out[i] = tile[i];
}

PROGRAM(mem_tensor_map_rows) {
  Buffer<int> in(counting(64 * 32)), out(512);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = 48 * 32 + i;
  load<<<1, 128>>>(matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, in, BUG(4096) REPAIR(32), 64, 32, 16), out);
  return finished() && same(out.host(), want);
}
