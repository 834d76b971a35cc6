// A kernel that gets an array after the host has freed it.
// planted: memcheck
// finding: use-after-free
#include "planted.h"

__global__ void increment(int* x) { x[threadIdx.x]++; }  // HERE

PROGRAM(mem_use_after_free) {
  int* x;
  cudaMalloc(&x, 4096);
  cudaMemset(x, 0, 4096);
  BUG(cudaFree(x);)
  increment<<<1, 256>>>(x);
  bool right = finished();
  REPAIR(cudaFree(x);)
  return right;
}
