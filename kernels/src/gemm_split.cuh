// Split GEMM: one tile of D per cluster; the CTAs of the cluster divide K (and may also share operands as
// in gemm_mainloop.cuh) and add up through distributed shared memory. For few tiles or few rows.
//
// A CTA multiplies its part of K, leaves its f32 sums in its own shared memory (over the ring, which is idle by
// then), and after a cluster barrier finishes its share of the tile's rows: it reads them from each peer in rank
// order, so the result does not depend on timing, and needs no workspace and no atomics. With split 1 the
// accumulators are stored straight away.
//
// Where parts of K are left to a launch of their own (gemm_parts.cu), the grid has all tiles once for each part, and a tile of a
// part is stored as it is, f32, in the part's plane of the workspace; clusters then share operands only.
//
// With `overlap`, a constant operand (weights) may be loaded before the kernel ahead has ended; only the
// other operand and the stores wait for it.
//
// Threads: kGroups consumer warpgroups, then the producers' warps.
#pragma once
#include "gemm_epilogue.cuh"
#include "gemm_mainloop.cuh"
#include "make_barriers.cuh"

namespace orrery::kernels {

template <class Tile>
struct SplitShared {
  Ring<Tile> ring;
  __device__ __forceinline__ explicit SplitShared(uint32_t raw) {
    ring.stages = (raw + 1023) / 1024 * 1024;
    ring.full = ring.stages + Tile::kStages * Tile::kStageBytes;
    ring.empty = ring.full + Tile::kStages * 8;
  }
};

/// Consumer warpgroups, and a warp for each producer.
template <class Tile>
constexpr int kSplitThreads = Tile::kGroups * 128 + 64 * Tile::kLoaders;

/// Floats from one row of sums to the next: rows of one warp store fall on different banks.
template <class Tile>
constexpr int kSumPitch = Tile::kTileN == 8 ? 8 : Tile::kTileN + 8;

/// A constant operand need not wait for the launches ahead.
template <class Tile, Part kPart>
__device__ __forceinline__ void produce_part(const GemmParams& p, const ClusterPlace& at, const Ring<Tile>& ring,
                                             int loader, int row0, int col0, int begin, int end) {
  const Loads<Tile> load(p, at, p.hint_a, p.hint_b);
  if (!(kPart == Part::kA ? p.a_early : p.b_early)) ptx::griddepcontrol_wait();
  Turns<Tile> turns(loader);
  load_steps<Tile, kPart>(load, ring, turns, row0, col0, begin, end);
}

/// Writes this group's accumulators to `sums` (float[kTileM][kSumPitch]).
template <class Tile>
__device__ __forceinline__ void leave_sums(const typename Tile::Acc (&acc)[Tile::kBlocks][Tile::kTileN / 2], float* sums,
                                           int group_row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++) {
    const int row = group_row + block * 64 + threadIdx.x % 128 / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < Tile::kTileN / 2; i += 2) {
      float* to = sums + (row + 8 * (i / 2 % 2)) * kSumPitch<Tile> + i / 4 * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(float(acc[block][i]), float(acc[block][i + 1]));
    }
  }
}

/// Finishes this CTA's share of the tile's rows. Consecutive threads take consecutive addresses of D; a thread reads
/// kBatch quads of every peer before it adds them up, because a remote read takes some 200 cycles.
template <class Tile>
__device__ __forceinline__ void finish_rows(const GemmParams& p, const ClusterPlace& at, uint32_t sums, int row0,
                                            int col0, int thread) {
  constexpr int kThreads = Tile::kGroups * 128, kQuads = Tile::kTileN / 4, kBatch = 4;
  const float scale = tensor_scale(p.e);
  const int first_row = p.by_split.divide(Tile::kTileM * at.rk);
  const int rows = p.by_split.divide(Tile::kTileM * (at.rk + 1)) - first_row;
  const int plane = p.cluster_m * p.cluster_n, in_plane = at.rm * p.cluster_n + at.rn;
  const bool rows_fast = p.e.d_row_stride == 1;
  // Where rows are contiguous in D, they are counted up to a power of two and those beyond are left out.
  const int row_shift = 32 - __clz(rows - 1 | 1) - (rows == 1), count = rows_fast ? kQuads << row_shift : rows * kQuads;
  for (int first = thread; first < count; first += kThreads * kBatch) {
    float4 v[kBatch];
    uint32_t offset[kBatch];
    bool inside[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      const int i = first + b * kThreads;
      const int r = first_row + (rows_fast ? i & (1 << row_shift) - 1 : i / kQuads);
      inside[b] = i < count && r < first_row + rows;
      offset[b] = (r * kSumPitch<Tile> + 4 * (rows_fast ? i >> row_shift : i % kQuads)) * 4;
      v[b] = make_float4(0.f, 0.f, 0.f, 0.f);
    }
#pragma unroll 2
    for (int r = 0; r < p.split; r++) {
      const uint32_t peer = ptx::mapa(sums, r * plane + in_plane);
#pragma unroll
      for (int b = 0; b < kBatch; b++) {
        if (!inside[b]) continue;
        const float4 w = ptx::ld_shared_cluster_f4(peer + offset[b]);
        v[b].x += w.x, v[b].y += w.y, v[b].z += w.z, v[b].w += w.w;
      }
    }
#pragma unroll
    for (int b = 0; b < kBatch; b++) {
      if (!inside[b]) continue;
      const uint32_t element = offset[b] / 4;
      finish_quad(p.e, scale, v[b], row0 + element / kSumPitch<Tile>, col0 + element % kSumPitch<Tile>);
    }
  }
}

template <class Tile, int kCtasPerSm>
__global__ void __launch_bounds__(kSplitThreads<Tile>, kCtasPerSm)
    gemm_split(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const SplitShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  const int group = ptx::warpgroup(), producer = __shfl_sync(~0u, int(threadIdx.x / 32), 0) - Tile::kGroups * 4;
  make_barriers<kSplitThreads<Tile> / 32, Tile::kStages + 1>([&](int i) {
    if (i < Tile::kStages) shared.ring.init(p, i);
    else prefetch_maps(p);
  });
  __syncthreads();
  if (at.shares) ptx::cluster_sync();
  ptx::griddepcontrol_launch_dependents();
  const int part = p.by_tiles.divide(ptx::clusterid_x()), slice = part + at.rk;
  const int2 tile = raster_tile(p, ptx::clusterid_x() - part * p.by_tiles.divisor);
  const int row0 = (tile.x * p.cluster_m + at.rm) * Tile::kTileM;
  const int col0 = (tile.y * p.cluster_n + at.rn) * Tile::kTileN;
  const int begin = p.by_split.divide(p.k_steps * slice), end = p.by_split.divide(p.k_steps * (slice + 1));  // not empty
  const uint32_t ring = shared.ring.stages;
  if (group == Tile::kGroups) {
    if (ptx::elect_one())
      with_part(producer, [&](auto part) {
        produce_part<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, row0, col0, begin, end);
      });
    __syncwarp();
  } else {
    touch(p.e);
    typename Tile::Acc acc[Tile::kBlocks][Tile::kTileN / 2];
    const BlockScales<Tile> scales = Tile::kPromote ? BlockScales<Tile>(p, row0, group * Tile::kGroupRows, col0, begin, p.k_steps) : BlockScales<Tile>();
    multiply_any(Release(p, at, shared.ring.empty), shared.ring, 0, end - begin, group * Tile::kGroupRows, acc, scales, [] {});
    ptx::griddepcontrol_wait();
    if (Tile::kGroups > 1) ptx::bar_sync(1, Tile::kGroups * 128);  // the ring is read by all groups
    if (p.split == 1) {
      const int plane = part * p.plane_rows;
      store_tile<Tile::kBlocks, Tile::kTileN, Tile::kTurns>(p, acc, ring + threadIdx.x / 32 * kStagingPerWarp,
                                              plane + row0 + group * Tile::kGroupRows, col0, plane + p.e.m);
      if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
    } else {
      leave_sums<Tile>(acc, reinterpret_cast<float*>(raw + (ring - ptx::smem_address(raw))), group * Tile::kGroupRows);
    }
  }
  if (!at.shares && p.split == 1) return;
  ptx::cluster_sync();
  if (p.split == 1) return;
  if (group < Tile::kGroups) finish_rows<Tile>(p, at, ring, row0, col0, threadIdx.x);
  ptx::cluster_sync();  // peers may still be reading our sums
}

template <class TA, class TB, bool kTransA, bool kTransB, int kGroups, int kTileN, int kSlabs, int kCtasPerSm,
          bool kPromote>
GemmKernel split_kernel(DType a, DType b) {
  // Tiles of 128 x 64 are for parts of K: they leave room for the blocks that add them up (gemm_parts.cu).
  constexpr int kRing = (kCtasPerSm == 2 ? 113 : kGroups == 2 && kTileN == 64 ? 194 : 226) * 1024 - 1024 - 256;
  // An N-major tile whose stages the tensor core is done with in less than 256 cycles waits for its one producer (NOTES.md).
  constexpr int kLoaders = kTransB && kGroups * 64 * kTileN * kSlabs / 32 < 256 ? 2 : 1;
  using Tile = GemmTile<TA, TB, kTransA, kTransB, kGroups, 1, kTileN, kSlabs, true, kPromote, kRing, kLoaders>;
  constexpr int kRingBytes = Tile::kStages * Tile::kStageBytes;
  static_assert(Tile::kTileM * kSumPitch<Tile> * 4 <= kRingBytes, "the sums lie over the ring");
  static_assert(kGroups * 4 * kStagingPerWarp <= kRingBytes, "so does the staging");
  GemmKernel kernel{a, b, kTransA, kTransB, GemmConfig::Schedule::kSplit, Tile::kTileM, kTileN, kSlabs, kPromote,
          kRingBytes + 1024 + 256, kSplitThreads<Tile>,
          reinterpret_cast<const void*>(&gemm_split<Tile, kCtasPerSm>)};
  kernel.turned_box = Tile::kTurns ? kTurnedBox<Tile::kTileN> : 0;
  return kernel;
}

}  // namespace orrery::kernels
