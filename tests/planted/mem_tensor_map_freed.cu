// A tensor map that was made once and outlives the array it was made for.
// planted: memcheck
// finding: use-after-free
#include "planted.h"
#include "planted_tile.h"

__global__ void load(const __grid_constant__ CUtensorMap map, int* out) {
  TILE();
  if (threadIdx.x == 0) TILE_LOAD(&map, 32, 16);  // HERE
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  TILE_WRITE(out);
}

PROGRAM(mem_tensor_map_freed) {
  Buffer<int> out(512);
  const std::vector<int> values = counting(64 * 64);
  int* in;
  cudaMalloc(&in, 64 * 64 * 4);
  cudaMemcpy(in, values.data(), 64 * 64 * 4, cudaMemcpyHostToDevice);
  const CUtensorMap map = tile_map(in, 64, 64);
  BUG(cudaFree(in);)
  load<<<1, 128>>>(map, out);
  const bool right = finished() && same(out.host(), tile_of_counting(64, 32, 16));
  REPAIR(cudaFree(in);)
  return right;
}
