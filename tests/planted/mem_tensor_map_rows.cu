// A tensor map whose pitch counts the columns of another matrix: its last rows lie beyond the allocation.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"
#include "planted_tile.h"

__global__ void load(const __grid_constant__ CUtensorMap map, int* out) {
  TILE();
  if (threadIdx.x == 0) TILE_LOAD(&map, 0, 48);  // HERE
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  TILE_WRITE(out);
}

PROGRAM(mem_tensor_map_rows) {
  Buffer<int> in(counting(64 * 32)), out(512);
  load<<<1, 128>>>(tile_map(in, BUG(4096) REPAIR(32), 64), out);
  return finished() && same(out.host(), tile_of_counting(32, 0, 48));
}
