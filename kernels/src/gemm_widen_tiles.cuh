// Widened GEMM of many columns: e4m3 weights W (rows x k) times columns X of 16 bits, by persistent CTAs as in gemm_persistent.cuh, with W
// widened to wgmma's operand in registers.
//
// Where there are many columns a product is what the tensor cores take, and shared memory feeds them. With W in registers a 128 x 256 tile reads
// 64 bytes of X a cycle, and 8 of W; W of 16 bits in shared memory would be 16 more, and twice that again to put it there. So rows are
// those of W, D = (W X)' is stored by its columns, and what a warp widens is small beside what it multiplies: of 16 of k four pairs a lane for
// 128 cycles of products.
//
//   stage   64 of k: 64 bytes of every row, in the swizzle of as many, and a slab of X
//   halves  K of a tile is shared by two CTAs of a cluster, each of which stores half of its columns: sums of the other half go to the other's shared memory
//   dealt   K steps of the tiles that fill no wave go evenly to all SMs, as in gemm_stream_k.cuh, whose workspace and order this has; but sums are the
//           owner's, who has what a tile begins with in registers
//
// Here are tiles, consumers and what is done to rows on the way out. Producers, roles and stores are those of other products. Not here: how fragments
// are made (gemm_widen_bytes.cuh), instances and launch (gemm_widen_tiles.cu).
#pragma once
#include "gemm_persistent.cuh"
#include "gemm_split.cuh"
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
  // Whether groups multiply in turn: a stage's products of so many columns take as long as it takes to widen the next.
  static constexpr bool kAtOnce = kTileN == 256;
  static_assert(kStages >= 3 && kStageBytes % 1024 == 0 && kBytesA % 1024 == 0 && (kGroups == 2 || !kAtOnce));
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

/// A place in the ring as addresses, which are counted on: of what a warp issues at each stage little else can be left out (NOTES.md). first: the place that
/// follows the end of the ring, where not all are walked.
template <class Tile>
struct StageWalk {
  uint32_t stage, full, phase, first_stage, first_full;
  __device__ __forceinline__ StageWalk(const Ring<Tile>& ring, uint32_t count, int first = 0) : first_stage(ring.a(first)), first_full(ring.full_bar(first)) {
    const Position<Tile::kStages> at(count);
    stage = ring.a(at.stage), full = ring.full_bar(at.stage), phase = at.phase;
  }
  template <int kBy = 1>
  __device__ __forceinline__ void next() {
    stage += kBy * Tile::kStageBytes, full += kBy * 8;
    const bool end = full == first_full + 8 * Tile::kStages;
    stage = end ? first_stage : stage, full = end ? first_full : full, phase ^= end;
  }
  __device__ __forceinline__ void wait() const { ptx::mbarrier_wait(full, phase); }
  __device__ __forceinline__ uint32_t empty() const { return full + 8 * Tile::kStages; }
  __device__ __forceinline__ ptx::Descriptor columns() const {
    ptx::Descriptor d = ptx::descriptor_k_major(0);
    d.low += (stage >> 4) + (Tile::kBytesA >> 4);
    return d;
  }
};

/// What a consumer group has for all of its tiles.
template <class Tile>
struct WideningGroup {
  int row;  // its first one of a tile
  uint32_t staging, nobodys;  // the latter a barrier that nobody waits at
  StagePairs<Tile::kLine> pairs;
  std::conditional_t<Tile::kAtOnce, TakeTurns, NoTurns> turns;
  __device__ __forceinline__ WideningGroup(const PersistentShared<Tile>& shared, uint32_t barrier)
      : row((ptx::warpgroup() - 1) * Tile::kGroupRows), staging(shared.staging + (ptx::warpgroup() - 1) * 4 * kStagingPerWarp), nobodys(barrier),
        pairs(row * Tile::kLine), turns(ptx::warpgroup() - 1) {}
  /// Behind the last tile.
  __device__ __forceinline__ void end() const {
    turns.end(row == 0);
    if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
  }
};

/// As multiply (gemm_mainloop.cuh). A stage is waited for and its bytes are loaded ahead, that behind the last one too, which is the next tile's first or
/// nobody's (fill_spare_stage): what is no way of its own does not come once, which costs more than it saves (NOTES.md).
template <class Tile>
__device__ __forceinline__ void multiply_widened(const WideningGroup<Tile>& group, const Ring<Tile>& ring, uint32_t count, int steps, float (&acc)[Tile::kTileN / 2]) {
  using T = typename Tile::A;
  constexpr int kLine = Tile::kLine, kN = Tile::kTileN;
  BytePairs<kLine / 16> bytes;
  ByteFragments<kUnderWay> fragments;
  StageWalk<Tile> at(ring, count), here = at;
  uint32_t previous = group.nobodys;
  const auto give_back = [](uint32_t empty) { ptx::mbarrier_arrive_if(empty, threadIdx.x % 32 == 0); };
  at.wait();
  bytes.template load_all<kLine>(at.stage, group.pairs);
  if constexpr (Tile::kAtOnce) {
#pragma unroll
    for (int j = 0; j < kUnderWay; j++) bytes.template widen<T>(fragments[j], j);
  }
#pragma unroll 1
  for (int i = 0; i < steps; i++) {
    at.next();
    if constexpr (Tile::kAtOnce) {
      multiply_at_once<T, kLine, kN>(acc, fragments, bytes, at.stage, group.pairs, here.columns(), i > 0, group.turns, [&] { at.wait(); });
      give_back(here.empty());
    } else {
      at.wait();
      multiply_ahead<T, kLine, kN>(acc, fragments, bytes, at.stage, group.pairs, here.columns(), i > 0);
      give_back(previous);
      previous = here.empty();
    }
    here = at;
  }
  end_products(acc);
  if constexpr (!Tile::kAtOnce) give_back(previous);
}

/// Fills the stage behind the last one, the `count`th, for those who look ahead: with zeros, which is what lies behind K.
template <class Tile, Part kPart>
__device__ __forceinline__ void fill_spare_stage(const GemmParams& p, const Ring<Tile>& ring, uint32_t count) {
  const Position<Tile::kStages> at(count);
  const uint32_t full = ring.full_bar(at.stage);
  ptx::mbarrier_wait(ring.empty_bar(at.stage), at.phase ^ 1);
  if constexpr (kPart == Part::kA) {
    ptx::mbarrier_arrive_expect_tx(full, Tile::kBytesA);
    ptx::tma_load_2d(ring.a(at.stage), &p.a, full, p.k_steps * Tile::kSlabK, 0, p.hint_a);
  } else {
    ptx::mbarrier_arrive(full);
  }
}

/// Stores this group's rows of kColumns of a tile, the first of which is row0.
template <int kColumns>
__device__ __forceinline__ void store_widened(const GemmParams& p, float (&acc)[kColumns / 2], uint32_t staging, int row0, int col0) {
  const int warp = threadIdx.x % 128 / 32;
  if (p.turned) {
    RowFactors(p.e, row0).apply(acc);
    store_turned<kColumns>(p, 1.f, acc, staging, row0, col0);
  } else {
    store_generally<kColumns>(p.e, tensor_scale(p.e), acc, staging + warp * kStagingPerWarp, row0 + warp * 16, col0, p.e.m);
  }
}

template <class Tile>
__device__ __forceinline__ void consume_widened(const GemmParams& p, const PersistentShared<Tile>& shared) {
  const int stride = ptx::nclusterid_x(), tiles = p.tiles_m * p.tiles_n;
  const WideningGroup<Tile> group(shared, shared.turn);
  float acc[Tile::kTileN / 2];
  uint32_t count = 0;
  for (int t = ptx::clusterid_x(); t < tiles; t += stride) {
    const int2 tile = raster_tile(p, t);
    multiply_widened<Tile>(group, shared.ring, count, p.k_steps, acc);
    if (count == 0) ptx::griddepcontrol_wait();
    store_widened<Tile::kTileN>(p, acc, group.staging, tile.x * Tile::kTileM + group.row, tile.y * Tile::kTileN);
    count += p.k_steps;
  }
  group.end();
}

template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_tiles(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  int2 first{};
  run_roles<Tile>(p, at, shared, [&] { first = first_tile(p); },
                  [&](auto part) {
                    produce_tiles<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, first);
                    const int tiles = p.tiles_m * p.tiles_n, stride = ptx::nclusterid_x();
                    fill_spare_stage<Tile, decltype(part)::kPart>(p, shared.ring, (tiles - ptx::clusterid_x() + stride - 1) / stride * p.k_steps);
                  },
                  [&] { consume_widened<Tile>(p, shared); });
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
  ptx::await_count(arrived, count);
  __syncwarp();
}

/// As consume_segments (gemm_stream_k.cuh), but that what a tile begins with stays in registers: its owner adds up the rest, which others had to do first, and
/// stores it as any tile. So a share leaves a part at most once, mostly early, and waits at its end.
template <class Tile>
__device__ __forceinline__ void consume_dealt(const GemmParams& p, const PersistentShared<Tile>& shared) {
  const WideningGroup<Tile> group(shared, shared.turn);
  const int share = share_of_cluster(p);
  float acc[1][Tile::kTileN / 2];
  uint32_t count = 0;
  ShareWalk walk(p);
  Segment s;
  while (walk.next(s)) {
    const int2 tile = raster_tile(p, s.tile);
    const int row0 = tile.x * Tile::kTileM, col0 = tile.y * Tile::kTileN;
    multiply_widened<Tile>(group, shared.ring, count, s.end - s.begin, acc[0]);
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
    store_widened<Tile::kTileN>(p, acc[0], group.staging, row0 + group.row, col0);
  }
  group.end();
}

/// K steps of the tiles that do not fill a wave dealt evenly to the SMs (gemm_stream_k.cuh).
template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_stream_k(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const PersistentShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  run_roles<Tile>(p, at, shared, [] {},
                  [&](auto part) {
                    produce_segments<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader);
                    ShareWalk walk(p);
                    Segment s;
                    uint32_t count = 0;
                    while (walk.next(s)) count += s.end - s.begin;
                    fill_spare_stage<Tile, decltype(part)::kPart>(p, shared.ring, count);
                  },
                  [&] { consume_dealt<Tile>(p, shared); });
}

/// Shared memory where two CTAs share K: behind the ring what the other one sends, over which the staging lies.
template <class Tile>
struct HalvesShared : PersistentShared<Tile> {
  static constexpr int kQuads = Tile::kTileN / 16;  // that a thread sends
  static constexpr int kInbox = Tile::kConsumerWarps * 32 * kQuads * 16, kStaging = Tile::kGroups * 4 * kStagingPerWarp, kMore = kInbox > kStaging ? kInbox - kStaging : 0;
  static_assert(Tile::kStages * Tile::kStageBytes + kStaging + kMore + 1024 + 512 <= kPersistentShared && kMore % 16 == 0);
  __device__ __forceinline__ explicit HalvesShared(uint32_t raw) : PersistentShared<Tile>(raw) { this->ring.full += kMore, this->ring.empty += kMore, this->turn += kMore; }
  /// Where this thread's first quad is; the others are 512 bytes apart.
  __device__ __forceinline__ uint32_t inbox() const { return this->staging + (threadIdx.x / 32 - 4) * (kQuads * 512) + threadIdx.x % 32 * 16; }
};

/// Sends the sums of the columns that are the other CTA's, and adds what it has of ours. Both add up the same two numbers, so that which is which
/// makes no difference.
template <class Tile, int kRank>
__device__ __forceinline__ void exchange_halves(const HalvesShared<Tile>& shared, float (&acc)[Tile::kTileN / 2]) {
  constexpr int kQuads = HalvesShared<Tile>::kQuads, kHalf = Tile::kTileN / 4;
  const uint32_t mine = shared.inbox(), theirs = ptx::mapa(mine, kRank ^ 1), landed = shared.turn + (ptx::warpgroup() - 1) * 8;
  const float* const sent = acc + (kRank ^ 1) * kHalf;
  const uint32_t there = ptx::mapa(landed, kRank ^ 1);
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive_expect_tx(landed, kQuads * 512);
  ptx::cluster_wait();  // its barriers have been made
#pragma unroll
  for (int q = 0; q < kQuads; q++) ptx::st_async_f4(theirs + q * 512, make_float4(sent[4 * q], sent[4 * q + 1], sent[4 * q + 2], sent[4 * q + 3]), there);
  ptx::mbarrier_wait_cluster(landed, 0);
#pragma unroll
  for (int q = 0; q < kQuads; q++) {
    const int4 v = ptx::ld_shared_v4(mine + q * 512);
    const int word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) acc[kRank * kHalf + 4 * q + i] += __int_as_float(word[i]);
  }
  ptx::bar_sync(1, Tile::kGroups * 128);  // the staging lies over what all of them have been sent
}

template <class Tile>
__device__ __forceinline__ void consume_half(const GemmParams& p, const ClusterPlace& at, const HalvesShared<Tile>& shared, int steps) {
  const WideningGroup<Tile> group(shared, shared.turn + 8 * 3);
  const int2 tile = raster_tile(p, ptx::clusterid_x());
  const int row0 = tile.x * Tile::kTileM + group.row, col0 = tile.y * Tile::kTileN;
  constexpr int kColumns = Tile::kTileN / 2;
  float acc[Tile::kTileN / 2];
  multiply_widened<Tile>(group, shared.ring, 0, steps, acc);
  const auto finish = [&](auto rank) {
    constexpr int kRank = decltype(rank)::value;
    exchange_halves<Tile, kRank>(shared, acc);
    float half[kColumns / 2];
#pragma unroll
    for (int i = 0; i < kColumns / 2; i++) half[i] = acc[kRank * (kColumns / 2) + i];
    ptx::griddepcontrol_wait();
    store_widened<kColumns>(p, half, group.staging, row0, col0 + kRank * kColumns);
  };
  if (at.rk == 0) finish(std::integral_constant<int, 0>());
  else finish(std::integral_constant<int, 1>());
  group.end();
}

/// K of each tile shared by the two CTAs of a cluster.
template <class Tile>
__global__ void __launch_bounds__(kPersistentThreads<Tile>, 1) gemm_widen_halves(const __grid_constant__ GemmParams p) {
  extern __shared__ uint8_t raw[];
  const HalvesShared<Tile> shared(ptx::smem_address(raw));
  const ClusterPlace at(p);
  const int half = p.k_steps / 2, begin = at.rk ? half : 0, end = at.rk ? p.k_steps : half;
  int2 tile{};
  run_roles<Tile, true>(p, at, shared, [&] { tile = first_tile(p); },
                        [&](auto part) {
                          produce_part<Tile, decltype(part)::kPart>(p, at, shared.ring, part.loader, tile.x * Tile::kTileM, tile.y * Tile::kTileN, begin, end);
                          fill_spare_stage<Tile, decltype(part)::kPart>(p, shared.ring, end - begin);
                        },
                        [&] { consume_half<Tile>(p, at, shared, end - begin); });
}

}  // namespace orrery::kernels
