// Direct GEMM: a wide, constant matrix W (rows x k) times a few columns X (k x at most 64), at the speed of memory.
//
// Where m is small a product is a read of W, and what a tile kernel spends before its first byte arrives (tensor-map
// fetch, barriers, cluster start) costs as much as the read. Here nothing stands before the first load: each lane asks
// for its own pieces of W, 16 bytes each, straight into registers, and the products are warp-wide mma instructions.
//
//   piece   16 bytes of a row: 8, 16 or 32 elements. Lane t of a quad takes piece t of 64 bytes, rows g and g + 8.
//   chunk   128 bytes of a row: two pieces a lane. Warps of a CTA take chunks in turn (kWarpsK), kDepth of them in flight.
//
// X, which every warp of a CTA reads, is copied to shared memory once, while W is under way; where it is too large for that it is read
// from L2. Partial sums of the warps meet in shared memory, those of a cluster's CTAs (split) through distributed shared memory,
// always in the same order. Not here: chunks and their products (gemm_direct_chunks.cuh), tiles that keep W in shared memory
// (gemm_direct_kept.cuh), instances and launch (gemm_direct.cu).
#pragma once
#include "gemm_direct_kept.cuh"

namespace orrery::kernels {

/// Copies the columns that exist of the chunks [begin, end) of X to shared memory; complete after wait_staged.
template <class Tile>
__device__ __forceinline__ void stage_columns(const DirectParams& p, uint32_t to, int col0, int begin, int end) {
  constexpr int kChunk = 128 * Tile::kPiecesX;
  const int columns = min(Tile::kCols, p.cols - col0), units = (end - begin) * (kChunk / 16);
  const uint8_t* from = p.x + col0 * p.x_pitch + int64_t(begin) * kChunk;
  for (int c = threadIdx.x / 32; c < columns; c += Tile::kThreads / 32)
    for (int u = threadIdx.x % 32; u < units; u += 32)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + c * p.staged_pitch + u * 16), "l"(from + c * p.x_pitch + u * 16) : "memory");
}
__device__ __forceinline__ void wait_staged() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
}

/// This warp's share of the CTA's whole chunks [begin, end), and the last, partial one if there is one and it is ours.
template <class Tile>
__device__ __forceinline__ void multiply_direct(const DirectParams& p, const DirectLane<Tile>& lane, uint32_t staged, int col0, int begin,
                                                int end, bool partial, float (&acc)[Tile::kBlocks][Tile::kColumns][4]) {
  constexpr int kDepth = Tile::kDepth, kStep = Tile::kWarpsK;
  ChunkW<Tile> w[kDepth];
  RunX<Tile> x[2];
  int chunk = begin + threadIdx.x / 32 / Tile::kWarpsM;
  if (!p.early && p.staged_pitch) stage_columns<Tile>(p, staged, col0, begin, end);
#pragma unroll
  for (int d = 0; d < kDepth; d++)
    if (chunk + d * kStep < end) lane.template load<true>(w[d], chunk + d * kStep);
  // X may not be written yet, but where it lies in L2 it is so also after it has been.
  if (p.early && threadIdx.x / 32 == 0) prefetch_columns<Tile>(p, col0, begin, end);
  if (p.early) ptx::griddepcontrol_wait();
  if (p.early && p.staged_pitch) stage_columns<Tile>(p, staged, col0, begin, end);
  if (p.staged_pitch) wait_staged();
  while (chunk < end) {
#pragma unroll
    for (int d = 0; d < kDepth; d++, chunk += kStep) {
      if (chunk >= end) break;
      lane.template load<true>(x, chunk - begin);
      multiply_chunk<Tile>(acc, w[d], x);
      if (chunk + kDepth * kStep < end) lane.template load<true>(w[d], chunk + kDepth * kStep);
    }
  }
  if (partial && threadIdx.x / 32 / Tile::kWarpsM == kStep - 1) {
    lane.template load<false>(w[0], end);
    lane.template load<false>(x, end);
    multiply_chunk<Tile>(acc, w[0], x);
  }
}

/// Sums over the warps of this CTA and the CTAs of the cluster, and D.
template <class Tile>
__device__ __forceinline__ void finish_direct(const DirectParams& p, float* sums, const float (&acc)[Tile::kBlocks][Tile::kColumns][4],
                                              int row0, int col0, int part) {
  constexpr int kPitch = Tile::kPitch, kPlane = Tile::kCols * kPitch, kElements = Tile::kRows * Tile::kCols;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, wm = warp % Tile::kWarpsM, wk = warp / Tile::kWarpsM;
#pragma unroll
  for (int block = 0; block < Tile::kBlocks; block++)
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        sums[wk * kPlane + (n * 8 + lane % 4 * 2 + i % 2) * kPitch + (wm * Tile::kBlocks + block) * 16 + lane / 4 + i / 2 * 8] =
            acc[block][n][i];
  __syncthreads();
  const auto total = [&](int at) {
    float v = sums[at];
#pragma unroll
    for (int k = 1; k < Tile::kWarpsK; k++) v += sums[k * kPlane + at];
    return v;
  };
  const float scale = tensor_scale(p.e);
  const auto store = [&](int e, float v) {
    const int row = row0 + e % Tile::kRows, col = col0 + e / Tile::kRows;
    if (row < p.rows && col < p.cols)
      store_element(p.e.d, row * p.e.d_row_stride + col * p.e.d_col_stride, p.e.dtype, finish(p.e, scale, v, row, col));
  };
  const auto place = [](int e) { return e / Tile::kRows * kPitch + e % Tile::kRows; };
  if (p.split_log == 0) {
    for (int e = threadIdx.x; e < kElements; e += Tile::kThreads) store(e, total(place(e)));
    return;
  }
  if (Tile::kWarpsK > 1)
    for (int e = threadIdx.x; e < kElements; e += Tile::kThreads) sums[place(e)] = total(place(e));
  ptx::cluster_sync();
  const uint32_t here = ptx::smem_address(sums);
  const int first = kElements * part >> p.split_log, last = kElements * (part + 1) >> p.split_log;
  for (int e = first + threadIdx.x; e < last; e += Tile::kThreads) {
    float v = 0.f;
    for (int r = 0; r < 1 << p.split_log; r++) v += ptx::ld_shared_cluster_f1(ptx::mapa(here, r) + place(e) * 4);
    store(e, v);
  }
  ptx::cluster_sync();  // peers may still be reading our sums
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_direct(const __grid_constant__ DirectParams p) {
  extern __shared__ __align__(16) uint8_t shared[];
  uint8_t* const staged = shared + Tile::kSumBytes;
  const int tile = blockIdx.x >> p.split_log, part = blockIdx.x - (tile << p.split_log);
  const int row0 = tile * Tile::kRows, col0 = blockIdx.y * Tile::kCols;
  const int chunks = p.k / Tile::kChunkK;  // whole ones
  const int begin = chunks * part >> p.split_log, end = chunks * (part + 1) >> p.split_log;
  if constexpr (!Tile::kKept) ptx::griddepcontrol_launch_dependents();
  if (!p.early) ptx::griddepcontrol_wait();
  const DirectLane<Tile> lane(p, row0 + threadIdx.x / 32 % Tile::kWarpsM * (16 * Tile::kBlocks), col0, staged, begin);
  float acc[Tile::kBlocks][Tile::kColumns][4] = {};
  if constexpr (Tile::kKept) multiply_kept<Tile>(p, lane, staged, col0, begin, end, acc);
  else multiply_direct<Tile>(p, lane, ptx::smem_address(staged), col0, begin, end, part == (1 << p.split_log) - 1 && p.k % Tile::kChunkK, acc);
  finish_direct<Tile>(p, reinterpret_cast<float*>(shared), acc, row0, col0, part);
}

}  // namespace orrery::kernels
