// calib/steps/ordinary.cu: pieces of ordinary kernels, each by itself: atomic operations on the shared memory of other blocks of a cluster,
// loads that a fence makes new, choices and comparisons, wide products among others, random numbers, logarithms and roots.
#include <cooperative_groups.h>
#include <curand_kernel.h>

#include "steps.h"

namespace {
using namespace steps;
namespace cg = cooperative_groups;

/// 64 additions a thread in shared memory of 4,096 words a block: of the block itself or others of its cluster.
enum class Where { own, next, any };
enum class Which { lanes, random, one };
template <Where kWhere, Which kWhich, bool kAnswer>
__global__ void __launch_bounds__(512) remote_add(int* out) {
  __shared__ int words[4096];
  const auto cluster = cg::this_cluster();
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = 0;
  cluster.sync();
  const unsigned n = cluster.num_blocks(), rank = cluster.block_rank();
  uint32_t h = (blockIdx.x * blockDim.x + threadIdx.x + 1) * 0x85ebca6bu;
  int sum = 0;
#pragma unroll 4
  for (int i = 0; i < 64; i++) {
    h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    const uint32_t word = kWhich == Which::lanes ? (threadIdx.x + i * 32) & 4095 : kWhich == Which::random ? h & 4095 : threadIdx.x / 32;
    int* const at = cluster.map_shared_rank(words, kWhere == Where::own ? rank : kWhere == Where::next ? (rank + 1) % n : (h >> 20) % n) + word;
    if (kAnswer) sum += atomicAdd(at, 1);
    else atomicAdd(at, 1);
  }
  cluster.sync();
  if (sum + words[threadIdx.x] == 0x12345678) out[threadIdx.x] = sum;
}
template <Where kWhere, Which kWhich, bool kAnswer>
Launch remote(long size) {
  auto o = zeros<int>(512);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(120), config.blockDim = dim3(512);
    cudaLaunchAttribute a{};
    a.id = cudaLaunchAttributeClusterDimension, a.val.clusterDim = {unsigned(size), 1, 1};
    config.attrs = &a, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, remote_add<kWhere, kWhich, kAnswer>, o.p);
  };
}
TRUTH("remote", "remote_add_own", {4}, [](long n) { return remote<Where::own, Which::random, false>(n); });
TRUTH("remote", "remote_add_lanes", {2, 4, 8}, [](long n) { return remote<Where::next, Which::lanes, false>(n); });
TRUTH("remote", "remote_add_random", {2, 4, 8}, [](long n) { return remote<Where::next, Which::random, false>(n); });
TRUTH("remote", "remote_add_one", {4}, [](long n) { return remote<Where::next, Which::one, false>(n); });
TRUTH("remote", "remote_add_any", {2, 4, 8}, [](long n) { return remote<Where::any, Which::random, false>(n); });
TRUTH("remote", "remote_take_lanes", {2, 4, 8}, [](long n) { return remote<Where::next, Which::lanes, true>(n); });
TRUTH("remote", "remote_take_random", {4}, [](long n) { return remote<Where::next, Which::random, true>(n); });

/// Each block reads the same 16 KB again and again, with or without a fence of one thread between.
template <bool kFence>
__global__ void read_fenced(const float* p, float* out, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; r++) {
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) sum += p[i];
    __syncthreads();
    if (kFence && threadIdx.x == 0) __threadfence();
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
TRUTH("l1", "read_unfenced", {20}, [](long n) {
  auto p = zeros<float>(4096), o = zeros<float>(132 * 256);
  return [=] { read_fenced<false><<<132, 256>>>(p, o, int(n)); };
});
TRUTH("l1", "read_fenced", {20}, [](long n) {
  auto p = zeros<float>(4096), o = zeros<float>(132 * 256);
  return [=] { read_fenced<true><<<132, 256>>>(p, o, int(n)); };
});

/// Chains of one kind of instruction or two, four a thread, 64 warps an SM.
#define CHAINS(name, body) \
  __global__ void __launch_bounds__(1024) name##_chains(uint32_t* out, uint32_t a, uint32_t b, int rounds) { \
    uint32_t x[4], y = a; \
    float f[4], g = __uint_as_float(b); \
    unsigned long long w[4]; \
    for (int k = 0; k < 4; k++) x[k] = threadIdx.x + k, f[k] = float(threadIdx.x * k), w[k] = threadIdx.x + k; \
    for (int r = 0; r < rounds; r++) { \
      _Pragma("unroll") for (int i = 0; i < 16; i++) _Pragma("unroll") for (int k = 0; k < 4; k++) { body } \
    } \
    uint32_t s = y; \
    for (int k = 0; k < 4; k++) s += x[k] + __float_as_uint(f[k] * g) + uint32_t(w[k]); \
    out[blockIdx.x * 1024 + threadIdx.x] = s; \
  } \
  TRUTH("chains", #name, {16}, [](long n) { \
    auto o = zeros<uint32_t>(264 * 1024); \
    return [=] { name##_chains<<<264, 1024>>>(o, 3, 0x3f700000, int(n)); }; \
  });
#define FSEL asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; selp.f32 %0, %0, %2, p;}" : "+f"(f[k]) : "r"(x[k]), "f"(g));
#define FSEL2 asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; selp.f32 %0, %0, %2, p; selp.f32 %0, %2, %0, p; selp.f32 %0, %0, %2, p; selp.f32 %0, %2, %0, p;}" : "+f"(f[k]) : "r"(x[k]), "f"(g));
#define FSETP asm volatile("{.reg .pred p; setp.gt.f32 p, %0, %1; @p add.f32 %0, %0, %1;}" : "+f"(f[k]) : "f"(g));
#define WIDE asm volatile("mad.wide.u32 %0, %1, %2, %0;" : "+l"(w[k]) : "r"(x[k]), "r"(y));
#define FFMA asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(f[k]) : "f"(g));
#define LOP asm volatile("lop3.b32 %0, %0, %1, %1, 0x96;" : "+r"(x[k]) : "r"(y));
#define MUFU asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(f[k]));
#define IMAD asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(x[k]) : "r"(y));
CHAINS(choose, FSEL) CHAINS(choose_four, FSEL2) CHAINS(compare, FSETP)
CHAINS(wide, WIDE) CHAINS(wide_fma, WIDE FFMA) CHAINS(wide_fma2, WIDE FFMA FFMA) CHAINS(wide_fma4, WIDE FFMA FFMA FFMA FFMA)
CHAINS(wide_logic, WIDE LOP) CHAINS(wide_logic_fma2, WIDE LOP FFMA FFMA) CHAINS(logic_fma, LOP FFMA) CHAINS(logic_fma2, LOP FFMA FFMA)
CHAINS(logic_imad, LOP IMAD) CHAINS(logic_imad_fma, LOP IMAD FFMA) CHAINS(special_fma6, MUFU FFMA FFMA FFMA FFMA FFMA FFMA)
CHAINS(special_logic3_fma3, MUFU LOP FFMA LOP FFMA LOP FFMA)

/// Random numbers of cuRAND's Philox; normal ones of four words by logarithm, root, sine and cosine; exponentials.
__global__ void philox_only(uint32_t* out, int rounds) {
  curandStatePhilox4_32_10_t state;
  curand_init(1234, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
  uint32_t s = 0;
  for (int i = 0; i < rounds; i++) {
    const uint4 v = curand4(&state);
    s ^= v.x + v.y + v.z + v.w;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void normals_only(float* out, int rounds) {
  uint32_t h = (blockIdx.x * blockDim.x + threadIdx.x + 1) * 0x85ebca6bu;
  float s = 0;
  for (int i = 0; i < rounds; i++) {
    h = h * 1664525 + 1013904223;
    const float2 v = _curand_box_muller(h, h * 22695477);
    s += v.x * v.y;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void exponents_only(float* out, int rounds) {
  float p = threadIdx.x * 1e-3f, s = 0;
  for (int i = 0; i < rounds; i++) {
    float price = 1;
#pragma unroll
    for (int k = 0; k < 4; k++) price *= expf(.0002f + .02f * p), s += price;
    p = p * .99f + .01f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
TRUTH("ordinary", "philox_only", {32}, [](long n) {
  auto o = zeros<uint32_t>(1056 * 256);
  return [=] { philox_only<<<1056, 256>>>(o, int(n)); };
});
TRUTH("ordinary", "normals_only", {32}, [](long n) {
  auto o = zeros<float>(1056 * 256);
  return [=] { normals_only<<<1056, 256>>>(o, int(n)); };
});
TRUTH("ordinary", "exponents_only", {32}, [](long n) {
  auto o = zeros<float>(1056 * 256);
  return [=] { exponents_only<<<1056, 256>>>(o, int(n)); };
});
}  // namespace
