// A tensor map that was made once and outlives the array it was made for.
// planted: memcheck
// finding: use-after-free
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
  MBAR_WAIT(&bar, 0);
  for (int i = t; i < 16 * 32; i += 128) out[i] = tile[i];
}

PROGRAM(mem_tensor_map_freed) {
  Buffer<int> out(512);
  std::vector<int> want(512);
  for (int i = 0; i < 512; i++) want[i] = (16 + i / 32) * 64 + 32 + i % 32;
  const std::vector<int> values = counting(64 * 64);
  int* in;
  cudaMalloc(&in, 64 * 64 * 4);
  cudaMemcpy(in, values.data(), 64 * 64 * 4, cudaMemcpyHostToDevice);
  const CUtensorMap map = matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, in, 64, 64, 32, 16);
  BUG(cudaFree(in);)
  load<<<1, 128>>>(map, out);
  const bool right = finished() && same(out.host(), want);
  REPAIR(cudaFree(in);)
  return right;
}
