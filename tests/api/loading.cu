// A program for loading.sh: a device call before main, a kernel, an initialised table, with -DWITH_PART a function and
// a variable of another translation unit.
#include <cstdio>

__constant__ int offsets[3] = {0, 40, 2};
__device__ int table[4] = {1, 2, 3, 4};

#ifdef WITH_PART
extern __device__ int doubled(int x);
extern __device__ int shared_counter;
#else
__device__ int doubled(int x) { return 2 * x; }
__device__ int shared_counter;
#endif

__global__ void sum(int* out) {
  atomicAdd(out, doubled(threadIdx.x) / 2);
  if (threadIdx.x == 0) out[1] = offsets[1] + table[1], shared_counter = 7;
}

struct Early {
  int devices = 0;
  Early() { cudaGetDeviceCount(&devices); }
} early;

int main() {
  int host[2] = {0, 0}, *device;
  cudaMalloc(&device, sizeof host);
  cudaMemset(device, 0, sizeof host);
  sum<<<1, 64>>>(device);
  cudaError_t error = cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return printf("%s\n", cudaGetErrorString(error)), 1;
  printf("constructor %d sum %d table %d\n", early.devices, host[0], host[1]);
  return cudaFree(device) != cudaSuccess;
}
