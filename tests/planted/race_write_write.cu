// Every thread that finds the value stores its own index: which one stays is a matter of luck.
// planted: racecheck
// finding: race
#include "planted.h"

__global__ void find(const int* in, int value, int* where) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 1 << 30;
  __syncthreads();
  if (in[threadIdx.x] == value) {
    BUG(found = threadIdx.x;)  // HERE
    REPAIR(atomicMin(&found, int(threadIdx.x));)
  }
  __syncthreads();
  if (threadIdx.x == 0) *where = found;
}

PROGRAM(race_write_write) {
  std::vector<int> data(128, 0);
  data[40] = data[90] = 7;
  Buffer<int> in(data), where(1);
  find<<<1, 128>>>(in, 7, where);
  return finished() && same(where.host(), {40});
}
