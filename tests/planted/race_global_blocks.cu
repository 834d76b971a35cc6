// Blocks add their part to one total by a plain load and store.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void total(const int* in, int* sum) {
  if (threadIdx.x == 0) {
    int part = 0;
    for (int i = 0; i < 32; i++) part += in[blockIdx.x * 32 + i];
    BUG(*sum += part;)  // HERE
    REPAIR(atomicAdd(sum, part);)
  }
}

PROGRAM(race_global_blocks) {
  Buffer<int> in(counting(1024)), sum(1);
  sum.zero();
  total<<<32, 32>>>(in, sum);
  return finished() && same(sum.host(), {1023 * 512});
}
