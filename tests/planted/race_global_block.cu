// Threads of a block exchange values through global memory without a barrier.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void exchange(int* scratch, int* out) {
  int t = threadIdx.x;
  scratch[t] = 10 * t;  // HERE
  REPAIR(__syncthreads();)
  out[t] = scratch[127 - t];  // HERE
}

PROGRAM(race_global_block) {
  Buffer<int> scratch(128), out(128);
  scratch.zero();
  exchange<<<1, 128>>>(scratch, out);
  std::vector<int> want(128);
  for (int t = 0; t < 128; t++) want[t] = 10 * (127 - t);
  return finished() && same(out.host(), want);
}
