// A program that uses the runtime for memory alone: it holds no device code.
#include <cuda_runtime_api.h>

#include <cstdio>

int main() {
  int from = 7, to = 0;
  void *device = nullptr, *pinned = nullptr;
  cudaError_t error = cudaMalloc(&device, sizeof from);
  if (!error) error = cudaMallocHost(&pinned, sizeof from);
  if (!error) error = cudaMemcpy(device, &from, sizeof from, cudaMemcpyHostToDevice);
  if (!error) error = cudaMemcpy(pinned, device, sizeof from, cudaMemcpyDeviceToHost);
  if (!error) to = *static_cast<int*>(pinned);
  std::printf("value %d", error ? -int(error) : to);
  return 0;
}
