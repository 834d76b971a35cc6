// A copy in one stream of what a kernel in another stream writes, without an event between them.
// planted: apicheck
// finding: stream-race
#include "planted.h"

__global__ void fill(int* x) { x[blockIdx.x * 256 + threadIdx.x] = 2; }

PROGRAM(api_stream_kernel_copy) {
  cudaStream_t a, b;
  cudaEvent_t done;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&done);
  bool right;
  {
    Buffer<int> x(1024), y(1024);
    x.zero();
    cudaDeviceSynchronize();
    fill<<<4, 256, 0, a>>>(x);
    cudaEventRecord(done, a);
    REPAIR(cudaStreamWaitEvent(b, done, 0);)
    cudaMemcpyAsync(y, x, 4096, cudaMemcpyDeviceToDevice, b);
    right = finished() && same(y.host(), std::vector<int>(1024, 2));
  }
  cudaEventDestroy(done);
  cudaStreamDestroy(a);
  cudaStreamDestroy(b);
  return right;
}
