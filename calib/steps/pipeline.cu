// calib/steps/pipeline.cu: products as a library makes them, a ring of tensor copies that wgmma empties, taken apart: the ring alone by
// how many stages it has, with and without promotion of what is read to 256 bytes, from L2 and from memory; the end of a tile
// (sums to halves, to shared memory, stores by the copy engine); blocks that come and go, alone and in clusters. Operands are zero:
// no power limit is reached.
#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

constexpr int kColumns = 256, kSlab = 64;  // of a tile of b; of k in a stage
constexpr int kDynamic = 232448 - 1024;    // shared memory that a block may have, less its barriers and their alignment
constexpr uint32_t kStaging = 4096;        // of a warp: two boxes of 16 x 64 halves

struct Shape {
  int steps, tiles;         // of k in a tile; of a block
  int stages;
  int groups_a, groups_b;   // different rows of a and of b that blocks take
  bool store;
  int cluster;              // blocks; 0: no clusters are asked for
};

__device__ void load_box(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}
__device__ void arrive(uint64_t* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory"); }
__device__ void meet_cluster() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }

/// A place in the ring.
struct Place {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
};

/// A warp's 16 x 256 sums as halves, by way of its staging.
__device__ void store_sums(const CUtensorMap* d, const float (&sums)[128], uint32_t staging, int row, int column) {
  const int lane = threadIdx.x % 32;
  const uint32_t line = lane % 16;
#pragma unroll
  for (int part = 0; part < 4; part++) {
    const uint32_t box = staging + part % 2 * 2048;
    if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    __syncwarp();
#pragma unroll
    for (int j = 0; j < 4; j++) {
      uint32_t w[4];
#pragma unroll
      for (int q = 0; q < 4; q++) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w[q]) : "f"(sums[part * 32 + j * 8 + q * 2 + 1]), "f"(sums[part * 32 + j * 8 + q * 2]));
      asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(box + line * 128 + ((j * 32 + lane / 16 * 16) ^ line % 8 * 16)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0)
      asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\ncp.async.bulk.commit_group;" ::"l"(d), "r"(column + part * 64), "r"(row), "r"(box) : "memory");
  }
}

/// kGroups warpgroups multiply 64 rows of a each by 256 of b; one warp feeds them. Tiles lie side by side in d, 16 to a row.
template <int kGroups>
__global__ void __launch_bounds__(kGroups * 128 + 32, 1)
    pipeline(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, const __grid_constant__ CUtensorMap d, float* out, Shape s) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full[8], empty[8];
  constexpr uint32_t kBytesA = kGroups * 64 * 128, kStage = kBytesA + kColumns * 128;
  const uint32_t ring = (smem(room) + 1023) / 1024 * 1024;
  if (threadIdx.x == kGroups * 128) {
    for (int i = 0; i < s.stages; i++)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.init.shared::cta.b64 [%1], %2;" ::"r"(smem(&full[i])), "r"(smem(&empty[i])), "n"(kGroups * 4));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (s.cluster > 1) meet_cluster();
  Place at;
  if (threadIdx.x >= kGroups * 128) {
    const int row_a = int(blockIdx.x) % s.groups_a * kGroups * 64, row_b = int(blockIdx.x) / s.groups_a % s.groups_b * kColumns;
    if (threadIdx.x == kGroups * 128)
      for (int i = 0; i < s.steps * s.tiles; i++, at.next(s.stages)) {
        const uint32_t to = ring + at.stage * kStage, barrier = smem(&full[at.stage]);
        wait(&empty[at.stage], at.phase ^ 1);
        expect(&full[at.stage], kStage);
        load_box(to, &a, i % 64 * kSlab, row_a, barrier);
        load_box(to + kBytesA, &b, i % 64 * kSlab, row_b, barrier);
      }
  } else {
    float sums[128];
    for (int i = 0; i < 128; i++) sums[i] = 0;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32;
    const uint32_t staging = ring + s.stages * kStage + warp * kStaging;
    for (int t = 0; t < s.tiles; t++) {
      uint64_t* last = nullptr;
      for (int i = 0; i < s.steps; i++, at.next(s.stages)) {
        const uint32_t from = ring + at.stage * kStage;
        wait(&full[at.stage], at.phase);
        issue_products<4>(sums, matrix_from(from + group * 64 * 128), matrix_from(from + kBytesA));
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (last && threadIdx.x % 32 == 0) arrive(last);
        last = &empty[at.stage];
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      if (threadIdx.x % 32 == 0) arrive(last);
      const int tile = int(blockIdx.x) + t * int(gridDim.x);
      if (s.store) store_sums(&d, sums, staging, tile / 16 * kGroups * 64 + warp * 16, tile % 16 * kColumns);
    }
    if (s.store && threadIdx.x % 32 == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    float total = 0;
    for (int i = 0; i < 128; i++) total += sums[i];
    if (total != 0) out[blockIdx.x] = total;  // never: operands are zero
  }
  if (s.cluster > 1) meet_cluster();
}

/// Of halves, 4096 to a row.
CUtensorMap halves_map(void* data, long rows, int box_rows, CUtensorMapL2promotion promotion) {
  return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, rows, 4096, uint32_t(box_rows), kSlab, CU_TENSOR_MAP_SWIZZLE_128B, promotion);
}

template <int kGroups>
Launch launch_of(Shape s, int blocks, CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  auto a = zeros<float>(8192l * 2048), b = zeros<float>(8192l * 2048), d = zeros<float>(8448l * 2048), o = zeros<float>(4096);
  const CUtensorMap ma = halves_map(a.p, 8192, kGroups * 64, promotion), mb = halves_map(b.p, 8192, kColumns, promotion), md = halves_map(d.p, 8448, 16, promotion);
  cudaFuncSetAttribute(pipeline<kGroups>, cudaFuncAttributeMaxDynamicSharedMemorySize, kDynamic);
  return [=] {
    (void)a, (void)b, (void)d;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks), config.blockDim = dim3(kGroups * 128 + 32), config.dynamicSmemBytes = kDynamic;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(s.cluster), 1, 1};
    config.attrs = &attribute, config.numAttrs = s.cluster > 0;
    cudaLaunchKernelEx(&config, pipeline<kGroups>, ma, mb, md, o.p, s);
  };
}
constexpr CUtensorMapL2promotion kPlain = CU_TENSOR_MAP_L2_PROMOTION_NONE;

// The ring by stages, shared as a product shares; then with rows of a of each block's own, from memory.
TRUTH("pipeline", "ring_one", {2, 3, 4, 5}, [](long n) { return launch_of<1>({64, 1, int(n), 8, 16, false, 0}, 132); });
TRUTH("pipeline", "ring_one_turns", {4}, [](long n) { return launch_of<1>({64, 1, int(n), 8, 16, false, 1}, 132); });  // clusters of one
TRUTH("pipeline", "ring_two", {2, 3, 4}, [](long n) { return launch_of<2>({64, 1, int(n), 8, 16, false, 0}, 132); });
TRUTH("pipeline", "ring_few", {2, 3, 4, 5}, [](long n) { return launch_of<1>({64, 1, int(n), 1, 1, false, 0}, 4); });
TRUTH("pipeline", "ring_few_plain", {2, 4}, [](long n) { return launch_of<1>({64, 1, int(n), 1, 1, false, 0}, 4, kPlain); });
TRUTH("pipeline", "ring_own", {2, 4}, [](long n) { return launch_of<1>({64, 1, int(n), 128, 1, false, 0}, 128); });
TRUTH("pipeline", "ring_own_plain", {2, 4}, [](long n) { return launch_of<1>({64, 1, int(n), 128, 1, false, 0}, 128, kPlain); });
TRUTH("pipeline", "ring_short", {4, 8, 16}, [](long n) { return launch_of<1>({int(n), 1, 4, 16, 4, false, 0}, 64); });
TRUTH("pipeline", "ring_short_plain", {4, 8, 16}, [](long n) { return launch_of<1>({int(n), 1, 4, 16, 4, false, 0}, 64, kPlain); });
// Eight tiles a block, by steps of k, with and without their ends; the same by blocks that come and go.
TRUTH("pipeline", "tile_ends", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 8, 4, 8, 16, true, 0}, 132); });
TRUTH("pipeline", "tile_no_ends", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 8, 4, 8, 16, false, 0}, 132); });
TRUTH("pipeline", "tile_ends_few", {8}, [](long n) { return launch_of<2>({int(n), 8, 4, 2, 2, true, 0}, 4); });
TRUTH("pipeline", "tile_blocks", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 1, 4, 8, 16, true, 0}, 1056); });
TRUTH("pipeline", "tile_blocks_no_ends", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 1, 4, 8, 16, false, 0}, 1056); });
TRUTH("pipeline", "tile_pairs", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 1, 4, 8, 16, true, 2}, 1056); });
TRUTH("pipeline", "tile_pairs_no_ends", {4, 8, 16}, [](long n) { return launch_of<2>({int(n), 1, 4, 8, 16, false, 2}, 1056); });

}  // namespace
