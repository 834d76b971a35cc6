// Widened GEMM of many columns: e4m3 weights W (rows x k) times columns X of 16 bits, by persistent CTAs as in gemm_persistent.cuh, with W
// widened to wgmma's operand in registers.
//
// Where there are many columns a product is what the tensor cores take, and shared memory feeds them. With W in registers a 128 x 256 tile reads
// 64 bytes of X a cycle, and 8 of W; W of 16 bits in shared memory would be 16 more, and twice that again to put it there. So rows are
// those of W, D = (W X)' is stored by its columns, and what a warp widens is small beside what it multiplies: of 16 of k four pairs a lane for
// 128 cycles of products.
//
//   stage   64 of k: 64 bytes of every row, in the swizzle of as many, and a slab of X
//   dealt   K steps of the tiles that fill no wave go evenly to all SMs, as in gemm_stream_k.cuh, whose workspace and order this has; but sums are the
//           owner's, who has what a tile begins with in registers
//
// Here are tiles, consumers and what is done to rows on the way out. Producers, roles and stores are those of other products. Not here: how fragments
// are made (gemm_widen_bytes.cuh), instances and launch (gemm_widen_tiles.cu).
#pragma once
#include "gemm_persistent.cuh"
#include "gemm_stream_k.cuh"
#include "gemm_widen_bytes.cuh"

namespace orrery::kernels {

/// As GemmTile, cooperative; A is W, of whose elements a slab has as many as of X, in half of the bytes. Not for clusters.
template <class T, int kTileN_, int kGroups_ = 2>
struct WidenTiles {
  using A = T;
  using B = T;
  using Acc = float;
  static constexpr bool kTransA = false, kTransB = false, kPromote = false, kTurns = true;
  static constexpr int kGroups = kGroups_, kBlocks = 1, kTileN = kTileN_, kLoadN = kTileN, kSlabs = 1, kSlabK = 64, kLine = 64, kLoaders = 1;
  static constexpr int kGroupRows = 64, kTileM = kGroups * kGroupRows;
  static constexpr int kBytesA = kTileM * kLine, kBytesB = kTileN * 128, kStageBytes = kBytesA + kBytesB;
  static constexpr int kFit = persistent_ring(kGroups) / kStageBytes, kStages = kFit < 16 ? kFit : 16;
  static constexpr int kConsumerWarps = 4 * kGroups;
  static_assert(kStages >= 3 && kStageBytes % 1024 == 0 && kBytesA % 1024 == 0);
};

/// Factors and offsets of the two rows of D that a thread has, in the place of an epilogue where nothing else is to be done.
struct RowFactors {
  float factor[2], offset[2];
  __device__ __forceinline__ RowFactors(const Epilogue& e, int row0) {
    const float scale = tensor_scale(e);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int row = min(row0 + int(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4) + 8 * h, e.m - 1);
      factor[h] = e.row_scale ? scale * __ldg(e.row_scale + row) : scale;
      offset[h] = e.row_bias ? __ldg(e.row_bias + row) : 0.f;
    }
  }
  template <int kCount>
  __device__ __forceinline__ void apply(float (&acc)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; i++) acc[i] = fmaf(acc[i], factor[i / 2 % 2], offset[i / 2 % 2]);
  }
};

/// As multiply (gemm_mainloop.cuh); `pairs`: byte_pairs().
template <class Tile>
__device__ __forceinline__ void multiply_widened(const Release& release, const Ring<Tile>& ring, uint32_t count, int steps, uint32_t group_lines, uint32_t pairs,
                                                 float (&acc)[Tile::kTileN / 2]) {
  Position<Tile::kStages> at(count);
  const ptx::Descriptor x = ptx::descriptor_k_major(ring.b(0));
  BytePairs<Tile::kLine / 16> bytes;
  ByteFragments<kUnderWay> fragments;
  uint32_t stage = at.stage, previous = 0;
  ptx::mbarrier_wait(ring.full_bar(stage), at.phase);
  bytes.template load_all<Tile::kLine>(ring.a(stage) + group_lines, pairs, 0);
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    if (i + 1 < steps) at.next();  // behind the last stage its own bytes are read again, which nobody uses
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
    multiply_ahead<typename Tile::A, Tile::kLine, 0, Tile::kTileN>(acc, fragments, bytes, ring.a(at.stage) + group_lines, pairs, x.moved(stage * Tile::kStageBytes), i > 0,
                                                                   [&] { release(previous, i > 0); });
    previous = stage, stage = at.stage;
  }
  end_products(acc);
  release(previous);
}

/// Stores this group's rows of a tile, the first of which is row0.
template <class Tile>
__device__ __forceinline__ void store_widened(const GemmParams& p, float (&acc)[Tile::kTileN / 2], uint32_t staging, int row0, int col0) {
  const int warp = threadIdx.x % 128 / 32;
  if (p.turned) {
    RowFactors(p.e, row0).apply(acc);
    store_turned<Tile::kTileN>(p, 1.f, acc, staging, row0, col0);
  } else {
    store_generally<Tile::kTileN>(p.e, tensor_scale(p.e), acc, staging + warp * kStagingPerWarp, row0 + warp * 16, col0, p.e.m);
  }
}

/// What a consumer group has for all of its tiles.
template <class Tile>
struct WideningGroup {
  int row;  // its first one of a tile
  uint32_t staging, pairs;
  Release release;
  __device__ __forceinline__ WideningGroup(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared)
      : row((ptx::warpgroup() - 1) * Tile::kGroupRows), staging(shared.staging + (ptx::warpgroup() - 1) * 4 * kStagingPerWarp), pairs(byte_pairs<Tile::kLine>()),
        release(p, at, shared.ring.empty) {}
};

template <class Tile>
__device__ __forceinline__ void consume_widened(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared) {
  const int stride = ptx::nclusterid_x(), tiles = p.tiles_m * p.tiles_n;
  const WideningGroup<Tile> group(p, at, shared);
  float acc[Tile::kTileN / 2];
  uint32_t count = 0;
  for (int t = ptx::clusterid_x(); t < tiles; t += stride) {
    const int2 tile = raster_tile(p, t);
    multiply_widened<Tile>(group.release, shared.ring, count, p.k_steps, group.row * Tile::kLine, group.pairs, acc);
    if (count == 0) ptx::griddepcontrol_wait();
    store_widened<Tile>(p, acc, group.staging, tile.x * Tile::kTileM + group.row, tile.y * Tile::kTileN);
    count += p.k_steps;
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_tiles(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  int2 first{};
  run_roles<Tile>(p, at, shared, [&] { first = first_tile(p); },
                  [&](auto part) { produce_tiles<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, first); },
                  [&] { consume_widened<Tile>(p, at, shared); });
}

/// Adds the parts of a cut tile that others have left to the first one, which is ours. What is read behind the end of D is in sums that nobody stores.
template <class Tile>
__device__ __forceinline__ void add_rest(const GemmParams& p, const Parts& parts, float (&acc)[Tile::kTileN / 2]) {
  constexpr int kSlot = Tile::kTileM * Tile::kTileN / 4, kQuads = Tile::kTileN / 8;
  constexpr int kAtOnce = kQuads > 20 ? kQuads / 2 : kQuads;  // as many as there are registers for, since what takes time is the way to L2
#pragma unroll 1
  for (int part = 1; part < parts.count; part++) {
    const Quad<float>* const from = static_cast<const Quad<float>*>(p.parts) + int64_t(parts.slot(part, 0, 1)) * kSlot + (threadIdx.x - 128);
#pragma unroll
    for (int first = 0; first < kQuads; first += kAtOnce) {
      Quad<float> v[kAtOnce];
#pragma unroll
      for (int q = 0; q < kAtOnce; q++) v[q] = load_quad(from + (first + q) * kStreamKConsumers);
#pragma unroll
      for (int i = 0; i < 4 * kAtOnce; i++) acc[4 * first + i] += v[i / 4].v[i % 4];
    }
  }
}

/// A warp tells the owner of a tile that its rows of a part are in the workspace; that warp of the owner which has the same rows waits for all parts of all
/// warps, since there is one counter a tile. (Barriers of the group on either side took 2 us.)
__device__ __forceinline__ void warp_left(unsigned* arrived) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    __threadfence();
    atomicAdd(arrived, 1u);
  }
}
__device__ __forceinline__ void await_warps(const unsigned* arrived, unsigned count) {
  unsigned seen;
  do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
  while (seen < count);
  __syncwarp();
}

/// As consume_segments (gemm_stream_k.cuh), but that what a tile begins with stays in registers: its owner adds up the rest, which others had to do first, and
/// stores it as any tile. So a share leaves a part at most once, mostly early, and waits at its end.
template <class Tile>
__device__ __forceinline__ void consume_dealt(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared) {
  const WideningGroup<Tile> group(p, at, shared);
  const int share = share_of_cluster(p);
  float acc[1][Tile::kTileN / 2];
  uint32_t count = 0;
  ShareWalk walk(p);
  Segment s;
  while (walk.next(s)) {
    const int2 tile = raster_tile(p, s.tile);
    const int row0 = tile.x * Tile::kTileM, col0 = tile.y * Tile::kTileN;
    multiply_widened<Tile>(group.release, shared.ring, count, s.end - s.begin, group.row * Tile::kLine, group.pairs, acc[0]);
    if (count == 0) ptx::griddepcontrol_wait();
    count += s.end - s.begin;
    if (!s.whole) {
      const int cut = s.tile - p.whole_tiles;
      const Parts parts(p, cut);
      if (s.begin > 0) {
        leave_part<Tile>(p, acc, parts.slot(share - parts.first, 0, 1), row0, col0);
        warp_left(p.arrived + cut);
        continue;
      }
      await_warps(p.arrived + cut, (parts.count - 1) * Tile::kConsumerWarps);
      add_rest<Tile>(p, parts, acc[0]);
      ptx::bar_sync(1, kStreamKConsumers);
      if (threadIdx.x == 128) atomicExch(p.arrived + cut, 0u);  // for the next launch
    }
    store_widened<Tile>(p, acc[0], group.staging, row0 + group.row, col0);
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

/// K steps of the tiles that do not fill a wave dealt evenly to the SMs (gemm_stream_k.cuh).
template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_stream_k(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  run_roles<Tile>(p, at, shared, [] {}, [&](auto part) { produce_segments<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader); },
                  [&] { consume_dealt<Tile>(p, at, shared); });
}

}  // namespace orrery::kernels
