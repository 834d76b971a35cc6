// calib/steps/sharing.cu: bulk copies by many SMs of the same data, at the same time or apart, by all SMs or by groups of them,
// from L2 and from memory; bulk stores; sums of a cluster through shared memory of its blocks. What the SMs of a GPC ask
// for together they ask for once: the profiler's sectors show how far apart they may be.
#include <cooperative_groups.h>
#include <cuda.h>

#include <algorithm>

#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

/// Each block copies `pieces` pieces of 16 KB, four in flight, from `groups` places in turn (block b those of b % groups, or of b /
/// (blocks / groups) when `near`), after a pause of up to `apart` cycles of its own.
__global__ void share(const char* from, float* out, int pieces, int groups, int near, int apart, long room, int again) {
  extern __shared__ __align__(1024) char stage[];
  __shared__ uint64_t bar[4];
  if (threadIdx.x) return;
  constexpr uint32_t kBytes = 16384;
  init_ring(bar, 4);
  const uint32_t late = apart ? mix(blockIdx.x + 77) % uint32_t(apart) : 0;
  float w = 1;
#pragma unroll 1
  for (uint32_t i = 0; i < late / 8; i++) w = w * .99f + 1.f, w = w * .99f + 1.f;  // 8 cycles
  const int group = near ? int(blockIdx.x) * groups / int(gridDim.x) : int(blockIdx.x) % groups;
  const long base = long(group) * pieces * kBytes;
  const auto fetch = [&](int i) {
    bulk_load(stage + i % 4 * kBytes, from + (base + long(i % (pieces / again)) * kBytes) % room, kBytes, &bar[i % 4]);
  };
  for (int i = 0; i < 4 && i < pieces; i++) fetch(i);
  for (int i = 0; i < pieces; i++) {
    wait(&bar[i % 4], uint32_t(i / 4 & 1));
    if (i + 4 < pieces) fetch(i + 4);
  }
  out[blockIdx.x] = stage[0] + w;
}
#define SHARE(name, list, groups_of, near, apart_of, mb, again) \
  TRUTH("sharing", name, list, [](long n) { \
    (void)n; \
    const long room = long(mb) << 20; \
    auto p = zeros<float>(room / 4); \
    auto o = zeros<float>(1024); \
    cudaFuncSetAttribute(share, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072); \
    return [=] { share<<<132, 32, 65536>>>((const char*)p.p, o, 512, groups_of, near, apart_of, room, again); }; \
  });
#define LIST(...) {__VA_ARGS__}
SHARE("share_apart", LIST(0, 64, 256, 1024, 4096, 16384, 65536), 1, 0, int(n), 8, 1)
SHARE("share_apart_dram", LIST(0, 256, 1024, 4096, 16384, 65536), 1, 0, int(n), 512, 1)
SHARE("share_near", LIST(2, 4, 8, 16, 33, 66, 132), int(n), 1, 0, 1024, 8)
SHARE("share_far", LIST(2, 4, 8, 16, 33, 66, 132), int(n), 0, 0, 1024, 8)
SHARE("share_near_dram", LIST(4, 16, 66), int(n), 1, 0, 1024, 1)

/// What feeds the tensor cores of a product, without them: each block copies `pieces` stages of a box of 64 x `rows_a` and one of 64 x
/// `rows_b` halves from two matrices of 4096 columns, `stages` in flight. Blocks of one of `groups_a` (`groups_b`) take the same rows.
__global__ void feed(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* out, int pieces, int stages, int rows_a, int rows_b, int groups_a, int groups_b) {
  extern __shared__ __align__(1024) char stage[];
  __shared__ uint64_t bar[8];
  if (threadIdx.x) return;
  const uint32_t bytes = uint32_t(rows_a + rows_b) * 128;
  init_ring(bar, stages);
  const int row_a = int(blockIdx.x % groups_a) * rows_a, row_b = int(blockIdx.x) * groups_b / int(gridDim.x) * rows_b;
  const auto box = [&](uint32_t to, const CUtensorMap* map, int x, int y, uint32_t barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
  };
  const auto fetch = [&](int i) {
    const int s = i % stages, x = i % 64 * 64;
    const uint32_t to = (smem(stage) + 1023) / 1024 * 1024 + uint32_t(s) * bytes, barrier = smem(&bar[s]);
    expect(&bar[s], bytes);
    if (rows_a) box(to, &a, x, row_a + i / 64 * rows_a * groups_a, barrier);
    if (rows_b) box(to + uint32_t(rows_a) * 128, &b, x, row_b, barrier);
  };
  for (int i = 0; i < stages && i < pieces; i++) fetch(i);
  for (int i = 0; i < pieces; i++) {
    wait(&bar[i % stages], uint32_t(i / stages & 1));
    if (i + stages < pieces) fetch(i + stages);
  }
  out[blockIdx.x] = stage[0];
}

CUtensorMap map_of(void* data, long rows, int box_rows) {
  return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, rows, 4096, uint32_t(box_rows), 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
}
/// Blocks, stages, rows of a and b, groups of a and b.
#define FEED(name, list, blocks, stages, rows_a, rows_b, groups_a, groups_b) \
  TRUTH("sharing", name, list, [](long n) { \
    (void)n; \
    auto a = zeros<float>(2048l * 8192), b = zeros<float>(2048l * 8192); /* 8192 rows of 8 KB */ \
    auto o = zeros<float>(1024); \
    const CUtensorMap ma = map_of(a.p, 8192, std::max(8, int(rows_a))), mb = map_of(b.p, 8192, std::max(8, int(rows_b))); \
    cudaFuncSetAttribute(feed, cudaFuncAttributeMaxDynamicSharedMemorySize, 220000); \
    return [=] { (void)a, (void)b, feed<<<int(blocks), 32, 220000>>>(ma, mb, o, 256, int(stages), int(rows_a), int(rows_b), int(groups_a), int(groups_b)); }; \
  });
FEED("feed_alone", LIST(1, 2, 8, 33, 66, 132), n, 4, 128, 0, 1, 1)              // all the same rows
FEED("feed_own", LIST(1, 8, 33, 66, 132), n, 4, 32, 0, 132, 1)                    // each its own, 35 MB in all
FEED("feed_own_stages", LIST(1, 2, 4, 8), 132, n, 32, 0, 132, 1)
FEED("feed_stages", LIST(1, 2, 4), 132, n, 64, 256, 32, 4)
FEED("feed_pairs", LIST(2, 4, 8, 16, 32, 66), 132, 4, 0, 64, 1, n)               // n groups of neighbours
FEED("feed_turns", LIST(2, 4, 8, 16, 32, 66), 132, 4, 64, 0, n, 1)               // n groups by turns
FEED("feed_product", LIST(4, 8, 16, 32), 132, 4, 64, 256, 132 / n, n)            // as a product of 64 x 256 does
FEED("feed_square", LIST(8, 16, 32), 132, 5, 128, 128, 132 / n, n)
/// One-dimensional copies of 16 KB: blocks with one place for all; stages.
TRUTH("sharing", "share_blocks", {1, 2, 8, 33, 66}, [](long n) {
  auto p = zeros<float>(8l << 18);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(share, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { share<<<int(n), 32, 65536>>>((const char*)p.p, o, 512, 1, 0, 0, 8l << 20, 1); };
});

/// Pieces of 16 KB from shared memory to global memory, four in flight.
__global__ void bulk_store(char* to, int pieces) {
  extern __shared__ __align__(1024) char stage[];
  if (threadIdx.x) return;
  for (int i = 0; i < pieces; i++)
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 3;" ::"l"(to + (long(i) * gridDim.x + blockIdx.x) * 16384),
                 "r"(smem(stage + i % 4 * 16384)), "r"(16384) : "memory");
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
TRUTH("sharing", "bulk_store", {8, 64, 512}, [](long pieces) {
  auto p = zeros<float>(pieces * 132 * 4096);
  cudaFuncSetAttribute(bulk_store, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] { bulk_store<<<132, 32, 65536>>>((char*)p.p, int(pieces)); };
});

/// Sums of a cluster: every block leaves `kFloats` floats in its shared memory, and adds up a share of all.
__global__ void cluster_sum(float* out, int rounds) {
  extern __shared__ float sums[];
  namespace cg = cooperative_groups;
  cg::cluster_group cluster = cg::this_cluster();
  const int n = int(cluster.num_blocks()), rank = int(cluster.block_rank());
  constexpr int kFloats = 16384;
  float4* own = (float4*)sums;
  for (int r = 0; r < rounds; r++) {
    for (int i = threadIdx.x; i < kFloats / 4; i += blockDim.x) own[i] = make_float4(r, i, rank, 1);
    cluster.sync();
    const int share = kFloats / 4 / n;
    for (int i = threadIdx.x; i < share; i += blockDim.x) {
      float4 s = make_float4(0, 0, 0, 0);
      for (int k = 0; k < n; k++) {
        const float4 v = ((const float4*)cluster.map_shared_rank(sums, k))[rank * share + i];
        s.x += v.x, s.y += v.y, s.z += v.z, s.w += v.w;
      }
      ((float4*)out)[(blockIdx.x * share + i)] = s;
    }
    cluster.sync();
  }
}
TRUTH("sharing", "cluster_sum", {2, 4, 6, 8}, [](long n) {
  auto o = zeros<float>(132 * 16384);
  cudaFuncSetAttribute(cluster_sum, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(int(120 / n * n)), config.blockDim = dim3(256), config.dynamicSmemBytes = 65536;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(n), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, cluster_sum, o.p, 20);
  };
});
__global__ void cluster_barriers(float* out, int rounds) {
  namespace cg = cooperative_groups;
  for (int r = 0; r < rounds; r++) cg::this_cluster().sync();
  out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
TRUTH("sharing", "cluster_barriers", {2, 4, 8}, [](long n) {
  auto o = zeros<float>(132 * 256);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(int(120 / n * n)), config.blockDim = dim3(256);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(n), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, cluster_barriers, o.p, 200);
  };
});
/// Lines of a few that all warps ask for at once, one load after the other: a slice serves them one by one.
__global__ void same_lines(const uint32_t* next, uint32_t* out, int steps, uint32_t lines) {
  uint32_t p = (blockIdx.x * blockDim.x + threadIdx.x) % lines * 32;
#pragma unroll 1
  for (int i = 0; i < steps; i++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(p) : "l"(next + p) : "memory");
  out[blockIdx.x * blockDim.x + threadIdx.x] = p;
}
TRUTH("sharing", "same_lines", {1, 4, 16, 64, 1024}, [](long lines) {
  std::vector<uint32_t> next(lines * 32);
  for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t(i / 32 * 32);
  auto d = upload(next);
  auto o = zeros<uint32_t>(132 * 2048);
  return [=] { same_lines<<<264, 1024>>>(d, o, 64, uint32_t(lines)); };
});

}  // namespace
