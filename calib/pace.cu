// calib/pace.cu: how far warps of an SM that do the same drift apart: when each passes the middle of its loop and when it ends, in cycles after the
// first one began, by what the loop asks for; a JSON line for each launch and two of its SMs.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o pace pace.cu
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kSms = 132;
enum Kind { kSums, kHits, kHitsAndSums, kRow, kRowAndColumn, kShared, kRoots, kWhole };
const char* const kNames[] = {"sums", "hits", "hits and sums", "row", "row and column", "shared", "roots", "whole numbers"};

/// Each warp goes round `rounds` times; a round is 16 instructions of its kind.
template <Kind kKind>
__global__ void loops(long long* when, float* out, const float* a, const float* b, int rounds) {
  __shared__ float room[1024];
  room[threadIdx.x % 1024] = threadIdx.x;
  __syncthreads();
  const long long begin = clock64();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float x[4] = {1.f * lane, 2.f * lane, 3.f * lane, 4.f * lane};
  unsigned u[4] = {threadIdx.x, 2u, 3u, 4u};
  const float* own = a + (long(blockIdx.x) * 32 + warp) * 4096;
  const float* column = b + blockIdx.x % kSms * 32 + lane;
  const unsigned at = unsigned(__cvta_generic_to_shared(room)) + lane * 4;
  long long middle = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    if (r == rounds / 2) middle = clock64();
    if constexpr (kKind == kSums || kKind == kHitsAndSums) {
#pragma unroll
      for (int i = 0; i < (kKind == kSums ? 16 : 8); i++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[i % 4]));
    }
    if constexpr (kKind == kWhole) {
#pragma unroll
      for (int i = 0; i < 16; i++) asm volatile("xor.b32 %0, %0, %1;" : "+r"(u[i % 4]) : "r"(u[(i + 1) % 4]));
    }
    if constexpr (kKind == kRoots) {
#pragma unroll
      for (int i = 0; i < 16; i++) asm volatile("sqrt.approx.ftz.f32 %0, %0;" : "+f"(x[i % 4]));
    }
    if constexpr (kKind == kShared) {
#pragma unroll
      for (int i = 0; i < 16; i++) {
        float y;
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(y) : "r"(at));
        x[i % 4] += y;
      }
    }
    if constexpr (kKind == kHits || kKind == kHitsAndSums) {
#pragma unroll
      for (int i = 0; i < (kKind == kHits ? 16 : 8); i++) {
        float y;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(y) : "l"(b + lane + (r * 16 + i) % 64 * 32));
        x[i % 4] += y;
      }
    }
    if constexpr (kKind == kRow || kKind == kRowAndColumn) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        float y, z = 1;
        asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(y) : "l"(own + (r * 8 + i) % 4096));
        if (kKind == kRowAndColumn) asm volatile("ld.global.ca.f32 %0, [%1];" : "=f"(z) : "l"(column + long(r * 8 + i) % 4096 * (kSms * 32)));
        x[i % 4] += y * z;
      }
    }
  }
  const long long end = clock64();
  if (lane == 0) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    long long* w = when + (long(blockIdx.x) * (blockDim.x / 32) + warp) * 4;
    w[0] = begin, w[1] = middle, w[2] = end, w[3] = sm;
  }
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = x[0] + x[1] + x[2] + x[3] + float(u[0] + u[1] + u[2] + u[3]);
}

template <Kind kKind>
void measure(int rounds) {
  long long* when;
  float *out, *a, *b;
  cudaMalloc(&when, kSms * 64 * 4 * sizeof *when);
  cudaMalloc(&out, kSms * 2048 * sizeof *out);
  cudaMalloc(&a, sizeof(float) * kSms * 16 * 32 * 4096);
  cudaMalloc(&b, sizeof(float) * 4096 * kSms * 32);
  cudaMemset(a, 0, sizeof(float) * kSms * 16 * 32 * 4096), cudaMemset(b, 0, sizeof(float) * 4096 * kSms * 32);
  for (int warps : {4, 8, 32})
    for (int n : {1, 2, 8, 16}) {
      if (warps * n > 64 || warps * n < 16) continue;
      for (int i = 0; i < 2; i++) loops<kKind><<<kSms * n, warps * 32>>>(when, out, a, b, rounds);
      const int all = kSms * n * warps;
      std::vector<long long> h(all * 4l);
      cudaMemcpy(h.data(), when, h.size() * sizeof(long long), cudaMemcpyDeviceToHost);
      for (int sm : {0, 70}) {
        long long first = 1ll << 62;
        for (int i = 0; i < all; i++)
          if (h[i * 4 + 3] == sm && h[i * 4] < first) first = h[i * 4];
        std::printf("{\"kind\":\"%s\",\"warps\":%d,\"blocks\":%d,\"sm\":%d,\"rounds\":%d,\"middle_and_end\":[", kNames[kKind], warps, n, sm, rounds);
        bool more = false;
        for (int i = 0; i < all; i++)
          if (h[i * 4 + 3] == sm) std::printf("%s[%d,%d,%lld,%lld]", more ? "," : "", i / warps, i % warps, h[i * 4 + 1] - first, h[i * 4 + 2] - first), more = true;
        std::printf("]}\n");
      }
    }
  cudaFree(when), cudaFree(out), cudaFree(a), cudaFree(b);
}
}  // namespace

int main() {
  measure<kSums>(1024), measure<kWhole>(1024), measure<kRoots>(256), measure<kShared>(512), measure<kHits>(512), measure<kHitsAndSums>(512), measure<kRow>(512), measure<kRowAndColumn>(512);
  const cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
