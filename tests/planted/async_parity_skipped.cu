// A producer that runs two phases ahead of a consumer: the consumer's wait for a phase that has been overtaken.
// planted: asynccheck
// finding: parity
#include "planted.h"

__global__ void ahead(int* out) {
  __shared__ uint64_t bar;
  __shared__ int value;
  int t = threadIdx.x;
  if (t == 0) {
    value = 0;
    MBAR_INIT(&bar, 1);
  }
  __syncthreads();
  if (t == 0) {
    atomicAdd(&value, 1);
    MBAR_ARRIVE(&bar);
    BUG(atomicAdd(&value, 1);
        MBAR_ARRIVE(&bar);)  // HERE
  }
  __syncthreads();
  if (t == 32) {
    MBAR_WAIT(&bar, 0);  // HERE
    *out = atomicAdd(&value, 0);
  }
}

PROGRAM(async_parity_skipped) {
  Buffer<int> out(1);
  ahead<<<1, 64>>>(out);
  return finished() && same(out.host(), {1});
}
