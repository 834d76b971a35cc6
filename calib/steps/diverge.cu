// calib/steps/diverge.cu: what it costs when lanes part and meet again; match by how many values the lanes hold; small words of
// distributed shared memory; atomics beside loads.
#include <algorithm>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// Every turn some lanes take a side path of `kLength` dependent steps: none (0), all (1), half of them (2), one of 32 (3), half in turn and
/// then the other half another path (4).
template <int kHow, int kLength>
__global__ void side_path(float* out, float y, int rounds, uint32_t pattern) {
  float x = threadIdx.x, z = y;
  const uint32_t lane = threadIdx.x % 32;
  const bool goes = kHow == 0 ? pattern == 77 : kHow == 1 ? pattern != 77 : kHow == 3 ? lane == (pattern & 31) : (lane & 1) == (pattern & 1);
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    if (goes) {
#pragma unroll
      for (int k = 0; k < kLength; k++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
    } else if (kHow == 4) {
#pragma unroll
      for (int k = 0; k < kLength; k++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(z) : "f"(y));
    }
    asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(z) : "f"(y));
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + z;
}
#define SIDE(name, how, length) \
  TRUTH("diverge", name, {1, 8, 32, 64}, [](long warps) { \
    auto o = zeros<float>(264 * 1024); \
    return [=] { side_path<how, length><<<132 * (warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, .999f, 1000, 5); }; \
  });
SIDE("side_none", 0, 8) SIDE("side_all", 1, 8) SIDE("side_half", 2, 8) SIDE("side_one", 3, 8) SIDE("side_both", 4, 8) SIDE("side_half_long", 2, 32)

/// Lanes that leave a loop one after the other: lane l after l / 32 * `spread` + `least` turns.
__global__ void leave_loop(float* out, float y, int least, int spread) {
  float x = threadIdx.x;
  const int turns = least + int(threadIdx.x % 32 * 7 % 32) * spread / 32;
#pragma unroll 1
  for (int r = 0; r < turns; r++)
#pragma unroll
    for (int k = 0; k < 4; k++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x) : "f"(y));
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
TRUTH("diverge", "leave_loop", {0, 32, 128, 512}, [](long spread) {
  auto o = zeros<float>(264 * 1024);
  return [=] { leave_loop<<<264, 1024>>>(o, .999f, 512, int(spread)); };
});
/// A loop of as many turns as a value that changes, with an early way out, as an orbit is followed.
__global__ void follow_orbit(float* out, float y, int rounds) {
  float x = threadIdx.x * .01f, z = .1f;
  int n = 0;
  for (; n < rounds && x * x + z * z < 4e30f; n++) {
    const float t = x * x - z * z + y;
    z = 2 * x * z + y, x = t * 1e-3f;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x + n;
}
TRUTH("diverge", "follow_orbit", {4, 16, 64}, [](long warps) {
  auto o = zeros<float>(264 * 1024);
  return [=] { follow_orbit<<<132 * (warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(o, .25f, 1000); };
});

/// match.any of lanes that hold `values` different values.
__global__ void match_values(uint32_t* out, int rounds, uint32_t values) {
  uint32_t v = threadIdx.x % 32 % values, acc = 0;
#pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    uint32_t m;
    asm volatile("match.any.sync.b32 %0, %1, 0xffffffff;" : "=r"(m) : "r"(v + uint32_t(r)));
    acc ^= m;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
TRUTH("match", "match_values", {1, 2, 4, 8, 16, 32}, [](long values) {
  auto o = zeros<uint32_t>(132 * 512);
  return [=] { match_values<<<132, 512>>>(o, 128, uint32_t(values)); };
});
TRUTH("match", "match_alone", {1, 4, 16, 32}, [](long values) {
  auto o = zeros<uint32_t>(132 * 512);
  return [=] { match_values<<<132, 32>>>(o, 128, uint32_t(values)); };
});

/// Four bytes a lane of the next block's shared memory.
__global__ void cluster_words(float* out, int rounds) {
  extern __shared__ __align__(16) float words[];
  uint32_t rank, n, p;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) words[i] = i;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(p) : "r"(uint32_t(__cvta_generic_to_shared(words))), "r"((rank + 1) % n));
  float acc = 0;
#pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    float v;
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(p + (threadIdx.x + r * 64) % 8192 * 4) : "memory");
    acc += v;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
TRUTH("sharing", "cluster_words", {2, 4, 6, 8}, [](long n) {
  auto o = zeros<float>(132 * 1024);
  cudaFuncSetAttribute(cluster_words, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(int(96 / n * n)), config.blockDim = dim3(256), config.dynamicSmemBytes = 200 << 10;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(n), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, cluster_words, o.p, 256);
  };
});

/// Random loads and random additions by turns, `loads` of them for each of `adds`.
__global__ void add_and_read(const float* p, float* q, float* out, uint32_t mask, int loads, int adds) {
  uint32_t s = (blockIdx.x * blockDim.x + threadIdx.x) * 747796405u + 1;
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < 8; r++) {
#pragma unroll 2
    for (int i = 0; i < loads; i++) s = s * 1664525u + 1013904223u, acc += p[(s >> 8) & mask];
#pragma unroll 2
    for (int i = 0; i < adds; i++) s = s * 1664525u + 1013904223u, atomicAdd(q + ((s >> 8) & mask), 1.f);
  }
  if (acc == 12345.678f) out[0] = acc;
}
#define ADD_READ(name, loads, adds) \
  TRUTH("atomic", name, {2, 8}, [](long mb) { \
    auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18), o = zeros<float>(32); \
    return [=] { add_and_read<<<264, 1024>>>(p, q, o, uint32_t((mb << 18) - 1), loads, adds); }; \
  });
ADD_READ("add_2_read_0", 0, 2) ADD_READ("add_0_read_2", 2, 0) ADD_READ("add_2_read_2", 2, 2) ADD_READ("add_2_read_4", 4, 2)

/// All blocks add to the same few lines at their end, or now and then.
__global__ void add_at_end(uint32_t* bins, int words, int spin) {
  float x = threadIdx.x;
  for (int i = 0; i < spin; i++) x = x * .99f + 1;
  for (int i = threadIdx.x; i < words; i += blockDim.x) atomicAdd(bins + i, uint32_t(x) + 1);
}
TRUTH("atomic", "add_at_end", {32, 64, 128, 256, 512, 768, 1024, 1536, 2048, 4096}, [](long words) {
  auto b = zeros<uint32_t>(4096);
  return [=] { add_at_end<<<1056, 256>>>(b, int(words), 100); };
});

/// Additions to random words of so many lines: how many of L2's units take part.
__global__ void add_to_lines(uint32_t* p, uint32_t words, int per) {
  uint32_t s = (blockIdx.x * blockDim.x + threadIdx.x) * 747796405u + 1;
#pragma unroll 4
  for (int i = 0; i < per; i++) s = s * 1664525u + 1013904223u, atomicAdd(p + ((s >> 8) & (words - 1)), 1u);
}
TRUTH("atomic", "add_to_lines", {1, 2, 4, 8, 16, 32, 64, 128, 256, 1024}, [](long lines) {
  auto b = zeros<uint32_t>(lines * 32);
  return [=] { add_to_lines<<<264, 1024>>>(b, uint32_t(lines * 32), 8); };
});

}  // namespace
