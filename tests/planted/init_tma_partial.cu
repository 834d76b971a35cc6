// A tile whose last row no bulk copy brings, read as if it were there.
// planted: initcheck
// finding: uninitialised-read
#include "planted.h"

__global__ void rows(const int* in, int* out) {
  __shared__ alignas(128) int tile[8][32];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, BUG(7) REPAIR(8) * 128);
    for (int r = 0; r < BUG(7) REPAIR(8); r++) BULK_LOAD(tile[r], in + r * 32, 128, &bar);
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  int sum = 0;
  for (int r = 0; r < 8; r++) sum += tile[r][threadIdx.x];  // HERE
  out[threadIdx.x] = sum;
}

PROGRAM(init_tma_partial) {
  Buffer<int> in(std::vector<int>(256, 2)), out(32);
  rows<<<1, 32>>>(in, out);
  return finished() && same(out.host(), std::vector<int>(32, 16));
}
