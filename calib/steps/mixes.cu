// calib/steps/mixes.cu: microbenchmarks of what instructions do to each other: shared loads beside arithmetic, loads that
// straddle lines, the neighbours of a stencil one by one, wide loads of wmma fragments, dependent loads of whole warps, and
// blocks of several sizes that come and go.
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>

#include "steps.h"

namespace {
using namespace steps;

/// `kLoads` shared loads of T by all lanes, then `kFmas` multiply-adds that use what they brought. Rows: lanes of half a warp read
/// one word each (1), neighbouring words (16), or the warp reads 32 (32).
template <class T, int kLoads, int kFmas, int kWords>
__device__ void shared_mix(float* out, int rounds) {
  __shared__ T s[4096 / sizeof(T) * 4];
  for (int i = threadIdx.x; i < int(sizeof(s) / sizeof(T)); i += blockDim.x) s[i] = T(i * .001);
  __syncthreads();
  const int lane = threadIdx.x % 32, at = kWords == 1 ? lane / 16 * 16 : kWords == 16 ? lane % 16 : lane;
  T acc[4] = {T(1), T(2), T(3), T(4)};
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    const uint32_t base = smem(s) + uint32_t(at * sizeof(T)) + uint32_t(r & 1) * 32 * uint32_t(sizeof(T));
#pragma unroll
    for (int i = 0; i < 8; i++) {
      T v[kLoads];
#pragma unroll
      for (int k = 0; k < kLoads; k++)
        if constexpr (sizeof(T) == 8) asm volatile("ld.shared.f64 %0, [%1];" : "=d"(v[k]) : "r"(base + (i * kLoads + k) * 64 * int(sizeof(T)) % 8192));
        else asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v[k]) : "r"(base + (i * kLoads + k) * 64 * int(sizeof(T)) % 8192));
#pragma unroll
      for (int k = 0; k < kFmas; k++) acc[k % 4] = acc[k % 4] * v[k % kLoads] + v[(k + 1) % kLoads];
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(acc[0] + acc[1] + acc[2] + acc[3]);
}
#define SHARED_MIX(name, type, loads, fmas, words) \
  __global__ void name(float* o, int r) { shared_mix<type, loads, fmas, words>(o, r); } \
  TRUTH("mix", #name, {8, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
SHARED_MIX(lds1_ffma1, float, 1, 1, 32)
SHARED_MIX(lds1_ffma4, float, 1, 4, 32)
SHARED_MIX(lds2_ffma1, float, 2, 1, 32)
SHARED_MIX(lds1_ffma1_half, float, 1, 1, 16)
SHARED_MIX(lds1_ffma1_word, float, 1, 1, 1)
SHARED_MIX(lds1_dfma1, double, 1, 1, 32)
SHARED_MIX(lds2_dfma1_half, double, 2, 1, 16)
SHARED_MIX(lds2_dfma1_word, double, 2, 1, 1)

/// Loads of 4 bytes a lane that hit L1, `offset` words from the start of a line.
__global__ void l1_offset(const float* p, float* out, int rounds, int offset) {
  float acc = 0;
  const float* from = p + offset + threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      float v;
      asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(from + (i & 3) * 1024));
      acc += v;
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
TRUTH("l1", "l1_offset", {0, 1, 4, 8, 16, 31}, [](long offset) {
  auto p = zeros<float>(8192);
  auto o = zeros<float>(132 * 2048);
  return [=] { l1_offset<<<132, 1024>>>(p, o, 100, int(offset)); };
});

/// A point of a plane from some of its neighbours: 1 itself, 2 left, 4 right, 8 above, 16 below; 32 without the store.
template <int kParts>
__global__ void neighbours(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  if (x == 0 || y == 0 || x >= n - 1 || y >= n - 1) return;
  const long i = long(y) * n + x;
  float v = 0;
  if (kParts & 1) v += in[i];
  if (kParts & 2) v += in[i - 1];
  if (kParts & 4) v += in[i + 1];
  if (kParts & 8) v += in[i - n];
  if (kParts & 16) v += in[i + n];
  if (!(kParts & 32)) out[i] = v;
  else if (v == 12345.678f) out[0] = v;
}
#define NEIGHBOURS(parts) \
  TRUTH("plane", "neighbours" #parts, {1024, 8192}, [](long n) { \
    auto p = uniform<float>(n * n), q = zeros<float>(n * n); \
    return [=] { neighbours<parts><<<dim3(n / 32, n / 8), dim3(32, 8)>>>(p, q, int(n)); }; \
  });
NEIGHBOURS(1) NEIGHBOURS(2) NEIGHBOURS(6) NEIGHBOURS(8) NEIGHBOURS(24) NEIGHBOURS(30) NEIGHBOURS(33) NEIGHBOURS(38) NEIGHBOURS(56) NEIGHBOURS(62)

/// The same by blocks of 256 in a row: what the shape of blocks does.
__global__ void copy_row(const float* in, float* out) {
  const long i = blockIdx.x * 256l + threadIdx.x;
  out[i] = in[i];
}
TRUTH("plane", "copy_row", {1 << 20, 1 << 26}, [](long n) {
  auto p = uniform<float>(n), q = zeros<float>(n);
  return [=] { copy_row<<<n / 256, 256>>>(p, q); };
});
/// Blocks of `threads` that each execute a little and end.
__global__ void brief(float* out, int steps) {
  float x = threadIdx.x;
#pragma unroll 1
  for (int i = 0; i < steps; i++) x = x * .99f + 1;
  if (x == 12345.678f) out[0] = x;
}
TRUTH("launch", "brief", {32, 64, 128, 256, 512, 1024}, [](long threads) {
  auto o = zeros<float>(32);
  return [=] { brief<<<65536, int(threads)>>>(o, 8); };
});

/// Fragments of wmma from L2 and L1: loads only, by all warps of 132 blocks.
template <class Layout>
__device__ void fragments(const half* p, float* out, int stride, int rounds) {
  using namespace nvcuda;
  float acc = 0;
  for (int r = 0; r < rounds; r++) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, Layout> f[4];
#pragma unroll
    for (int i = 0; i < 4; i++) wmma::load_matrix_sync(f[i], p + (r & 3) * 64 + i * 16 * stride + (threadIdx.x / 32 % 4) * 16, stride);
#pragma unroll
    for (int i = 0; i < 4; i++) acc += __half2float(f[i].x[0]) + __half2float(f[i].x[7]);
  }
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void fragments_row(const half* p, float* out, int stride, int rounds) { fragments<nvcuda::wmma::row_major>(p, out, stride, rounds); }
__global__ void fragments_column(const half* p, float* out, int stride, int rounds) { fragments<nvcuda::wmma::col_major>(p, out, stride, rounds); }
#define FRAGMENTS(name, stride) \
  TRUTH("fragments", #name "_" #stride, {4, 16}, [](long warps) { \
    auto p = zeros<half>(64 * stride + 65536); \
    auto o = zeros<float>(32); \
    return [=] { name<<<132, int(warps) * 32>>>(p, o, stride, 100); }; \
  });
FRAGMENTS(fragments_row, 512) FRAGMENTS(fragments_column, 512) FRAGMENTS(fragments_row, 2048) FRAGMENTS(fragments_column, 2048)

/// Every lane of many warps walks through `n` words by a chain of its own; few warps or many.
__global__ void chains(const uint32_t* next, uint32_t* out, uint32_t n, int steps) {
  uint32_t at = uint32_t((blockIdx.x * blockDim.x + threadIdx.x) * 2654435761ull % n);
#pragma unroll 1
  for (int i = 0; i < steps; i++) at = next[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
#define CHAINS(name, blocks, threads) \
  TRUTH("chains", name, {1 << 14, 1 << 18, 1 << 21, 1 << 24}, [](long n) { \
    std::vector<uint32_t> next(n); \
    Random r; \
    for (auto& v : next) v = r.next() % uint32_t(n); \
    auto d = upload(next); \
    auto o = zeros<uint32_t>(blocks * threads); \
    return [=] { chains<<<blocks, threads>>>(d, o, uint32_t(n), 64); }; \
  });
CHAINS("chains_1", 1, 32) CHAINS("chains_4", 4, 128) CHAINS("chains_132", 132, 128) CHAINS("chains_1056", 1056, 256)

/// Products and cheap operations in the proportions of common inner loops.
template <int kKind>
__device__ void blend(float* out, int rounds) {
  float x[4], y[4];
  uint32_t u[4];
  for (int k = 0; k < 4; k++) x[k] = threadIdx.x + k, y[k] = threadIdx.x * .5f + k, u[k] = threadIdx.x * 7 + k;
  const float c = .999f + rounds * 1e-9f;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (kKind == 0) x[k] = x[k] * c, y[k] = y[k] + x[k], x[k] = x[k] * y[k] + c;          // multiply, add, both
        if (kKind == 1) x[k] = fminf(x[k] * c + y[k], 1e6f), y[k] = x[k] > y[k] ? c : x[k];     // with min and select
        if (kKind == 2) {                                                                     // with a root
          float q;
          asm volatile("rsqrt.approx.f32 %0, %1;" : "=f"(q) : "f"(x[k]));
          x[k] = x[k] * c + y[k], y[k] = y[k] * q + c, x[k] = x[k] * q + y[k], y[k] = y[k] * c + x[k], x[k] = x[k] + q, y[k] = y[k] * y[k] + q;
        }
        if (kKind == 3) u[k] = (u[k] ^ u[k] >> 16) * 0x85ebca6bu, x[k] = x[k] * c + y[k];       // hash and multiply-add
        if (kKind == 4) u[k] = u[k] * 1664525u + 1013904223u, x[k] += float(u[k] >> 8);         // with a conversion
      }
  float s = 0;
  for (int k = 0; k < 4; k++) s += x[k] + y[k] + float(u[k]);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define BLEND(name, kind) \
  __global__ void name(float* o, int r) { blend<kind>(o, r); } \
  TRUTH("mix", #name, {8, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
BLEND(blend_add, 0) BLEND(blend_select, 1) BLEND(blend_root, 2) BLEND(blend_hash, 3) BLEND(blend_convert, 4)

/// One special function and `kFmas` multiply-adds that do not depend on it, again and again.
template <int kFmas>
__global__ void mufu_mix(float* out, int rounds) {
  float x[4], y[8];
  for (int k = 0; k < 4; k++) x[k] = threadIdx.x * .01f + k;
  for (int k = 0; k < 8; k++) y[k] = threadIdx.x + k;
  const float c = .999f + rounds * 1e-9f;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i % 4]));
#pragma unroll
      for (int k = 0; k < kFmas; k++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(y[k % 8]) : "f"(c));
    }
  float s = 0;
  for (int k = 0; k < 4; k++) s += x[k];
  for (int k = 0; k < 8; k++) s += y[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
/// Loads of 16 bytes that all lanes share, and multiply-adds with what they bring.
template <int kFmas>
__global__ void broadcast_mix(float* out, int rounds) {
  __shared__ float4 s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = make_float4(i, i * .5f, i * .25f, 1);
  __syncthreads();
  float y[8];
  for (int k = 0; k < 8; k++) y[k] = threadIdx.x + k;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float4 v;
      asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(smem(s) + (r & 15) * 128 + i * 16));
#pragma unroll
      for (int k = 0; k < kFmas; k++) y[k % 8] = y[k % 8] * (k % 2 ? v.x : v.y) + (k % 3 ? v.z : v.w);
    }
  float t = 0;
  for (int k = 0; k < 8; k++) t += y[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = t;
}
#define NUMBERED(name, n) \
  TRUTH("mix", #name #n, {4, 8, 32, 64}, [](long warps) { \
    auto o = zeros<float>(132 * 2048); \
    return [=] { name<n><<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, 200); }; \
  });
NUMBERED(mufu_mix, 4) NUMBERED(mufu_mix, 8) NUMBERED(mufu_mix, 12) NUMBERED(mufu_mix, 16) NUMBERED(broadcast_mix, 4) NUMBERED(broadcast_mix, 8) NUMBERED(broadcast_mix, 16)

/// Store, barrier, load of a neighbour's word, barrier: steps of reductions and scans.
__global__ void exchange(float* out, int rounds) {
  __shared__ float s[1024];
  float x = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    s[threadIdx.x] = x;
    __syncthreads();
    x += s[threadIdx.x ^ 32];
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
/// Halving: half as many threads work in every step.
__global__ void halving(float* out, int rounds) {
  __shared__ float s[1024];
  for (int r = 0; r < rounds; r++) {
    s[threadIdx.x] = threadIdx.x + r;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
      if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
      __syncthreads();
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[0];
}
#define EXCHANGE(kernel, blocks) \
  TRUTH("barrier", #kernel "_" #blocks, {64, 128, 256, 512, 1024}, [](long threads) { \
    auto o = zeros<float>(132 * 32 * 1024); \
    return [=] { kernel<<<132 * int(std::min(blocks, 2048 / int(threads))), int(threads)>>>(o, 50); }; \
  });
EXCHANGE(exchange, 1) EXCHANGE(exchange, 2) EXCHANGE(exchange, 16) EXCHANGE(halving, 1) EXCHANGE(halving, 16)

/// Sixteen bytes a thread, once: copies, updates in place, sums of two arrays.
__global__ void copy_once(const float4* a, float4* b) {
  const long i = blockIdx.x * 256l + threadIdx.x;
  b[i] = a[i];
}
__global__ void update_once(float4* a) {
  const long i = blockIdx.x * 256l + threadIdx.x;
  float4 v = a[i];
  v.x += 1;
  a[i] = v;
}
__global__ void sum_loop(const float2* a, float2* b, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) {
    float2 v = a[i], w = b[i];
    w.x += v.x, w.y += v.y;
    b[i] = w;
  }
}
TRUTH("dram", "copy_once", {1 << 20, 1 << 22, 1 << 24, 1 << 26}, [](long n) {
  auto p = uniform<float>(n * 4), q = zeros<float>(n * 4);
  return [=] { copy_once<<<n / 256, 256>>>((const float4*)p.p, (float4*)q.p); };
});
TRUTH("dram", "update_once", {1 << 20, 1 << 22, 1 << 24, 1 << 26}, [](long n) {
  auto p = uniform<float>(n * 4);
  return [=] { update_once<<<n / 256, 256>>>((float4*)p.p); };
});
TRUTH("dram", "sum_loop", {1 << 20, 1 << 22, 1 << 24, 1 << 26}, [](long n) {
  auto p = uniform<float>(n * 2), q = uniform<float>(n * 2);
  return [=] { sum_loop<<<528, 512>>>((const float2*)p.p, (float2*)q.p, n); };
});

}  // namespace
