// A TMA tile that is read after a barrier instead of after its mbarrier.
// planted: asynccheck
// finding: copy-not-waited
#include "planted.h"
#include "planted_tile.h"

__global__ void load(const __grid_constant__ CUtensorMap map, int* out) {
  TILE();
  if (threadIdx.x == 0) TILE_LOAD(&map, 32, 16);  // HERE
  __syncthreads();
  REPAIR(MBAR_WAIT(&bar, 0);)
  TILE_WRITE(out);  // HERE
}

PROGRAM(async_tma_no_wait) {
  Buffer<int> in(counting(64 * 64)), out(512);
  load<<<1, 128>>>(tile_map(in, 64, 64), out);
  return finished() && same(out.host(), tile_of_counting(64, 32, 16));
}
