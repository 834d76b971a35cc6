// calib/steps/peer_words.cu: words taken from the other blocks of a cluster whose lanes lie in different rows of shared memory, from another block and from the
// block's own memory by its address in the cluster; tiles turned by way of the cluster; pieces of 16 bytes handed round a ring; sums that fewer words of others
// go into the lower a block's rank; additions to other blocks that their mbarrier counts (red.async).
#include "steps.h"

namespace {
using namespace steps;

__device__ inline uint32_t rank_of_block() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline uint32_t blocks_of_cluster() {
  uint32_t n;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
__device__ inline uint32_t in_block(const void* p, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(p)), "r"(rank));
  return there;
}
__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline uint32_t take(uint32_t from) {
  uint32_t v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}

/// Launches `kernel` by clusters of `size`.
template <class K, class... A>
void launch(K kernel, dim3 grid, unsigned threads, size_t room, unsigned size, A... a) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(threads), config.dynamicSmemBytes = room;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {size, 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, a...);
}

/// Eight loads a round of a word a lane, `apart` bytes from lane to lane, of the block `ahead` ranks further on (0: its own).
__global__ void __launch_bounds__(1024) rows(uint32_t* out, int rounds, int apart, int ahead) {
  extern __shared__ __align__(16) char room[];
  const uint32_t there = in_block(room, (rank_of_block() + uint32_t(ahead)) % blocks_of_cluster());
  uint32_t sum = 0;
  meet();
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int k = 0; k < 8; k++) sum += take(there + (threadIdx.x % 32 * uint32_t(apart) + threadIdx.x / 32 * 4 + uint32_t(k * 512 + r % 4 * 4096)) % 65536);
  meet();
  if (sum == 12345) out[blockIdx.x] = sum;
}
Launch rows_of(int size, int threads, int apart, int ahead) {
  auto out = zeros<uint32_t>(132);
  cudaFuncSetAttribute(rows, cudaFuncAttributeMaxDynamicSharedMemorySize, 120000);
  return [=] { launch(rows, dim3(unsigned(size == 2 ? 132 : 120)), unsigned(threads), 120000, unsigned(size), out.p, 64, apart, ahead); };
}
TRUTH("peer_words", "take_apart_2", {4, 16, 32, 36, 64, 68, 128, 132, 260, 516}, [](long apart) { return rows_of(2, 256, int(apart), 1); });
TRUTH("peer_words", "take_apart_4", {4, 32, 68, 128, 132, 260, 516}, [](long apart) { return rows_of(4, 256, int(apart), 1); });
TRUTH("peer_words", "take_own_2", {4, 32, 128, 260}, [](long apart) { return rows_of(2, 256, int(apart), 0); });
TRUTH("peer_words", "take_own_4", {4, 260}, [](long apart) { return rows_of(4, 256, int(apart), 0); });
TRUTH("peer_words", "take_260_4", {32, 128, 1024}, [](long threads) { return rows_of(4, int(threads), 260, 1); });

/// A square of 128 x 128 words turned by four blocks, each of which has a quarter and takes another's (two of them their own).
__global__ void __cluster_dims__(2, 2, 1) __launch_bounds__(256) turn(const float* in, float* out, int n) {
  __shared__ float tile[64][65];
  const int rx = int(blockIdx.x) & 1, ry = int(blockIdx.y) & 1;
  const size_t from = size_t(blockIdx.y) * 64 * n + blockIdx.x * 64, to = size_t(blockIdx.x - rx + ry) * 64 * n + (blockIdx.y - ry + rx) * 64;
  for (int i = int(threadIdx.x); i < 4096; i += 256) tile[i / 64][i % 64] = in[from + size_t(i / 64) * n + i % 64];
  meet();
  const uint32_t there = in_block(tile, uint32_t(rx * 2 + ry));
  for (int i = int(threadIdx.x); i < 4096; i += 256) out[to + size_t(i / 64) * n + i % 64] = __uint_as_float(take(there + uint32_t(i % 64 * 65 + i / 64) * 4));
  meet();
}
TRUTH("peer_words", "turn", {512, 1024, 2048}, [](long n) {
  auto in = zeros<float>(n * n), out = zeros<float>(n * n);
  return [=] { turn<<<dim3(unsigned(n / 64), unsigned(n / 64)), 256>>>(in, out, int(n)); };
});

/// Pieces of 16 bytes go `steps` blocks on, a barrier of the cluster after each; kTakes: else there are barriers alone.
template <bool kTakes>
__global__ void __launch_bounds__(256) ring(const float4* in, float4* out, int steps) {
  __shared__ float4 room[2][256];
  const float4 own = in[size_t(blockIdx.x) * 256 + threadIdx.x];
  float4 sum = own;
  room[0][threadIdx.x] = own;
  meet();
  for (int k = 0; k < steps; k++) {
    float4 v = own;
    const uint32_t from = in_block(&room[k & 1][threadIdx.x], (rank_of_block() + 1) % blocks_of_cluster());
    if constexpr (kTakes) asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(from) : "memory");
    sum.x += v.x * .5f, sum.y += v.y * .25f, sum.z += v.z, sum.w -= v.w;
    room[(k + 1) & 1][threadIdx.x] = v;
    meet();
  }
  out[size_t(blockIdx.x) * 256 + threadIdx.x] = sum;
}
template <bool kTakes>
Launch ring_of(int size, int steps, int blocks) {
  auto in = zeros<float4>(blocks * 256), out = zeros<float4>(blocks * 256);
  return [=] { launch(ring<kTakes>, dim3(unsigned(blocks)), 256, 0, unsigned(size), (const float4*)in.p, out.p, steps); };
}
TRUTH("peer_words", "hand_on_4", {0, 2, 4, 8, 16}, [](long steps) { return ring_of<true>(4, int(steps), 4096); });
TRUTH("peer_words", "hand_on_2", {4, 16}, [](long steps) { return ring_of<true>(2, int(steps), 4096); });
TRUTH("peer_words", "hand_on_one_4", {4, 16}, [](long steps) { return ring_of<true>(4, int(steps), 120); });
TRUTH("peer_words", "hand_on_full_4", {4, 16}, [](long steps) { return ring_of<true>(4, int(steps), 960); });
TRUTH("peer_words", "hand_nothing_4", {4, 16}, [](long steps) { return ring_of<false>(4, int(steps), 4096); });

/// What the blocks ahead have, added up: as many words as its rank says.
__global__ void __launch_bounds__(256) before(const int4* in, int4* out) {
  __shared__ uint32_t total;
  int4 v = in[size_t(blockIdx.x) * 256 + threadIdx.x];
  if (threadIdx.x == 0) total = uint32_t(v.x);
  meet();
  for (uint32_t k = 0; k < rank_of_block(); k++) v.x += int(take(in_block(&total, k)));
  out[size_t(blockIdx.x) * 256 + threadIdx.x] = v;
  meet();
}
TRUTH("peer_words", "before", {2, 4, 8}, [](long size) {
  auto in = zeros<int4>(2048 * 256), out = zeros<int4>(2048 * 256);
  return [=] { launch(before, dim3(2048), 256, 0, unsigned(size), (const int4*)in.p, out.p); };
});

/// Each thread adds a word to the next block `each` times (red.async), then the block waits until its own have come and the cluster meets.
__global__ void __launch_bounds__(1024) add_async(uint32_t* out, int rounds, int each, int apart) {
  extern __shared__ __align__(16) char room[];
  __shared__ __align__(8) uint64_t told;
  const uint32_t next = (rank_of_block() + 1) % blocks_of_cluster(), there = in_block(room, next), tells = in_block(&told, next), own = smem(&told);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(own) : "memory");
  meet();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(own), "r"(uint32_t(each) * blockDim.x * 4) : "memory");
#pragma unroll 1
    for (int k = 0; k < each; k++)
      asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(there + (threadIdx.x * uint32_t(apart) + uint32_t(k) * 512) % 65536), "r"(uint32_t(r)), "r"(tells) : "memory");
    uint32_t done = 0;
    while (!done)
      asm volatile("{ .reg .pred p;\n mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(own), "r"(uint32_t(r & 1)) : "memory");
    meet();
  }
  if (threadIdx.x == 0 && rounds == 12345) out[blockIdx.x] = *(uint32_t*)room;
}
#define ADDS(name, size) \
  TRUTH("peer_words", name, {32, 256, 1024}, [](long threads) { return adds_of(size, int(threads), 1, 4); }); \
  TRUTH("peer_words", name "_each", {4, 16}, [](long each) { return adds_of(size, 256, int(each), 4); }); \
  TRUTH("peer_words", name "_apart", {0, 32, 128}, [](long apart) { return adds_of(size, 256, 4, int(apart)); });
Launch adds_of(int size, int threads, int each, int apart) {
  auto out = zeros<uint32_t>(132);
  cudaFuncSetAttribute(add_async, cudaFuncAttributeMaxDynamicSharedMemorySize, 120000);
  return [=] { launch(add_async, dim3(unsigned(size == 2 ? 132 : 120)), unsigned(threads), 120000, unsigned(size), out.p, 64, each, apart); };
}
ADDS("add_async_2", 2)
ADDS("add_async_4", 4)

}  // namespace
