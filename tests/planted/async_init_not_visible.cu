// Other warps use an mbarrier without a barrier after its initialisation.
// planted: asynccheck
// finding: mbarrier-init | race
#include "planted.h"

__global__ void pass(int* out) {
  __shared__ uint64_t bar;
  __shared__ int value;
  int t = threadIdx.x;
  if (t == 0) {
    MBAR_INIT(&bar, 1);  // HERE
    value = 7;
  }
  BUG(__syncwarp();)
  REPAIR(__syncthreads();)
  if (t == 0) MBAR_ARRIVE(&bar);
  MBAR_WAIT(&bar, 0);  // HERE
  out[t] = value;      // HERE
}

PROGRAM(async_init_not_visible) {
  Buffer<int> out(64);
  pass<<<1, 64>>>(out);
  return finished() && same(out.host(), std::vector<int>(64, 7));
}
