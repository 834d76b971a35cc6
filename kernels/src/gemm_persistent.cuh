// Persistent GEMM: one CTA per SM walks tiles of D; producer threads for A and for B, and two consumer warpgroups or three.
//
//   cooperative  all warpgroups multiply one tile (64 rows or 128 each); the producer runs ahead into the next
//                tile while they store. With `stagger` the second one starts a few stages late and stays behind,
//                so that one has products to issue while the other stores.
//   ping-pong    the warpgroups take tiles in turn; `turn` barriers let one multiply at a time, so that one's
//                epilogue runs under the other's products.
//
// Shared memory (1024-byte aligned): ring stages | 4 KiB of store staging per consumer warp | barriers.
// Registers: the producer warpgroup gives its own up (setmaxnreg) so that two consumers have 232 or 240 each, three 152.
#pragma once
#include "gemm_epilogue.cuh"
#include "gemm_mainloop.cuh"
#include "make_barriers.cuh"
#include "roles.cuh"

namespace orrery::kernels {

constexpr int kPersistentShared = 232448;  // what a CTA may have on sm_90
constexpr int persistent_staging(int groups) { return groups * 4 * kStagingPerWarp; }
constexpr int persistent_ring(int groups) { return kPersistentShared - persistent_staging(groups) - 1024 /* alignment */ - 512 /* barriers */; }

template <class Tile>
struct PersistentShared {
  Ring<Tile> ring;
  uint32_t staging, turn;
  __device__ __forceinline__ explicit PersistentShared(uint32_t raw) {
    const uint32_t base = (raw + 1023) / 1024 * 1024;
    ring.stages = base;
    staging = base + Tile::kStages * Tile::kStageBytes;
    ring.full = staging + Tile::kGroups * 4 * kStagingPerWarp;
    ring.empty = ring.full + Tile::kStages * 8;
    turn = ring.empty + Tile::kStages * 8;
  }
};

/// A warpgroup of producers, then the consumers.
template <class Tile>
constexpr int kPersistentThreads = 128 * (1 + Tile::kGroups);

/// Where a CTA begins, found while other warps make the barriers; with it the parameters that a producer needs are in the constant cache.
__device__ __forceinline__ int2 first_tile(const GemmParams& p) {
  const int2 tile = raster_tile(p, ptx::clusterid_x());
  asm volatile("" ::"r"(tile.x), "r"(tile.y), "l"(p.hint_a), "l"(p.hint_b), "r"(int(p.a_at_once)), "r"(p.k_steps));
  return tile;
}

template <class Tile, Part kPart>
__device__ __forceinline__ void produce_tiles(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring, int loader, int2 tile) {
  const Loads<Tile> load(p, at, p.hint_a, p.hint_b);
  Turns<Tile> turns(loader);
  const int tiles = p.tiles_m * p.tiles_n, stride = ptx::nclusterid_x(), steps = p.k_steps;
  int t = ptx::clusterid_x();
  asm volatile("" ::"r"(tiles), "r"(stride), "r"(steps));  // found before the wait
  if (!(kPart == Part::kA ? p.a_early : p.b_early)) ptx::griddepcontrol_wait();
  while (true) {
    const int row0 = (tile.x * p.cluster_m + at.rm) * Tile::kTileM;
    const int col0 = (tile.y * p.cluster_n + at.rn) * Tile::kTileN;
    load_steps<Tile, kPart>(load, ring, turns, row0, col0, 0, steps);
    if ((t += stride) >= tiles) return;
    tile = raster_tile(p, t);
  }
}

template <class Tile, bool kPingPong>
__device__ __forceinline__ void consume_tiles(const GemmParams& p, const ClusterPlace& at,
                                              const PersistentShared<Tile>& shared) {
  const int group = ptx::warpgroup() - 1, stride = ptx::nclusterid_x(), tiles = p.tiles_m * p.tiles_n;
  const uint32_t staging = shared.staging + (threadIdx.x / 32 - 4) * kStagingPerWarp;
  const int group_row = kPingPong ? 0 : group * Tile::kGroupRows;
  const Release release(p, at, shared.ring.empty);
  typename Tile::Acc acc[Tile::kBlocks][Tile::kTileN / 2];
  uint32_t count = kPingPong ? group * p.k_steps : 0, use = 0;
  if (!kPingPong && group == 1 && p.stagger > 0) ptx::mbarrier_wait(shared.ring.full_bar(p.stagger), 0);
  for (int t = ptx::clusterid_x() + (kPingPong ? group * stride : 0); t < tiles;
       t += kPingPong ? 2 * stride : stride) {
    const int2 tile = raster_tile(p, t);
    if constexpr (kPingPong) ptx::mbarrier_wait(shared.turn + group * 8, (use & 1) ^ (group == 0));
    const BlockScales<Tile> scales = Tile::kPromote ? BlockScales<Tile>(p, (tile.x * p.cluster_m + at.rm) * Tile::kTileM, group_row,
                                                                        (tile.y * p.cluster_n + at.rn) * Tile::kTileN, 0, p.k_steps)
                                                    : BlockScales<Tile>();
    multiply_any(release, shared.ring, count, p.k_steps, group_row, acc, scales, [&] {
      if (kPingPong && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.turn + (group ^ 1) * 8);
    });
    if (use == 0) ptx::griddepcontrol_wait();
    store_tile<Tile::kBlocks, Tile::kTileN, Tile::kTurns>(p, acc, staging, (tile.x * p.cluster_m + at.rm) * Tile::kTileM + group_row,
                                            (tile.y * p.cluster_n + at.rn) * Tile::kTileN, p.e.m);
    count += kPingPong ? 2 * p.k_steps : p.k_steps;
    use++;
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

/// The frame of every kernel of producer threads, whose parts `produce` is called with, and consumer warpgroups; they wait for the
/// launch ahead by themselves. `prepare`: by the warps that will produce, while the others make the barriers. kPush: as in roles.cuh; what has been
/// written to a group is told at a `turn` of its own; behind those of three groups there is one that nobody waits at.
template <class Tile, bool kPush = false, class Prepare, class Produce, class Consume>
__device__ __forceinline__ void run_roles(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared, Prepare prepare, Produce produce, Consume consume) {
  constexpr int kProducers = 2 * Tile::kLoaders;
  const auto init = [&] {
    const int warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0);
    if (warp < kProducers) {
      prepare();
    } else {
      make_barriers<kPersistentThreads<Tile> / 32 - kProducers, Tile::kStages + 2>(warp - kProducers, [&](int i) {
        if (i == 0) prefetch_maps(p);
        else if (i == 1) {
          ptx::mbarrier_init(shared.turn, 4), ptx::mbarrier_init(shared.turn + 8, 4);
          if constexpr (kPush && Tile::kGroups == 3) ptx::mbarrier_init(shared.turn + 16, 4);
          if constexpr (kPush) ptx::mbarrier_init(shared.turn + 24, 4);
        } else shared.ring.init(p, i - 2);
      });
    }
  };
  const auto produce_part = [&](int producer) { with_part(producer, produce); };
  constexpr bool kMost = Tile::kBlocks * Tile::kTileN == 384;  // sums in 192 registers
  constexpr int kProducerRegisters = Tile::kGroups == 3 ? 32 : kMost ? 24 : 40, kConsumerRegisters = Tile::kGroups == 3 ? 152 : kMost ? 240 : 232;
  run_warp_roles<kProducers, kProducerRegisters, kConsumerRegisters, Dependent::kInside, true, kPush>(at.shares, init, produce_part, [&] {
    touch(p.e);
    consume();
  });
}

template <class Tile, bool kPingPong>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_persistent(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  int2 first{};
  run_roles<Tile>(p, at, shared, [&] { first = first_tile(p); },
                  [&](auto part) { produce_tiles<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, first); },
                  [&] { consume_tiles<Tile, kPingPong>(p, at, shared); });
}

template <class TA, class TB, bool kTransA, bool kTransB, int kBlocks, int kTileN, int kSlabs, bool kPingPong,
          bool kPromote, int kGroups = 2>
GemmKernel persistent_kernel(DType a, DType b) {
  static_assert(kGroups == 2 || !kPingPong);
  using Tile = GemmTile<TA, TB, kTransA, kTransB, kGroups, kBlocks, kTileN, kSlabs, !kPingPong, kPromote, persistent_ring(kGroups)>;
  const auto schedule = kPingPong ? GemmConfig::Schedule::kPingPong : GemmConfig::Schedule::kCooperative;
  GemmKernel kernel{a, b, kTransA, kTransB, schedule, Tile::kTileM, kTileN, kSlabs, kPromote, kPersistentShared, kPersistentThreads<Tile>,
          reinterpret_cast<const void*>(&gemm_persistent<Tile, kPingPong>)};
  kernel.turned_box = Tile::kTurns ? kTurnedBox<Tile::kTileN> : 0;
  return kernel;
}

}  // namespace orrery::kernels
