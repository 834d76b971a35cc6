// "The last block sums up", without the __threadfence that makes the parts visible.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void sum(const int* in, int* part, unsigned* done, int* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int s = 0;
    for (int i = 0; i < 32; i++) s += in[blockIdx.x * 32 + i];
    part[blockIdx.x] = s;  // HERE
    REPAIR(__threadfence();)
    last = atomicAdd(done, 1u) == gridDim.x - 1;
    REPAIR(__threadfence();)
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int s = 0;
    for (int b = 0; b < gridDim.x; b++) s += part[b];  // HERE
    *out = s;
  }
}

PROGRAM(race_last_block) {
  Buffer<int> in(counting(512)), part(16), out(1);
  Buffer<unsigned> done(1);
  done.zero();
  sum<<<16, 32>>>(in, part, done, out);
  return finished() && same(out.host(), {511 * 256});
}
