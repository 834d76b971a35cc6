// The GEMM main loop: a ring of shared-memory stages that threads fill by TMA, some with A and some with B, and warpgroups empty with
// wgmma.
//
//   stage   kSlabs A slabs, kSlabs B slabs; a slab is kTileM (kTileN) rows of 128 bytes of K
//   full    the arrivals of its two producers (with the bytes they expect) + the bytes themselves, own and multicast
//   empty   one arrival per consumer warp of every CTA that writes into this CTA's stage or reads what this
//           CTA's producers multicast: the CTAs of its cluster row and of its cluster column
//
// In a cluster of cluster_m x cluster_n CTAs, the CTAs of a row need the same A tile and those of a column
// the same B tile: each loads its share of the tile and multicasts it. Ranks: (rk * cluster_m + rm) * cluster_n
// + rn, where rk is the CTA's part of K.
//
// A producer is one thread and every instruction of its loop counts (an integer division there once cost a
// third of all throughput, NOTES.md): what does not change from stage to stage is computed ahead, in OperandLoad
// and Release, and A and B have producers of their own; some tiles have two each (kLoaders), which take the stages in turn.
//
// The ring position is a count of stages used so far; it is the same number in producers and consumers.
// Not here: who computes which tile (gemm_persistent.cuh, gemm_split.cuh).
#pragma once
#include "gemm_params.h"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {

/// Geometry of one instantiation. kGroups consumer warpgroups, each multiplying kBlocks x 64 rows; a stage holds
/// kSharedTile ? all groups' rows : one group's rows.
template <class TA, class TB, bool kTransA_, bool kTransB_, int kGroups_, int kBlocks_, int kTileN_, int kSlabs_,
          bool kSharedTile, bool kPromote_, int kRingBytes, int kLoaders_ = 1>
struct GemmTile {
  using A = TA;
  using B = TB;
  using Acc = std::conditional_t<std::is_same_v<TA, int8_t>, int32_t, float>;
  static constexpr bool kTransA = kTransA_, kTransB = kTransB_, kPromote = kPromote_;
  static constexpr int kGroups = kGroups_, kBlocks = kBlocks_, kTileN = kTileN_, kSlabs = kSlabs_;
  static constexpr int kGroupRows = 64 * kBlocks;
  static constexpr int kTileM = kSharedTile ? kGroupRows * kGroups : kGroupRows;
  static constexpr int kSlabK = 128 / int(sizeof(TA));
  // An N-major tile is loaded in slabs of 64 columns, the last of which may be used in part.
  static constexpr int kLoadN = kTransB ? (kTileN + 63) / 64 * 64 : kTileN;
  static constexpr int kBytesA = kTileM * 128, kBytesB = kLoadN * 128;  // of a slab
  static constexpr int kStageBytes = (kBytesA + kBytesB) * kSlabs;
  static constexpr int kStages = kRingBytes / kStageBytes < 16 ? kRingBytes / kStageBytes : 16;
  static constexpr int kLoaders = kLoaders_;  // producers of an operand
  static constexpr int kConsumerWarps = (kSharedTile ? kGroups : 1) * 4;  // that read one stage
  // The layout of a product of row-major matrices that is computed as D' = B' A': D comes out turned round. Where both operands are K-major
  // products can be turned as well; it is worth code in the widest tiles and the odd ones, as one way round may fill waves that the other does not.
  static constexpr bool kTurns = !kTransB && kTileN >= 32 && kTileN % 16 == 0 && (kTransA || kBlocks * kTileN > 256 || kTileN % 32 != 0);
  static_assert(kStages >= 2 && kStageBytes % 1024 == 0 && (kSlabs == 1 || !kPromote));
  static_assert(sizeof(TA) == sizeof(TB) && (sizeof(TA) == 2 || (!kTransA && !kTransB)));
};

/// Where this CTA stands in its cluster.
struct ClusterPlace {
  int rm, rn, rk, plane_base;  // plane_base: rank of the first CTA with our rk
  bool shares;                 // whether operands are multicast at all
  __device__ __forceinline__ explicit ClusterPlace(const GemmParams& p) {
    const int rank = ptx::cluster_ctarank(), plane_log = p.cluster_m_log + p.cluster_n_log;
    rk = rank >> plane_log;
    plane_base = rk << plane_log;
    rm = rank - plane_base >> p.cluster_n_log;
    rn = rank & p.cluster_n - 1;
    shares = plane_log != 0;
  }
};

/// Shared-window addresses of the ring.
template <class Tile>
struct Ring {
  uint32_t stages, full, empty;
  __device__ __forceinline__ uint32_t a(int s) const { return stages + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t b(int s) const { return a(s) + Tile::kBytesA * Tile::kSlabs; }
  __device__ __forceinline__ uint32_t full_bar(int s) const { return full + s * 8; }
  __device__ __forceinline__ uint32_t empty_bar(int s) const { return empty + s * 8; }

  /// By one thread.
  __device__ __forceinline__ void init(const GemmParams& p, int stage) const {
    ptx::mbarrier_init(full_bar(stage), 2);
    ptx::mbarrier_init(empty_bar(stage), Tile::kConsumerWarps * (p.cluster_m + p.cluster_n - 1));
  }
};

/// Has the TMA unit fetch the descriptors that a product needs; by one thread.
__device__ __forceinline__ void prefetch_maps(const GemmParams& p) {
  ptx::prefetch_tensormap(&p.a);
  ptx::prefetch_tensormap(&p.b);
  if (p.tma_store) ptx::prefetch_tensormap(&p.d);
}

/// A place in the ring: which stage, and which use of it.
template <int kStages>
struct Position {
  uint32_t stage, phase;
  __device__ __forceinline__ explicit Position(uint32_t count)
      : stage(count % kStages), phase(count / kStages & 1) {}
  __device__ __forceinline__ void next(uint32_t count = 1) {
    stage += count;
    if (stage >= kStages) {
      stage -= kStages;
      phase ^= 1;
    }
  }
};

/// The stages that a producer fills: every kLoaders-th, over all tiles.
template <class Tile>
struct Turns {
  Position<Tile::kStages> pos;
  int ahead;  // steps of the next run of K that are another's
  __device__ __forceinline__ explicit Turns(int loader) : pos(loader), ahead(loader) {}
};

/// The copies of one operand: this CTA's share of the rows of each slab, to every CTA that needs them. Each copy takes its producer some
/// 60 cycles, which is why an MN-major operand is not copied slab by slab where that can be helped.
template <bool kTrans, int kRows, int kSlabK, int kSlabs>
struct OperandLoad {
  const CUtensorMap* map;
  int first, rows;  // share of the tile's rows
  uint16_t mask;    // 0: nobody to share with
  bool at_once;     // an MN-major operand's slabs of 64 rows are a dimension of the map: all of them in one copy
  uint64_t hint;

  __device__ __forceinline__ OperandLoad(const CUtensorMap* m, int share, int peers_log, uint32_t peers_mask, bool once, uint64_t h)
      : map(m), first(share * (kRows >> peers_log)), rows(kRows >> peers_log),
        mask(peers_log ? uint16_t(peers_mask) : uint16_t(0)), at_once(once), hint(h) {}

  /// Rows row0.. of stage `step` to `dst`; kShared, kAtOnce: what `mask` and `at_once` say, known where it is compiled.
  template <bool kShared, bool kAtOnce>
  __device__ __forceinline__ void copy(uint32_t dst, uint32_t bar, int row0, int step) const {
    const auto box = [&](uint32_t to, int x, int y) {
      if constexpr (kShared) ptx::tma_load_2d_multicast(to, map, bar, x, y, mask, hint);
      else ptx::tma_load_2d(to, map, bar, x, y, hint);
    };
#pragma unroll
    for (int slab = 0; slab < kSlabs; slab++) {
      const int k0 = (step * kSlabs + slab) * kSlabK;
      const uint32_t to = dst + slab * kRows * 128;
      if constexpr (!kTrans) {
        box(to + first * 128, k0, row0 + first);
      } else if constexpr (kAtOnce) {
        if constexpr (kShared) ptx::tma_load_3d_multicast(to + first * 128, map, bar, 0, k0, (row0 + first) / 64, mask, hint);
        else ptx::tma_load_3d(to + first * 128, map, bar, 0, k0, (row0 + first) / 64, hint);
      } else {
#pragma unroll 1
        for (int r = first; r < first + rows; r += 64) box(to + r * 128, row0 + r, k0);
      }
    }
  }
  /// Calls `loop` with a copy of the kind that is wanted: what a producer asks at every stage it waits for.
  template <class Loop>
  __device__ __forceinline__ void with_copy(Loop loop) const {
    const auto shared = [&](auto once) {
      constexpr bool kAtOnce = decltype(once)::value;
      if (mask) loop([this](uint32_t dst, uint32_t bar, int row0, int step) { copy<true, kAtOnce>(dst, bar, row0, step); });
      else loop([this](uint32_t dst, uint32_t bar, int row0, int step) { copy<false, kAtOnce>(dst, bar, row0, step); });
    };
    if (!kTrans || at_once) shared(std::true_type());
    else if constexpr (kTrans) shared(std::false_type());
  }
};

template <class Tile>
struct Loads {
  OperandLoad<Tile::kTransA, Tile::kTileM, Tile::kSlabK, Tile::kSlabs> a;
  OperandLoad<Tile::kTransB, Tile::kLoadN, Tile::kSlabK, Tile::kSlabs> b;
  __device__ __forceinline__ Loads(const GemmParams& p, const ClusterPlace& at, uint64_t hint_a, uint64_t hint_b)
      : a(&p.a, at.rn, p.cluster_n_log, ((1u << p.cluster_n) - 1) << (at.plane_base + at.rm * p.cluster_n), p.a_at_once, hint_a),
        b(&p.b, at.rm, p.cluster_m_log, column_mask(p) << (at.plane_base + at.rn), p.b_at_once, hint_b) {}
  __device__ static __forceinline__ uint32_t column_mask(const GemmParams& p) {
    uint32_t mask = 0;
    for (int i = 0; i < p.cluster_m; i++) mask |= 1u << i * p.cluster_n;
    return mask;
  }
};

/// What a producer loads, and that as a value with its number among those that do.
enum class Part { kA, kB };
template <Part kPart_>
struct Loaded {
  static constexpr Part kPart = kPart_;
  int loader;
};

/// Calls `produce` with the part of producer `number`, of 2 * kLoaders.
template <class Produce>
__device__ __forceinline__ void with_part(int number, Produce produce) {
  if (number % 2 == 0) produce(Loaded<Part::kA>{number / 2});
  else produce(Loaded<Part::kB>{number / 2});
}

/// Fills our stages of the steps [first, end) of K of the tile at these rows of A and of B.
template <class Tile, Part kPart>
__device__ __forceinline__ void load_steps(const Loads<Tile>& load, const Ring<Tile>& ring, Turns<Tile>& turns, int row_a, int row_b, int first, int end) {
  constexpr bool kA = kPart == Part::kA;
  Position<Tile::kStages>& pos = turns.pos;
  int step = first + turns.ahead;
  const auto fill = [&](auto copy) {
#pragma unroll 1
    for (; step < end; step += Tile::kLoaders) {
      const uint32_t full = ring.full_bar(pos.stage);
      ptx::mbarrier_wait(ring.empty_bar(pos.stage), pos.phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, Tile::kSlabs * (kA ? Tile::kBytesA : Tile::kBytesB));
      copy(kA ? ring.a(pos.stage) : ring.b(pos.stage), full, kA ? row_a : row_b, step);
      pos.next(Tile::kLoaders);
    }
  };
  if constexpr (kA) load.a.with_copy(fill);
  else load.b.with_copy(fill);
  turns.ahead = step - end;
}

/// Gives stages back to every producer that writes into them. Made and called by whole warps; a lane has at most
/// one CTA to tell.
struct Release {
  uint32_t bar;
  bool mine, remote;
  __device__ __forceinline__ Release(const GemmParams& p, const ClusterPlace& at, uint32_t empty) : remote(at.shares) {
    const int lane = threadIdx.x % 32, in_column = lane - p.cluster_n;
    const bool row = lane < p.cluster_n, column = !row && in_column < p.cluster_m && in_column != at.rm;
    const int rank = at.plane_base + (row ? at.rm * p.cluster_n + lane : in_column * p.cluster_n + at.rn);
    mine = row || column;
    bar = remote && mine ? ptx::mapa(empty, rank) : empty;
  }
  __device__ __forceinline__ void operator()(int stage, bool really = true) const {
    ptx::mbarrier_arrive_cluster_if(bar + stage * 8, mine && remote && really);
    ptx::mbarrier_arrive_if(bar + stage * 8, mine && !remote && really);
  }
};

/// What a group multiplies of each stage, from its first row on. Descriptors of the first stage are made once: those of others are a number
/// apart, which with the group's own in uniform registers is all there is to compute between products.
template <class Tile>
struct Factors {
  ptx::Descriptor a, b;
  __device__ __forceinline__ Factors(const Ring<Tile>& ring, int group_row) : a(of<Tile::kTransA>(ring.a(0) + group_row * 128)), b(of<Tile::kTransB>(ring.b(0))) {}
  template <bool kTrans>
  __device__ static __forceinline__ ptx::Descriptor of(uint32_t at) {
    return kTrans ? ptx::descriptor_mn_major(at, Tile::kSlabK) : ptx::descriptor_k_major(at);
  }
};

/// The wgmma steps of one stage for every 64-row block of a group.
template <class Tile>
__device__ __forceinline__ void multiply_stage(typename Tile::Acc (&acc)[Tile::kBlocks][Tile::kTileN / 2], const Factors<Tile>& of, uint32_t stage, int keep) {
  const ptx::Descriptor da = of.a.moved(stage * Tile::kStageBytes), db = of.b.moved(stage * Tile::kStageBytes);
  constexpr uint32_t kStepA = Tile::kTransA ? ptx::kStepMnMajor : ptx::kStepKMajor;
  constexpr uint32_t kStepB = Tile::kTransB ? ptx::kStepMnMajor : ptx::kStepKMajor;
#pragma unroll
  for (int i = 0; i < 4 * Tile::kSlabs; i++) {
    const uint32_t slab = i / 4, j = i % 4;
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) {  // 64 rows x 128 bytes each, either way round
      wgmma_ss<typename Tile::A, typename Tile::B, Tile::kTileN, Tile::kTransA, Tile::kTransB>(
          acc[block], da.at(slab * Tile::kBytesA + block * 64 * 128 + j * kStepA),
          db.at(slab * Tile::kBytesB + j * kStepB), i > 0 ? 1 : keep);
    }
  }
}

/// Multiplies `steps` (at least 1) stages, the first of them the ring's `count`th, into acc (overwritten).
/// `last_issued` is called once the last wgmma is in flight.
template <class Tile, class Notify>
__device__ __forceinline__ void multiply(const Release& release, const Ring<Tile>& ring, uint32_t count, int steps, int group_row,
                                         typename Tile::Acc (&acc)[Tile::kBlocks][Tile::kTileN / 2], Notify last_issued) {
  Position<Tile::kStages> at(count);
  const Factors<Tile> factors(ring, group_row);
  uint32_t previous = 0;
  for (int i = 0; i < steps; i++) {
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
    ptx::wgmma_fence();
    multiply_stage<Tile>(acc, factors, at.stage, i > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
    if (i > 0) release(previous);
    previous = at.stage;
    at.next();
  }
  last_issued();
  ptx::wgmma_wait_group<0>();
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
  release(previous);
}

/// Where a thread finds the scales of its rows and of its tile's columns, which are within 128; a stage is 128 of k.
template <class Tile>
struct BlockScales {
  const float* a[Tile::kBlocks][2];
  const float* b = nullptr;
  BlockScales() = default;
  /// The tile's first row is row0, of the group's first row group_row; the first stage is `begin`.
  __device__ __forceinline__ BlockScales(const GemmParams& p, int row0, int group_row, int col0, int begin, int steps_of_k) {
    if (!p.block_b) return;
    b = p.block_b + int64_t(min(col0, p.e.n - 1) / 128) * steps_of_k + begin;
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const int row = row0 + group_row + block * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4 + 8 * h;
        a[block][h] = p.block_a + int64_t(min(row, p.e.m - 1)) * steps_of_k + begin;
      }
  }
};

/// As multiply, but each stage's sum (128 bytes of K) is added up in f32: for fp8, whose tensor-core
/// accumulator keeps 13 fraction bits.
template <class Tile, class Notify>
__device__ __forceinline__ void multiply_promoted(const Release& release, const Ring<Tile>& ring, uint32_t count, int steps, int group_row,
                                                  float (&sum)[Tile::kBlocks][Tile::kTileN / 2], const BlockScales<Tile>& scales,
                                                  Notify last_issued) {
  float acc[Tile::kBlocks][Tile::kTileN / 2];
  const Factors<Tile> factors(ring, group_row);
  Position<Tile::kStages> at(count);
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
    for (int i = 0; i < Tile::kTileN / 2; i++) sum[block][i] = 0.f;
  for (int i = 0; i < steps; i++) {
    float scale[Tile::kBlocks][2];
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int h = 0; h < 2; h++) scale[block][h] = scales.b ? __ldg(scales.b + i) * __ldg(scales.a[block][h] + i) : 1.f;
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
    ptx::wgmma_fence();
    multiply_stage<Tile>(acc, factors, at.stage, 0);
    ptx::wgmma_commit_group();
    if (i == steps - 1) last_issued();
    ptx::wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++) ptx::wgmma_pin(acc[block]);
    release(at.stage);
#pragma unroll
    for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
      for (int j = 0; j < Tile::kTileN / 2; j++) sum[block][j] = fmaf(acc[block][j], scale[block][j / 2 % 2], sum[block][j]);
    at.next();
  }
}

template <class Tile, class Notify>
__device__ __forceinline__ void multiply_any(const Release& release, const Ring<Tile>& ring, uint32_t count, int steps, int group_row,
                                             typename Tile::Acc (&acc)[Tile::kBlocks][Tile::kTileN / 2], const BlockScales<Tile>& scales,
                                             Notify last_issued) {
  if constexpr (Tile::kPromote) multiply_promoted(release, ring, count, steps, group_row, acc, scales, last_issued);
  else multiply(release, ring, count, steps, group_row, acc, last_issued);
}

/// Tile t in raster order: `raster` rows are walked together, column by column.
__device__ __forceinline__ int2 raster_tile(const GemmParams& p, int t) {
  const int band = p.by_band.divide(t), first = band * p.raster, in_band = t - band * p.by_band.divisor;
  const bool last = first + p.raster > p.tiles_m;
  const FastDivide& rows = last ? p.by_rest : p.by_raster;
  const int column = rows.divide(in_band);
  return make_int2(first + in_band - column * rows.divisor, column);
}

}  // namespace orrery::kernels
