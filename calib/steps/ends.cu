// calib/steps/ends.cu: what SMs ask slices of L2 for that is nobody's data: barriers of memory (the profiler's lts__t_sectors_op_membar), which
// an SM sends at its kernel's end and when it fences, by what it has touched until then; and whether multicast copies of several
// clusters become one request, as plain copies do.
//
// Each block has an SM of its own unless said otherwise, and touches lines of its own.
#include <cooperative_groups.h>

#include "steps.h"

namespace {
using namespace steps;
namespace cg = cooperative_groups;

constexpr long kApart = 1 << 20;  // bytes between what neighbouring blocks touch
constexpr long kBlocks = 132;
enum Touch { kStore, kLoad, kBulk };

/// One warp touches so many bytes in a row.
template <Touch how>
__global__ void ends_row(float* data, float* out, int bytes) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[1];
  float* own = data + blockIdx.x * (kApart / 4);
  float sum = 0;
  if (how == kBulk) {
    if (threadIdx.x == 0) init_ring(bar, 1), bulk_load(room, own, uint32_t(bytes), bar), wait(bar, 0);
  } else {
    for (int i = int(threadIdx.x); i < bytes / 4; i += 32) {
      if (how == kStore) own[i] = float(i);
      else {
        float v;
        asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(own + i));
        sum += v;
      }
    }
    if (how == kLoad && sum == 1.5f) out[0] = sum;
  }
}
template <Touch how>
truth::Launch row(long bytes) {
  auto p = zeros<float>(kBlocks * kApart / 4);
  auto o = zeros<float>(1);
  cudaFuncSetAttribute(ends_row<how>, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { ends_row<how><<<kBlocks, 32, 131072>>>(p, o, int(bytes)); };
}
#define BYTES {32, 128, 256, 512, 1024, 2048, 4096, 16384, 65536}
TRUTH("ends", "ends_store", BYTES, row<kStore>);
TRUTH("ends", "ends_load", BYTES, row<kLoad>);
TRUTH("ends", "ends_bulk", BYTES, row<kBulk>);

/// One warp stores to, or adds to, so many words, each in a line of its own.
template <bool adds>
__global__ void ends_words(float* data, int words) {
  for (int i = int(threadIdx.x); i < words; i += 32) {
    float* at = data + blockIdx.x * (kApart / 4) + (mix(uint32_t(i) * 977 + blockIdx.x) % (kApart / 128)) * 32;
    if (adds) atomicAdd(at, 1.f);
    else *at = 1.f;
  }
}
template <bool adds>
truth::Launch words(long n) {
  auto p = zeros<float>(kBlocks * kApart / 4);
  return [=] { ends_words<adds><<<kBlocks, 32>>>(p, int(n)); };
}
TRUTH("ends", "ends_words", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, words<false>);
TRUTH("ends", "ends_add", {1, 8, 64, 512}, words<true>);

/// Blocks of 256 threads store 16 KB each: several blocks an SM, at once or one after the other.
__global__ void ends_blocks(float4* data) {
  for (int i = int(threadIdx.x); i < 1024; i += 256) data[blockIdx.x * 1024 + i] = make_float4(1, 2, 3, 4);
}
TRUTH("ends", "ends_blocks", {132, 264, 528, 1056, 4224}, [](long n) {
  auto p = zeros<float4>(n * 1024);
  return [=] { ends_blocks<<<int(n), 256>>>(p); };
});

/// Fences after (or without) 64 KB of stores, by one thread or by one of each warp; and each after 2 KB more.
enum Fences { kOneThread, kEachWarp, kBetween, kNothing };
template <Fences how>
__global__ void ends_fences(float4* data, int fences) {
  float4* own = data + blockIdx.x * (kApart / 16);
  if (how == kOneThread || how == kEachWarp)
    for (int i = int(threadIdx.x); i < 4096; i += 256) own[i] = make_float4(1, 2, 3, 4);
  __syncthreads();
  if (how == kEachWarp) {
    if (int(threadIdx.x) / 32 < fences && threadIdx.x % 32 == 0) __threadfence();
  } else {
    for (int i = 0; i < fences; i++) {
      if (how == kBetween) {
        if (threadIdx.x < 128) own[i * 128 + threadIdx.x] = make_float4(1, 2, 3, 4);
        __syncthreads();
      }
      if (threadIdx.x == 0) __threadfence();
      __syncthreads();
    }
  }
}
template <Fences how>
truth::Launch fences(long n) {
  auto p = zeros<float4>(kBlocks * kApart / 16);
  return [=] { ends_fences<how><<<kBlocks, 256>>>(p, int(n)); };
}
TRUTH("ends", "ends_fence", {0, 1, 2, 4, 8}, fences<kOneThread>);
TRUTH("ends", "ends_fence_warps", {1, 2, 4, 8}, fences<kEachWarp>);
TRUTH("ends", "ends_fence_between", {1, 2, 4, 8, 16}, fences<kBetween>);
TRUTH("ends", "ends_fence_nothing", {1, 8}, fences<kNothing>);

/// Barriers of clusters of two after 64 KB of loads, by a number of threads.
__global__ void __cluster_dims__(2, 1, 1) ends_cluster(const float4* data, float* out, int barriers) {
  const float4* own = data + blockIdx.x * (kApart / 16);
  float sum = 0;
  for (int i = int(threadIdx.x); i < 4096; i += int(blockDim.x)) {
    float4 v;
    asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(own + i));
    sum += v.x;
  }
  if (sum == 1.5f) out[0] = sum;
  for (int i = 0; i < barriers; i++) cg::this_cluster().sync();
}
template <int threads>
truth::Launch barriers(long n) {
  auto p = zeros<float4>(kBlocks * kApart / 16);
  auto o = zeros<float>(1);
  return [=] { ends_cluster<<<kBlocks, threads>>>(p, o, int(n)); };
}
TRUTH("ends", "ends_cluster_warp", {0, 1, 2, 8}, barriers<32>);
TRUTH("ends", "ends_cluster", {0, 1, 2, 8}, barriers<256>);

/// Clusters of two read the same data, a piece after the other: each block its half for both, or each block all of it for itself. `sweeps`
/// over what is in memory at first; the time between pieces goes to `work`.
template <bool multicast>
__global__ void __cluster_dims__(2, 1, 1) ends_shared(const char* from, float* out, int pieces, int sweeps, int work) {
  constexpr int kPiece = 16384, kRing = 4;
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[kRing];
  cg::cluster_group cluster = cg::this_cluster();
  const uint32_t rank = cluster.block_rank();
  if (threadIdx.x == 0) init_ring(bar, kRing);
  cluster.sync();
  if (threadIdx.x == 0) {
    const int all = pieces * sweeps;
    const auto fetch = [&](int i) {
      const uint32_t stage = uint32_t(i % kRing);
      const char* at = from + long(i % pieces) * kPiece;
      if (!multicast) return bulk_load(room + stage * kPiece, at, kPiece, &bar[stage]);
      expect(&bar[stage], kPiece);
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(smem(room + stage * kPiece + rank * (kPiece / 2))),
                   "l"(at + rank * (kPiece / 2)), "r"(kPiece / 2), "r"(smem(&bar[stage])), "h"(uint16_t(3))
                   : "memory");
    };
    for (int i = 0; i < kRing / 2 && i < all; i++) fetch(i);
    for (int i = 0; i < all; i++) {
      // A stage is filled again two pieces after its data came; the other block may be that far behind.
      if (i + kRing / 2 < all) fetch(i + kRing / 2);
      wait(&bar[i % kRing], uint32_t(i / kRing & 1));
      const long until = clock64() + work;
      while (clock64() < until) {
      }
    }
  }
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = room[0];
}
template <bool multicast, int sweeps>
truth::Launch shared(long work) {
  constexpr int kPieces = 32;
  auto p = zeros<char>(kPieces * 16384);
  auto o = zeros<float>(kBlocks);
  cudaFuncSetAttribute(ends_shared<multicast>, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { ends_shared<multicast><<<kBlocks, 32, 131072>>>((const char*)p.p, o, kPieces, sweeps, int(work)); };
}
TRUTH("ends", "ends_multicast", {0, 500, 2000}, shared<true, 1>);
TRUTH("ends", "ends_multicast_l2", {0, 500, 2000}, shared<true, 8>);
TRUTH("ends", "ends_plain", {0, 500, 2000}, shared<false, 1>);
TRUTH("ends", "ends_plain_l2", {0, 500, 2000}, shared<false, 8>);

}  // namespace
