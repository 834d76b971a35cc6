// calib/steps/lines.cu: what L1 gives and what it costs to fill it; structures written field by field; shared memory of the
// blocks of a cluster, their own, the next one's, everyone's; sets of data that L2 just holds or just does not.
#include <algorithm>
#include <utility>

#include "../truth/truth.h"

namespace {
using namespace truth;

/// Loads that hit L1: `parts` pieces of a line each (32 / parts lanes in a row), pieces 128 or 144 bytes apart; 0: all lanes one word.
template <int kParts>
__global__ void l1_parts(const float* p, float* out, int rounds, int apart) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  constexpr uint32_t kLanes = 32 / (kParts ? kParts : 1);
  const uint32_t own = kParts ? lane % kLanes + lane / kLanes * uint32_t(apart) : 0;
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) acc += p[own + (warp % 4 * 1024 + uint32_t(i) * 64 + r % 8) % 4096];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
#define L1_PARTS(n) \
  TRUTH("l1", "l1_parts" #n, {8, 32, 64}, [](long warps) { \
    auto p = uniform<float>(1 << 16), o = zeros<float>(264 * 1024); \
    return [=] { l1_parts<n><<<132 * (warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(p, o, 100, 160); }; \
  });
L1_PARTS(0) L1_PARTS(1) L1_PARTS(2) L1_PARTS(4) L1_PARTS(8)

/// A row of one matrix times columns of another: one word for the warp and a line, both from L1, and a product.
__global__ void l1_row_column(const float* a, const float* b, float* out, int rounds, int words) {
  const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float acc = 0;
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (int k = 0; k < words; k++) acc += a[warp * words + k] * b[k * 32 + lane];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
TRUTH("l1", "l1_row_column", {8, 16, 64}, [](long warps) {
  auto a = uniform<float>(1 << 16), b = uniform<float>(1 << 16), o = zeros<float>(264 * 1024);
  return [=] { l1_row_column<<<132 * (warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(a, b, o, 20, 128); };
});

/// `hits` loads from L1 for each one that L2 gives, of 4 or 16 bytes a lane.
template <class T>
__global__ void l1_mix(const T* p, float* out, int rounds, int hits, uint32_t mask) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r += 4) {
    T v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = p[(t + uint32_t(r + i) * all) & mask];
#pragma unroll 4
    for (int h = 0; h < hits * 4; h++) acc += *(const float*)&p[threadIdx.x % 32 + (h + r) % 16 * 32];
#pragma unroll
    for (int i = 0; i < 4; i++) acc += *(const float*)&v[i];
  }
  out[t] = acc;
}
TRUTH("l1", "l1_mix4", {0, 1, 2, 4, 8}, [](long hits) {
  auto p = uniform<float>(4 << 20), o = zeros<float>(264 * 1024);
  return [=] { l1_mix<float><<<264, 1024>>>(p, o, 64, int(hits), (4 << 20) - 1); };
});
TRUTH("l1", "l1_mix16", {0, 1, 4}, [](long hits) {
  auto p = uniform<float>(4 << 20), o = zeros<float>(264 * 1024);
  return [=] { l1_mix<float4><<<264, 1024>>>((const float4*)p.p, o, 32, int(hits), (1 << 20) - 1); };
});

/// Structures of `kWords` words, the first `kFields` written one right after the other, from `reads` words read before.
template <int kWords, int kFields, bool kRead>
__global__ void store_struct(float* p, float x, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  float* own = p + i * kWords;
  float v[kFields];
  for (int k = 0; k < kFields; k++) v[k] = kRead ? own[kWords - 1 - k] * x : x + k;
  for (int k = 0; k < kFields; k++) own[k] = v[k];
}
#define STRUCTS(name, words, fields, read) \
  TRUTH("partial", name, {1 << 18, 1 << 22}, [](long n) { \
    auto p = zeros<float>(n * words); \
    return [=] { store_struct<words, fields, read><<<blocks_for(n, 256), 256>>>(p, 2.f, n); }; \
  });
STRUCTS("struct3_1", 3, 1, false) STRUCTS("struct3_3", 3, 3, false) STRUCTS("struct5_2", 5, 2, false) STRUCTS("struct7_4", 7, 4, false) STRUCTS("struct12_6", 12, 6, false)
STRUCTS("struct7_3_read", 7, 3, true) STRUCTS("struct10_5_read", 10, 5, true)

/// Structures of `kWords` floats, of which two are read, written whole to another array, one word right behind the other.
template <int kWords>
__global__ void __launch_bounds__(256) copy_struct(float* out, const float* in, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float a = in[i * kWords], b = in[i * kWords + 1];
  float v[kWords];
  for (int k = 0; k < kWords; k++) v[k] = a * float(k + 1) + b;
  for (int k = 0; k < kWords; k++) out[i * kWords + k] = v[k];
}
#define COPIES(words) \
  TRUTH("partial", "copy_struct" #words, {1 << 18, 1 << 22}, [](long n) { \
    auto in = zeros<float>(n * words), out = zeros<float>(n * words); \
    return [=] { copy_struct<words><<<blocks_for(n, 256), 256>>>(out, in, n); }; \
  });
COPIES(3) COPIES(5) COPIES(6) COPIES(7) COPIES(9) COPIES(12)

/// Blocks of a cluster read 16 bytes a lane of shared memory: their own by its cluster address (0), the next one's (1), all in turn (2),
/// or write the next one's (3).
__global__ void cluster_read(float* out, int rounds, int how) {
  extern __shared__ __align__(16) float4 tile[];
  uint32_t rank, n, own = uint32_t(__cvta_generic_to_shared(tile));
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) tile[i] = make_float4(i, 0, 0, 0);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  float acc = 0;
#pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    const uint32_t peer = how == 0 ? rank : how == 2 ? (rank + uint32_t(r)) % n : (rank + 1) % n;
    uint32_t p;
    float4 v = make_float4(r, 0, 0, 0);
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(p) : "r"(own), "r"(peer));
    p += (threadIdx.x + r * 64) % 2048 * 16;
    if (how == 3) asm volatile("st.shared::cluster.v4.f32 [%0], {%1,%2,%3,%4};" ::"r"(p), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
    else asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(p) : "memory");
    acc += v.x + v.w;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
#define CLUSTERS(name, how, threads, blocks) \
  TRUTH("sharing", name, {2, 3, 4, 5, 6, 7, 8}, [](long n) { \
    auto o = zeros<float>(132 * 1024); \
    cudaFuncSetAttribute(cluster_read, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10); \
    return [=] { \
      cudaLaunchConfig_t config{}; \
      config.gridDim = dim3(int(blocks / n * n)), config.blockDim = dim3(threads), config.dynamicSmemBytes = how == 4 ? 65536 : 200 << 10; \
      cudaLaunchAttribute attribute{}; \
      attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(n), 1, 1}; \
      config.attrs = &attribute, config.numAttrs = 1; \
      int most = 0; \
      cudaOccupancyMaxActiveClusters(&most, cluster_read, &config); \
      if (static bool said = false; std::getenv("CLUSTERS") && !std::exchange(said, true)) std::fprintf(stderr, "clusters of %ld at once: %d\n", n, most); \
      cudaLaunchKernelEx(&config, cluster_read, o.p, 256, how == 4 ? 1 : how); \
    }; \
  });
CLUSTERS("cluster_own", 0, 256, 96) CLUSTERS("cluster_next", 1, 256, 96) CLUSTERS("cluster_next_many", 1, 1024, 96) CLUSTERS("cluster_all", 2, 256, 96) CLUSTERS("cluster_write", 3, 256, 96)
CLUSTERS("cluster_full", 1, 256, 132)  // more clusters than lie side by side
CLUSTERS("cluster_full_two", 4, 256, 132)  // of which an SM may hold three blocks

/// Blocks that work for `spin` dependent steps behind a load and a barrier: how fast others take their places.
__global__ void turnover(const float* p, float* out, int spin) {
  __shared__ float kept[256];
  float x = p[(blockIdx.x * 256 + threadIdx.x) & 0xFFFFF];
#pragma unroll 1
  for (int i = 0; i < spin; i++) x = x * .99f + 1;
  kept[threadIdx.x] = x;
  __syncthreads();
  if (threadIdx.x < 32) out[blockIdx.x * 32 + threadIdx.x] = kept[threadIdx.x * 8];
}
TRUTH("launch", "turnover", {0, 50, 200, 1000}, [](long spin) {
  auto p = uniform<float>(1 << 20), o = zeros<float>(33792 * 32);
  return [=] { turnover<<<33792, 256>>>(p, o, int(spin)); };
});

/// All SMs read `mb` megabytes eight times over, each time other SMs; and what was read twice while as much is written beside it.
__global__ void read_again(const float4* p, float4* q, float* out, uint32_t words, int passes, int shift) {
  float acc = 0;
  for (int pass = 0; pass < passes; pass++) {
    const uint32_t block = (blockIdx.x + uint32_t(pass) * uint32_t(shift)) % gridDim.x;
#pragma unroll 4
    for (uint32_t i = block * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
      const float4 v = p[i];
      acc += v.x;
      if (q) q[i] = v;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
#define AGAIN(name, shift, written) \
  TRUTH("l2", name, {20, 26, 32, 36, 40, 44, 48, 52, 56, 60, 64, 72}, [](long mb) { \
    auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18), o = zeros<float>(264 * 1024); \
    return [=] { read_again<<<264, 1024>>>((const float4*)p.p, written ? (float4*)q.p : nullptr, o, uint32_t(mb << 16), 8, shift); }; \
  });
AGAIN("again_same", 0, false) AGAIN("again_other", 1, false) AGAIN("again_far", 67, false)

}  // namespace
