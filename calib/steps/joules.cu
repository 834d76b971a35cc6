// calib/steps/joules.cu: one instruction or access at a time, with operands that change in most of their bits (size 1) or are zero
// (size 0), for the joules that it costs. power.cu has mixes; here each loop holds one kind of instruction and little else.
#include <cuda_fp16.h>

#include "steps.h"

namespace {
using namespace steps;

constexpr int kChains = 8;

/// Eight chains of one instruction: each keeps its own operands, so that what a unit is given changes with every instruction.
enum class Op { fma, add, iadd, logic, shift, imad, wide, select, half, dfma, shuffle };

template <Op kOp>
__device__ __forceinline__ void one(uint32_t& u, uint32_t v, uint32_t w, double& d, double e, double g, uint64_t& l) {
  if constexpr (kOp == Op::fma) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::add) asm volatile("sub.f32 %0, %1, %0;" : "+r"(u) : "r"(v));
  if constexpr (kOp == Op::iadd) asm volatile("{ .reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2; }" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::logic) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::shift) asm volatile("shf.l.wrap.b32 %0, %0, %1, 7;" : "+r"(u) : "r"(v));
  if constexpr (kOp == Op::imad) asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::wide) asm volatile("mad.wide.u32 %0, %1, %2, %0;" : "+l"(l) : "r"(uint32_t(l)), "r"(w));
  if constexpr (kOp == Op::select) asm volatile("{ .reg .pred p; setp.lt.u32 p, %0, %1; selp.b32 %0, %2, %1, p; }" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::half) asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(u) : "r"(v), "r"(w));
  if constexpr (kOp == Op::dfma) asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(d) : "d"(e), "d"(g));
  if constexpr (kOp == Op::shuffle) asm volatile("shfl.sync.bfly.b32 %0, %0, 5, 31, -1;" : "+r"(u));
}
/// Operands: floats (and pairs of halves) of either sign below one, integers of all bits; or zeros.
template <Op kOp>
__global__ void __launch_bounds__(1024) joules_of(uint32_t* out, int rounds, int random, int lanes) {
  uint32_t u[kChains], v[kChains], w[kChains];
  uint64_t l[kChains];
  double d[kChains], e[kChains], g[kChains];
  constexpr bool kInteger = kOp == Op::iadd || kOp == Op::logic || kOp == Op::shift || kOp == Op::imad || kOp == Op::wide || kOp == Op::select || kOp == Op::shuffle;
  const uint32_t seed = (blockIdx.x * 1024 + threadIdx.x) * 64;
  const auto operand = [&](int i) {
    const uint32_t r = mix(seed + i);
    if (!random) return 0u;
    return kInteger ? r | 1 : kOp == Op::half ? (r & 0x83ff83ffu) | 0x38003400u : (r & 0x807fffffu) | 0x3f000000u;
  };
  for (int k = 0; k < kChains; k++) {
    u[k] = operand(k), v[k] = operand(k + 8), w[k] = operand(k + 16), l[k] = uint64_t(u[k]) << 32 | w[k];
    d[k] = random ? operand(k) * 1e-10 : 0, e[k] = random ? operand(k + 8) * 2e-10 : 0, g[k] = random ? operand(k + 16) * 3e-10 - .5 : 0;
  }
  if (int(threadIdx.x % 32) < lanes)
#pragma unroll 1
    for (int r = 0; r < rounds; r++)
#pragma unroll
      for (int i = 0; i < 64 / kChains; i++)
#pragma unroll
        for (int k = 0; k < kChains; k++) one<kOp>(u[k], v[k], w[k], d[k], e[k], g[k], l[k]);
  uint32_t s = 0;
  for (int k = 0; k < kChains; k++) s += u[k] + uint32_t(d[k]) + uint32_t(l[k]) + uint32_t(l[k] >> 32);
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define OF(name, op, sizes, rounds) \
  TRUTH("joules", "joules_" name, sizes, [](long random) { \
    auto o = zeros<uint32_t>(264 * 1024); \
    return [=] { joules_of<op><<<264, 1024>>>(o, rounds, int(random), 32); }; \
  });
#define BOTH std::vector<long>({0, 1})
#define RANDOM std::vector<long>({1})
OF("fma", Op::fma, BOTH, 400) OF("add", Op::add, RANDOM, 400) OF("iadd", Op::iadd, BOTH, 200)
OF("logic", Op::logic, BOTH, 200) OF("shift", Op::shift, RANDOM, 200) OF("imad", Op::imad, BOTH, 200) OF("wide", Op::wide, RANDOM, 100)
OF("select", Op::select, RANDOM, 100) OF("half", Op::half, BOTH, 400) OF("dfma", Op::dfma, BOTH, 200) OF("shuffle", Op::shuffle, BOTH, 100)
TRUTH("joules", "joules_lanes", {1, 16}, [](long lanes) {  // of a warp
  auto o = zeros<uint32_t>(264 * 1024);
  return [=] { joules_of<Op::fma><<<264, 1024>>>(o, 400, 1, int(lanes)); };
});
TRUTH("joules", "joules_warps", {1, 4, 16}, [](long warps) {  // of an SM
  auto o = zeros<uint32_t>(264 * 1024);
  return [=] { joules_of<Op::fma><<<132, int(warps) * 32>>>(o, 2000, 1, 32); };
});
TRUTH("joules", "joules_sms", {16, 66}, [](long sms) {  // that work
  auto o = zeros<uint32_t>(264 * 1024);
  return [=] { joules_of<Op::fma><<<int(sms), 1024>>>(o, 1000, 1, 32); };
});

/// Outer products in registers, as a product of floats makes them.
__global__ void __launch_bounds__(256) joules_outer(float* out, int rounds, int random) {
  float sums[8][8], a[8], b[8];
  const uint32_t seed = (blockIdx.x * 256 + threadIdx.x) * 64;
  const auto operand = [&](int i) { return random ? __uint_as_float(0x3f800000u | mix(seed + i) >> 9) - 1.f : 0; };
  for (int i = 0; i < 8; i++) a[i] = operand(i), b[i] = operand(i + 8);
  for (auto& row : sums)
    for (float& s : row) s = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) asm volatile("fma.rn.f32 %0, %1, %2, %0;" : "+f"(sums[i][j]) : "f"(a[i]), "f"(b[j]));
  float s = 0;
  for (auto& row : sums)
    for (const float x : row) s += x;
  out[blockIdx.x * 256 + threadIdx.x] = s;
}
TRUTH("joules", "joules_outer", {0, 1}, [](long random) {
  auto o = zeros<float>(264 * 256);
  return [=] { joules_outer<<<264, 256>>>(o, 1600, int(random)); };
});

/// The same by tensor cores: 4 x 4 tiles of 16 x 8 from 4 + 4 fragments that differ.
__global__ void __launch_bounds__(256) joules_mma(float* out, int rounds, int random) {
  float c[4][4][4];
  uint32_t a[4][4], b[4][2];
  const uint32_t seed = (blockIdx.x * 256 + threadIdx.x) * 64;
  for (int i = 0; i < 4; i++) {
    for (int k = 0; k < 4; k++) a[i][k] = random ? random_halves(seed + i * 4 + k) : 0;
    for (int k = 0; k < 2; k++) b[i][k] = random ? random_halves(seed + 32 + i * 2 + k) : 0;
  }
  for (auto& row : c)
    for (auto& tile : row)
      for (float& x : tile) x = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 4; j++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[i][j][0]), "+f"(c[i][j][1]), "+f"(c[i][j][2]), "+f"(c[i][j][3])
                     : "r"(a[i][0]), "r"(a[i][1]), "r"(a[i][2]), "r"(a[i][3]), "r"(b[j][0]), "r"(b[j][1]));
  float s = 0;
  for (auto& row : c)
    for (auto& tile : row)
      for (const float x : tile) s += x;
  out[blockIdx.x * 256 + threadIdx.x] = s;
}
TRUTH("joules", "joules_mma", {0, 1}, [](long random) {
  auto o = zeros<float>(264 * 256);
  return [=] { joules_mma<<<264, 256>>>(o, 1000, int(random)); };
});
TRUTH("joules", "joules_mma_sms", {33, 66}, [](long sms) {  // the same at a clock that is higher, since fewer SMs work
  auto o = zeros<float>(264 * 256);
  return [=] { joules_mma<<<int(sms), 256>>>(o, 1000, 1); };
});
/// wgmma by some SMs only, with pauses, or beside bulk copies (of a ninth warp): the same products at other clocks.
__global__ void __launch_bounds__(288) joules_wgmma(float* out, int rounds, int pause, int uniform, const char* from, uint32_t pieces, int copies) {
  extern __shared__ __align__(1024) uint32_t tile[];
  __shared__ uint64_t bar[4];
  for (int i = threadIdx.x; i < 12288; i += blockDim.x) {
    const uint32_t r = mix(i * 77 + blockIdx.x);
    const __half2 h = __floats2half2_rn((r & 0xffff) / 65536.f - .5f, (r >> 16) / 65536.f - .5f);
    tile[i] = uniform ? *reinterpret_cast<const uint32_t*>(&h) : random_halves(i * 77 + blockIdx.x);
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x >= 256) {
    if (threadIdx.x == 256) copy_ring(from, (char*)tile + 65536, bar, blockIdx.x, 132, pieces, copies);
    return;
  }
  float d[128];
  for (int i = 0; i < 128; i++) d[i] = 0;
  const uint64_t a = matrix_at(tile + 2048 * (threadIdx.x / 128)), b = matrix_at(tile + 4096);
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    multiply(d, a, b);
    if (pause) __nanosleep(pause);
  }
  float s = 0;
  for (int i = 0; i < 128; i++) s += d[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
#define WGMMA(name, sizes, ...) \
  TRUTH("joules", "joules_wgmma" name, std::vector<long> sizes, [](long n) { \
    auto o = zeros<float>(132 * 256); \
    cudaFuncSetAttribute(joules_wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072); \
    return [=] { joules_wgmma __VA_ARGS__; }; \
  });
WGMMA("_sms", ({33, 66, 99, 132}), <<<int(n), 256, 50176>>>(o, 300, 0, 0, nullptr, 0, 0))
WGMMA("_uniform", ({33, 132}), <<<int(n), 256, 50176>>>(o, 300, 0, 1, nullptr, 0, 0))
WGMMA("_sleeps", ({500, 2000, 8000}), <<<132, 256, 50176>>>(o, 300, int(n), 0, nullptr, 0, 0))
TRUTH("joules", "joules_wgmma_copies", {16, 2048}, [](long mb) {  // from L2 or from memory
  Array<float> p(mb << 18);
  fill<float>(p, [](size_t, Random& r) { return r.unit() - .5f; });
  auto o = zeros<float>(132 * 256);
  cudaFuncSetAttribute(joules_wgmma, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { joules_wgmma<<<132, 288, 131072>>>(o, 300, 0, 0, (const char*)p.p, uint32_t(mb * 64), mb > 100 ? 500 : 900); };
});

/// Shared memory of random words, by where lanes look: `apart` words from lane to lane (0: all at one), `kBytes` each.
template <int kBytes, bool kStore>
__global__ void __launch_bounds__(1024) joules_shared(uint32_t* out, int rounds, int apart) {
  __shared__ __align__(16) uint32_t s[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) s[i] = mix(i);
  __syncthreads();
  uint32_t a = mix(threadIdx.x), b = mix(a), c = mix(b), d = mix(c), sum = 0;
  const uint32_t at = smem(s) + threadIdx.x % 32 * apart * 4;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) {
      const uint32_t where = at + i * 1024 + (r & 7) * 2048;
      if constexpr (!kStore && kBytes == 4) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(where));
      if constexpr (!kStore && kBytes == 8) asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(a), "=r"(b) : "r"(where));
      if constexpr (!kStore && kBytes == 16) asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(where));
      if constexpr (kStore && kBytes == 4) asm volatile("st.shared.u32 [%0], %1;" ::"r"(where), "r"(i & 1 ? a : b));
      if constexpr (kStore && kBytes == 16) asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(where), "r"(i & 1 ? a : b), "r"(i & 1 ? b : a), "r"(c), "r"(d));
      if constexpr (kBytes == 0) asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(where), "r"(a));
      if constexpr (kBytes == 64) asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(where));
      if constexpr (!kStore) sum ^= a;
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum + b + c + d;
}
#define SHARED(name, bytes, store, apart, rounds) \
  TRUTH("joules", "joules_" name, {apart}, [](long words) { \
    auto o = zeros<uint32_t>(264 * 1024); \
    return [=] { joules_shared<bytes, store><<<264, 1024>>>(o, rounds, int(words)); }; \
  });
SHARED("load4", 4, false, 1, 400) SHARED("load4_one", 4, false, 0, 400) SHARED("load4_conflict", 4, false, 8, 50) SHARED("load8", 8, false, 2, 200) SHARED("load16", 16, false, 4, 100)
SHARED("load16_one", 16, false, 0, 400) SHARED("store4", 4, true, 1, 400) SHARED("store16", 16, true, 4, 100) SHARED("shared_add", 0, false, 1, 100) SHARED("matrix", 64, false, 4, 100)

/// Words of a set that L1 holds (8 KiB), that L2 holds (16 MB, past L1), or that neither does, random or zero; each with little else.
template <class T, bool kPast>
__global__ void joules_load(const T* p, uint32_t* out, uint32_t mask, uint32_t step, int rounds) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++, at += step) {
      const T* const from = p + (at & mask);
      if constexpr (sizeof(T) == 16) {
        uint4 v;
        if constexpr (kPast) asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
        else asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
        sum += v.w;
      } else {
        uint32_t v;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(from));
        sum += v;
      }
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
Array<uint32_t> words(long n, long random) {
  Array<uint32_t> a(n);
  fill<uint32_t>(a, [=](size_t, Random& r) { return random ? r.next() : 0; });
  return a;
}
#define LOAD(name, type, past, bytes, step, rounds) \
  TRUTH("joules", "joules_" name, {0, 1}, [](long random) { \
    auto p = words((bytes) / 4, random); \
    auto o = zeros<uint32_t>(264 * 1024); \
    return [=] { joules_load<type, past><<<264, 1024>>>((const type*)p.p, o, uint32_t((bytes) / sizeof(type) - 1), step, rounds); }; \
  });
LOAD("l1_4", uint32_t, false, 8192l, 512, 400) LOAD("l1_16", uint4, false, 8192l, 160, 100) LOAD("l2_16", uint4, true, 16l << 20, 270336, 20) LOAD("memory_16", uint4, true, 2l << 30, 270336, 40)

/// Stores to a set that L2 holds or does not.
__global__ void joules_store(uint4* p, uint32_t mask, int rounds, int random) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
  const uint32_t v = random ? mix(at) : 0, w = random ? mix(v) : 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 4; i++, at += 270336) p[at & mask] = i & 1 ? make_uint4(v, w, ~v * random, w ^ v) : make_uint4(w, v ^ w, v, ~w * random);
}
#define STORE(name, bytes, rounds) \
  TRUTH("joules", "joules_" name, {0, 1}, [](long random) { \
    auto p = words((bytes) / 4, random); \
    return [=] { joules_store<<<264, 1024>>>((uint4*)p.p, uint32_t((bytes) / 16 - 1), rounds, int(random)); }; \
  });
STORE("l2_store", 16l << 20, 40) STORE("memory_store", 2l << 30, 80)

/// Additions by L2, a word a lane, all of a line; without and with an answer.
template <bool kAnswers>
__global__ void joules_atomic(uint32_t* p, uint32_t* out, uint32_t mask, int rounds) {
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 4; i++, at += 270336) {
      if constexpr (kAnswers) sum += atomicAdd(&p[at & mask], at);
      else atomicAdd(&p[at & mask], at);
    }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
TRUTH("joules", "joules_atomic", {0, 1}, [](long answers) {
  auto p = words(4l << 20, 1), o = zeros<uint32_t>(264 * 1024);
  return [=] { (answers ? joules_atomic<true> : joules_atomic<false>)<<<264, 1024>>>(p, o, (4u << 20) - 1, 10); };
});
/// Copies of 16 bytes a lane from L2 into shared memory by cp.async.
__global__ void joules_copy_async(const uint4* p, uint32_t* out, uint32_t mask, int rounds) {
  __shared__ __align__(16) uint4 s[1024];
  uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 4; i++, at += 270336) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&s[threadIdx.x])), "l"(p + (at & mask)));
    asm volatile("cp.async.wait_all;" ::: "memory");
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = s[threadIdx.x].x;
}
TRUTH("joules", "joules_copy_async", {0, 1}, [](long random) {
  auto p = words(4l << 20, random), o = zeros<uint32_t>(264 * 1024);
  return [=] { joules_copy_async<<<264, 1024>>>((const uint4*)p.p, o, (1u << 20) - 1, 40); };
});

}  // namespace
