// calib/order.cu: which block of an SM goes first: blocks that meet at barriers, exchange words through shared memory and work, several on an SM;
// a JSON line for each launch and two of its SMs, with the cycles at which the blocks there began and ended, after the first began.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o order order.cu
#include <cuda_runtime.h>

#include <cstdio>

namespace {

constexpr int kRounds = 256, kSms = 132;
enum Kind { kBarrier, kExchange, kExchangeAndWork };

template <Kind kKind>
__global__ void blocks(long long* spans, float* out) {
  __shared__ float room[1056];
  float x = threadIdx.x;
  [[maybe_unused]] const float y = 1.0f;
  room[threadIdx.x] = x;
  __syncthreads();
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < kRounds; r++) {
    if constexpr (kKind != kBarrier) room[threadIdx.x] = x;
    asm volatile("bar.sync 0;" ::: "memory");
    if constexpr (kKind != kBarrier) {
      x = kKind == kExchange ? x + room[threadIdx.x + 1] : room[threadIdx.x + 1];
      asm volatile("bar.sync 0;" ::: "memory");
    }
    if constexpr (kKind == kExchangeAndWork) {
      float z[16];
#pragma unroll
      for (int k = 0; k < 16; k++) z[k] = x + k;
#pragma unroll
      for (int i = 0; i < 32; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(z[i % 16]) : "f"(y));
#pragma unroll
      for (int k = 0; k < 16; k++) x += z[k];
    }
  }
  const long long end = clock64();
  if (threadIdx.x == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    spans[blockIdx.x * 3] = begin, spans[blockIdx.x * 3 + 1] = end, spans[blockIdx.x * 3 + 2] = sm;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

template <Kind kKind>
void measure(const char* name) {
  long long* spans;
  float* out;
  cudaMalloc(&spans, kSms * 32 * 3 * sizeof *spans);
  cudaMalloc(&out, kSms * 2048 * sizeof *out);
  for (int warps : {1, 4, 8, 16})
    for (int n : {1, 2, 4, 8, 16}) {
      if (warps * n > 64) continue;
      for (int i = 0; i < 2; i++) blocks<kKind><<<kSms * n, warps * 32>>>(spans, out);
      static long long h[kSms * 16 * 3];
      cudaMemcpy(h, spans, size_t(kSms) * n * 3 * sizeof *h, cudaMemcpyDeviceToHost);
      for (int sm : {0, 70}) {
        long long first = 1ll << 62;
        for (int i = 0; i < kSms * n; i++)
          if (h[i * 3 + 2] == sm && h[i * 3] < first) first = h[i * 3];
        std::printf("{\"kind\":\"%s\",\"warps\":%d,\"blocks\":%d,\"sm\":%d,\"spans\":[", name, warps, n, sm);
        bool more = false;
        for (int i = 0; i < kSms * n; i++)
          if (h[i * 3 + 2] == sm) std::printf("%s[%d,%lld,%lld]", more ? "," : "", i, h[i * 3] - first, h[i * 3 + 1] - first), more = true;
        std::printf("]}\n");
      }
    }
  cudaFree(spans), cudaFree(out);
}

}  // namespace

int main() {
  measure<kBarrier>("bar");
  measure<kExchange>("exchange");
  measure<kExchangeAndWork>("exchange_work");
}
