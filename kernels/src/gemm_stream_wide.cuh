// Streamed GEMM with one CTA an SM: that of gemm_stream.cuh with wider stages and a producer for X.
//
// A copy takes the thread that asks for it some 300 cycles with all that goes with it, whatever it brings, and while a ring is filled
// nothing else happens. So a stage is kSlabs times 128 bytes of K, which one box of TMA brings (where K ends sooner, zeros), and W and X
// have a thread each. X comes by TMA from the first stage on: its thread has said what to expect before the kernels ahead have ended,
// then only asks.
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

/// Fills the ring with W of stages [begin, end) of K; by one thread.
template <class Tile>
__device__ __forceinline__ void produce_wide_w(const StreamParams& p, const WideShared<Tile>& shared, int row0, int begin, int end) {
  if (!p.early) ptx::griddepcontrol_wait();
  int stage = 0, phase = 0;
  for (int step = begin; step < end; step++) {
    const int i = step - begin, before = i - Tile::kPace;
    if (i >= Tile::kStages) ptx::mbarrier_wait(shared.empty + 8 * stage, phase ^ 1);
    else if (p.early && before >= 0) ptx::mbarrier_wait(shared.full_w + 8 * before, 0);
    ptx::mbarrier_arrive_expect_tx(shared.full_w + 8 * stage, Tile::kBytesW);
    ptx::tma_load_4d(shared.w(stage), &p.w, shared.full_w + 8 * stage, 0, row0, 0, step * Tile::kSlabs, kHintW<typename Tile::T>);
    if (++stage == Tile::kStages) stage = 0, phase ^= 1;
  }
}

/// And with X.
template <class Tile>
__device__ __forceinline__ void produce_wide_x(const StreamParams& p, const WideShared<Tile>& shared, int col0, int begin, int end) {
  // X may not be written yet, but where it lies in L2 it is so also after it has been; else it would queue behind W.
  const int mine = begin + int(blockIdx.x >> p.split_log) % 32;
  if (p.early && mine < end) ptx::tma_prefetch_4d(&p.x, 0, col0, 0, mine * Tile::kSlabs);
  const auto load = [&](int stage, int step) {
    ptx::tma_load_4d(shared.x(stage), &p.x, shared.full_x + 8 * stage, 0, col0, 0, step * Tile::kSlabs, ptx::kEvictNormal);
  };
  const int ahead = min(end - begin, Tile::kStages);
  for (int s = 0; s < ahead; s++) ptx::mbarrier_arrive_expect_tx(shared.full_x + 8 * s, Tile::kBytesX);
  ptx::griddepcontrol_wait();
  for (int s = 0; s < ahead; s++) load(s, begin + s);
  int stage = 0, phase = 0;
  for (int step = begin + ahead; step < end; step++) {
    ptx::mbarrier_wait(shared.empty + 8 * stage, phase);
    ptx::mbarrier_arrive_expect_tx(shared.full_x + 8 * stage, Tile::kBytesX);
    load(stage, step);
    if (++stage == Tile::kStages) stage = 0, phase ^= 1;
  }
}

/// Makes the barriers; by one thread.
template <class Tile>
__device__ __forceinline__ void init_wide(const StreamParams& p, const WideShared<Tile>& shared) {
  ptx::prefetch_tensormap(&p.w);
  ptx::prefetch_tensormap(&p.x);
#pragma unroll
  for (int s = 0; s < Tile::kStages; s++)
    ptx::mbarrier_init(shared.full_w + 8 * s, 1), ptx::mbarrier_init(shared.full_x + 8 * s, 1), ptx::mbarrier_init(shared.empty + 8 * s, 4);
  ptx::mbarrier_init(shared.arrived, 1);
  ptx::fence_mbarrier_init();
  if (p.split_log > 0) ptx::mbarrier_arrive_expect_tx(shared.arrived, ((1 << p.split_log) - 1) * Tile::block_bytes(p.split_log));
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) gemm_stream_wide(const __grid_constant__ StreamParams p) {
  extern __shared__ uint8_t raw[];
  const WideShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  ptx::griddepcontrol_launch_dependents();
  const int group = threadIdx.x / 128;
  const bool of_w = __shfl_sync(~0u, int(threadIdx.x / 32), 0) == Tile::kWorkers / 32;
  touch(p.e);
  if (of_w) {
    if (ptx::elect_one()) init_wide<Tile>(p, shared);
    __syncwarp();
    ptx::bar_arrive(2, Tile::kThreads);  // waits for nobody
  } else {
    ptx::bar_sync(2, Tile::kThreads);  // one instruction for all who wait: compute-sanitizer takes two for divergence
  }
  if (split) ptx::cluster_arrive_relaxed();
  if (group == Tile::kGroups) {
    if (ptx::elect_one()) {
      if (of_w) produce_wide_w<Tile>(p, shared, row0, begin, end);
      else produce_wide_x<Tile>(p, shared, col0, begin, end);
    }
    leave_producer(split);
    return;
  }
  typename Tile::Acc acc[Tile::kN / 2];
  multiply_stream<Tile>(shared, group, end - begin, acc);
  end_stream<Tile>(p.e, shared, p.split_log, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
