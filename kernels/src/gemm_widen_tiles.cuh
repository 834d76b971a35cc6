// Widened GEMM of many columns: e4m3 weights W (rows x k) times columns X of 16 bits, by persistent CTAs as in gemm_persistent.cuh, with W
// widened to wgmma's operand in registers.
//
// Where there are many columns a product is what the tensor cores take, and shared memory feeds them. With W in registers a 128 x 256 tile reads
// 64 bytes of X a cycle, and 8 of W; W of 16 bits in shared memory would be 16 more, and twice that again to put it there. So rows are
// those of W, D = (W X)' is stored by its columns, and what a warp widens is small beside what it multiplies: of 16 of k four pairs a lane for
// 128 cycles of products.
//
//   stage   64 of k: 64 bytes of every row, in the swizzle of as many, and a slab of X
//
// Here are tiles, consumers and what is done to rows on the way out. Producers, roles and stores are those of other products. Not here: how fragments
// are made (gemm_widen_bytes.cuh), instances and launch (gemm_widen_tiles.cu).
#pragma once
#include "gemm_persistent.cuh"
#include "gemm_widen_bytes.cuh"

namespace orrery::kernels {

/// As GemmTile, cooperative; A is W, of whose elements a slab has as many as of X, in half of the bytes. Not for clusters.
template <class T, int kTileN_>
struct WidenTiles {
  using A = T;
  using B = T;
  using Acc = float;
  static constexpr bool kTransA = false, kTransB = false, kPromote = false, kTurns = true;
  static constexpr int kGroups = 2, kBlocks = 1, kTileN = kTileN_, kLoadN = kTileN, kSlabs = 1, kSlabK = 64, kLine = 64, kLoaders = 1;
  static constexpr int kGroupRows = 64, kTileM = 128;
  static constexpr int kBytesA = kTileM * kLine, kBytesB = kTileN * 128, kStageBytes = kBytesA + kBytesB;
  static constexpr int kFit = persistent_ring(kGroups) / kStageBytes, kStages = kFit < 16 ? kFit : 16;
  static constexpr int kConsumerWarps = 8;
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

/// As multiply (gemm_mainloop.cuh), but steps are an even number; `pairs`: byte_pairs().
template <class Tile>
__device__ __forceinline__ void multiply_widened(const Release& release, const Ring<Tile>& ring, uint32_t count, int steps, uint32_t group_lines, uint32_t pairs,
                                                 const TakeTurns& turns, float (&acc)[Tile::kTileN / 2]) {
  Position<Tile::kStages> at(count);
  const ptx::Descriptor x = ptx::descriptor_k_major(ring.b(0));
  ByteFragments<4> fragments[2];
  uint32_t previous = 0;
  const auto multiply_stage = [&](auto set, bool first) {
    ptx::mbarrier_wait(ring.full_bar(at.stage), at.phase);
    multiply_bytes<typename Tile::A, Tile::kLine, 4, decltype(set)::value, 0, Tile::kTileN>(
        acc, fragments, ring.a(at.stage) + group_lines, pairs, x.moved(at.stage * Tile::kStageBytes), !first, turns, [&] { release(previous, !first); });
    previous = at.stage;
    at.next();
  };
#pragma unroll 1
  for (int i = 0; i < steps; i += 2) {
    multiply_stage(std::integral_constant<int, 0>(), i == 0);
    multiply_stage(std::integral_constant<int, 1>(), false);
  }
  end_products(acc);
  release(previous);
}

template <class Tile>
__device__ __forceinline__ void consume_widened(const GemmParams& p, const ClusterPlace& at, const PersistentShared<Tile>& shared) {
  const int group = ptx::warpgroup() - 1, stride = ptx::nclusterid_x(), tiles = p.tiles_m * p.tiles_n, warp = threadIdx.x % 128 / 32;
  const uint32_t staging = shared.staging + group * 4 * kStagingPerWarp, pairs = byte_pairs<Tile::kLine>();
  const int group_row = group * Tile::kGroupRows;
  const Release release(p, at, shared.ring.empty);
  const TakeTurns turns(group);
  float acc[Tile::kTileN / 2];
  uint32_t count = 0;
  for (int t = ptx::clusterid_x(); t < tiles; t += stride) {
    const int2 tile = raster_tile(p, t);
    const int row0 = tile.x * Tile::kTileM + group_row, col0 = tile.y * Tile::kTileN;
    multiply_widened<Tile>(release, shared.ring, count, p.k_steps, group_row * Tile::kLine, pairs, turns, acc);
    if (count == 0) ptx::griddepcontrol_wait();
    if (p.turned) {
      RowFactors(p.e, row0).apply(acc);
      store_turned<Tile::kTileN>(p, 1.f, acc, staging, row0, col0);
    } else {
      store_generally<Tile::kTileN>(p.e, tensor_scale(p.e), acc, staging + warp * kStagingPerWarp, row0 + warp * 16, col0, p.e.m);
    }
    count += p.k_steps;
  }
  turns.end(group == 0);
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

}  // namespace orrery::kernels
