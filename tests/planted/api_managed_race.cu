// The host reads managed memory while a kernel may still write it.
// planted: apicheck
// finding: host-race
#include "planted.h"

__global__ void fill(int* x) { x[threadIdx.x] = 5; }

PROGRAM(api_managed_race) {
  int* x;
  cudaMallocManaged(&x, 1024);
  for (int i = 0; i < 256; i++) x[i] = 0;
  fill<<<1, 256>>>(x);
  REPAIR(cudaDeviceSynchronize();)
  bool right = x[255] == 5;
  right = finished() && right;
  cudaFree(x);
  return right;
}
