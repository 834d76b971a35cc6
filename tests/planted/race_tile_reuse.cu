// A tiled product that loads the next tile while slower warps still read the last one.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void multiply(const int* a, const int* b, int* c) {
  __shared__ int ta[16][16], tb[16][16];
  int x = threadIdx.x, y = threadIdx.y, sum = 0;
  for (int k = 0; k < 64; k += 16) {
    ta[y][x] = a[y * 64 + k + x];    // HERE
    tb[y][x] = b[(k + y) * 16 + x];  // HERE
    __syncthreads();
    for (int i = 0; i < 16; i++) sum += ta[y][i] * tb[i][x];  // HERE
    REPAIR(__syncthreads();)
  }
  c[y * 16 + x] = sum;
}

PROGRAM(race_tile_reuse) {
  Buffer<int> a(std::vector<int>(1024, 2)), b(counting(1024)), c(256);
  multiply<<<1, dim3(16, 16)>>>(a, b, c);
  std::vector<int> want(256, 0);
  for (int i = 0; i < 256; i++)
    for (int k = 0; k < 64; k++) want[i] += 2 * (k * 16 + i % 16);
  return finished() && same(c.host(), want);
}
