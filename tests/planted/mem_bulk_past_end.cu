// A bulk copy of a full tile at the end of an array that holds only half of it.
// planted: memcheck
// finding: out-of-bounds
#include "planted.h"

__global__ void load(const int* in, int* out, int n) {
  __shared__ alignas(128) int tile[256];
  __shared__ uint64_t bar;
  int first = blockIdx.x * 256, bytes = BUG(1024) REPAIR(min(256, n - first) * 4);
  if (threadIdx.x == 0) {
    MBAR_INIT(&bar, 1);
    MBAR_FENCE_INIT();
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, bytes);
    BULK_LOAD(tile, in + first, bytes, &bar);  // HERE
  }
  __syncthreads();
  MBAR_WAIT(&bar, 0);
  int i = first + threadIdx.x;
  if (i < n) out[i] = tile[threadIdx.x] + 1;
}

PROGRAM(mem_bulk_past_end) {
  Buffer<int> in(counting(2176)), out(2176);
  load<<<9, 256>>>(in, out, 2176);
  std::vector<int> want = counting(2176);
  for (int& v : want) v++;
  return finished() && same(out.host(), want);
}
