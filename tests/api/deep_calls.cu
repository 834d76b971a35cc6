// Functions that are called directly have the local memory they need, whatever cudaLimitStackSize says (1024 bytes).
#include <cstdio>

template <int Depth>
__device__ __noinline__ int deep(int x) {
  volatile int room[200];
  for (int i = 0; i < 200; i++) room[i] = x + i;
  int sum = room[x % 200];
  if constexpr (Depth > 0) sum += deep<Depth - 1>(x + 1);
  return sum + room[(x + 1) % 200];
}

__global__ void run(int* out) { out[threadIdx.x] = deep<4>(threadIdx.x); }

int main() {
  int* out;
  cudaMallocManaged(&out, 32 * sizeof(int));
  run<<<1, 32>>>(out);
  if (const cudaError_t error = cudaDeviceSynchronize()) return std::puts(cudaGetErrorString(error)), 1;
  for (int t = 0; t < 32; t++) {
    int expected = 0;
    for (int x = t; x <= t + 4; x++) expected += 4 * x + 1;  // room[x] is x + x, room[x + 1] one more
    if (out[t] != expected) return std::printf("thread %d: %d, expected %d\n", t, out[t], expected), 1;
  }
  std::puts("PASS");
}
