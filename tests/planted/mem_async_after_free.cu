// A kernel behind cudaFreeAsync in the same stream.
// planted: memcheck
// finding: use-after-free
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x] = 3; }  // HERE

PROGRAM(mem_async_after_free) {
  cudaStream_t s;
  cudaStreamCreate(&s);
  int* x;
  cudaMallocAsync(&x, 1024, s);
  BUG(cudaFreeAsync(x, s);)
  fill<<<1, 256, 0, s>>>(x);
  REPAIR(cudaFreeAsync(x, s);)
  bool right = finished();
  cudaStreamDestroy(s);
  return right;
}
