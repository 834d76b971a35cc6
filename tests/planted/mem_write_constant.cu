// A store to a __constant__ array, whose address the host has asked for.
// planted: memcheck
// finding: write-to-constant | fault
#include "planted.h"

__constant__ int table[32] = {1, 2, 3};

__global__ void patch(int* p) {
  p[threadIdx.x] = 5;  // HERE
}

PROGRAM(mem_write_constant) {
  Buffer<int> copy(32);
  void* p = nullptr;
  cudaGetSymbolAddress(&p, table);
  patch<<<1, 32>>>(BUG(static_cast<int*>(p)) REPAIR(copy));
  return finished();
}
