// Widened GEMM: narrow weights W (rows x k; int4 or e4m3) times columns X (k x any number) of 16 bits, by wgmma with the
// weights in registers.
//
// From some 16 columns on the warp-wide products of gemm_direct.cuh are what a product takes, and each CTA's
// own read of X. Here a CTA has 64 rows and up to 64 columns (e4m3: 256); a group (warpgroup) widens the rows to A fragments, X is B in
// shared memory, as it lies in memory.
//
//   stage   128 of k, which is one group of scales of int4 (of e4m3 also 64): 64 or 128 bytes of every row, slabs of 64 of k of every column.
//           Groups take the stages in turn, so that what one waits for another hides
//   octet   8 of k, of int4 a word of W (gemm_storage.cuh). wgmma wants of lane t of a quad pair t of each octet, so that a lane reads the
//           words of all octets of its two rows, as its neighbours do, and takes its pair of each
//   sums    a stage's products of int4 begin at zero and are scaled in f32, so that widened weights are exact
//   scales  of int4: in shared memory from the start where they are few, else loaded a stage ahead
//
// The fragments of 32 of k are made while the tensor core multiplies those of the 32 before, each in registers of their own; those of e4m3 by
// gemm_widen_bytes.cuh. Sums of groups, and with K split over a cluster those of its CTAs, meet as in gemm_stream.cuh. Not here: more columns of e4m3
// weights (gemm_widen_tiles.cuh), instances and launch (gemm_widen.cu).
#pragma once
#include "gemm_mainloop.cuh"
#include "gemm_storage.cuh"
#include "gemm_stream.cuh"
#include "gemm_widen_bytes.cuh"
#include "make_barriers.cuh"

namespace orrery::kernels {

/// What the host tells the kernel. Rows are those of W, columns those of X.
struct WidenParams {
  CUtensorMap w, x;  // boxes: a stage's bytes of a row, the tile's rows; 64 of k, the tile's columns, where `slabs` all of a stage's
  const uint16_t* scales;  // [rows][k / 128], of the type of X
  Epilogue e;
  int stages;     // of K
  int split_log;  // log2 of the number of CTAs that share them
  bool early;     // W may be read before the kernels we depend on have ended
  bool slabs;     // K is whole slabs of 64, which are a dimension of the map of X
  bool kept;      // scales are few enough for shared memory, and whole sixteens of bytes (ScaleLines)
};

/// Bytes from one row's scales in shared memory to the next one's, so that eight rows lie on banks of their own.
constexpr int kScalePitch = 80;

/// kLine: bytes of a row in a stage. kEarly: places of the ring whose W is asked for before X is there; of int4, of e4m3 all are.
template <class T_, class W_, int kGroups_, int kCols_, int kPerSm_, int kMostStages_, int kLine_ = 2048 / W_::kElements, int kEarly_ = 64>
struct WidenTile {
  using T = T_;
  using W = W_;
  static constexpr int kLine = kLine_, kSlabs = W::kScaled ? 2 : kLine / 64;
  using Acc = float;
  static constexpr int kGroups = kGroups_, kRows = 64, kCols = kCols_, kPerSm = kPerSm_, kEarly = kEarly_;
  static constexpr bool kMost = kCols > 192;  // a whole warpgroup fetches, whose registers the others need
  static constexpr int kWorkers = kGroups * 128, kThreads = kWorkers + (kMost ? 128 : 32);
  static constexpr int kBytesW = kRows * kLine, kBytesSlab = kCols * 128, kStageBytes = kBytesW + kSlabs * kBytesSlab;
  // Sums as those of gemm_stream.cuh: a plane for each group, rows owned by the CTAs of a cluster.
  static constexpr int kN = kCols, kParts = 1, kRowGroups = 1, kPlanes = kGroups, kRowsLog = 6;
  static __host__ __device__ constexpr int pitch(int log) { return (kRows >> log) + 4; }
  static __host__ __device__ constexpr int block_bytes(int log) { return kPlanes * kCols * 4 * pitch(log); }
  static constexpr bool kSplits = kCols <= 128;  // K over two CTAs
  static constexpr int kScaleBytes = W::kScaled ? kWorkers / 2 * kScalePitch : 0;
  static constexpr int kRoom = (kPerSm == 2 ? 113 : 227) * 1024 - 1024 - 512 - kScaleBytes - (kSplits ? block_bytes(1) : 0);  // less what a split by 2 sends
  static constexpr int kFit = kRoom / kStageBytes;
  // A place of the ring belongs to one group. More places are not always better: W of all of them stands before X.
  static constexpr int kStages = (kFit < kMostStages_ ? kFit : kMostStages_) / kGroups * kGroups;
  static constexpr int kRingBytes = kStages * kStageBytes, kShared = 1024 + kRingBytes + 512 + kScaleBytes;  // and the sums that peers send
  static_assert(!W::kScaled || kLine == 64);
  // A group gives a place back once it is at its next stage (e4m3), or before (int4).
  static_assert(kStages >= (W::kScaled ? 3 : 2 * kGroups) && 16 * kStages <= 504 && kRingBytes >= block_bytes(0) && kRingBytes >= 2 * block_bytes(1) * kSplits);
};

template <class Tile>
struct WidenShared {
  uint32_t ring, full, empty, arrived, scales, inbox;  // full: W and X of a stage, of which nobody looks at one without the other
  __device__ __forceinline__ explicit WidenShared(uint32_t raw)
      : ring((raw + 1023) / 1024 * 1024), full(ring + Tile::kRingBytes), empty(full + 8 * Tile::kStages), arrived(full + 504), scales(full + 512),
        inbox(scales + Tile::kScaleBytes) {}
  /// The same, known to be the same in all of a warp: else ptxas finds out anew at each stage where shared memory begins.
  __device__ __forceinline__ WidenShared uniform() const { return WidenShared(__shfl_sync(~0u, ring, 0)); }
  __device__ __forceinline__ uint32_t w(int s) const { return ring + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t slab(int s, int i) const { return w(s) + Tile::kBytesW + i * Tile::kBytesSlab; }
};

/// Fills the ring with stages [begin, end) of K; by one thread. The next kernel is let in when the one ahead has ended: what it asks for
/// does not stand before X then.
template <class Tile>
__device__ __forceinline__ void produce_widen(const WidenParams& p, const WidenShared<Tile>& shared, int row0,
                                              int col0, int begin, int end) {
  constexpr int kSlabs = Tile::kSlabs, kBytesX = kSlabs * Tile::kBytesSlab;
  const auto load_w = [&](int s, int step) {
    ptx::mbarrier_arrive_expect_tx(shared.full + 8 * s, Tile::kBytesW + kBytesX);
    ptx::tma_load_2d(shared.w(s), &p.w, shared.full + 8 * s, step * Tile::kLine, row0, ptx::kEvictNormal);
  };
  const auto load_x = [&](int s, int step) {
    if (Tile::W::kScaled || p.slabs) {
      ptx::tma_load_3d(shared.slab(s, 0), &p.x, shared.full + 8 * s, 0, col0, kSlabs * step, ptx::kEvictNormal);
    } else {
#pragma unroll
      for (int i = 0; i < kSlabs; i++) ptx::tma_load_2d(shared.slab(s, i), &p.x, shared.full + 8 * s, (kSlabs * step + i) * 64, col0, ptx::kEvictNormal);
    }
  };
  const int ahead = min(end - begin, Tile::kStages), early = p.early ? min(ahead, Tile::kEarly) : 0;
  // X may not be written yet, but where it lies in L2 it is so also after it has been.
  const int mine = begin + int(blockIdx.x >> p.split_log) % 32;
  if (p.early && mine < end && (Tile::W::kScaled || p.slabs)) ptx::tma_prefetch_3d(&p.x, 0, col0, Tile::kSlabs * mine);
  // Launched plainly, a stage's two are asked for one after the other, so that the first product has not to wait for W of all stages.
  if constexpr (Tile::W::kScaled) {
    for (int i = 0; i < early; i++) load_w(i, begin + i);
    ptx::griddepcontrol_wait();
    if (p.early) ptx::griddepcontrol_launch_dependents();
    for (int i = 0; i < early; i++) load_x(i, begin + i);
    for (int i = early; i < ahead; i++) load_w(i, begin + i), load_x(i, begin + i);
    if (!p.early) ptx::griddepcontrol_launch_dependents();
  } else {
    if (!p.early) ptx::griddepcontrol_wait();
    for (int i = 0; i < ahead; i++) {
      load_w(i, begin + i);
      if (!p.early) load_x(i, begin + i);
    }
    if (p.early) ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    for (int i = 0; i < ahead && p.early; i++) load_x(i, begin + i);
  }
  Position<Tile::kStages> at(0);
  for (int step = begin + Tile::kStages; step < end; step++, at.next()) {
    ptx::mbarrier_wait(shared.empty + 8 * at.stage, at.phase);
    load_w(at.stage, step);
    load_x(at.stage, step);
  }
}

/// Where the scales of a lane's two rows come from, a stage of its group after the other: from memory, those of the next stage asked for at each,
/// since what is asked for where it is used is waited for.
template <int kGroups>
struct ScaleLoads {
  const uint16_t* of_stage;
  uint32_t row[2];  // counted from the tile's first row on, whose scales are the same for all
  uint16_t next[2];
  int left;
  __device__ __forceinline__ ScaleLoads(const WidenParams& p, uint32_t, int group, int row0, int begin, int end)
      : of_stage(p.scales + int64_t(row0) * p.stages + begin + group), left(end - begin - group) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      row[i] = uint32_t(min(int(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4) + 8 * i, p.e.m - 1 - row0)) * p.stages;
      asm volatile("" : "+r"(row[i]));
    }
    if (left > 0) load();
  }
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int i = 0; i < 2; i++) asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(next[i]) : "l"(of_stage + row[i]));
  }
  /// This stage's; before it is waited for.
  __device__ __forceinline__ void take(uint16_t (&bits)[2]) {
    bits[0] = next[0], bits[1] = next[1];
    left -= kGroups;
    of_stage += left > 0 ? kGroups : 0;
  }
  /// Behind that.
  __device__ __forceinline__ void ahead() { load(); }
};
/// Or from shared memory, to which each warp copies those of its 16 rows at the start: fewer instructions at each stage. Of 32 stages at most, in
/// sixteens of bytes. (Any number by windows of 16 stages was slower than no copy: its code runs once or twice. NOTES.md.)
template <int kGroups>
struct ScaleLines {
  static constexpr int kMostStages = 32;
  uint32_t at;
  __device__ __forceinline__ ScaleLines(const WidenParams& p, uint32_t scales, int group, int row0, int begin, int end) {
    const int lane = threadIdx.x % 32, warp_row = threadIdx.x % 128 / 32 * 16;
    const uint32_t lines = scales + (group * 64 + warp_row) * kScalePitch;
#pragma unroll
    for (int i = lane; i < 64; i += 32) {
      const int row = i / 4, stage = i % 4 * 8;
      if (stage < end - begin)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(lines + row * kScalePitch + stage * 2),
                     "l"(p.scales + int64_t(min(row0 + warp_row + row, p.e.m - 1)) * p.stages + begin + stage)
                     : "memory");
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    at = lines + lane / 4 * kScalePitch + group * 2;
  }
  __device__ __forceinline__ void take(uint16_t (&bits)[2]) {
#pragma unroll
    for (int i = 0; i < 2; i++) asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits[i]) : "r"(at + i * 8 * kScalePitch));
    at += 2 * kGroups;
  }
  __device__ __forceinline__ void ahead() {}
};
template <class T>
__device__ __forceinline__ float widen_scale(uint16_t bits) {
  if constexpr (std::is_same_v<T, __half>)
    return __half2float(__ushort_as_half(bits));
  else
    return __bfloat162float(__ushort_as_bfloat16(bits));
}

/// This group's share of the products of stages [begin, end), with scales from one of the above.
template <class Scales, class Tile>
__device__ __forceinline__ void multiply_widened(const WidenParams& p, const WidenShared<Tile>& of_block, int group, int row0, int begin, int end,
                                                 float (&acc)[Tile::kCols / 2]) {
  using T = typename Tile::T;
  const WidenShared<Tile> shared = of_block.uniform();
  int lane = threadIdx.x % 32;
  asm volatile("" : "+r"(lane));  // else it is asked for at each stage
  const int row = threadIdx.x % 128 / 32 * 16 + lane / 4, shift = lane % 4 * 4, steps = end - begin;
  uint32_t line[4];  // of the first row's octets, each in its register: those of the other row, and of the other half, are at constant distances
#pragma unroll
  for (int j = 0; j < 4; j++) {
    line[j] = row * 64 + (j * 16 ^ row / 2 % 4 * 16);  // lines of 64 bytes lie in the swizzle of as many
    asm volatile("" : "+r"(line[j]));
  }
  const ptx::Descriptor columns = ptx::descriptor_k_major(shared.slab(0, 0));
#pragma unroll
  for (auto& v : acc) v = 0.f;
  if (!p.early) ptx::griddepcontrol_wait();
  Scales scales(p, shared.scales, group, row0, begin, end);
  Position<Tile::kStages> at(group);
#pragma unroll 1
  for (int step = group; step < steps; step += Tile::kGroups) {
    uint16_t scale_bits[2];
    scales.take(scale_bits);
    float sum[Tile::kCols / 2];
    uint32_t word[2][4][2], a[2][2][2][4];  // words: row, octet, 32 of k; fragments: 64 of k, 32 of these, 16 of these
    const uint32_t stage = shared.w(at.stage);
    const uint64_t x = columns.moved(at.stage * Tile::kStageBytes).at(0);
    ptx::mbarrier_wait(shared.full + 8 * at.stage, at.phase);
    scales.ahead();
#pragma unroll
    for (int half = 0; half < 2; half++) {
#pragma unroll
      for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(word[i][j][0]), "=r"(word[i][j][1]) : "r"(stage + line[j] + half * 8 + i * 512) : "memory");
#pragma unroll
      for (int q = 0; q < 2; q++) {
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
          for (int i = 0; i < 2; i++) a[half][q][j / 2][j % 2 * 2 + i] = Int4::pair<T>(word[i][j][q] >> shift);
        ptx::wgmma_fence();
#pragma unroll
        for (int h = 0; h < 2; h++)
          wgmma_rs<T, Tile::kCols, 0>(sum, a[half][q][h], ptx::further(x, half * Tile::kBytesSlab + (q * 2 + h) * ptx::kStepKMajor), half + q + h > 0);
        ptx::wgmma_commit_group();
      }
    }
    const uint32_t empty = shared.empty + 8 * at.stage;
    at.next(Tile::kGroups);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(sum);
    if (lane == 0) ptx::mbarrier_arrive(empty);
    const float scale[2] = {widen_scale<T>(scale_bits[0]), widen_scale<T>(scale_bits[1])};
#pragma unroll
    for (int i = 0; i < Tile::kCols / 2; i++) acc[i] = fmaf(scale[i / 2 % 2], sum[i], acc[i]);
  }
}

/// The same of e4m3 weights, which have no scales.
template <class Tile>
__device__ __forceinline__ void multiply_widened_bytes(const WidenShared<Tile>& of_block, int group, int steps, float (&acc)[Tile::kCols / 2]) {
  const WidenShared<Tile> shared = of_block.uniform();
  const uint32_t pairs = byte_pairs<Tile::kLine>();
  const ptx::Descriptor x = ptx::descriptor_k_major(shared.slab(0, 0));
  constexpr int kBatch = Tile::kLine / 32;
  ByteFragments<kBatch> fragments[2];
  const std::conditional_t<Tile::kGroups == 2, TakeTurns, NoTurns> turns(group);
  Position<Tile::kStages> at(group);
  int before = -1;
#pragma unroll
  for (auto& v : acc) v = 0.f;
#pragma unroll 1
  for (int step = group; step < steps; step += Tile::kGroups) {
    ptx::mbarrier_wait(shared.full + 8 * at.stage, at.phase);
    multiply_in_turn<typename Tile::T, Tile::kLine, kBatch, Tile::kBytesSlab, Tile::kCols>(
        acc, fragments, shared.w(at.stage), pairs, x.moved(at.stage * Tile::kStageBytes), turns,
        [&] { ptx::mbarrier_arrive_if(shared.empty + 8 * before, before >= 0 && threadIdx.x % 32 == 0); });
    before = at.stage;
    at.next(Tile::kGroups);
  }
  turns.end(group == steps % 2);
  end_products(acc);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm)
    gemm_widen(const __grid_constant__ WidenParams p) {
  extern __shared__ uint8_t raw[];
  const WidenShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  const int group = ptx::warpgroup();
  make_barriers<Tile::kThreads / 32, Tile::kStages + 2>([&](int i) {
    if (i < Tile::kStages) {
      ptx::mbarrier_init(shared.full + 8 * i, 1);
      ptx::mbarrier_init(shared.empty + 8 * i, 4);
    } else if (i == Tile::kStages) {
      ptx::mbarrier_init(shared.arrived, 1);
      if (split) ptx::mbarrier_arrive_expect_tx(shared.arrived, ((1 << p.split_log) - 1) * Tile::block_bytes(p.split_log));
    } else {
      ptx::prefetch_tensormap(&p.w), ptx::prefetch_tensormap(&p.x);
    }
  });
  __syncthreads();
  if (group == Tile::kGroups) {
    if constexpr (Tile::kMost) {
      ptx::setmaxnreg_dec<40>();
      if (__shfl_sync(~0u, int(threadIdx.x / 32), 0) > Tile::kWorkers / 32) return;
    }
    if (split) ptx::cluster_arrive_relaxed();
    if (ptx::elect_one()) produce_widen<Tile>(p, shared, row0, col0, begin, end);
    leave_producer(split);
    return;
  }
  if constexpr (Tile::kMost) ptx::setmaxnreg_inc<232>();
  if (split) ptx::cluster_arrive_relaxed();
  touch(p.e);
  float acc[Tile::kCols / 2];
  if constexpr (Tile::W::kScaled) {
    if (p.kept) multiply_widened<ScaleLines<Tile::kGroups>, Tile>(p, shared, group, row0, begin, end, acc);
    else multiply_widened<ScaleLoads<Tile::kGroups>, Tile>(p, shared, group, row0, begin, end, acc);
  } else multiply_widened_bytes<Tile>(shared, group, end - begin, acc);
  end_stream<Tile>(p.e, shared, p.split_log, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
