// A lock that a branch forgets to release.
// planted: hang
// finding: livelock | hang
#include "planted.h"

__global__ void add(int* lock, int* best, const int* in) {
  if (threadIdx.x) return;
  int v = in[blockIdx.x];
  while (atomicCAS(lock, 0, 1)) {}  // HERE
  __threadfence();
  if (v > *best) {
    *best = v;
    __threadfence();
    BUG(atomicExch(lock, 0);)
  }
  REPAIR(__threadfence(); atomicExch(lock, 0);)
}

PROGRAM(hang_lock_not_released) {
  std::vector<int> data{3, 9, 4, 7};
  Buffer<int> in(data), lock(1), best(1);
  lock.zero(), best.zero();
  add<<<4, 32>>>(lock, best, in);
  return finished() && same(best.host(), {9});
}
