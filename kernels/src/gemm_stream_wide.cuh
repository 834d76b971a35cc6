// Streamed GEMM with one CTA an SM: that of gemm_stream.cuh with wider stages and a producer for X.
//
// A copy takes the thread that asks for it some 300 cycles with all that goes with it, whatever it brings, and while a ring is filled
// nothing else happens. So a stage is kSlabs times 128 bytes of K, which one box of TMA brings (where K ends sooner, zeros), and W and X
// have a thread each. X comes by TMA from the first stage on.
//
//   stage   kSlabs slabs of W (64 lines of 128 bytes), then kSlabs slabs of X (kN lines)
//   full_w, full_x    the stage's W; its X
//   empty   an arrival of each warp that read the stage; both producers wait for it
//
// Groups take the stages in turn. W is asked for at most kPace stages at a time in the first round of the ring. Rows, parts, columns, sums
// and clusters that split K are those of gemm_stream.cuh. Not here: instances and launch (gemm_stream.cu).
#pragma once
#include "gemm_stream.cuh"

namespace orrery::kernels {

template <class T_, int kRows_, int kCols_, int kStages_, int kGroups_, int kSlabs_>
struct WideTile {
  using T = T_;
  using Acc = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;
  static constexpr int kRows = kRows_, kCols = kCols_, kStages = kStages_, kGroups = kGroups_, kPerSm = 1, kSlabs = kSlabs_;
  static constexpr int kParts = 64 / kRows, kN = kParts * kCols, kRowsLog = kRows == 32 ? 5 : 6;
  static constexpr int kWorkers = kGroups * 128, kThreads = kWorkers + 64, kLeastStages = kGroups, kMostStages = 1 << 30;
  static constexpr int kSlabW = 64 * 128, kSlabX = kN * 128, kBytesW = kSlabs * kSlabW, kBytesX = kSlabs * kSlabX, kStageBytes = kBytesW + kBytesX;
  static constexpr int kPace = 56 * 1024 / kBytesW, kRingBytes = kStages * kStageBytes, kShared = 1024 + kRingBytes + 384;
  static constexpr int kRowGroups = 1, kKGroups = kGroups, kPlanes = kGroups * kParts;  // sums as those of gemm_stream.cuh
  static_assert((kRows == 32 || kRows == 64) && kN <= 256 && kStages % kGroups == 0 && kStages <= 15 && kPlanes * (kRows + 16) * kCols * 4 <= kRingBytes);
  static __host__ __device__ constexpr int pitch(int log) { return (kRows >> log) + 4; }
  static __host__ __device__ constexpr int block_bytes(int log) { return kPlanes * kCols * 4 * pitch(log); }
};

template <class Tile>
struct WideShared {
  uint32_t ring, full_w, full_x, empty, arrived, inbox;
  __device__ __forceinline__ explicit WideShared(uint32_t raw)
      : ring((raw + 1023) / 1024 * 1024), full_w(ring + Tile::kRingBytes), full_x(full_w + 8 * Tile::kStages), empty(full_x + 8 * Tile::kStages),
        arrived(full_w + 376), inbox(full_w + 384) {}
  __device__ __forceinline__ uint32_t w(int s) const { return ring + s * Tile::kStageBytes; }
  __device__ __forceinline__ uint32_t x(int s) const { return w(s) + Tile::kBytesW; }
  __device__ __forceinline__ void wait_full(int s, int phase) const { ptx::mbarrier_wait(full_w + 8 * s, phase), ptx::mbarrier_wait(full_x + 8 * s, phase); }
};

/// Asks for a stage of W or of X.
template <class Tile, bool kOfW>
__device__ __forceinline__ void ask(const StreamParams& p, const WideShared<Tile>& shared, int stage, int first, int step) {
  const uint32_t full = (kOfW ? shared.full_w : shared.full_x) + 8 * stage;
  ptx::mbarrier_arrive_expect_tx(full, kOfW ? Tile::kBytesW : Tile::kBytesX);
  ptx::tma_load_4d(kOfW ? shared.w(stage) : shared.x(stage), kOfW ? &p.w : &p.x, full, 0, first, 0, step * Tile::kSlabs, kOfW ? kHintW<typename Tile::T> : ptx::kEvictNormal);
}

/// Fills the ring with stages [begin, end) of K, of W from row `first` on or of X from that column on; by a warp each. W's makes no barriers and waits for none
/// but those that its first round completes on, so that nothing is asked for sooner; X's, which makes those of places too, must not be much later, or the
/// stages of W that follow stand before its own (NOTES.md).
template <class Tile, bool kOfW>
__device__ __forceinline__ void produce_wide(const StreamParams& p, const WideShared<Tile>& shared, bool split, int first, int begin, int end) {
  const int ahead = min(end - begin, Tile::kStages);
  if (ptx::elect_one()) {
    ptx::prefetch_tensormap(kOfW ? &p.w : &p.x);
#pragma unroll
    for (int s = 0; s < Tile::kStages; s++) {
      ptx::mbarrier_init((kOfW ? shared.full_w : shared.full_x) + 8 * s, 1);
      if (!kOfW) ptx::mbarrier_init(shared.empty + 8 * s, 4);
    }
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
  ptx::bar_arrive(2, Tile::kThreads);
  if (!kOfW) ptx::bar_arrive(5, 64);
  if (split) ptx::cluster_arrive_relaxed();
  if (ptx::elect_one()) {
    // X may not be written yet, but where it lies in L2 it is so also after it has been; else it would queue behind W.
    const int mine = begin + int(blockIdx.x >> p.split_log) % 32;
    if (!kOfW && p.early && mine < end) ptx::tma_prefetch_4d(&p.x, 0, first, 0, mine * Tile::kSlabs);
    if (!kOfW || !p.early) ptx::griddepcontrol_wait();
#pragma unroll 1
    for (int s = 0; s < ahead; s++) {
      if (kOfW && p.early && s >= Tile::kPace) ptx::mbarrier_wait(shared.full_w + 8 * (s - Tile::kPace), 0);
      ask<Tile, kOfW>(p, shared, s, first, begin + s);
    }
  }
  __syncwarp();
  if (kOfW) ptx::bar_sync(5, 64);  // barriers of places have been made
  if (ptx::elect_one()) {
    int stage = 0, phase = 0;
    for (int step = begin + ahead; step < end; step++) {
      ptx::mbarrier_wait(shared.empty + 8 * stage, phase);
      ask<Tile, kOfW>(p, shared, stage, first, step);
      if (++stage == Tile::kStages) stage = 0, phase ^= 1;
    }
  }
}
template <class Tile>
__device__ __forceinline__ void produce_wide(const StreamParams& p, const WideShared<Tile>& shared, bool split, int row0, int col0, int begin, int end) {
  if (__shfl_sync(~0u, int(threadIdx.x / 32), 0) == Tile::kWorkers / 32) produce_wide<Tile, true>(p, shared, split, row0, begin, end);
  else produce_wide<Tile, false>(p, shared, split, col0, begin, end);
}

/// Those who multiply wait for the producers' barriers here; `make` makes those of the end, by one thread.
template <class Tile, class Make>
__device__ __forceinline__ void meet_producers(Make make) {
  if (__shfl_sync(~0u, int(threadIdx.x / 32), 0) == 0) {
    if (ptx::elect_one()) make(), ptx::fence_mbarrier_init();
    __syncwarp();
  }
  ptx::bar_sync(2, Tile::kThreads);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) gemm_stream_wide(const __grid_constant__ StreamParams p) {
  extern __shared__ uint8_t raw[];
  const WideShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  bring_first<Tile>(p, row0, begin);
  ptx::griddepcontrol_launch_dependents();
  const int group = threadIdx.x / 128;
  if (group == Tile::kGroups) {
    produce_wide<Tile>(p, shared, split, row0, col0, begin, end);
    leave_producer(split);
    return;
  }
  touch(p.e);
  meet_producers<Tile>([&] {
    ptx::mbarrier_init(shared.arrived, 1);
    if (p.split_log > 0) ptx::mbarrier_arrive_expect_tx(shared.arrived, ((1 << p.split_log) - 1) * Tile::block_bytes(p.split_log));
  });
  if (split) ptx::cluster_arrive_relaxed();
  typename Tile::Acc acc[Tile::kN / 2];
  multiply_stream<Tile>(shared, group, end - begin, acc);
  end_stream<Tile>(p.e, shared, p.split_log, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
