// Direct GEMM (gemm_direct.cuh), tiles that keep W in shared memory instead of registers: each lane's pieces where only that lane reads
// them, and X from L2 to registers. All of a CTA's W is on its way before the kernel ahead has ended. The next kernel is let in only when
// that one has ended, so that what it asks for does not queue before X.
//
// No barriers: a lane waits for its own copies. Not here: sums and the kernel (gemm_direct.cuh).
#pragma once
#include "gemm_direct_chunks.cuh"

namespace orrery::kernels {

/// Starts copies of this lane's pieces of a chunk of W, and of its scales, to the lane's places in a slot.
template <class Tile>
__device__ __forceinline__ void keep_chunk(const DirectLane<Tile>& lane, uint32_t slot, int chunk) {
  const uint32_t l = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * Tile::kBlocks; i++) {
    const bool inside = i * 8 < lane.rows_left;  // otherwise zeros
    const uint8_t* const row = inside ? lane.w + i * 8 * lane.w_pitch + int64_t(chunk) * 128 : lane.w;
#pragma unroll
    for (int j = 0; j < 2; j++)
      asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;" ::"r"(slot + (i * 2 + j) * 512 + l * 16), "l"(row + j * 64), "r"(inside ? 16 : 0)
                   : "memory");
    if constexpr (Tile::W::kScaled)
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(slot + Tile::kBlocks * 2048 + i * 128 + l * 4),
                   "l"(inside ? lane.scales + int64_t(i) * 8 * lane.groups + 2 * chunk : lane.scales), "r"(inside ? 4 : 0)
                   : "memory");
  }
}

/// Reads them back.
template <class Tile>
__device__ __forceinline__ void take_chunk(ChunkW<Tile>& c, const uint8_t* slot) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * Tile::kBlocks; i++) {
#pragma unroll
    for (int j = 0; j < 2; j++) c.piece[i / 2][i % 2][j] = reinterpret_cast<const uint4*>(slot + (i * 2 + j) * 512)[lane];
    if constexpr (Tile::W::kScaled) c.scales[i / 2][i % 2] = reinterpret_cast<const uint32_t*>(slot + Tile::kBlocks * 2048 + i * 128)[lane];
  }
}

/// Where this lane reads X of a tile that keeps W. Columns that do not exist are read as the last one: they give columns of D that nobody
/// reads, and a branch here would have each load wait for the ones before it.
template <class Tile>
struct KeptColumns {
  const uint8_t* from[Tile::kColumns];
  __device__ __forceinline__ KeptColumns(const DirectParams& p, int col0) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++) from[n] = p.x + min(col0 + n * 8 + lane / 4, p.cols - 1) * p.x_pitch + lane % 4 * Tile::kLaneX;
  }
  __device__ __forceinline__ void load(RunX<Tile>& x, int chunk, int j) const {
    const int64_t at = (int64_t(chunk) * 2 + j) * 64 * Tile::kPiecesX;
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int q = 0; q < Tile::kPiecesX; q++) {
        uint4& v = x.piece[n][q];
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from[n] + at + q * Tile::kNextX));
      }
  }
};

/// multiply_direct for tiles that keep W in shared memory. There are more chunks than none.
template <class Tile>
__device__ __forceinline__ void multiply_kept(const DirectParams& p, const DirectLane<Tile>& lane, uint8_t* kept, int col0, int begin, int end,
                                              float (&acc)[Tile::kBlocks][Tile::kColumns][4]) {
  constexpr int kKept = Tile::kKept, kStep = Tile::kWarpsK, kAhead = Tile::kColumns == 1 ? 2 * kKept : 2;  // runs of X on their way
  static_assert(2 * kKept % kAhead == 0);
  const auto commit = [] { asm volatile("cp.async.commit_group;" ::: "memory"); };
  uint8_t* const slots = kept + threadIdx.x / 32 * (kKept * Tile::kSlotBytes);
  const uint32_t base = ptx::smem_address(slots);
  int chunk = begin + threadIdx.x / 32 / Tile::kWarpsM;
#pragma unroll
  for (int s = 0; s < kKept; s++) {
    if (chunk + s * kStep < end) keep_chunk<Tile>(lane, base + s * Tile::kSlotBytes, chunk + s * kStep);
    commit();
  }
  if (p.early && threadIdx.x / 32 == 0) prefetch_columns<Tile>(p, col0, begin, end);
  const KeptColumns<Tile> columns(p, col0);
  if (p.early) ptx::griddepcontrol_wait();
  if (threadIdx.x == 0) ptx::griddepcontrol_launch_dependents();  // a launch takes longer than X
  RunX<Tile> x[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; i++) columns.load(x[i], min(chunk + i / 2 * kStep, end - 1), i % 2);
  while (chunk < end) {
#pragma unroll
    for (int s = 0; s < kKept; s++, chunk += kStep) {
      if (chunk >= end) break;
      asm volatile("cp.async.wait_group %0;" ::"n"(kKept - 1) : "memory");
      ChunkW<Tile> w;
      take_chunk<Tile>(w, slots + s * Tile::kSlotBytes);
#pragma unroll
      for (int j = 0; j < 2; j++) {
        RunX<Tile>& run = x[(2 * s + j) % kAhead];
        multiply_run<Tile>(acc, w, run, j);
        if (const int next = chunk + kAhead / 2 * kStep; next < end) columns.load(run, next, j);
      }
      if (const int next = chunk + kKept * kStep; next < end) keep_chunk<Tile>(lane, base + s * Tile::kSlotBytes, next);
      commit();
    }
  }
}

}  // namespace orrery::kernels
