// Bins in shared memory that threads increment without atomics.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void histogram(const int* in, int* out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  BUG(bins[in[threadIdx.x] % 8]++;)  // HERE
  REPAIR(atomicAdd(&bins[in[threadIdx.x] % 8], 1);)
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}

PROGRAM(race_histogram) {
  Buffer<int> in(counting(256)), out(8);
  histogram<<<1, 256>>>(in, out);
  return finished() && same(out.host(), std::vector<int>(8, 32));
}
