// A counter that blocks raise with atomicAdd and read back with a plain load.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void count(unsigned* done, unsigned* seen) {
  if (threadIdx.x == 0) {
    unsigned before = atomicAdd(done, 1u);
    BUG(seen[blockIdx.x] = *done > before;)  // HERE
    REPAIR(seen[blockIdx.x] = atomicAdd(done, 0u) > before;)
  }
}

PROGRAM(race_atomic_and_plain) {
  Buffer<unsigned> done(1), seen(16);
  done.zero();
  count<<<16, 32>>>(done, seen);
  return finished() && same(seen.host(), std::vector<unsigned>(16, 1));
}
