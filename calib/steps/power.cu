// calib/steps/power.cu: one kind of work at a time on random data, for the joules that it costs (truth.cu's mode `energy`).
// The other files of calib/steps move zeros and repeat operands; wires that never change cost less.
#include <cuda_fp16.h>

#include <algorithm>

#include "steps.h"

namespace {
using namespace steps;

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
/// Bulk copies from L2 (16 MB); all blocks the same (`groups` 1) or each its own.
__global__ void power_copies(const char* from, float* out, int groups, int copies) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[4];
  if (threadIdx.x == 0) copy_ring(from, room, bar, blockIdx.x % groups, groups, 1024, copies);
  __syncthreads();
  out[blockIdx.x] = room[threadIdx.x];
}
TRUTH("power", "power_bulk_l2", {1, 33, 132}, [](long groups) {
  auto p = noise(4l << 20);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(power_copies, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] { power_copies<<<132, 32, 65536>>>((const char*)p.p, o, int(groups), 1000); };
});
/// Words of thread `t` past L1, where(i) in turn, summed.
template <class T, class Where>
__device__ void read_past(const T* p, float* out, uint32_t t, int rounds, Where where) {
  uint32_t acc = 0;
#pragma unroll 4
  for (int i = 0; i < rounds; i++) {
    if constexpr (sizeof(T) == 16) {
      uint4 v;
      asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p + where(i)));
      acc += v.x ^ v.w;
    } else {
      uint32_t v;
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p + where(i)));
      acc += v;
    }
  }
  out[t] = float(acc);
}
/// From L2, four sectors of a line by a warp's request.
__global__ void power_read_past(const uint4* p, float* out, uint32_t mask, int rounds) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  read_past(p, out, t, rounds, [=](int i) { return (t + uint32_t(i) * 270336u) & mask; });
}
TRUTH("power", "power_read_past", {16}, [](long mb) {
  auto p = noise(mb << 18);
  auto o = zeros<float>(264 * 1024);
  return [=] { power_read_past<<<264, 1024>>>((const uint4*)p.p, o, uint32_t((mb << 16) - 1), 64); };
});
/// From L2, one sector of a line.
__global__ void power_sectors_past(const uint32_t* p, float* out, uint32_t mask, int rounds) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  read_past(p, out, t, rounds, [=](int i) { return mix(t * 64 + i) & mask; });
}
TRUTH("power", "power_sectors_past", {16}, [](long mb) {
  auto p = noise(mb << 18);
  auto o = zeros<float>(264 * 1024);
  return [=] { power_sectors_past<<<264, 1024>>>((const uint32_t*)p.p, o, uint32_t((mb << 18) - 1), 32); };
});
/// Products of 64 x 128 x 16 by one warpgroup (work 1), bulk copies from L2 by another warp (work 2), or both (work 3). The pauses leave
/// the board below its limit.
__global__ void __launch_bounds__(160) power_both(const char* from, float* out, int work, int rounds, int copies) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[4];
  uint32_t* tile = (uint32_t*)(room + 65536);
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) tile[i] = random_halves(i * 77 + blockIdx.x);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128 && work & 2) copy_ring(from, room, bar, blockIdx.x, 132, 1024, copies);
    return;
  }
  if (!(work & 1)) return;
  float d[64], w = threadIdx.x;
  for (int i = 0; i < 64; i++) d[i] = 0;
  const uint64_t a = matrix_at(tile), b = matrix_at(tile + 2048);
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    multiply(d, a, b);
#pragma unroll 1
    for (int i = 0; i < 100; i++) w = w * .99f + 1;
  }
  for (int i = 0; i < 64; i++) w += d[i];
  out[blockIdx.x * 128 + threadIdx.x] = w;
}
TRUTH("power", "power_both", {1, 2, 3}, [](long work) {
  auto p = noise(4l << 20);
  auto o = zeros<float>(132 * 128);
  cudaFuncSetAttribute(power_both, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
  return [=] { power_both<<<132, 160, 100000>>>((const char*)p.p, o, int(work), 700, 1600); };
});
/// Products of doubles.
__global__ void power_dmma(float* out, int rounds) {
  double c[4][4] = {}, a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = 1e-3 * (threadIdx.x * 37 % 101) + i, b[i / 2] = .7 - 1e-4 * threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int k = 0; k < 4; k++)
      asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+d"(c[k][0]), "+d"(c[k][1]), "+d"(c[k][2]), "+d"(c[k][3])
                   : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
  out[blockIdx.x * blockDim.x + threadIdx.x] = float(c[0][0] + c[1][1] + c[2][2] + c[3][3]);
}
TRUTH("power", "power_dmma", {1, 4, 16}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { power_dmma<<<132, int(warps) * 32>>>(o, 400); };
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
