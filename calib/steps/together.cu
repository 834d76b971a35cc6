// calib/steps/together.cu: what SMs of one GPC ask L2 for at nearly the same time: how far apart two requests may be and become one, how
// many do, by which path they come, and what loads that all blocks make lose in it when work lies between them.
//
// Clusters are on one GPC and leave its barrier together; what comes after is apart by what is asked for. The sectors that the
// profiler counts (lts__t_sectors_srcunit_tex) over those of one block are how many requests of a cluster were left.
#include <cooperative_groups.h>

#include "steps.h"

namespace {
using namespace steps;
namespace cg = cooperative_groups;

enum Path { kBulk, kLoad, kLoadL1 };
struct Meeting {
  int rounds, bytes;  // of a round, at most 8 KB
  int apart;          // cycles by which blocks of rank `late` and up begin later, or each later than the one before it (late 0)
  int late, active;   // ranks from `active` on ask for nothing
  long room;          // bytes of a cluster, then again from the start
};

/// Each cluster reads data of its own, a piece after a barrier.
template <Path path>
__global__ void meet(const char* from, float* out, Meeting m) {
  extern __shared__ __align__(1024) char stage[];
  __shared__ uint64_t bar[1];
  cg::cluster_group cluster = cg::this_cluster();
  const int rank = int(cluster.block_rank());
  const char* own = from + long(blockIdx.x / cluster.num_blocks()) * m.room;
  if (threadIdx.x == 0) init_ring(bar, 1);
  const int wait_for = m.late ? (rank >= m.late ? m.apart : 0) : rank * m.apart;
  float sum = 0;
  for (int r = 0; r < m.rounds; r++) {
    cluster.sync();
    const char* at = own + long(r) * m.bytes % m.room;
    const long until = clock64() + wait_for;
    while (clock64() < until) {
    }
    if (rank >= m.active) continue;
    if (path == kBulk) {
      if (threadIdx.x == 0) {
        bulk_load(stage, at, uint32_t(m.bytes), bar);
        wait(bar, uint32_t(r & 1));
      }
    } else {
#pragma unroll 4
      for (int i = int(threadIdx.x) * 16; i < m.bytes; i += 512) {
        float4 v;
        if (path == kLoad) asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at + i) : "memory");
        else asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at + i) : "memory");
        sum += v.x + v.w;
      }
    }
  }
  cluster.sync();
  if (threadIdx.x == 0) out[blockIdx.x] = sum + stage[0];
}
template <Path path>
truth::Launch meeting(int cluster, int clusters, Meeting m) {
  auto p = zeros<char>(size_t(clusters) * m.room);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(meet<path>, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  cudaFuncSetAttribute(meet<path>, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(cluster * clusters)), config.blockDim = dim3(32), config.dynamicSmemBytes = 131072;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, meet<path>, (const char*)p.p, o.p, m);
  };
}
constexpr long kAgain = 1 << 16, kOnce = 1 << 20, kBeyondL1 = 1 << 19;  // found in L2 from the second turn on; in memory only; in L2 from the second of eight on
#define APART {0, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536}
#define MEET(name, path, cluster, clusters, list, ...) TRUTH("together", name, list, [](long n) { return meeting<path>(cluster, clusters, {__VA_ARGS__}); });
#define RANKS {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16}
// rounds, bytes, apart, late, active, room
MEET("meet_two_bulk", kBulk, 2, 60, APART, 2048, 512, int(n), 1, 2, kAgain)
MEET("meet_two_load", kLoad, 2, 60, APART, 2048, 512, int(n), 1, 2, kAgain)
MEET("meet_two_load_l1", kLoadL1, 2, 60, APART, 1024, 512, int(n), 1, 2, kOnce)
MEET("meet_two_sector", kLoad, 2, 60, APART, 2048, 32, int(n), 1, 2, 4096)
MEET("meet_two_bulk_8k", kBulk, 2, 60, APART, 256, 8192, int(n), 1, 2, kAgain)
MEET("meet_two_load_8k", kLoad, 2, 60, APART, 256, 8192, int(n), 1, 2, kAgain)
MEET("meet_two_load_dram", kLoad, 2, 60, APART, 1024, 512, int(n), 1, 2, kOnce)
MEET("meet_two_bulk_dram", kBulk, 2, 60, APART, 1024, 512, int(n), 1, 2, kOnce)
MEET("meet_four_bulk", kBulk, 4, 28, APART, 2048, 512, int(n), 2, 4, kAgain)      // two TPCs
MEET("meet_four_load", kLoad, 4, 28, APART, 2048, 512, int(n), 2, 4, kAgain)
MEET("meet_ranks_bulk", kBulk, 16, 6, RANKS, 2048, 512, 0, 16, int(n), kAgain)     // so many ask
MEET("meet_ranks_load", kLoad, 16, 6, RANKS, 2048, 512, 0, 16, int(n), kAgain)
MEET("meet_ranks_bulk_8k", kBulk, 16, 6, RANKS, 256, 8192, 0, 16, int(n), kAgain)
MEET("meet_ranks_load_8k", kLoad, 16, 6, RANKS, 256, 8192, 0, 16, int(n), kAgain)
// The same through L1, of more than L1 holds.
MEET("meet_two_wide_l1", kLoadL1, 2, 60, APART, 8192, 512, int(n), 1, 2, kBeyondL1)
MEET("meet_four_load_l1", kLoadL1, 4, 28, APART, 8192, 512, int(n), 2, 4, kBeyondL1)
MEET("meet_ranks_load_l1", kLoadL1, 16, 6, RANKS, 8192, 512, 0, 16, int(n), kBeyondL1)
MEET("meet_turns_load_l1", kLoadL1, 16, 6, APART, 8192, 512, int(n), 0, 16, kBeyondL1)
MEET("meet_turns_load", kLoad, 16, 6, APART, 2048, 512, int(n), 0, 16, kAgain)     // one after the other
MEET("meet_turns_bulk_8k", kBulk, 16, 6, APART, 256, 8192, int(n), 0, 16, kAgain)

/// All blocks read the same, `bytes` a step by `blockDim` threads, with `work` rounds of arithmetic on it between steps; they meet at a
/// barrier of the block after each (kBarriers), as tiles in shared memory make them.
template <bool kBarriers>
__global__ void share_steps(const float4* from, float* out, int steps, int words, int work, int groups, int room) {
  __shared__ float4 tile[1024];
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int group = int(blockIdx.x) % groups;
  const float4* own = from + long(group) * room;
  for (int i = 0; i < steps; i++) {
    for (int k = int(threadIdx.x); k < words; k += int(blockDim.x)) tile[k] = own[(long(i) * words + k) % room];
    if (kBarriers) __syncthreads();
    else __syncwarp();
    const float4 v = tile[threadIdx.x % words];
#pragma unroll 1
    for (int w = 0; w < work; w++)
#pragma unroll
      for (int k = 0; k < 8; k++) s[k] = s[k] * v.x + v.y;
    if (kBarriers) __syncthreads();
    else __syncwarp();
  }
  float sum = 0;
  for (float x : s) sum += x;
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}
#define STEPS(name, barriers, list, blocks, threads, steps, words, work, groups, mb) \
  TRUTH("together", name, list, [](long n) { \
    (void)n; \
    const long room = long(mb) << 16; \
    auto p = zeros<float4>(size_t(room) * size_t(groups)); \
    auto o = zeros<float>(size_t(blocks) * (threads)); \
    return [=] { share_steps<barriers><<<int(blocks), int(threads)>>>((const float4*)p.p, o, int(steps), int(words), int(work), int(groups), int(room)); }; \
  });
#define WORK {0, 4, 16, 64, 256}
STEPS("steps_work", true, WORK, 132, 256, 1024, 256, n, 1, 4)
STEPS("steps_work_more", true, WORK, 528, 256, 256, 256, n, 1, 4)       // four blocks an SM
STEPS("steps_work_long", true, WORK, 1056, 256, 1024, 256, n, 1, 4)
STEPS("steps_wide", true, WORK, 132, 256, 256, 1024, n, 1, 8)
STEPS("steps_free", false, WORK, 132, 256, 1024, 256, n, 1, 4)
STEPS("steps_groups", true, (std::vector<long>{2, 4, 8, 16, 33, 66}), 132, 256, 256, 256, 16, n, 1)
STEPS("steps_dram", true, WORK, 132, 256, 1024, 256, n, 1, 64)
STEPS("steps_many", true, (std::vector<long>{33, 66, 132, 264, 1056, 4224}), n, 256, 256, 256, 16, 1, 4)

/// As tiles of a product without tensor cores: blocks of a square grid read `rows` x 16 floats of a by their row and of b by their column.
template <int kRows>
__global__ void tile_rows(const float* a, const float* b, float* out, int k, int work) {
  __shared__ float4 tile[2][kRows * 4];
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float* const from[2] = {a + long(blockIdx.y) * kRows * k, b + long(blockIdx.x) * kRows * k};
  for (int at = 0; at < k; at += 16) {
    for (int m = 0; m < 2; m++)
      for (int i = int(threadIdx.x); i < kRows * 4; i += 256) tile[m][i] = *(const float4*)(from[m] + long(i / 4) * k + at + i % 4 * 4);
    __syncthreads();
    const float4 v = tile[0][threadIdx.x % (kRows * 4)], u = tile[1][threadIdx.x % (kRows * 4)];
#pragma unroll 1
    for (int w = 0; w < work; w++)
#pragma unroll
      for (int q = 0; q < 8; q++) s[q] = s[q] * v.x + u.y;
    __syncthreads();
  }
  float sum = 0;
  for (float x : s) sum += x;
  out[(long(blockIdx.y) * gridDim.x + blockIdx.x) * 256 + threadIdx.x] = sum;
}
#define TILES(name, rows, list, grid, k, work) \
  TRUTH("together", name, list, [](long n) { \
    (void)n; \
    auto a = zeros<float>(long(grid) * rows * (k)), b = zeros<float>(long(grid) * rows * (k)); \
    auto o = zeros<float>(long(grid) * (grid) * 256); \
    return [=] { tile_rows<rows><<<dim3(unsigned(grid), unsigned(grid)), 256>>>(a, b, o, int(k), int(work)); }; \
  });
TILES("tiles64", 64, WORK, 32, 1024, n)
TILES("tiles64_grid", 64, (std::vector<long>{8, 16, 32, 64}), n, 1024, 16)
TILES("tiles128", 128, WORK, 16, 1024, n)
TILES("tiles128_grid", 128, (std::vector<long>{8, 11, 16, 32}), n, 1024, 64)
TILES("tiles32", 32, WORK, 32, 1024, n)

}  // namespace
