// calib/steps/power.cu: one kind of work at a time on random data, for the joules that it costs (truth.cu's mode `energy`).
// calib/steps/steps.cu moves zeros and repeats operands; wires that never change cost less.
#include <cuda_fp16.h>

#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

__device__ uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// Arithmetic whose operands change in most of their bits with every instruction.
template <int kKind>
__device__ void random_work(float* out, int rounds) {
  float x[8];
  uint32_t u[8];
  double d[8];
  __half2 h[8];
  uint32_t seed = (blockIdx.x * 1024 + threadIdx.x) * 2654435761u + 12345;
  for (int k = 0; k < 8; k++) {
    seed = seed * 1664525u + 1013904223u, u[k] = seed | 1;
    x[k] = __uint_as_float(0x3f800000u | seed >> 9) - 1.f, d[k] = seed * 2e-10, h[k] = __floats2half2_rn(x[k], -x[k]);
  }
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int k = 0; k < 8; k++) {
        const int a = (k + 1) % 8, b = (k + 3) % 8;
        if (kKind == 0) x[k] = 1.f - 1.9f * (x[k] * x[k]);             // stays between -1 and 1, and never settles
        if (kKind == 1) u[k] = u[a] * u[k] + u[b];
        if (kKind == 2) u[k] = (u[a] ^ u[k] >> 3) + u[b];
        if (kKind == 3) asm volatile("sin.approx.ftz.f32 %0, %1;" : "=f"(x[k]) : "f"(x[a] * 5.f));
        if (kKind == 4) h[k] = __hfma2(__hmul2(h[k], h[k]), __floats2half2_rn(-1.9f, -1.8f), __floats2half2_rn(1.f, 1.f));
        if (kKind == 5) d[k] = 1 - 1.9 * (d[k] * d[k]);
        if (kKind == 6) u[k] = __shfl_xor_sync(~0u, u[a], 1 + i % 16);
        if (kKind == 7) x[k] = fminf(1.f - 1.9f * (x[k] * x[k]), x[a] > x[b] ? x[a] : .9f);
      }
  float s = 0;
  for (int k = 0; k < 8; k++) s += x[k] + float(u[k]) + float(d[k]) + __low2float(h[k]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define WORK(name, kind) \
  __global__ void name(float* o, int r) { random_work<kind>(o, r); } \
  TRUTH("power", #name, {64}, [](long) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<264, 1024>>>(o, 400); }; \
  });
WORK(power_ffma, 0) WORK(power_imad, 1) WORK(power_logic, 2) WORK(power_mufu, 3) WORK(power_hfma, 4) WORK(power_dfma, 5) WORK(power_shuffle, 6) WORK(power_select, 7)

template <class T>
__global__ void power_shared(float* out, int rounds) {
  __shared__ T s[32768 / sizeof(T)];
  uint32_t h = threadIdx.x * 2654435761u;
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) ((uint32_t*)s)[i] = h = h * 1664525u + 1013904223u;
  __syncthreads();
  uint32_t acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const uint32_t at = smem(s) + (threadIdx.x % 32 * uint32_t(sizeof(T)) + (i * 2048 + r * 512 & 32767));
      if constexpr (sizeof(T) == 16) {
        uint32_t a, b, c, d;
        asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at & ~15u));
        acc += a;
      } else {
        uint32_t v;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at));
        acc += v;
      }
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(acc);
}
TRUTH("power", "power_shared4", {64}, [](long) {
  auto o = zeros<float>(132 * 2048);
  return [=] { power_shared<uint32_t><<<264, 1024>>>(o, 400); };
});
TRUTH("power", "power_shared16", {64}, [](long) {
  auto o = zeros<float>(132 * 2048);
  return [=] { power_shared<uint4><<<264, 1024>>>(o, 100); };
});

Array<float> noise(long words) {
  Array<float> a(words);
  fill<float>(a, [](size_t, Random& r) { return r.unit() - .5f; });
  return a;
}
__global__ void power_read(const float4* p, float* out, long n, int rounds) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
      const float4 v = p[i];
      acc += v.x + v.w;
    }
  if (acc == 12345.678f) out[0] = acc;
}
TRUTH("power", "power_read", {16, 1024}, [](long mb) {  // from L2, from memory
  auto p = noise(mb << 18);
  auto o = zeros<float>(32);
  return [=] { power_read<<<264, 1024>>>((const float4*)p.p, o, mb << 16, mb > 64 ? 1 : 40); };
});
__global__ void power_l1(const float* p, float* out, int rounds) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      float v;
      asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(p + (threadIdx.x + i * 512 + r * 64 & 8191)));
      acc += v;
    }
  if (acc == 12345.678f) out[0] = acc;
}
TRUTH("power", "power_l1", {64}, [](long) {
  auto p = noise(8192);
  auto o = zeros<float>(32);
  return [=] { power_l1<<<264, 1024>>>(p, o, 400); };
});
__global__ void power_write(float4* p, const float4* few, long n) {
  const float4 v = few[threadIdx.x];
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = v;
}
TRUTH("power", "power_write", {16, 1024}, [](long mb) {
  auto few = noise(4096), p = noise(mb << 18);
  return [=] { power_write<<<264, 1024>>>((float4*)p.p, (const float4*)few.p, mb << 16); };
});
__global__ void power_copy(const float4* a, float4* b, long n) {
#pragma unroll 4
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) b[i] = a[i];
}
TRUTH("power", "power_copy", {8, 512}, [](long mb) {
  auto p = noise(mb << 18), q = noise(mb << 18);
  return [=] { power_copy<<<264, 1024>>>((const float4*)p.p, (float4*)q.p, mb << 16); };
});
__device__ uint32_t mix(uint32_t h) {
  h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
  return h;
}
__global__ void power_random_read(const float* p, float* out, uint32_t mask) {
  float acc = 0;
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < 32; i++) acc += p[mix(t * 64 + i) & mask];
  if (acc == 12345.678f) out[0] = acc;
}
TRUTH("power", "power_random_read", {8, 1024}, [](long mb) {
  auto p = noise(mb << 18);
  auto o = zeros<float>(32);
  return [=] { power_random_read<<<264, 1024>>>(p, o, uint32_t((mb << 18) - 1)); };
});
/// Warps that only wait: what an SM costs that is not idle.
__global__ void power_wait(float* out, int rounds) {
  float x = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) __nanosleep(1000);
  if (x == 12345.678f) out[0] = x;
}
TRUTH("power", "power_wait", {132}, [](long) {
  auto o = zeros<float>(32);
  return [=] { power_wait<<<132, 1024>>>(o, 20); };
});

}  // namespace
