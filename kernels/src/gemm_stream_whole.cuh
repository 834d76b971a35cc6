// Streamed GEMM with two CTAs an SM, all of whose W is there before X is: that of gemm_stream.cuh for K so short that a CTA's W fits into half of
// an SM.
//
// Between the end of one launch and the products of the next lie the wait, a trip to L2 for X, sums and stores: two microseconds in which
// memory would idle. So a CTA has room for all of its W, which arrives while the launch ahead still multiplies: what does not fit into shared
// memory beside X is kept in registers, as A fragments.
//
//   stage   128 bytes of K of 64 lines: 32 rows by two parts of K (gemm_stream.cuh), or 64 rows
//   group   two warpgroups, each with its half of the stages: the first kHeld of them in registers, the others in its kRing places
//   X       all of it, in places of its own, by ordinary copies: what the copy engine has to do for the CTA beside stands before nothing
//   split   with more columns X leaves no room, and reading all of it in every CTA takes longer than W. Then a CTA has 64 rows and half of K,
//           and the two of a cluster exchange sums
//
// W is asked for a stage of each group at a time at first: what queues before memory stands before X of the launch ahead. There is no producer: a
// ninth warp would leave each thread 96 registers. Not here: sums and stores (gemm_stream.cuh), instances and launch (gemm_stream.cu).
#pragma once
#include "gemm_stream.cuh"
#include "spare_blocks.h"

namespace orrery::kernels {

template <class T_, int kCols_, int kSplit_>
struct WholeTile {
  using T = T_;
  using Acc = float;
  static constexpr int kSplit = kSplit_, kRows = 32 * kSplit, kRowsLog = kSplit == 2 ? 6 : 5, kCols = kCols_;
  static constexpr int kParts = 2 / kSplit, kN = kParts * kCols, kPerSm = 2, kGroups = 2, kWorkers = 256, kThreads = kWorkers;
  static constexpr int kHeld = 5, kRing = 3, kPlaces = kHeld + kRing, kSlabs = 1;  // of a group; its stages at most
  static constexpr int kLeastStages = kGroups, kMostStages = kGroups * kPlaces;
  static constexpr int kBytesW = 64 * 128, kBytesX = kN * 128, kRingBytes = kGroups * kRing * kBytesW;
  static constexpr int kPiecesX = (kN * 8 + 127) / 128;  // 16 bytes each, of a stage and thread
  static constexpr int kBarriers = kRingBytes + kGroups * kPlaces * kBytesX, kShared = kBarriers + 128;
  // Sums over the ring, as those of gemm_stream.cuh; behind them those that the peer sends.
  static constexpr int kRowGroups = 1, kKGroups = kGroups, kPlanes = kGroups * kParts, kInbox = 32 * 1024;
  static __host__ __device__ constexpr int pitch(int log) { return (kRows >> log) + 4; }
  static __host__ __device__ constexpr int block_bytes(int log) { return kPlanes * kCols * 4 * pitch(log); }
  static_assert((kSplit == 1 || kSplit == 2) && kN <= 32 && kShared <= 113 * 1024 && kSplit * block_bytes(kSplit - 1) <= kInbox &&
                kInbox + block_bytes(1) <= kRingBytes);
};

template <class Tile>
struct WholeShared {
  uint32_t ring, inbox, arrived;
  __device__ __forceinline__ explicit WholeShared(uint32_t base) : ring(base), inbox(base + Tile::kInbox), arrived(base + Tile::kBarriers + 64) {}
  __device__ __forceinline__ uint32_t w(int group, int s) const { return ring + (group * Tile::kRing + s % Tile::kRing) * Tile::kBytesW; }
  __device__ __forceinline__ uint32_t full(int group, int s) const { return ring + Tile::kBarriers + (group * Tile::kRing + s % Tile::kRing) * 8; }
  __device__ __forceinline__ uint32_t x(int group, int s) const { return ring + Tile::kRingBytes + (group * Tile::kPlaces + s) * Tile::kBytesX; }
  /// Until this group's stage of W is in its place.
  __device__ __forceinline__ void wait_w(int group, int s) const { ptx::mbarrier_wait(full(group, s), s / Tile::kRing & 1); }
};

/// A group's stages: `count` of them from slab `first` of each part of K on.
struct WholeStages {
  int group, warp, first, count;
};

template <class Tile>
__device__ __forceinline__ void load_whole_w(const StreamParams& p, const WholeShared<Tile>& shared, const WholeStages& at, int row0, int s) {
  if (s >= at.count || at.warp > 0) return;
  if (ptx::elect_one()) {
    ptx::mbarrier_arrive_expect_tx(shared.full(at.group, s), Tile::kBytesW);
    ptx::tma_load_4d(shared.w(at.group, s), &p.w, shared.full(at.group, s), 0, row0, 0, at.first + s, kHintW<typename Tile::T>);
  }
  __syncwarp();
}

/// Takes the first stages of W to registers as they arrive, and asks for the others.
template <class Tile>
__device__ __forceinline__ void hold_w(const StreamParams& p, const WholeShared<Tile>& shared, const WholeStages& at, int row0, uint32_t (&held)[Tile::kHeld][4][4]) {
  const int lane = threadIdx.x % 32, line = at.warp * 16 + lane % 16;
#pragma unroll
  for (int s = 0; s < Tile::kHeld; s++) {
    if (s + 1 < Tile::kRing) load_whole_w<Tile>(p, shared, at, row0, s + 1);
    if (s >= at.count) continue;
    shared.wait_w(at.group, s);
#pragma unroll
    for (int j = 0; j < 4; j++) ptx::ldmatrix_x4(held[s][j], shared.w(at.group, s) + line * 128 + (((2 * j + lane / 16) ^ (line & 7)) << 4));
    if (s + Tile::kRing < at.count) {
      ptx::fence_proxy_async_shared();  // bar.sync alone does not wait for what ldmatrix reads: the next stage was seen to overwrite it
      ptx::bar_sync(3 + at.group, 128);
      load_whole_w<Tile>(p, shared, at, row0, s + Tile::kRing);
    }
  }
}

/// Starts this thread's copies of X, a commit group for each stage. Of columns that do not exist nothing is written: they give
/// columns of D that nobody reads.
template <class Tile>
__device__ __forceinline__ void copy_whole_x(const StreamParams& p, const WholeShared<Tile>& shared, const WholeStages& at, int col0) {
  const int line = threadIdx.x % 128 / 8, piece = threadIdx.x % 8;
  const uint8_t* from[Tile::kPiecesX];
#pragma unroll
  for (int r = 0; r < Tile::kPiecesX; r++) {
    const int l = line + r * 16, col = col0 + l % Tile::kCols;
    from[r] = col >= p.e.n ? nullptr : p.x_data + col * p.x_pitch + (int64_t(l / Tile::kCols) * p.stages + at.first) * 128 + piece * 16;
  }
  const uint32_t to = shared.x(at.group, 0) + line * 128 + ((piece ^ (line & 7)) << 4);
#pragma unroll
  for (int s = 0; s < Tile::kPlaces; s++) {
    if (s < at.count) {
#pragma unroll
      for (int r = 0; r < Tile::kPiecesX; r++)
        if (from[r]) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + s * Tile::kBytesX + r * 2048), "l"(from[r] + s * 128) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
}

/// Brings a slab of the CTA's X to L2, another one in every CTA; by one warp. X may not be written yet, but where it lies in L2 it is so also
/// after it has been.
template <class Tile>
__device__ __forceinline__ void prefetch_whole_x(const StreamParams& p, int col0, int begin, int end) {
  const int lane = threadIdx.x % 32, slab = begin + int(blockIdx.x / Tile::kSplit) % 32, col = col0 + lane % Tile::kCols;
  if (lane < Tile::kN && slab < end && col < p.e.n) ptx::prefetch_l2(p.x_data + col * p.x_pitch + (int64_t(lane / Tile::kCols) * p.stages + slab) * 128);
}

/// The products of a group's stages, two of them as soon as their X is there.
template <class Tile>
__device__ __forceinline__ void multiply_whole(const WholeShared<Tile>& shared, const WholeStages& at, const uint32_t (&held)[Tile::kHeld][4][4], float (&acc)[Tile::kN / 2]) {
  using T = typename Tile::T;
#pragma unroll
  for (int s = 0; s < Tile::kPlaces; s++) {
    if (s >= at.count) break;
    if (s % 2 == 0) {
      constexpr int kAll = Tile::kPlaces;
      if (s == 0) asm volatile("cp.async.wait_group %0;" ::"n"(kAll - 2) : "memory");
      if (s == 2) asm volatile("cp.async.wait_group %0;" ::"n"(kAll - 4) : "memory");
      if (s == 4) asm volatile("cp.async.wait_group %0;" ::"n"(kAll - 6) : "memory");
      if (s == 6) asm volatile("cp.async.wait_group %0;" ::"n"(kAll - 8) : "memory");
      ptx::fence_proxy_async_shared();
      ptx::bar_sync(3 + at.group, 128);
    }
    const ptx::Descriptor x = ptx::descriptor_k_major(shared.x(at.group, s));
    if (s >= Tile::kHeld) shared.wait_w(at.group, s);
    ptx::wgmma_fence();
    if (s < Tile::kHeld) {
#pragma unroll
      for (int j = 0; j < 4; j++) wgmma_rs<T, Tile::kN, 0>(acc, held[s < Tile::kHeld ? s : 0][j], x.at(j * ptx::kStepKMajor), s + j > 0);
    } else {
      const ptx::Descriptor w = ptx::descriptor_k_major(shared.w(at.group, s));
#pragma unroll
      for (int j = 0; j < 4; j++) wgmma_ss<T, T, Tile::kN, 0, 0>(acc, w.at(j * ptx::kStepKMajor), x.at(j * ptx::kStepKMajor), true);
    }
    ptx::wgmma_commit_group();
  }
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(acc);
}

/// end_stream for a cluster whose inboxes lie over its rings: sums are sent when the peer has no more use for its own.
template <class Tile>
__device__ __forceinline__ void end_whole(const StreamParams& p, const WholeShared<Tile>& shared, int rank, int group, const float (&acc)[Tile::kN / 2], int row0, int col0) {
  ptx::cluster_arrive_relaxed();
  ptx::bar_sync(1, Tile::kWorkers);
  leave_stream_sums<Tile>(shared.ring, 1, group, acc);
  ptx::fence_proxy_async_shared();
  ptx::bar_sync(1, Tile::kWorkers);
  ptx::cluster_wait();
  if (threadIdx.x == 0) send_sums<Tile>(shared, 1, rank);
  ptx::mbarrier_wait(shared.arrived, 0);
  ptx::cluster_arrive_relaxed();  // the peer, who sent, may end
  finish_stream<Tile>(p.e, 1, shared.ring + rank * Tile::block_bytes(1), shared.inbox, rank, row0 + rank * (Tile::kRows / 2), col0);
  ptx::cluster_wait();
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_stream_whole(const __grid_constant__ StreamParams p) {
  extern __shared__ __align__(1024) uint8_t raw[];
  const WholeShared<Tile> shared(ptx::smem_address(raw));
  const auto [split, rank, row0, col0, begin, end] = StreamPlace(p, Tile{});
  ptx::griddepcontrol_launch_dependents();
  if (row0 >= p.e.m) return keep_place();
  WholeStages at;
  at.group = ptx::warpgroup(), at.warp = __shfl_sync(~0u, int(threadIdx.x % 128 / 32), 0);
  const int half = (end - begin + 1) / 2;
  at.first = begin + at.group * half, at.count = at.group ? end - begin - half : half;
  if (!p.early) ptx::griddepcontrol_wait();
  if (at.warp == 0) {
    if (ptx::elect_one()) {
      ptx::prefetch_tensormap(&p.w);
#pragma unroll
      for (int s = 0; s < Tile::kRing; s++) ptx::mbarrier_init(shared.full(at.group, s), 1);
      if (Tile::kSplit == 2 && at.group == 0) ptx::mbarrier_init(shared.arrived, 1);
      ptx::fence_mbarrier_init();
      if (Tile::kSplit == 2 && at.group == 0) ptx::mbarrier_arrive_expect_tx(shared.arrived, Tile::block_bytes(1));
    }
    __syncwarp();
    load_whole_w<Tile>(p, shared, at, row0, 0);
  }
  if (p.early && at.warp == 1 && at.group == 0) prefetch_whole_x<Tile>(p, col0, begin, end);
  touch(p.e);  // or what is first read of the parameters at the end would be waited for there
  asm volatile("" ::"l"(p.e.d_row_stride), "l"(p.e.scale_a), "l"(p.e.scale_b), "r"(int(p.e.linear)), "r"(p.e.n));
  ptx::bar_sync(3 + at.group, 128);
  uint32_t held[Tile::kHeld][4][4];
  hold_w<Tile>(p, shared, at, row0, held);
  ptx::griddepcontrol_wait();
  copy_whole_x<Tile>(p, shared, at, col0);
  float acc[Tile::kN / 2];
  multiply_whole<Tile>(shared, at, held, acc);
  if constexpr (Tile::kSplit == 2) end_whole<Tile>(p, shared, rank, at.group, acc, row0, col0);
  else end_stream<Tile>(p.e, shared, 0, 0, at.group, acc, row0, col0);
}

}  // namespace orrery::kernels
