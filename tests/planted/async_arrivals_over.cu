// All threads of two warps arrive at an mbarrier that counts 32 arrivals: two phases pass where one was meant.
// planted: asynccheck
// finding: arrival-count | parity
#include "planted.h"

__global__ void meet(int* out) {
  __shared__ uint64_t bar;
  __shared__ int x[64];
  int t = threadIdx.x;
  if (t == 0) MBAR_INIT(&bar, BUG(32) REPAIR(64));  // HERE
  __syncthreads();
  x[t] = t;
  MBAR_ARRIVE(&bar);   // HERE
  MBAR_WAIT(&bar, 0);  // HERE
  out[t] = x[63 - t];  // HERE
}

PROGRAM(async_arrivals_over) {
  Buffer<int> out(64);
  meet<<<1, 64>>>(out);
  std::vector<int> want(64);
  for (int t = 0; t < 64; t++) want[t] = 63 - t;
  return finished() && same(out.host(), want);
}
