// calib/steps/cluster_rows.cu: blocks of a cluster that load, add up, meet, take each other's sums, meet and store, one step after the other left out,
// by the cluster's size (0: a launch without clusters), by words of a thread and by threads of a block; in one launch many blocks after each other.
// Two that keep a tile in shared memory: neighbours that read each other's edges, and clusters that stay and go through rows.
#include "steps.h"

namespace {
using namespace steps;

__device__ inline uint32_t rank_here() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline uint32_t ranks_here() {
  uint32_t n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline float take(const float* own, uint32_t rank) {
  uint32_t there;
  float v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(own)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}
/// The sum of a block in `part[0]`, for all of its threads.
__device__ inline float sum_of_block(float v, float* part) {
#pragma unroll
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  if (threadIdx.x % 32 == 0) part[1 + threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float s = 0;
    for (uint32_t i = 0; i < blockDim.x / 32; i++) s += part[1 + i];
    part[0] = s;
  }
  __syncthreads();
  return part[0];
}

enum Steps { kLoads = 0, kMeets = 1, kTakes = 2, kMeetsAgain = 4, kStores = 8, kTwice = 16 };

/// `what`: which steps there are. Twice: sums are taken twice, as of a mean and then of squares.
template <int kEach>
__global__ void rows(const float* in, float* out, int what) {
  __shared__ float part[34];
  const size_t at = size_t(blockIdx.x) * kEach * blockDim.x + threadIdx.x;
  float x[kEach], sum = 0;
#pragma unroll
  for (int k = 0; k < kEach; k++) x[k] = in[at + size_t(k) * blockDim.x];
  for (int turn = 0; turn < (what & kTwice ? 2 : 1); turn++) {
    float own = 0;
#pragma unroll
    for (int k = 0; k < kEach; k++) own += x[k] * (x[k] - sum);
    sum = sum_of_block(own, part);
    if (what & kMeets) meet();
    if (what & kTakes) {
      const uint32_t n = ranks_here();
      sum = 0;
      for (uint32_t r = 0; r < n; r++) sum += take(part, r);
    }
    if (what & kMeetsAgain) meet();
  }
  if (what & kStores) {
#pragma unroll
    for (int k = 0; k < kEach; k++) out[at + size_t(k) * blockDim.x] = x[k] * sum;
  } else if (sum == 12345) {
    out[blockIdx.x] = sum;
  }
}
template <class... Args>
void launch(void (*kernel)(Args...), long size, int blocks, int threads, int bytes, Args... args) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(threads)), config.dynamicSmemBytes = size_t(bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
  config.attrs = &attribute, config.numAttrs = size > 0;
  cudaLaunchKernelEx(&config, kernel, args...);
}
template <int kEach>
Launch of_rows(long size, int threads, long words, int what) {
  auto in = zeros<float>(size_t(words)), out = zeros<float>(size_t(words));
  return [=] { launch(rows<kEach>, size, int(words / kEach / threads), threads, 0, (const float*)in.p, out.p, what); };
}
#define ROWS(name, each, threads, what) TRUTH("cluster_rows", name, {0, 2, 4, 8}, [](long size) { return of_rows<each>(size, threads, 4 << 20, size ? (what) : (what) & ~(kMeets | kTakes | kMeetsAgain)); });
ROWS("rows_load", 8, 256, kLoads)
ROWS("rows_meet", 8, 256, kMeets)
ROWS("rows_meet_twice", 8, 256, kMeets | kMeetsAgain)
ROWS("rows_take", 8, 256, kMeets | kTakes | kMeetsAgain)
ROWS("rows_store", 8, 256, kStores)
ROWS("rows_meet_store", 8, 256, kMeets | kStores)
ROWS("rows_all", 8, 256, kMeets | kTakes | kMeetsAgain | kStores)
ROWS("rows_all_twice", 8, 256, kMeets | kTakes | kMeetsAgain | kStores | kTwice)
ROWS("rows_all_4_128", 4, 128, kMeets | kTakes | kMeetsAgain | kStores)
ROWS("rows_all_4_256", 4, 256, kMeets | kTakes | kMeetsAgain | kStores)
ROWS("rows_all_16_256", 16, 256, kMeets | kTakes | kMeetsAgain | kStores)
ROWS("rows_all_8_1024", 8, 1024, kMeets | kTakes | kMeetsAgain | kStores)
// One wave and no more, by blocks of an SM.
#define FEW(name, blocks, what) TRUTH("cluster_rows", name, {0, 2, 4, 8}, [](long size) { return of_rows<8>(size, 256, (blocks) * 2048, size ? (what) : 0); });
FEW("rows_few_120", 120, kMeets | kTakes | kMeetsAgain) FEW("rows_few_480", 480, kMeets | kTakes | kMeetsAgain)
FEW("rows_few_load_480", 480, kLoads)

/// A tile of `kEach` words a thread in shared memory; the edges of the blocks before and behind it; sums of three; stores.
template <int kEach>
__global__ void edges(const float* in, float* out, int turns) {
  extern __shared__ float tile[];
  const int n = kEach * int(blockDim.x);
  const size_t first = size_t(blockIdx.x) * n;
  for (int i = int(threadIdx.x); i < n; i += int(blockDim.x)) tile[i] = in[first + i];
  meet();
  const uint32_t rank = rank_here(), ranks = ranks_here();
#pragma unroll 1
  for (int t = 0; t < turns; t++) {
    float x[kEach];
#pragma unroll
    for (int k = 0; k < kEach; k++) {
      const int i = int(threadIdx.x) + k * int(blockDim.x);
      const float left = i > 0 ? tile[i - 1] : take(tile + n - 1, (rank + ranks - 1) % ranks);
      const float right = i < n - 1 ? tile[i + 1] : take(tile, (rank + 1) % ranks);
      x[k] = left + tile[i] + right;
    }
    meet();
#pragma unroll
    for (int k = 0; k < kEach; k++) tile[threadIdx.x + k * blockDim.x] = x[k];
    meet();
  }
#pragma unroll
  for (int k = 0; k < kEach; k++) out[first + threadIdx.x + k * blockDim.x] = tile[threadIdx.x + k * blockDim.x];
}
#define EDGES(name, turns) \
  TRUTH("cluster_rows", name, {2, 4, 8}, [](long size) { \
    auto in = zeros<float>(4 << 20), out = zeros<float>(4 << 20); \
    return [=] { launch(edges<4>, size, (4 << 20) / 1024, 256, 4096, (const float*)in.p, out.p, turns); }; \
  });
EDGES("edges_0", 0) EDGES("edges_1", 1) EDGES("edges_4", 4)

/// Clusters that stay: each goes through rows, of which a block has its part; the first block adds up what all have and stores it.
template <int kEach>
__global__ void stays(const float* in, const float* by, float* out, int rows, int how) {
  __shared__ float part[34];
  const uint32_t rank = rank_here(), ranks = ranks_here(), clusters = gridDim.x / ranks;
  const int width = kEach * int(blockDim.x) * int(ranks);
#pragma unroll 1
  for (int row = int(blockIdx.x / ranks); row < rows; row += int(clusters)) {
    const size_t at = size_t(row) * width + rank * kEach * blockDim.x + threadIdx.x;
    float own = 0;
#pragma unroll
    for (int k = 0; k < kEach; k++) own += in[at + k * blockDim.x] * by[rank * kEach * blockDim.x + threadIdx.x + k * blockDim.x];
    sum_of_block(own, part);
    if (how) meet();
    else __syncthreads();
    if (how && rank == 0 && threadIdx.x == 0) {
      float sum = 0;
      for (uint32_t r = 0; r < ranks; r++) sum += take(part, r);
      out[row] = sum;
    }
    if (how) meet();
  }
}
#define STAYS(name, how) \
  TRUTH("cluster_rows", name, {2, 4, 8}, [](long size) { \
    auto in = zeros<float>(4 << 20), by = zeros<float>(1 << 16), out = zeros<float>(1 << 16); \
    return [=] { launch(stays<8>, size, int(480 / size * size), 256, 0, (const float*)in.p, (const float*)by.p, out.p, int((4 << 20) / (2048 * size)), how); }; \
  });
STAYS("stays_alone", 0) STAYS("stays_meet", 1)

}  // namespace
