// Widened GEMM whose K four groups share: e4m3 weights W (rows x k) times columns X of 16 bits, where tiles are so few that two CTAs have one.
//
// A tile has 64 rows and 64 or 128 columns. Half of its K takes an SM as long as all of K would take it for half of the columns, but that weights are widened
// once for all columns, and that of each weight and each column less is brought to SMs. Each CTA of a cluster of two has half of K, and its two groups take the
// stages of that in turn. There are as many places in the ring as there is room for: from memory all of them are wanted (NOTES.md).
//
// Producers, roles and stores are those of gemm_widen_tiles.cuh, fragments those of gemm_widen_bytes.cuh; how sums are added up: gemm_quarter_sums.cuh.
#pragma once
#include "gemm_quarter_sums.cuh"
#include "gemm_widen_tiles.cuh"

namespace orrery::kernels {

/// As WidenTiles; both groups have the same 64 rows.
template <class T, int kTileN_>
struct QuarterTiles {
  using A = T;
  using B = T;
  using Acc = float;
  static constexpr bool kTransA = false, kTransB = false, kPromote = false, kTurns = true;
  static constexpr int kGroups = 2, kBlocks = 1, kTileM = 64, kTileN = kTileN_, kLoadN = kTileN, kSlabs = 1, kSlabK = 64, kLine = 64, kLoaders = 1;
  static constexpr int kBytesA = kTileM * kLine, kBytesB = kTileN * 128, kStageBytes = kBytesA + kBytesB;
  static constexpr int kQuarter = kTileN / 4, kQuads = kQuarter / 8;  // columns of a group in the end; quads of sums that a thread sends to the other CTA
  static constexpr int kInbox = kGroups * 128 * kQuads * 16;
  static constexpr int kFit = (kPersistentShared - 1024 - 512 - kInbox) / kStageBytes, kStages = (kFit < 16 ? kFit : 16) / kGroups * kGroups;  // a place belongs to one group
  static constexpr int kConsumerWarps = 4;  // that read a stage
  static constexpr int kOutPlaces = (4 * kStagingPerWarp + kStageBytes - 1) / kStageBytes;
  static_assert(kStages >= kGroups * (1 + kOutPlaces) && kStageBytes % 1024 == 0 && kStageBytes >= 128 * kQuads * 32);
};

/// Behind the ring what the other CTA sends; what else the end needs lies in the ring.
template <class Tile>
struct QuartersShared : PersistentShared<Tile> {
  __device__ __forceinline__ explicit QuartersShared(uint32_t raw) : PersistentShared<Tile>(raw) {
    this->ring.full = this->staging + Tile::kInbox, this->ring.empty = this->ring.full + Tile::kStages * 8, this->turn = this->ring.empty + Tile::kStages * 8;
  }
  /// Where this thread's first quad is of what a group leaves or is sent, quads being 2,048 bytes apart.
  __device__ __forceinline__ uint32_t sent(int group) const { return this->staging + group * (128 * Tile::kQuads * 16) + threadIdx.x % 128 * 16; }
  __device__ __forceinline__ uint32_t left(int group) const { return this->ring.a(group) + threadIdx.x % 128 * 16; }
  __device__ __forceinline__ uint32_t landed(int group) const { return this->turn + group * 8; }
  /// Where D is on its way out, behind the places above.
  __device__ __forceinline__ uint32_t out(int group) const { return this->ring.a(Tile::kGroups + group * Tile::kOutPlaces); }
};

/// Adds to acc what a group has of `steps` stages, which groups take in turn. A stage's bytes are loaded when it is there; each 16 of k are widened while
/// the products before them run. before: a barrier that nobody waits at. At the end all products have been read.
template <class Tile>
__device__ __forceinline__ void multiply_quarter(const Ring<Tile>& ring, int group, int steps, uint32_t before, float (&acc)[Tile::kTileN / 2]) {
  using T = typename Tile::A;
  const StagePairs<Tile::kLine> pairs(0);
  BytePairs<Tile::kLine / 16> bytes;
  ByteFragments<kUnderWay> fragments;
  StageWalk<Tile> at(ring, group, group);
#pragma unroll 1
  for (int step = group; step < steps; step += Tile::kGroups) {
    at.wait();
    bytes.template load_all<Tile::kLine>(at.stage, pairs);
    const ptx::Descriptor x = at.columns();
    const uint32_t empty = at.empty();
    at.template next<Tile::kGroups>();
#pragma unroll
    for (int j = 0; j < kUnderWay; j++) {
      bytes.template widen<T>(fragments[j], j);
      ptx::wgmma_fence();
      wgmma_rs<T, Tile::kTileN, 0>(acc, fragments[j], x.at(j * ptx::kStepKMajor), 1);
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<kUnderWay - 1>();
    }
    ptx::mbarrier_arrive_if(before, threadIdx.x % 32 == 0);  // the stage before has been read
    before = empty;
  }
  end_products(acc);
}

template <class Tile>
__device__ __forceinline__ void consume_quarters(const GemmParams& p, const ClusterPlace& at, const QuartersShared<Tile>& shared, int steps) {
  const int group = ptx::warpgroup() - 1;
  const int2 tile = raster_tile(p, ptx::clusterid_x());
  float acc[Tile::kTileN / 2], sums[Tile::kQuarter / 2];
#pragma unroll
  for (auto& v : acc) v = 0.f;
  multiply_quarter<Tile>(shared.ring, group, steps, shared.turn + 8 * 3, acc);
  sum_quarters<2>(shared, at.rk, group, acc, sums);
  ptx::griddepcontrol_wait();
  store_widened<Tile::kQuarter>(p, sums, shared.out(group), tile.x * Tile::kTileM, tile.y * Tile::kTileN + group * (Tile::kTileN / 2) + at.rk * Tile::kQuarter);
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_quarters(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const QuartersShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  const int half = p.k_steps / 2, begin = at.rk ? half : 0, end = at.rk ? p.k_steps : half;
  int2 tile{};
  run_roles<Tile, true>(p, at, shared, [&] { tile = first_tile(p); },
                        [&](auto part) { produce_part<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, tile.x * Tile::kTileM, tile.y * Tile::kTileN, begin, end); },
                        [&] { consume_quarters<Tile>(p, at, shared, end - begin); });
}

}  // namespace orrery::kernels
