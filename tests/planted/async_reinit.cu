// An mbarrier that is initialised a second time without mbarrier.inval.
// planted: asynccheck
// finding: mbarrier-reinit
#include "planted.h"

__global__ void twice(int* out) {
  __shared__ uint64_t bar;
  int t = threadIdx.x;
  for (int round = 0; round < 2; round++) {
    if (t == 0) MBAR_INIT(&bar, 32);  // HERE
    __syncthreads();
    MBAR_ARRIVE(&bar);
    MBAR_WAIT(&bar, 0);
    __syncthreads();
    REPAIR(if (t == 0) MBAR_INVAL(&bar); __syncthreads();)
  }
  out[t] = t;
}

PROGRAM(async_reinit) {
  Buffer<int> out(32);
  twice<<<1, 32>>>(out);
  return finished() && same(out.host(), counting(32));
}
