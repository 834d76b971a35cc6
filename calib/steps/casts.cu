// calib/steps/casts.cu: tiles that all blocks of a cluster want: copied by each block a part for all (multicast), by the first for all, or by each for itself;
// as boxes by the bytes of their rows, or in bulk; by clusters that stay and go through tiles, and by clusters of one tile. All by the cluster's size.
#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

constexpr uint32_t kTile = 16384;
constexpr long kWidth = 1024, kRows = 4096;  // floats: 16 MB
enum Who { kParts, kFirst, kEach };

__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// Copies of `rows` rows (box) or so many bytes (`wide` = 0) from place `at` of the data, to all blocks of `mask` or to this one.
__device__ inline void copy(const CUtensorMap* map, const char* from, int wide, uint32_t bytes, long at, char* to, uint64_t* bar, uint32_t mask) {
  if (wide == 0) {
    if (mask)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(smem(to)), "l"(from + at), "r"(bytes), "r"(smem(bar)), "h"(uint16_t(mask))
                   : "memory");
    else asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(to)), "l"(from + at), "r"(bytes), "r"(smem(bar)) : "memory");
    return;
  }
  const long across = kWidth / wide, tile = at / kTile, rows = kTile / 4 / wide;
  const int x = int(tile % across) * wide, y = int(tile / across * rows + at % kTile / 4 / wide);
  if (mask)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(smem(to)), "l"(map), "r"(x), "r"(y), "r"(smem(bar)),
                 "h"(uint16_t(mask))
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(smem(to)), "l"(map), "r"(x), "r"(y), "r"(smem(bar)) : "memory");
}

/// `stages` tiles of a ring; a stage is filled again when the cluster has met behind its tile. Every thread adds up its words of each tile.
template <Who who>
__global__ void __launch_bounds__(256) casts(const __grid_constant__ CUtensorMap map, const char* from, float* out, int wide, int tiles, int stages) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[8];
  uint32_t rank, n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  if (threadIdx.x == 0) init_ring(bar, stages);
  __syncthreads();
  if (n > 1) meet();
  const int cluster = int(blockIdx.x / n), clusters = int(gridDim.x / n);
  const uint32_t all = n > 1 ? (1u << n) - 1 : 0, part = kTile / n;
  const auto fetch = [&](int i) {
    const int s = (i - cluster) / clusters % stages;
    char* to = room + uint32_t(s) * kTile;
    expect(&bar[s], kTile);
    if (who == kParts) copy(&map, from, wide, part, long(i) * kTile + long(rank * part), to + rank * part, &bar[s], all);
    if (who == kEach) {
      for (uint32_t r = 0; r < n; r++) copy(&map, from, wide, part, long(i) * kTile + long(r * part), to + r * part, &bar[s], 0);
    }
    if (who == kFirst && rank == 0)
      for (uint32_t r = 0; r < n; r++) copy(&map, from, wide, part, long(i) * kTile + long(r * part), to + r * part, &bar[s], all);
  };
  if (threadIdx.x == 0)
    for (int k = 0; k < stages && cluster + k * clusters < tiles; k++) fetch(cluster + k * clusters);
  float sum = 0;
  int turn = 0;
  for (int i = cluster; i < tiles; i += clusters, turn++) {
    const int s = turn % stages;
    wait(&bar[s], uint32_t(turn / stages & 1));
    const float4* own = reinterpret_cast<const float4*>(room + uint32_t(s) * kTile);
#pragma unroll
    for (uint32_t k = 0; k < kTile / 16 / 256; k++) sum += own[threadIdx.x + k * 256].x;
    if (i + stages * clusters >= tiles) continue;
    if (n > 1) meet();
    else __syncthreads();
    if (threadIdx.x == 0) fetch(i + stages * clusters);
  }
  if (n > 1) meet();
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

/// By clusters of `size`: `at_once` blocks that stay, or (0) a cluster for each tile; `wide`: floats of a row of the boxes, 0: in bulk.
template <Who who>
Launch of_casts(long size, int wide, int at_once, int stages) {
  auto p = zeros<float>(kWidth * kRows), o = zeros<float>(8192 * 256);
  const int tiles = int(kWidth * kRows * 4 / kTile);
  const uint32_t rows = wide ? kTile / 4 / uint32_t(wide) / uint32_t(size) : 0;
  const CUtensorMap map = wide ? matrix_map(p.p, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, kRows, kWidth, rows, uint32_t(wide), CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE) : CUtensorMap{};
  const int bytes = stages * int(kTile), blocks = at_once ? at_once / int(size) * int(size) : tiles * int(size);
  cudaFuncSetAttribute(casts<who>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(256), config.dynamicSmemBytes = size_t(bytes);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, casts<who>, map, (const char*)p.p, o.p, wide, tiles, stages);
  };
}
#define CASTS(name, who, wide, at_once, stages) TRUTH("casts", name, {1, 2, 4, 8}, [](long size) { return of_casts<who>(size, wide, at_once, stages); });
CASTS("cast_parts_256", kParts, 64, 120, 4)
CASTS("cast_parts_128", kParts, 32, 120, 4)
CASTS("cast_parts_64", kParts, 16, 120, 4)
CASTS("cast_parts_bulk", kParts, 0, 120, 4)
CASTS("cast_parts_two", kParts, 64, 120, 2)
CASTS("cast_first_256", kFirst, 64, 120, 4)
CASTS("cast_first_bulk", kFirst, 0, 120, 4)
CASTS("cast_each_256", kEach, 64, 120, 4)
CASTS("cast_each_bulk", kEach, 0, 120, 4)
CASTS("cast_once_256", kParts, 64, 0, 1)
CASTS("cast_once_bulk", kParts, 0, 0, 1)
CASTS("cast_once_first", kFirst, 64, 0, 1)
CASTS("cast_once_each", kEach, 64, 0, 1)

}  // namespace
