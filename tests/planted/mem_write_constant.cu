// A store to a __constant__ array through a pointer from which const was cast away. (nvcc makes a trap of it.)
// planted: memcheck
// finding: write-to-constant | fault
// says: patch
#include "planted.h"

__constant__ int table[32] = {1, 2, 3};

__global__ void patch(int* copy) {
  int* p = BUG(const_cast<int*>(table)) REPAIR(copy);
  p[threadIdx.x] = 5;
}

PROGRAM(mem_write_constant) {
  Buffer<int> copy(32);
  patch<<<1, 32>>>(copy);
  return finished();
}
