// The GEMM main loop: a ring of shared-memory stages that one thread fills by TMA and warpgroups empty
// with wgmma.
//
//   stage   A tile: kTileM rows of 128 bytes of K | B tile: kTileN rows of 128 bytes of K
//   full    1 arrival (the producer's, with the stage's bytes) + the bytes themselves, own and multicast
//   empty   one arrival per consumer warp of every CTA that writes into this CTA's stage or reads what this
//           CTA's producer multicasts: the CTAs of its cluster row and of its cluster column
//
// In a cluster of cluster_m x cluster_n CTAs, the CTAs of a row need the same A tile and those of a column
// the same B tile: each loads its share of the tile and multicasts it. Ranks: (rk * cluster_m + rm) * cluster_n
// + rn, where rk is the CTA's part of K.
//
// The ring position is a count of stages used so far; it is the same number in producer and consumers.
// Not here: who computes which tile (gemm_persistent.cuh, gemm_split.cuh).
#pragma once
#include "gemm_params.h"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {

/// Geometry of one instantiation. kGroups consumer warpgroups, each multiplying kBlocks x 64 rows; a stage holds
/// kSharedTile ? all groups' rows : one group's rows.
template <class TA, class TB, bool kTransA_, bool kTransB_, int kGroups_, int kBlocks_, int kTileN_,
          bool kSharedTile, bool kPromote_, int kRingBytes>
struct GemmTile {
  using A = TA;
  using B = TB;
  static constexpr bool kTransA = kTransA_, kTransB = kTransB_, kPromote = kPromote_;
  static constexpr int kGroups = kGroups_, kBlocks = kBlocks_, kTileN = kTileN_;
  static constexpr int kGroupRows = 64 * kBlocks;
  static constexpr int kTileM = kSharedTile ? kGroupRows * kGroups : kGroupRows;
  static constexpr int kTileK = 128 / int(sizeof(TA));
  static constexpr int kBytesA = kTileM * 128, kBytesB = kTileN * 128, kStageBytes = kBytesA + kBytesB;
  static constexpr int kStages = kRingBytes / kStageBytes < 16 ? kRingBytes / kStageBytes : 16;
  static constexpr int kConsumerWarps = (kSharedTile ? kGroups : 1) * 4;  // that read one stage
  static_assert(kStages >= 2 && kStageBytes % 1024 == 0);
  static_assert(sizeof(TA) == sizeof(TB) && (sizeof(TA) == 2 || (!kTransA && !kTransB)));
};

/// Where this CTA stands in its cluster, and the multicast masks that follow.
struct ClusterPlace {
  int rm, rn, rk;
  uint16_t mask_a, mask_b;
  __device__ __forceinline__ explicit ClusterPlace(const GemmParams& p) {
    const int rank = ptx::cluster_ctarank(), plane = p.cluster_m * p.cluster_n;
    rk = rank / plane;
    rm = rank % plane / p.cluster_n;
    rn = rank % p.cluster_n;
    mask_a = uint16_t(((1u << p.cluster_n) - 1) << (rk * plane + rm * p.cluster_n));
    uint32_t column = 0;
    for (int i = 0; i < p.cluster_m; i++) column |= 1u << (i * p.cluster_n);
    mask_b = uint16_t(column << (rk * plane + rn));
  }
};

/// Shared-window addresses of the ring.
template <class Tile>
struct Ring {
  uint32_t stages, full, empty;
  __device__ __forceinline__ uint32_t a(int s) const { return stages + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t b(int s) const { return a(s) + Tile::kBytesA; }
  __device__ __forceinline__ uint32_t full_bar(int s) const { return full + s * 8; }
  __device__ __forceinline__ uint32_t empty_bar(int s) const { return empty + s * 8; }

  __device__ __forceinline__ void init(const GemmParams& p) const {
    for (int s = 0; s < Tile::kStages; s++) {
      ptx::mbarrier_init(full_bar(s), 1);
      ptx::mbarrier_init(empty_bar(s), Tile::kConsumerWarps * (p.cluster_m + p.cluster_n - 1));
    }
  }
};

/// A place in the ring: which stage, and which use of it.
template <int kStages>
struct Position {
  uint32_t stage, phase;
  __device__ __forceinline__ explicit Position(uint32_t count)
      : stage(count % kStages), phase(count / kStages & 1) {}
  __device__ __forceinline__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

/// Issues the copies of one operand tile: this CTA's share of `rows` rows, to `peers` CTAs.
template <bool kTrans, int kRows, int kTileK>
__device__ __forceinline__ void load_operand(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row0, int k0,
                                             int share, int peers, uint16_t mask, uint64_t hint) {
  const int rows = kRows / peers, first = share * rows;
  if constexpr (!kTrans) {
    const uint32_t to = dst + first * 128;
    if (peers == 1) ptx::tma_load_2d(to, map, bar, k0, row0, hint);
    else ptx::tma_load_2d_multicast(to, map, bar, k0, row0 + first, mask, hint);
  } else {
    for (int r = first; r < first + rows; r += 64) {
      const uint32_t to = dst + r * (kTileK * 2);
      if (peers == 1) ptx::tma_load_2d(to, map, bar, row0 + r, k0, hint);
      else ptx::tma_load_2d_multicast(to, map, bar, row0 + r, k0, mask, hint);
    }
  }
}

template <class Tile>
__device__ __forceinline__ void load_a(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring, int s,
                                       int row0, int step, uint64_t hint) {
  load_operand<Tile::kTransA, Tile::kTileM, Tile::kTileK>(&p.a, ring.a(s), ring.full_bar(s), row0,
                                                          step * Tile::kTileK, at.rn, p.cluster_n, at.mask_a, hint);
}
template <class Tile>
__device__ __forceinline__ void load_b(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring, int s,
                                       int col0, int step, uint64_t hint) {
  load_operand<Tile::kTransB, Tile::kTileN, Tile::kTileK>(&p.b, ring.b(s), ring.full_bar(s), col0,
                                                          step * Tile::kTileK, at.rm, p.cluster_m, at.mask_b, hint);
}

/// Gives a stage back to every producer that writes into it. Called by whole warps.
template <class Tile>
__device__ __forceinline__ void release(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring,
                                        int s) {
  const int lane = threadIdx.x % 32;
  if (p.cluster_m * p.cluster_n == 1) {
    if (lane == 0) ptx::mbarrier_arrive(ring.empty_bar(s));
    return;
  }
  const int base = at.rk * p.cluster_m * p.cluster_n;
  if (lane < p.cluster_n) {
    ptx::mbarrier_arrive_remote(ring.empty_bar(s), base + at.rm * p.cluster_n + lane);
  } else if (lane < p.cluster_n + p.cluster_m && lane - p.cluster_n != at.rm) {
    ptx::mbarrier_arrive_remote(ring.empty_bar(s), base + (lane - p.cluster_n) * p.cluster_n + at.rn);
  }
}

/// The four wgmma steps of one stage for every 64-row block of the group whose rows start at `group_row`.
template <class Tile>
__device__ __forceinline__ void multiply_stage(float (&acc)[Tile::kBlocks][Tile::kTileN / 2], uint32_t a,
                                               uint32_t b, int keep) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    uint64_t db;
    if constexpr (Tile::kTransB) db = ptx::descriptor_mn_major(b, j, Tile::kTileK);
    else db = ptx::descriptor_k_major(b, j);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) {
      const uint32_t rows = a + block * 64 * 128;  // 64 rows of 128 bytes, or one slab: both 8 KiB
      uint64_t da;
      if constexpr (Tile::kTransA) da = ptx::descriptor_mn_major(rows, j, Tile::kTileK);
      else da = ptx::descriptor_k_major(rows, j);
      wgmma_ss<typename Tile::A, typename Tile::B, Tile::kTileN, Tile::kTransA, Tile::kTransB>(
          acc[block], da, db, j > 0 ? 1 : keep);
    }
  }
}

/// Multiplies `steps` (at least 1) stages, the first of them the ring's `count`th, into acc (overwritten).
/// `last_issued` is called once the last wgmma is in flight.
template <class Tile, class Notify>
__device__ __forceinline__ void multiply(const GemmParams& p, const ClusterPlace& place, const Ring<Tile>& ring,
                                         uint32_t count, int steps, int group_row,
                                         float (&acc)[Tile::kBlocks][Tile::kTileN / 2], Notify last_issued) {
  Position<Tile::kStages> at(count);
  uint32_t previous = 0;
  for (int i = 0; i < steps; i++) {
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
    ptx::wgmma_fence();
    multiply_stage<Tile>(acc, ring.a(at.stage) + group_row * 128, ring.b(at.stage), i > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (i > 0) release(p, place, ring, previous);
    previous = at.stage;
    at.next();
  }
  last_issued();
  ptx::wgmma_wait_group<0>();
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
  release(p, place, ring, previous);
}

/// As multiply, but each stage's sum (128 bytes of K) is added up in f32: for fp8, whose tensor-core
/// accumulator keeps 13 fraction bits.
template <class Tile, class Notify>
__device__ __forceinline__ void multiply_promoted(const GemmParams& p, const ClusterPlace& place,
                                                  const Ring<Tile>& ring, uint32_t count, int steps, int group_row,
                                                  float (&sum)[Tile::kBlocks][Tile::kTileN / 2],
                                                  Notify last_issued) {
  float acc[Tile::kBlocks][Tile::kTileN / 2];
  Position<Tile::kStages> at(count);
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
    for (int i = 0; i < Tile::kTileN / 2; i++) sum[block][i] = 0.f;
  for (int i = 0; i < steps; i++) {
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
    ptx::wgmma_fence();
    multiply_stage<Tile>(acc, ring.a(at.stage) + group_row * 128, ring.b(at.stage), 0);
    ptx::wgmma_commit_group();
    if (i == steps - 1) last_issued();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
    release(p, place, ring, at.stage);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int j = 0; j < Tile::kTileN / 2; j++) sum[block][j] += acc[block][j];
    at.next();
  }
}

template <class Tile, class Notify>
__device__ __forceinline__ void multiply_any(const GemmParams& p, const ClusterPlace& place, const Ring<Tile>& ring,
                                             uint32_t count, int steps, int group_row,
                                             float (&acc)[Tile::kBlocks][Tile::kTileN / 2], Notify last_issued) {
  if constexpr (Tile::kPromote) multiply_promoted(p, place, ring, count, steps, group_row, acc, last_issued);
  else multiply(p, place, ring, count, steps, group_row, acc, last_issued);
}

/// Tile t in raster order: `raster` rows are walked together, column by column.
__device__ __forceinline__ int2 raster_tile(const GemmParams& p, int t) {
  const int band = p.raster * p.tiles_n, first = t / band * p.raster;
  const int rows = min(p.raster, p.tiles_m - first), in_band = t % band;
  return make_int2(first + in_band % rows, in_band / rows);
}

}  // namespace orrery::kernels
