// calib/carves.cu: how much of an SM's memory a launch takes for shared memory, by what its blocks want, their threads and registers: the rest is L1's.
//
//   carves    one launch for each case, whose names it prints in order: threads of a block, KB of dynamic shared memory, of which kernel. Under ncu,
//             launch__shared_mem_config_size says what was taken.
#include <cuda_runtime.h>

#include <cstdio>

namespace {

/// kLive values at once, so that as many registers are needed.
template <int kLive>
__global__ void live(float* out, int n) {
  extern __shared__ float room[];
  float x[kLive];
#pragma unroll
  for (int k = 0; k < kLive; k++) x[k] = float(threadIdx.x * k);
#pragma unroll 1
  for (int i = 0; i < n; i++)
#pragma unroll
    for (int k = 0; k < kLive; k++) asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(x[k]) : "f"(x[(k + 1) % kLive]));
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kLive; k++) sum += x[k];
  if (sum == 0.5f) out[threadIdx.x] = sum + room[threadIdx.x];
}

template <int kLive>
void all(float* out) {
  cudaFuncSetAttribute(live<kLive>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10);
  for (int threads : {32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024})
    for (int kib : {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 72}) {
      if (kLive * threads > 57344) continue;
      live<kLive><<<132, threads, size_t(kib) << 10>>>(out, 1);
      if (cudaGetLastError() == cudaSuccess) std::printf("case carved_%d_%d/%d\n", kLive, threads, kib);
    }
}

}  // namespace

int main() {
  float* out = nullptr;
  cudaMalloc(&out, 4096);
  all<4>(out), all<24>(out), all<56>(out), all<120>(out);
  cudaDeviceSynchronize();
}
