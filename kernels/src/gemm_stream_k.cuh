// Stream-K GEMM: as many CTAs as fit, each with the same number of K steps, whatever the number of tiles.
//
// The tiles that fill whole waves but the last are multiplied whole, as in gemm_persistent.cuh. The K steps of the rest,
// one tile after the other, are dealt in equal runs to the CTAs ("shares"); a run may begin and end inside a tile. Its
// parts of tiles are left in the workspace as accumulators:
//
// In clusters, operands are multicast as in gemm_mainloop.cuh, a tile below is one of the cluster's (cluster_m x cluster_n of
// D's), a share belongs to a cluster, and its CTAs each have slots and counters of their own.
//
//   slot 2 g       the part with which share g begins
//   slot 2 g + 1   the part with which it ends, where that is another one
//   arrived[tile]  counts the parts that have been left, then those that have been added up; the last one sets it to 0
//
// When every CTA has left its parts, the units of a tile (16 x 16 of D) are dealt to the warps of all its shares, which add
// the parts up in the order of K, so the result is the same every time. Nobody waits before it has left all of its own
// parts, so that waiting ends once all CTAs have started; there are never more of them than the device holds.
//
// Source of the schedule: Osama et al., "Stream-K" (2023); the division of the sums is of our own.
#pragma once
#include "gemm_epilogue.cuh"
#include "gemm_mainloop.cuh"
#include "gemm_persistent.cuh"

namespace orrery::kernels {

/// Steps begin..end-1 of a tile.
struct Segment {
  int tile, begin, end;
  bool whole;
};

/// Clusters that run side by side multiply the same part of K of neighbouring tiles where tiles are cut into equal parts:
/// then they read the same lines at the same time.
__device__ __forceinline__ int share_of_cluster(const GemmParams& p) {
  const int c = ptx::clusterid_x();
  if (p.split == 1) return c;
  const int part = p.by_split.divide(c);  // by_split: the number of tiles
  return (c - part * p.by_split.divisor) * p.split + part;
}

/// The segments of this CTA in order: its share of the cut tiles, then its whole tiles.
class ShareWalk {
 public:
  __device__ __forceinline__ explicit ShareWalk(const GemmParams& p) : p_(p), tile_(ptx::clusterid_x()) {
    const int g = share_of_cluster(p);
    at_ = g * p.share_steps + min(g, p.share_rest);
    end_ = at_ + p.share_steps + (g < p.share_rest);
  }
  __device__ __forceinline__ bool next(Segment& s) {
    if (at_ < end_) {
      const int tile = p_.by_steps.divide(at_), begin = at_ - tile * p_.k_steps, count = min(p_.k_steps - begin, end_ - at_);
      s = {p_.whole_tiles + tile, begin, begin + count, count == p_.k_steps};
      at_ += count;
      return true;
    }
    if (tile_ >= p_.whole_tiles) return false;
    s = {tile_, 0, p_.k_steps, true};
    tile_ += ptx::nclusterid_x();
    return true;
  }

 private:
  const GemmParams& p_;
  int at_, end_, tile_;
};

/// Which shares have a part of a cut tile.
struct Parts {
  int first, count;
  bool first_is_tail;  // the first share ends with it rather than beginning with it
  __device__ __forceinline__ Parts(const GemmParams& p, int cut_tile) {
    const int begin = cut_tile * p.k_steps, last = share_of(p, begin + p.k_steps - 1);
    first = share_of(p, begin);
    count = last - first + 1;
    first_is_tail = first * p.share_steps + min(first, p.share_rest) < begin;
  }
  /// in_cluster, cluster: which CTA of how many.
  __device__ __forceinline__ int slot(int part, int in_cluster, int cluster) const {
    return (2 * (first + part) + (part == 0 && first_is_tail)) * cluster + in_cluster;
  }
  __device__ static __forceinline__ int share_of(const GemmParams& p, int step) {
    const int longer = (p.share_steps + 1) * p.share_rest;
    return step < longer ? p.by_longer_share.divide(step) : p.share_rest + p.by_share.divide(step - longer);
  }
};

template <class Acc>
struct alignas(16) Quad {
  Acc v[4];
};
template <class Acc>
__device__ __forceinline__ Quad<Acc> load_quad(const Quad<Acc>* at) {
  const uint4 w = __ldcg(reinterpret_cast<const uint4*>(at));
  Quad<Acc> q;
  memcpy(&q, &w, 16);
  return q;
}

constexpr int kStreamKConsumers = 256;

/// The slot of a part: quad (block, q) of consumer thread t, accumulators 4 q .. 4 q + 3 of its block, is at
/// (block * kTileN / 8 + q) * 256 + t: a warp's quad is 16 rows by 8 columns.
template <class Tile>
__device__ __forceinline__ void leave_part(const GemmParams& p, const typename Tile::Acc (&acc)[Tile::kBlocks][Tile::kTileN / 2],
                                           int slot, int row0, int col0) {
  using Q = Quad<typename Tile::Acc>;
  const int thread = threadIdx.x - 128;
  Q* to = static_cast<Q*>(p.parts) + int64_t(slot) * (Tile::kTileM * Tile::kTileN / 4) + thread;
  const int row = row0 + thread / 128 * Tile::kGroupRows + thread % 128 / 32 * 16;
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++) {
    if (row + block * 64 >= p.e.m) break;
#pragma unroll
    for (int q = 0; q < Tile::kTileN / 8; q++) {
      if (col0 + q * 8 >= p.e.n) break;
      const auto& a = acc[block];
      to[(block * Tile::kTileN / 8 + q) * kStreamKConsumers] = Q{{a[4 * q], a[4 * q + 1], a[4 * q + 2], a[4 * q + 3]}};
    }
  }
}

/// Two neighbouring elements of a row of D.
__device__ __forceinline__ void finish_pair(const Epilogue& e, float scale, float x, float y, int row, int col) {
  if (row >= e.m || col >= e.n) return;
  const int64_t at = row * e.d_row_stride + col * e.d_col_stride;
  if (e.linear && e.d_col_stride == 1 && col + 1 < e.n && e.dtype != DType::kF32) {
    uint16_t* to = static_cast<uint16_t*>(e.d) + at;
    if (reinterpret_cast<uintptr_t>(to) % 4 == 0) {
      *reinterpret_cast<uint32_t*>(to) = pack_pair(x * scale, y * scale, e.dtype == DType::kBF16);
      return;
    }
  }
  store_element(e.d, at, e.dtype, finish(e, scale, x, row, col));
  if (col + 1 < e.n) store_element(e.d, at + e.d_col_stride, e.dtype, finish(e, scale, y, row, col + 1));
}

/// Adds up and stores this share's units of a cut tile.
template <class Tile>
__device__ __forceinline__ void add_parts(const GemmParams& p, const Parts& parts, int mine, int in_cluster, int cluster, int row0, int col0) {
  using Q = Quad<typename Tile::Acc>;
  constexpr int kSlot = Tile::kTileM * Tile::kTileN / 4, kAcross = Tile::kTileN / 16;
  constexpr int kBatch = Tile::kBlocks * Tile::kTileN <= 64 ? 16 : 8;  // as many as the accumulators leave registers for
  const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
  const float scale = tensor_scale(p.e);
#pragma unroll 1
  for (int u = mine + parts.count * warp; u < 8 * Tile::kBlocks * kAcross; u += parts.count * 8) {
    const int pair = u % kAcross, block = u / kAcross % Tile::kBlocks, owner = u / kAcross / Tile::kBlocks;
    const int row = row0 + owner / 4 * Tile::kGroupRows + block * 64 + owner % 4 * 16, col = col0 + pair * 16;
    if (row >= p.e.m || col >= p.e.n) continue;
    const bool second = col + 8 < p.e.n;
    const Q* from = static_cast<const Q*>(p.parts) + (block * Tile::kTileN / 8 + 2 * pair) * kStreamKConsumers + owner * 32 + lane;
    Q sum[2] = {};
#pragma unroll 1
    for (int part = 0; part < parts.count; part += kBatch) {
      Q v[kBatch][2] = {};
#pragma unroll
      for (int b = 0; b < kBatch; b++) {
        if (part + b >= parts.count) break;
        const Q* at = from + int64_t(parts.slot(part + b, in_cluster, cluster)) * kSlot;
        v[b][0] = load_quad(at);
        if (second) v[b][1] = load_quad(at + kStreamKConsumers);
      }
#pragma unroll
      for (int b = 0; b < kBatch; b++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
          for (int i = 0; i < 4; i++) sum[h].v[i] += v[b][h].v[i];
    }
#pragma unroll 1
    for (int h = 0; h < 4; h++) {
      const auto pick = [&](int i) { return float(h == 0 ? sum[0].v[i] : h == 1 ? sum[0].v[2 + i] : h == 2 ? sum[1].v[i] : sum[1].v[2 + i]); };
      finish_pair(p.e, scale, pick(0), pick(1), row + lane / 4 + h % 2 * 8, col + h / 2 * 8 + lane % 4 * 2);
    }
  }
}

/// Tells the other shares of a tile that our part is in the workspace. By all consumers.
__device__ __forceinline__ void part_left(unsigned* arrived) {
  ptx::bar_sync(1, kStreamKConsumers);
  if (threadIdx.x == 128) {
    __threadfence();
    atomicAdd(arrived, 1u);
  }
}
__device__ __forceinline__ void await_parts(const unsigned* arrived, unsigned count) {
  if (threadIdx.x == 128) ptx::await_count(arrived, count);
  ptx::bar_sync(1, kStreamKConsumers);
}

/// A constant operand need not wait for the launches ahead.
template <class Tile, Part kPart>
__device__ __forceinline__ void produce_segments(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring, int loader) {
  const Loads<Tile> load(p, at, ptx::kEvictNormal, ptx::kEvictNormal);
  if (!(kPart == Part::kA ? p.a_early : p.b_early)) ptx::griddepcontrol_wait();
  Turns<Tile> turns(loader);
  ShareWalk walk(p);
  Segment s;
  while (walk.next(s)) {
    const int2 tile = raster_tile(p, s.tile);
    load_steps<Tile, kPart>(load, ring, turns, (tile.x * p.cluster_m + at.rm) * Tile::kTileM, (tile.y * p.cluster_n + at.rn) * Tile::kTileN, s.begin, s.end);
  }
}

template <class Tile>
__device__ __forceinline__ void consume_segments(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared) {
  const int group = ptx::warpgroup() - 1;
  const uint32_t staging = shared.staging + (threadIdx.x / 32 - 4) * kStagingPerWarp;
  const int group_row = group * Tile::kGroupRows, share = share_of_cluster(p);
  const int cluster = p.cluster_m * p.cluster_n, in_cluster = at.rm * p.cluster_n + at.rn;
  const Release release(p, at, shared.ring.empty);
  typename Tile::Acc acc[Tile::kBlocks][Tile::kTileN / 2];
  uint32_t count = 0;
  int left[2] = {-1, -1};  // tiles whose sums are still to be made
  const auto settle = [&] {
#pragma unroll 1
    for (int i = 0; i < 2; i++) {
      const int cut = i ? left[1] : left[0];
      if (cut < 0) continue;
      const Parts parts(p, cut);
      const int2 tile = raster_tile(p, p.whole_tiles + cut);
      unsigned* arrived = p.arrived + cut * cluster + in_cluster;
      await_parts(arrived, parts.count);
      add_parts<Tile>(p, parts, share - parts.first, in_cluster, cluster, (tile.x * p.cluster_m + at.rm) * Tile::kTileM,
                      (tile.y * p.cluster_n + at.rn) * Tile::kTileN);
      ptx::bar_sync(1, kStreamKConsumers);
      if (threadIdx.x == 128 && atomicAdd(arrived, 1u) == 2u * parts.count - 1) atomicExch(arrived, 0u);
    }
    left[0] = left[1] = -1;
  };
  ShareWalk walk(p);
  Segment s;
  bool first = true;
  while (walk.next(s)) {
    const int2 tile = raster_tile(p, s.tile);
    const int row0 = (tile.x * p.cluster_m + at.rm) * Tile::kTileM, col0 = (tile.y * p.cluster_n + at.rn) * Tile::kTileN, steps = s.end - s.begin;
    const BlockScales<Tile> scales = Tile::kPromote ? BlockScales<Tile>(p, row0, group_row, col0, s.begin, p.k_steps) : BlockScales<Tile>();
    multiply_any(release, shared.ring, count, steps, group_row, acc, scales, [] {});
    if (first) ptx::griddepcontrol_wait();
    first = false;
    count += steps;
    if (s.whole) {
      store_tile<Tile::kBlocks, Tile::kTileN, Tile::kTurns>(p, acc, staging, row0 + group_row, col0, p.e.m);
      if (s.tile < p.whole_tiles) settle();  // the others have left their parts meanwhile
      continue;
    }
    const int cut = s.tile - p.whole_tiles;
    const Parts parts(p, cut);
    leave_part<Tile>(p, acc, parts.slot(share - parts.first, in_cluster, cluster), row0, col0);
    part_left(p.arrived + cut * cluster + in_cluster);
    if (left[0] < 0) left[0] = cut;
    else left[1] = cut;
  }
  settle();
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class Tile>
__global__ void __launch_bounds__(384, 1) gemm_stream_k(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  run_roles<Tile>(p, at, shared, [] {}, [&](auto part) { produce_segments<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader); }, [&] { consume_segments<Tile>(p, at, shared); });
}

template <class TA, class TB, bool kTransA, bool kTransB, int kBlocks, int kTileN, int kSlabs, bool kPromote>
GemmKernel stream_k_kernel(DType a, DType b) {
  using Tile = GemmTile<TA, TB, kTransA, kTransB, 2, kBlocks, kTileN, kSlabs, true, kPromote, persistent_ring(2)>;
  GemmKernel kernel{a, b, kTransA, kTransB, GemmConfig::Schedule::kStreamK, Tile::kTileM, kTileN, kSlabs, kPromote, kPersistentShared, 384,
          reinterpret_cast<const void*>(&gemm_stream_k<Tile>)};
  kernel.turned_box = Tile::kTurns ? kTurnedBox<Tile::kTileN> : 0;
  return kernel;
}

}  // namespace orrery::kernels
