// A leader lane leaves a value in shared memory and its warp reads it at once.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void share(const int* in, int* out) {
  __shared__ int value[2];
  int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) value[warp] = in[warp];  // HERE
  REPAIR(__syncwarp();)
  out[threadIdx.x] = value[warp];  // HERE
}

PROGRAM(race_warp_broadcast) {
  Buffer<int> in(counting(2, 5)), out(64);
  share<<<1, 64>>>(in, out);
  std::vector<int> want(64, 0);
  for (int i = 32; i < 64; i++) want[i] = 5;
  return finished() && same(out.host(), want);
}
