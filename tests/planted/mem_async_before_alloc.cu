// Memory of one stream's order used in another stream that does not wait for the allocation.
// planted: memcheck
// finding: stream-race | use-before-allocation
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x] = 3; }  // HERE

PROGRAM(mem_async_before_alloc) {
  cudaStream_t a, b;
  cudaEvent_t made, used;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&made);
  cudaEventCreate(&used);
  int* x;
  cudaMallocAsync(&x, 1024, a);
  cudaEventRecord(made, a);
  REPAIR(cudaStreamWaitEvent(b, made, 0);)
  fill<<<1, 256, 0, b>>>(x);
  cudaEventRecord(used, b);
  cudaStreamWaitEvent(a, used, 0);
  cudaFreeAsync(x, a);
  bool right = finished();
  cudaEventDestroy(made);
  cudaEventDestroy(used);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return right;
}
