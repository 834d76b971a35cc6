// Only thread 0 waits for a bulk copy; the others go on without a barrier.
// planted: asynccheck
// finding: copy-not-waited | race
#include "planted.h"

__global__ void load(const int* in, int* out) {
  __shared__ alignas(128) int tile[128];
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
    MBAR_EXPECT(&bar, 512);
    BULK_LOAD(tile, in, 512, &bar);  // HERE
  }
  __syncthreads();
  if (t == 0) MBAR_WAIT(&bar, 0);
  REPAIR(__syncthreads();)
  out[t] = tile[t] + 1;  // HERE
}

PROGRAM(async_bulk_one_thread_waits) {
  Buffer<int> in(counting(128)), out(128);
  load<<<1, 128>>>(in, out);
  std::vector<int> want = counting(128);
  for (int& v : want) v++;
  return finished() && same(out.host(), want);
}
