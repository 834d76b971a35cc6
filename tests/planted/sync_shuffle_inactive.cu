// The upper half of a warp asks for the value of lane 0, which is in the other branch.
// planted: synccheck
// finding: inactive-lane
#include "planted.h"

__global__ void half(const int* in, int* out) {
  const int t = threadIdx.x;
  int v = in[t];
  if (t >= 16) v += __shfl_sync(0xFFFF0000u, v, BUG(0) REPAIR(16));  // HERE
  out[t] = v;
}

PROGRAM(sync_shuffle_inactive) {
  Buffer<int> in(counting(32)), out(32);
  half<<<1, 32>>>(in, out);
  std::vector<int> want = counting(32);
  for (int t = 16; t < 32; t++) want[t] += 16;
  return finished() && same(out.host(), want);
}
