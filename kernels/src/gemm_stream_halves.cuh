// Streamed GEMM whose K two CTAs of a cluster share: that of gemm_stream_wide.cuh with 64 rows of W a tile and another end.
//
// Where X has 32 columns or more, what all CTAs read of it is as much as W; 64 rows instead of 32 are half of that, and half of K for each of two CTAs keeps as
// many SMs at work. What decides is then what the sums take: gemm_quarter_sums.cuh. A group's quarter of the columns is turned round in shared memory before it is
// stored, for D's columns are what is contiguous. Not here: instances and launch (gemm_stream.cu).
#pragma once
#include "gemm_quarter_sums.cuh"
#include "gemm_stream_wide.cuh"

namespace orrery::kernels {

/// As WideTile; two groups, as many places as there is room for.
template <class T_, int kCols_, int kSlabs_>
struct HalvesTile {
  using T = T_;
  using Acc = std::conditional_t<std::is_same_v<T, int8_t>, int32_t, float>;
  static constexpr int kRows = 64, kCols = kCols_, kGroups = 2, kPerSm = 1, kSlabs = kSlabs_, kParts = 1, kN = kCols, kRowsLog = 6;
  static constexpr int kWorkers = kGroups * 128, kThreads = kWorkers + 64, kLeastStages = kGroups, kMostStages = 1 << 30;
  static constexpr int kSlabW = 64 * 128, kSlabX = kN * 128, kBytesW = kSlabs * kSlabW, kBytesX = kSlabs * kSlabX, kStageBytes = kBytesW + kBytesX;
  static constexpr int kRowGroups = 1, kKGroups = kGroups, kPlanes = 1, kPace = 56 * 1024 / kBytesW;
  static constexpr int kHalf = kCols / 2, kQuarter = kCols / 4, kQuads = kQuarter / 8;  // columns of a group in between and in the end; quads that a thread sends
  static constexpr int kInbox = kGroups * 128 * kQuads * 16, kFit = (227 * 1024 - 1024 - 384 - kInbox) / kStageBytes;
  static constexpr int kStages = (kFit < 15 ? kFit : 15) / kGroups * kGroups, kRingBytes = kStages * kStageBytes, kShared = 1024 + kRingBytes + 384 + kInbox;
  static constexpr int kPitch = kRows + 4;  // of columns on their way out, in floats
  static_assert(kQuarter % 8 == 0 && kStages >= 2 * kGroups && kStageBytes >= 64 * kHalf * 4 && kStageBytes >= kQuarter * kPitch * 4);
};

template <class Tile>
struct StreamHalvesShared : WideShared<Tile> {
  __device__ __forceinline__ explicit StreamHalvesShared(uint32_t raw) : WideShared<Tile>(raw) {}
  __device__ __forceinline__ uint32_t landed(int group) const { return this->full_w + 24 * Tile::kStages + 8 * group; }
  /// Where this thread's first quad is of what a group is sent or leaves, quads being 2,048 bytes apart.
  __device__ __forceinline__ uint32_t sent(int group) const { return this->inbox + group * (128 * Tile::kQuads * 16) + threadIdx.x % 128 * 16; }
  __device__ __forceinline__ uint32_t left(int group) const { return this->w(group) + threadIdx.x % 128 * 16; }
  /// Where columns are on their way out: the group's second place.
  __device__ __forceinline__ uint32_t out(int group) const { return this->w(Tile::kGroups + group); }
};

/// Stores this group's columns, the first of which is col0. Launches ahead may have read D until here.
template <class Tile>
__device__ __forceinline__ void store_quarter(const Epilogue& e, const StreamHalvesShared<Tile>& shared, int group, const float (&sums)[Tile::kCols / 8], int row0, int col0) {
  constexpr int kPitch = Tile::kPitch;
  const int lane = threadIdx.x % 32, thread = threadIdx.x % 128, quad = thread % 16;
  const uint32_t out = shared.out(group), to = out + (lane % 4 * 2 * kPitch + thread / 32 * 16 + lane / 4) * 4;
#pragma unroll
  for (int i = 0; i < Tile::kCols / 8; i++)
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to + ((i / 4 * 8 + i % 2) * kPitch + i / 2 % 2 * 8) * 4), "f"(sums[i]) : "memory");
  const float scale = tensor_scale(e);
  ptx::bar_sync(3 + group, 128);
  ptx::griddepcontrol_wait();
#pragma unroll
  for (int c = thread / 16; c < Tile::kQuarter; c += 8) {
    if (col0 + c >= e.n) return;
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(out + (c * kPitch + 4 * quad) * 4));
    store_four(e, scale, v, row0 + 4 * quad, col0 + c);
  }
}

/// From a group's accumulators to D.
template <class Tile>
__device__ __forceinline__ void end_halves(const Epilogue& e, const StreamHalvesShared<Tile>& shared, int rank, int group, const typename Tile::Acc (&acc)[Tile::kCols / 2], int row0, int col0) {
  float sums[Tile::kCols / 8];
  sum_quarters<3>(shared, rank, group, acc, sums);
  store_quarter<Tile>(e, shared, group, sums, row0, col0 + group * Tile::kHalf + rank * Tile::kQuarter);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, 1) gemm_stream_halves(const __grid_constant__ StreamParams p) {
  extern __shared__ uint8_t raw[];
  const StreamHalvesShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  bring_first<Tile>(p, row0, begin);
  ptx::griddepcontrol_launch_dependents();
  const int group = threadIdx.x / 128;
  if (group == Tile::kGroups) {
    produce_wide<Tile>(p, shared, true, row0, col0, begin, end);
    __syncwarp();
    ptx::cluster_wait();
    return;
  }
  touch(p.e);
  meet_producers<Tile>([&] {
#pragma unroll
    for (int g = 0; g < Tile::kGroups; g++) ptx::mbarrier_init(shared.landed(g), 4);
  });
  ptx::cluster_arrive_relaxed();
  typename Tile::Acc acc[Tile::kN / 2];
  multiply_stream<Tile>(shared, group, end - begin, acc);
  end_halves<Tile>(p.e, shared, rank, group, acc, row0, col0);
}

}  // namespace orrery::kernels
