// A loop that waits for parity 0 in every round: from the second round on it does not wait at all.
// planted: asynccheck
// finding: parity | copy-not-waited
#include "planted.h"

__global__ void stream(const int* in, int* out) {
  __shared__ alignas(128) int tile[2][128];
  __shared__ uint64_t bar;
  int t = threadIdx.x, sum = 0;
  if (t == 0) {
    MBAR_INIT(&bar, 1);
    FENCE_PROXY_ASYNC();
  }
  __syncthreads();
  for (int s = 0; s < 4; s++) {
    if (t == 0) {
      MBAR_EXPECT(&bar, 512);
      BULK_LOAD(tile[s % 2], in + s * 128, 512, &bar);  // HERE
    }
    MBAR_WAIT(&bar, BUG(0) REPAIR(s % 2));  // HERE
    sum += tile[s % 2][t];                  // HERE
    __syncthreads();
  }
  out[t] = sum;
}

PROGRAM(async_parity_twice) {
  Buffer<int> in(counting(512)), out(128);
  stream<<<1, 128>>>(in, out);
  std::vector<int> want(128);
  for (int t = 0; t < 128; t++) want[t] = 4 * t + 768;
  return finished() && same(out.host(), want);
}
