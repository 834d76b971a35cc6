// A store to a __constant__ array through a pointer from which const was cast away.
// planted: memcheck
// finding: write-to-constant
#include "planted.h"

__constant__ int table[32] = {1, 2, 3};

__global__ void patch(int* copy) {
  int* p = BUG(const_cast<int*>(table)) REPAIR(copy);
  p[threadIdx.x] = 5;  // HERE
}

PROGRAM(mem_write_constant) {
  Buffer<int> copy(32);
  patch<<<1, 32>>>(copy);
  return finished();
}
