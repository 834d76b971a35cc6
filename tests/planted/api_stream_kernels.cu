// Two kernels in two streams that write the same array, without an event between them.
// planted: apicheck
// finding: stream-race
#include "planted.h"

__global__ void add(int* x, int v) { x[threadIdx.x] += v; }

PROGRAM(api_stream_kernels) {
  cudaStream_t a, b;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&done);
  bool right;
  {
    Buffer<int> x(256);
    x.zero();
    cudaDeviceSynchronize();
    add<<<1, 256, 0, a>>>(x, 1);
    cudaEventRecord(done, a);
    REPAIR(cudaStreamWaitEvent(b, done, 0);)
    add<<<1, 256, 0, b>>>(x, 2);
    right = finished() && same(x.host(), std::vector<int>(256, 3));
  }
  cudaEventDestroy(done);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return right;
}
