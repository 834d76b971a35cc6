// A shuffle that names all 32 lanes in a branch from which half of them have exited.
// planted: synccheck
// finding: warp-mask
#include "planted.h"

__global__ void pair_sum(const int* in, int* out) {
  int t = threadIdx.x;
  if (t >= 16) return;
  int v = in[t];
  v += __shfl_down_sync(BUG(0xffffffff) REPAIR(0xffff), v, 8, 16);  // HERE
  out[t] = v;
}

PROGRAM(sync_shuffle_mask) {
  Buffer<int> in(counting(16)), out(16);
  pair_sum<<<1, 32>>>(in, out);
  std::vector<int> want(16);
  for (int t = 0; t < 16; t++) want[t] = t < 8 ? 2 * t + 8 : 2 * t;
  return finished() && same(out.host(), want);
}
