// calib/steps/steps.cu: launch cost, instruction rates, shared memory and barriers, divergent loads and code that is jumped over;
// memory.cu has the levels of memory and atomics, tensor.cu tensor cores and bulk copies.
#include <cuda_fp16.h>

#include <algorithm>

#include "steps.h"

namespace {
using namespace steps;

__global__ void empty(int* p) {
  if (p) *p = 1;
}
__global__ void load_chain(const uint32_t* next, uint32_t* out, int steps) {
  uint32_t p = 0;
#pragma unroll 1
  for (int i = 0; i < steps; i++) p = next[p];
  out[0] = p;
}
/// Dependent loads by `lanes` lanes of a warp, each in a line of its own: what divergence costs beyond the longest of them.
__global__ void wide_chase(const uint32_t* next, uint32_t* out, int steps, int lanes, uint32_t spread) {
  uint32_t p = (blockIdx.x * 32 + threadIdx.x) * spread;
  if (int(threadIdx.x) < lanes)
#pragma unroll 1
    for (int i = 0; i < steps; i++) p = next[p];
  out[blockIdx.x * 32 + threadIdx.x] = p;
}
/// Independent loads by all lanes of one warp, `apart` words from lane to lane: the rate at which a warp's lines are looked up.
__global__ void spread_read(const float* p, float* out, int rounds, int apart) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) acc += p[(threadIdx.x * apart + i * 4096 + r) & 16383];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
/// Code that is jumped over: every 64th piece of 8 instructions is executed, once.
template <int kPieces>
__global__ void jumps(float* out, float y, uint32_t skip) {
  float x = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kPieces; i++) {
    if (skip & 1u << (i & 31)) {
#pragma unroll
      for (int k = 0; k < 128; k++) x = x * y + float(i * 128 + k);
    }
    x = x * y + 1.5f * i;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <int kKind, int kChains>
__device__ void arithmetic(float* out, int rounds) {
  float x[kChains];
  uint32_t u[kChains];
  double d[kChains];
  __half2 h[kChains];
  for (int k = 0; k < kChains; k++) x[k] = threadIdx.x + k, u[k] = threadIdx.x * 7 + k, d[k] = threadIdx.x + k, h[k] = __float2half2_rn(threadIdx.x * .01f + k);
  const float y = .999f + rounds * 1e-9f, z = rounds * 1e-3f;
  const uint32_t v = rounds | 5;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 64 / kChains; i++)
#pragma unroll
      for (int k = 0; k < kChains; k++) {
        if (kKind == 0) x[k] = x[k] * y + z;
        if (kKind == 1) u[k] = u[k] * v + v;
        if (kKind == 2) u[k] = (u[k] ^ v) & (u[k] >> 1);
        if (kKind == 3) asm volatile("ex2.approx.f32 %0, %0;" : "+f"(x[k]));
        if (kKind == 4) h[k] = __hfma2(h[k], __float2half2_rn(.5f), h[(k + 1) % kChains]);
        if (kKind == 5) d[k] = d[k] * .999 + 1.;
        if (kKind == 6) x[k] = __shfl_xor_sync(~0u, x[k], 1 + i % 16);
        if (kKind == 7) x[k] = x[k] * y + z, u[k] = u[k] * v + v;
        if (kKind == 8) x[k] = x[k] * y + z, u[k] = (u[k] ^ v) + (u[k] >> 1);
        if (kKind == 9) x[k] = x[k] * x[(k + 1) % kChains] + x[(k + 2) % kChains];
      }
  float s = 0;
  for (int k = 0; k < kChains; k++) s += x[k] + u[k] + float(d[k]) + __low2float(h[k]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void ffma(float* o, int r) { arithmetic<0, 8>(o, r); }
__global__ void ffma_chain(float* o, int r) { arithmetic<0, 1>(o, r); }
__global__ void imad(float* o, int r) { arithmetic<1, 8>(o, r); }
__global__ void logic(float* o, int r) { arithmetic<2, 8>(o, r); }
__global__ void mufu(float* o, int r) { arithmetic<3, 8>(o, r); }
__global__ void hfma(float* o, int r) { arithmetic<4, 8>(o, r); }
__global__ void dfma(float* o, int r) { arithmetic<5, 8>(o, r); }
__global__ void shuffle(float* o, int r) { arithmetic<6, 4>(o, r); }
__global__ void ffma_imad(float* o, int r) { arithmetic<7, 4>(o, r); }
__global__ void ffma_logic(float* o, int r) { arithmetic<8, 4>(o, r); }
__global__ void ffma_three(float* o, int r) { arithmetic<9, 8>(o, r); }
__global__ void short_loop(float* out, int rounds) {
  float x = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) x = x * .999f + 1.f;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <int kInstructions>
__global__ void straight(float* out, float y) {
  float x = threadIdx.x;
#pragma unroll
  for (int i = 0; i < kInstructions; i++) x = x * y + (i & 7);
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
template <class T>
__device__ void shared_loads(float* out, int rounds, int stride) {
  __shared__ T s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = T{};
  __syncthreads();
  float acc = 0;
  int at = threadIdx.x * stride & 1023;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      T v;
      if constexpr (sizeof(T) == 16) {
        asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(smem(&s[at ^ i])));
        acc += v.x;
      } else {
        asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(smem(&s[at ^ i])));
        acc += v;
      }
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
__global__ void shared_load4(float* o, int r) { shared_loads<float>(o, r, 1); }
__global__ void shared_load4_stride2(float* o, int r) { shared_loads<float>(o, r, 2); }
__global__ void shared_load16(float* o, int r) { shared_loads<float4>(o, r, 1); }
__global__ void shared_chain(float* out, int rounds) {
  __shared__ int s[32];
  s[threadIdx.x & 31] = threadIdx.x & 31;
  __syncthreads();
  int p = threadIdx.x & 31;
#pragma unroll 8
  for (int r = 0; r < rounds; r++) p = s[p];
  out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
__global__ void shared_store4(float* out, int rounds) {
  __shared__ float s[2048];
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) asm volatile("st.shared.f32 [%0], %1;" ::"r"(smem(&s[(threadIdx.x ^ i) & 2047])), "f"(float(i)));
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x];
}
__global__ void matrix_load(float* out, int rounds) {
  __shared__ __align__(128) uint32_t s[2048];
  uint32_t a, b, c, d, sum = 0;
  const uint32_t at = smem(s) + (threadIdx.x & 31) * 16 + (threadIdx.x / 32 & 7) * 512;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(at ^ (i * 512 & 4095)));
      sum += a ^ b ^ c ^ d;
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
__global__ void barriers(float* out, int rounds) {
  for (int r = 0; r < rounds; r++) __syncthreads();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

TRUTH("launch", "empty", {1, 132, 1056, 8448, 131072}, [](long n) { return [=] { empty<<<int(n), 32>>>(nullptr); }; });
TRUTH("launch", "empty_256", {132, 1056, 8448, 131072}, [](long n) { return [=] { empty<<<int(n), 256>>>(nullptr); }; });
TRUTH("launch", "empty_1024", {132, 264, 8448}, [](long n) { return [=] { empty<<<int(n), 1024>>>(nullptr); }; });
TRUTH("launch", "load_chain", {1, 4, 16, 64}, [](long steps) {
  std::vector<uint32_t> next(1 << 20);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i + 64 * 37) & (next.size() - 1));
  auto d = upload(next);
  auto o = zeros<uint32_t>(32);
  return [=] { load_chain<<<1, 32>>>(d, o, int(steps)); };
});
#define WIDE(name, mb, blocks) \
  TRUTH("wide", name, {1, 2, 4, 8, 16, 32}, [](long lanes) { \
    const size_t n = size_t(mb) << 18; \
    std::vector<uint32_t> next(n); \
    for (size_t i = 0; i < n; i++) next[i] = uint32_t((i + 4099 * 32) % n); \
    auto d = upload(next); \
    auto o = zeros<uint32_t>(32 * blocks); \
    return [=] { wide_chase<<<blocks, 32>>>(d, o, 256, int(lanes), 64); }; \
  });
WIDE("wide_chase_8mb", 8, 1) WIDE("wide_chase_128mb", 128, 1) WIDE("wide_chase_1024mb", 1024, 1) WIDE("wide_chase_8mb_16", 8, 16)
TRUTH("wide", "wide_chase_l1", {1, 2, 4, 8, 16, 32}, [](long lanes) {
  std::vector<uint32_t> next(16384);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i + 96) % next.size());
  auto d = upload(next);
  auto o = zeros<uint32_t>(32);
  return [=] { wide_chase<<<1, 32>>>(d, o, 2048, int(lanes), 64); };
});
TRUTH("wide", "spread_read", {1, 2, 4, 8, 16, 32, 33}, [](long apart) {
  auto p = zeros<float>(16384 + 64);
  auto o = zeros<float>(132 * 1024);
  return [=] { spread_read<<<132, 128>>>(p, o, 100, int(apart)); };
});
TRUTH("wide", "spread_read_wide", {1, 2, 4, 8, 16, 32, 33}, [](long apart) {
  auto p = zeros<float>(16384 + 64);
  auto o = zeros<float>(132 * 1024);
  return [=] { spread_read<<<132, 1024>>>(p, o, 100, int(apart)); };
});
#define JUMPS(n) \
  TRUTH("code", "jumps" #n, {1, 132}, [](long blocks) { \
    auto o = zeros<float>(132 * 32); \
    return [=] { jumps<n><<<int(blocks), 32>>>(o, .99f, 0u); }; \
  });
JUMPS(4) JUMPS(16) JUMPS(31)
#define RATE(name) \
  TRUTH("rate", #name, {4, 8, 16, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
RATE(ffma) RATE(ffma_chain) RATE(imad) RATE(logic) RATE(mufu) RATE(hfma) RATE(dfma) RATE(shuffle) RATE(ffma_imad) RATE(ffma_logic) RATE(ffma_three)
TRUTH("code", "short_loop", {4, 16, 64}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { short_loop<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 2000); };
});
#define STRAIGHT(n) \
  TRUTH("code", "straight" #n, {1, 132}, [](long blocks) { \
    auto o = zeros<float>(132 * 32); \
    return [=] { straight<n><<<int(blocks), 32>>>(o, .99f); }; \
  });
STRAIGHT(64) STRAIGHT(512) STRAIGHT(2048) STRAIGHT(8192)
#define SHARED(name) \
  TRUTH("shared", #name, {4, 16, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
SHARED(shared_load4) SHARED(shared_load4_stride2) SHARED(shared_load16) SHARED(shared_chain) SHARED(shared_store4) SHARED(matrix_load)
TRUTH("barrier", "barriers", {4, 8, 16, 32, 64}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { barriers<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 500); };
});

}  // namespace
