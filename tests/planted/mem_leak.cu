// An array that is never freed.
// planted: memcheck
// finding: leak
// needs: --leaks
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

PROGRAM(mem_leak) {
  int* x;
  cudaMalloc(&x, 1024);
  fill<<<1, 256>>>(x);
  bool right = finished();
  REPAIR(cudaFree(x);)
  return right;
}
