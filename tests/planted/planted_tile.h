// planted_tile.h: what the programs that load one tile of a matrix share: 16 rows of 32 ints, brought by TMA to a block of 128 threads.
#pragma once
#include "planted_support.h"

// The tile and its mbarrier.
#define TILE()                                 \
  __shared__ alignas(128) int tile[16 * 32];   \
  __shared__ uint64_t bar;                     \
  if (threadIdx.x == 0) {                      \
    MBAR_INIT(&bar, 1);                        \
    MBAR_FENCE_INIT();                         \
    FENCE_PROXY_ASYNC();                       \
  }

// What the first thread does: asks for the tile whose first element is at column x and row y.
#define TILE_LOAD(map, x, y)              \
  do {                                    \
    MBAR_EXPECT(&bar, 16 * 32 * 4);       \
    TMA_LOAD(tile, map, x, y, &bar);      \
  } while (0)

#define TILE_WRITE(out) for (int i = threadIdx.x; i < 16 * 32; i += 128) out[i] = tile[i]

/// Map of a matrix of ints for such tiles.
inline CUtensorMap tile_map(int* matrix, uint64_t columns, uint64_t rows) {
  return matrix_map(CU_TENSOR_MAP_DATA_TYPE_INT32, 4, matrix, columns, rows, 32, 16);
}
/// The tile at column x and row y of a matrix whose elements count from 0.
inline std::vector<int> tile_of_counting(int columns, int x, int y) {
  std::vector<int> tile(16 * 32);
  for (int i = 0; i < 16 * 32; i++) tile[i] = (y + i / 32) * columns + x + i % 32;
  return tile;
}
