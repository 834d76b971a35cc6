// calib/steps/rings.cu: products by clusters whose blocks copy parts of a tile for all (multicast): a warp copies into a ring, two warpgroups multiply, and
// tell every block of the cluster when they have. Taken apart: what tells (an arrival that releases to the cluster, one that does not, one in the own block
// only, where each copies all for itself), who waits how (try_wait, test_wait), with and without products, with and without multicast, by stages and by the cluster's size; one cluster alone
// and as many as the GPU holds. Operands are zero: no power limit is reached.
#include "../dissect/tensor_map.h"
#include "steps.h"

namespace {
using namespace steps;

enum Tells { kReleases, kTells, kOwn };  // releases to the cluster; with what an arrival releases by default; nobody but the own block
constexpr int kThreads = 384, kSlab = 64, kSteps = 64;
constexpr uint32_t kBytesA = 128 * 128;

__device__ inline void meet() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }

/// Waits for a phase of `bar` to end. Both kinds look again at once.
template <bool kTest>
__device__ inline void look(uint64_t* bar, uint32_t parity) {
  if (kTest) asm volatile("{ .reg .pred p;\nW: mbarrier.test_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(bar)), "r"(parity) : "memory");
  else wait(bar, parity);
}

template <Tells kTell>
__device__ inline void tell(uint64_t* bar, uint32_t rank) {
  if (kTell == kOwn) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(bar)) : "memory");
    return;
  }
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(bar)), "r"(rank));
  if (kTell == kReleases) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
  else asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}

__device__ inline void copy_box(const CUtensorMap* map, int x, int y, uint32_t to, uint64_t* bar, uint32_t mask) {
  if (mask)
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(smem(bar)),
                 "h"(uint16_t(mask))
                 : "memory");
  else asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(smem(bar)) : "memory");
}

/// Every step each block copies 128 rows of its own and `columns` rows that all want: its part for all (`casts`) or all of them for itself.
template <Tells kTell, bool kTest, int kProducts>
__global__ void __launch_bounds__(kThreads, 1) rings(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* out, int stages, int steps, int columns, bool casts) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full[8], empty[8];
  uint32_t rank, n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  const uint32_t ring = (smem(room) + 1023) / 1024 * 1024, stage = kBytesA + uint32_t(columns) * 128, tells = kTell == kOwn ? 1 : n;
  if (threadIdx.x == 0) {
    for (int i = 0; i < stages; i++)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.init.shared::cta.b64 [%1], %2;" ::"r"(smem(&full[i])), "r"(smem(&empty[i])), "r"(2 * tells));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (n > 1) meet();
  const int group = int(threadIdx.x / 128), cluster = int(blockIdx.x / n);
  const uint32_t in_group = threadIdx.x % 128;
  int at = 0;
  uint32_t phase = 0;
  const auto next = [&] {
    if (++at == stages) at = 0, phase ^= 1;
  };
  if (group == 2) {
    const uint32_t part = uint32_t(columns) / n;
    const int row_a = int(blockIdx.x) % 8 * 128, row_b = cluster % 4 * columns;
    if (in_group == 0)
      for (int i = 0; i < steps; i++, next()) {
        look<kTest>(&empty[at], phase ^ 1);
        const uint32_t to = ring + uint32_t(at) * stage;
        expect(&full[at], stage);
        copy_box(&a, i % 64 * kSlab, row_a, to, &full[at], 0);
        if (casts) copy_box(&b, i % 64 * kSlab, row_b + int(rank * part), to + kBytesA + rank * part * 128, &full[at], (1u << n) - 1);
        else
          for (uint32_t r = 0; r < n; r++) copy_box(&b, i % 64 * kSlab, row_b + int(r * part), to + kBytesA + r * part * 128, &full[at], 0);
      }
  } else {
    float sums[128];
#pragma unroll
    for (int i = 0; i < 128; i++) sums[i] = 0;
#pragma unroll 1
    for (int i = 0; i < steps; i++, next()) {
      const uint32_t from = ring + uint32_t(at) * stage;
      look<kTest>(&full[at], phase);
      if (kProducts > 0) {
        issue_products<kProducts>(sums, matrix_from(from + uint32_t(group) * 64 * 128), matrix_from(from + kBytesA));
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      }
      if (in_group < tells) tell<kTell>(&empty[at], in_group);
    }
    float total = 0;
#pragma unroll
    for (int i = 0; i < 128; i++) total += sums[i];
    if (total != 0) out[blockIdx.x] = total;  // never: operands are zero
  }
  if (n > 1) meet();
}

template <Tells kTell, bool kTest, int kProducts>
Launch of_rings(long size, int stages, int columns, bool casts, int blocks, int steps = kSteps) {
  auto a = zeros<float>(1024l * 2048), b = zeros<float>(1024l * 2048), o = zeros<float>(4096);
  const auto map = [](void* data, uint32_t rows) { return matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, 1024, 4096, rows, kSlab, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE); };
  const CUtensorMap ma = map(a.p, 128), mb = map(b.p, uint32_t(columns / size));
  const int bytes = stages * (int(kBytesA) + columns * 128) + 1024, n = blocks ? blocks / int(size) * int(size) : int(size);
  cudaFuncSetAttribute(rings<kTell, kTest, kProducts>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] {
    (void)a, (void)b;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(n)), config.blockDim = dim3(kThreads), config.dynamicSmemBytes = size_t(bytes);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
    config.attrs = &attribute, config.numAttrs = 1;
    cudaLaunchKernelEx(&config, rings<kTell, kTest, kProducts>, ma, mb, o.p, stages, steps, columns, casts);
  };
}
#define RINGS(name, tells, test, products, stages, columns, casts, blocks) \
  TRUTH("rings", name, {1, 2, 4}, [](long size) { return of_rings<tells, test, products>(size, stages, columns, casts, blocks); });
// One cluster, then a full GPU, with products: what tells.
RINGS("rings_releases_one", kReleases, false, 4, 4, 256, true, 0)
RINGS("rings_tells_one", kTells, false, 4, 4, 256, true, 0)
RINGS("rings_own_one", kOwn, false, 4, 4, 256, false, 0)
RINGS("rings_releases", kReleases, false, 4, 4, 256, true, 132)
RINGS("rings_tells", kTells, false, 4, 4, 256, true, 132)
RINGS("rings_own", kOwn, false, 4, 4, 256, false, 132)
// Without multicast.
RINGS("rings_releases_each", kReleases, false, 4, 4, 256, false, 132)
RINGS("rings_tells_each", kTells, false, 4, 4, 256, false, 132)
// By stages; smaller tiles.
RINGS("rings_releases_two", kReleases, false, 4, 2, 256, true, 132)
RINGS("rings_tells_two", kTells, false, 4, 2, 256, true, 132)
RINGS("rings_tells_three", kTells, false, 4, 3, 256, true, 132)
// Without products, whose warps wait all the time: how often they look.
RINGS("rings_bare_releases_one", kReleases, false, 0, 4, 256, true, 0)
RINGS("rings_bare_tells_one", kTells, false, 0, 4, 256, true, 0)
RINGS("rings_bare_releases", kReleases, false, 0, 4, 256, true, 132)
RINGS("rings_bare_tells", kTells, false, 0, 4, 256, true, 132)
RINGS("rings_bare_own", kOwn, false, 0, 4, 256, false, 132)
RINGS("rings_bare_small", kTells, false, 0, 6, 64, true, 132)
RINGS("rings_bare_two", kTells, false, 0, 2, 256, true, 132)
RINGS("rings_bare_each", kTells, false, 0, 4, 256, false, 132)
// Looked at by test_wait.
RINGS("rings_tests", kTells, true, 4, 4, 256, true, 132)
RINGS("rings_tests_releases", kReleases, true, 4, 4, 256, true, 132)
RINGS("rings_bare_tests", kTells, true, 0, 4, 256, true, 132)

}  // namespace
