// An asynchronous copy to pinned memory that the host reads without waiting for the stream.
// planted: apicheck
// finding: host-race
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x] = int(threadIdx.x); }

PROGRAM(api_read_before_sync) {
  Buffer<int> x(1 << 20);
  int* host;
  cudaStream_t s;
  cudaStreamCreate(&s);
  cudaMallocHost(&host, 4 << 20);
  memset(host, 0, 4 << 20);
  x.zero();
  cudaDeviceSynchronize();
  fill<<<1, 256, 0, s>>>(x);
  cudaMemcpyAsync(host, x, 4 << 20, cudaMemcpyDeviceToHost, s);
  REPAIR(cudaStreamSynchronize(s);)
  bool right = host[255] == 255;
  cudaStreamSynchronize(s);
  cudaFreeHost(host);
  cudaStreamDestroy(s);
  return right && finished();
}
