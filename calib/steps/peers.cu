// calib/steps/peers.cu: words that the blocks of a cluster put into each other's shared memory or take from there, by the bytes of a lane, by where the
// words lie and by blocks of an SM; and barriers of clusters around them. Of pieces that are taken one word is used and ptxas loads that alone: take8 and
// take16 are words 8 and 16 bytes apart. 16 bytes a lane by one block an SM: lines.cu; additions: ordinary.cu.
#include "steps.h"

namespace {
using namespace steps;

__device__ inline uint32_t peer_of(const void* p, uint32_t ahead) {
  uint32_t rank, n, there;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(p)), "r"((rank + ahead) % n));
  return there;
}
__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }

template <int kBytes>
__device__ inline void put(uint32_t to, uint32_t v) {
  if constexpr (kBytes == 4) asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory");
  if constexpr (kBytes == 8) asm volatile("st.shared::cluster.v2.u32 [%0], {%1,%1};" ::"r"(to), "r"(v) : "memory");
  if constexpr (kBytes == 16) asm volatile("st.shared::cluster.v4.u32 [%0], {%1,%1,%1,%1};" ::"r"(to), "r"(v) : "memory");
}
template <int kBytes>
__device__ inline uint32_t take(uint32_t from) {
  uint32_t v = 0, w, x, y;
  if constexpr (kBytes == 4) asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  if constexpr (kBytes == 8) asm volatile("ld.shared::cluster.v2.u32 {%0,%1}, [%2];" : "=r"(v), "=r"(w) : "r"(from) : "memory");
  if constexpr (kBytes == 16) asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v), "=r"(w), "=r"(x), "=r"(y) : "r"(from) : "memory");
  return v;
}

constexpr int kRoom = 16384;
enum What { kPut, kTake };

/// Every thread puts or takes `each` pieces a round, `apart` bytes from lane to lane, then the cluster meets if it is to; `kMeets` barriers a round.
template <int kBytes, What what, int kEach, int kMeets>
__global__ void __launch_bounds__(1024) peers(uint32_t* out, int rounds, int apart) {
  extern __shared__ __align__(16) char room[];
  const uint32_t there = peer_of(room, 1);
  uint32_t at = (threadIdx.x % 32 * uint32_t(apart) + threadIdx.x / 32 * 32 * kBytes) % kRoom, sum = 0;
  meet();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < kEach; k++) {
      const uint32_t it = (at + uint32_t(k * 512 + (what == kTake && kEach > 1 ? r * 4096 : 0))) % kRoom;  // by turns: nothing is loaded once for all
      if (what == kPut) put<kBytes>(there + it, uint32_t(r));
      else sum += take<kBytes>(there + it);
    }
#pragma unroll
    for (int k = 0; k < kMeets; k++) meet();
  }
  meet();
  if (sum == 12345) out[blockIdx.x] = sum;
}
/// Clusters of `size` blocks of `threads`; so many blocks on an SM at once.
template <int kBytes, What what, int kEach, int kMeets>
truth::Launch exchange(int size, int threads, int on_sm, int apart, int rounds, int waves = 1) {
  auto out = zeros<uint32_t>(132 * 32 * waves);
  const int bytes = on_sm == 1 ? 120000 : std::max(kRoom, (220000 / on_sm - 1024) / 1024 * 1024);
  cudaFuncSetAttribute(peers<kBytes, what, kEach, kMeets>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  const int at_once = (size == 2 ? 132 : 120) * on_sm * waves / size * size;
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(at_once)), config.blockDim = dim3(unsigned(threads)), config.dynamicSmemBytes = size_t(bytes);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, peers<kBytes, what, kEach, kMeets>, out.p, rounds, apart);
  };
}
// Nothing but pieces, by threads of the block.
#define PIECES(name, bytes, what, apart) \
  TRUTH("peers", name "_2", {32, 128, 256, 1024}, [](long threads) { return exchange<bytes, what, 8, 0>(2, int(threads), 1, apart, 64); }); \
  TRUTH("peers", name "_4", {32, 128, 256, 1024}, [](long threads) { return exchange<bytes, what, 8, 0>(4, int(threads), 1, apart, 64); });
PIECES("put4", 4, kPut, 4) PIECES("put8", 8, kPut, 8) PIECES("put16", 16, kPut, 16) PIECES("put4_one", 4, kPut, 0) PIECES("put4_8", 4, kPut, 8) PIECES("put4_32", 4, kPut, 32) PIECES("put4_128", 4, kPut, 128)
PIECES("take4", 4, kTake, 4) PIECES("take8", 8, kTake, 8) PIECES("take16", 16, kTake, 16) PIECES("take4_one", 4, kTake, 0) PIECES("take4_8", 4, kTake, 8) PIECES("take4_32", 4, kTake, 32) PIECES("take4_128", 4, kTake, 128)
// Rounds that end with a barrier of the cluster, by blocks on an SM.
#define ROUNDS(name, bytes, what, each, meets, apart) \
  TRUTH("peers", name "_2", {1, 2, 4, 8}, [](long on_sm) { return exchange<bytes, what, each, meets>(2, 256, int(on_sm), apart, 64); }); \
  TRUTH("peers", name "_4", {1, 2, 4, 8}, [](long on_sm) { return exchange<bytes, what, each, meets>(4, 256, int(on_sm), apart, 64); });
ROUNDS("meet1", 4, kPut, 0, 1, 4) ROUNDS("meet_put4_1", 4, kPut, 1, 1, 4) ROUNDS("meet_put4_4", 4, kPut, 4, 1, 4) ROUNDS("meet_put16_1", 16, kPut, 1, 1, 16) ROUNDS("meet_put16_4", 16, kPut, 4, 1, 16)
ROUNDS("meet_take4_1", 4, kTake, 1, 1, 4) ROUNDS("meet_take4_one", 4, kTake, 1, 1, 0) ROUNDS("meet_take4_4", 4, kTake, 4, 1, 4)
#define WIDTHS(name, each, on_sm) \
  TRUTH("peers", name "_2", {32, 64, 128, 512}, [](long threads) { return exchange<4, kPut, each, 1>(2, int(threads), on_sm, 4, 64); }); \
  TRUTH("peers", name "_4", {32, 64, 128, 512}, [](long threads) { return exchange<4, kPut, each, 1>(4, int(threads), on_sm, 4, 64); });
WIDTHS("meet_threads", 0, 1) WIDTHS("meet_threads_four", 0, 4) WIDTHS("meet_put_threads", 1, 1) WIDTHS("meet_put_threads_four", 1, 4)
TRUTH("peers", "meet_size", {2, 3, 4, 6, 8}, [](long n) { return exchange<4, kPut, 0, 1>(int(n), 256, 1, 4, 64); });
TRUTH("peers", "meet_put_size", {2, 3, 4, 6, 8}, [](long n) { return exchange<4, kPut, 1, 1>(int(n), 256, 1, 4, 64); });
TRUTH("peers", "meet_wave_2", {1, 2, 4, 8}, [](long waves) { return exchange<4, kPut, 1, 1>(2, 128, 8, 4, 2, int(waves)); });
TRUTH("peers", "meet_wave_4", {1, 2, 4, 8}, [](long waves) { return exchange<4, kPut, 1, 1>(4, 256, 8, 4, 2, int(waves)); });

/// A short block: loads, sums, meets, takes a word of each block, meets, stores: rows of `width` words by clusters.
__global__ void __launch_bounds__(256) short_rows(const float* in, float* out, int width, int how) {
  __shared__ float part[8];
  uint32_t n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  const float* own = in + size_t(blockIdx.x) * width;
  float sum = 0;
  for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) sum += own[i];
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  if (how & 1) meet();
  if (how & 2)
    for (uint32_t k = 0; k < n; k++) sum += __uint_as_float(take<4>(peer_of(part, k)));
  if (how & 1) meet();
  for (int i = int(threadIdx.x); i < width; i += int(blockDim.x)) out[size_t(blockIdx.x) * width + i] = own[i] * sum;
}
#define SHORT(name, size, threads) \
  TRUTH("peers", name, {0, 1, 3}, [](long how) { \
    auto in = zeros<float>(2048 * 1024), out = zeros<float>(2048 * 1024); \
    return [=] { \
      cudaLaunchConfig_t config{}; \
      config.gridDim = dim3(2048), config.blockDim = dim3(threads); \
      cudaLaunchAttribute attribute{}; \
      attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {size, 1, 1}; \
      config.attrs = &attribute, config.numAttrs = 1; \
      cudaLaunchKernelEx(&config, short_rows, (const float*)in.p, out.p, 1024, int(how)); \
    }; \
  });
SHORT("short_rows_1", 1, 128) SHORT("short_rows_2", 2, 128) SHORT("short_rows_4", 4, 128) SHORT("short_rows_8", 8, 128) SHORT("short_rows_2_wide", 2, 256) SHORT("short_rows_4_wide", 4, 256)
}  // namespace
