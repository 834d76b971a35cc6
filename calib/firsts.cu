// calib/firsts.cu: what a program's first launch asks of L2 beyond later ones, and what may come before a launch without that: copies, allocations and
// other kernels; for a profiler that counts sectors, which prints what the launches are in order.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o firsts firsts.cu
// Run: ncu --clock-control none --cache-control all --metrics lts__t_sectors.sum,lts__t_sectors_srcunit_ltcfabric.sum,... ./firsts
#include <cuda_runtime.h>

#include <cstdio>

namespace {

__global__ void spin(float* out, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
  if (cycles < 0) out[0] = 1;
}
__global__ void other(float* out, int n) {
  if (n < 0) out[0] = float(n);
}

void spins(float* out, const char* after) {
  for (const char* what : {after, "again"}) {
    spin<<<1, 32>>>(out, 1000);
    cudaDeviceSynchronize();
    std::printf("launch %s\n", what);
  }
}

}  // namespace

int main() {
  float *out, *large, words[64] = {};
  cudaMalloc(&out, 1024), cudaMalloc(&large, 64 << 20);
  spins(out, "first");
  cudaMemset(out, 0, 64), spins(out, "after a memset of 64 bytes");
  cudaMemcpy(out, words, sizeof words, cudaMemcpyHostToDevice), spins(out, "after a copy to the GPU");
  cudaMemcpy(words, out, sizeof words, cudaMemcpyDeviceToHost), spins(out, "after a copy from the GPU");
  cudaMemset(large, 0, 64 << 20), spins(out, "after a memset of 64 MiB");
  other<<<132, 1024>>>(out, 1), std::printf("launch other\n"), spins(out, "after another kernel");
  cudaFree(large), spins(out, "after a free");
}
