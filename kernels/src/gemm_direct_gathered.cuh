// Direct GEMM (gemm_direct.cuh) of int4 weights and 8 or 16 columns of 16 bits whose launch overlaps no other: all that a CTA reads goes to shared
// memory and is asked for at once.
//
// Loads to registers will not do: ptxas has them all wait on one scoreboard, so that the first product waits for the last of them. Copies are
// waited for in the order in which they were asked for, and a run's products hide behind the arrival of the next.
//
//   run     a group of scales for each of eight warps: 64 bytes of 32 rows, 256 bytes of each column. The warps' groups lie side by side
//   W       each lane's pieces to places that only this lane reads, by ordinary copies, a commit group a run. No more than kAhead runs are under
//           way: what stands in the queues before memory stands before X, too
//   X       by the copy engine, a part and a barrier a run. Two CTAs of a cluster take the same columns: each asks for every second one and
//           multicasts it, since 16 columns in every CTA are twice what is read of W
//   column  64 bytes more than its length from the next, so that two columns of one phase of a load meet no bank twice
//
// Sums lie over each warp's own places. Not here: epilogues (gemm_epilogue.cuh), instances and launch (gemm_weight_only.cu).
#pragma once
#include "arguments.h"
#include "gemm_direct_chunks.cuh"

namespace orrery::kernels {

/// kRuns: groups of scales of a warp; K is 8 times as many.
template <class T_, int kColumns_, int kRuns_>
struct GatheredTile {
  using T = T_;
  static constexpr int kColumns = kColumns_, kRuns = kRuns_, kBlocks = 2, kRows = 16 * kBlocks, kCols = 8 * kColumns, kPerSm = 1, kCluster = 2;
  static constexpr int kWarps = 8, kThreads = 32 * kWarps + 32, kAhead = kColumns == 2 || kRuns < 4 ? 2 : 4;
  static constexpr int kK = kWarps * kRuns * 128, kPart = kK * 2 / kRuns, kPitchX = kK * 2 + 64, kPitch = kRows + 4;
  static constexpr int kRunBytes = kBlocks * 2 * 512, kOwn = kRuns * kRunBytes, kScaleRow = kK / 64;
  static constexpr int kAtW = kCols * kPitchX, kAtScales = kAtW + kWarps * kOwn, kAtBars = kAtScales + kRows * kScaleRow, kShared = kAtBars + 8 * kRuns;
  static_assert(kCols * kPitch * 4 <= kOwn && kAtBars % 8 == 0 && kShared <= 227 * 1024 && kScaleRow % 16 == 0);
  static bool takes(const WeightOnlyArgs& g) { return g.k == kK && aligned(g.scales, 16); }
};

/// Copies `bytes` to that place of every CTA of the cluster that `mask` names, completing on the barrier at `bar` of each; otherwise as ptx::bulk_load.
__device__ __forceinline__ void bulk_load_multicast(uint32_t dst, const void* src, uint32_t bytes, uint32_t bar, uint16_t mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(dst), "l"(src), "r"(bytes),
               "r"(bar), "h"(mask)
               : "memory");
}

/// Makes the barriers, asks for the scales and this CTA's columns of X, for both of the cluster; by one warp.
template <class Tile>
__device__ __forceinline__ void fetch_gathered(const DirectParams& p, uint32_t base, int row0, int col0) {
  const uint32_t bars = base + Tile::kAtBars;
  const int lane = threadIdx.x % 32, columns = min(p.cols - col0, Tile::kCols), scale_bytes = min(p.rows - row0, Tile::kRows) * Tile::kScaleRow;
  if (ptx::elect_one()) {
#pragma unroll
    for (int i = 0; i < Tile::kRuns; i++) ptx::mbarrier_init(bars + i * 8, 1);
    ptx::fence_mbarrier_init();
#pragma unroll
    for (int i = 0; i < Tile::kRuns; i++) ptx::mbarrier_arrive_expect_tx(bars + i * 8, columns * Tile::kPart + (i == 0 ? scale_bytes : 0));
    ptx::bulk_load(base + Tile::kAtScales, p.scales + int64_t(row0) * (Tile::kK / 128), scale_bytes, bars);
  }
  __syncwarp();
  ptx::cluster_arrive_relaxed();
  ptx::bar_arrive(1, Tile::kThreads);
  if (p.early) ptx::griddepcontrol_wait();
  ptx::cluster_wait();  // the other CTA's barriers exist
  const int column = lane * Tile::kCluster + int(ptx::cluster_ctarank());
  if (column >= columns) return;
  const uint8_t* const from = p.x + (col0 + column) * p.x_pitch;
#pragma unroll
  for (int i = 0; i < Tile::kRuns; i++)
    bulk_load_multicast(base + column * Tile::kPitchX + i * Tile::kPart, from + i * Tile::kPart, Tile::kPart, bars + i * 8, (1 << Tile::kCluster) - 1);
}

/// Starts copies of this lane's pieces of a run; a commit group. `from`: of the first run, rows g, g + 8 and so on.
template <class Tile>
__device__ __forceinline__ void ask_run(uint32_t own, const uint8_t* const (&from)[2 * Tile::kBlocks], int run) {
#pragma unroll
  for (int i = 0; i < 2 * Tile::kBlocks; i++)
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(own + run * Tile::kRunBytes + i * 512), "l"(from[i] + run * (Tile::kWarps * 64)) : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void wait_asked() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ __forceinline__ uint4 load_piece(uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
  return v;
}

/// Where a lane reads what lies in shared memory. Rows and columns that do not exist are read as the last one: they give elements of D that
/// nobody stores.
template <class Tile>
struct GatheredLane {
  uint32_t own, line[Tile::kColumns], scale[2 * Tile::kBlocks];
  __device__ __forceinline__ GatheredLane(const DirectParams& p, uint32_t base, int row0, int col0) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    own = base + Tile::kAtW + warp * Tile::kOwn + lane * 16;
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++) line[n] = base + min(n * 8 + lane / 4, p.cols - col0 - 1) * Tile::kPitchX + warp * 256 + lane % 4 * 16;
#pragma unroll
    for (int i = 0; i < 2 * Tile::kBlocks; i++) scale[i] = base + Tile::kAtScales + min(lane / 4 + i * 8, p.rows - row0 - 1) * Tile::kScaleRow + warp * 2;
  }
};

/// Adds the products of a run, all of whose operands have come.
template <class Tile>
__device__ __forceinline__ void multiply_gathered(float (&acc)[Tile::kBlocks][Tile::kColumns][4], const GatheredLane<Tile>& at, int run) {
  using T = typename Tile::T;
  uint4 x[Tile::kColumns][4], w[Tile::kBlocks][2];
  float scale[Tile::kBlocks][2], sum[Tile::kBlocks][Tile::kColumns][4] = {};
#pragma unroll
  for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
    for (int q = 0; q < 4; q++) x[n][q] = load_piece(at.line[n] + run * (Tile::kWarps * 256) + q * 64);
#pragma unroll
  for (int i = 0; i < 2 * Tile::kBlocks; i++) {
    uint16_t bits;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(at.scale[i] + run * (Tile::kWarps * 2)) : "memory");
    scale[i / 2][i % 2] = scale_at<T>(bits, 0);
    w[i / 2][i % 2] = load_piece(at.own + run * Tile::kRunBytes + i * 512);
  }
#pragma unroll
  for (int octet = 0; octet < 4; octet++) {
    uint32_t a[Tile::kBlocks][2][4];
#pragma unroll
    for (int i = 0; i < 2 * Tile::kBlocks; i++) Int4::widen<T>(a[i / 2][i % 2], w[i / 2][i % 2], octet);
#pragma unroll
    for (int half = 0; half < 2; half++)
#pragma unroll
      for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
        for (int n = 0; n < Tile::kColumns; n++) {
          const uint4& v = x[n][octet];
          mma_16816<T>(sum[b][n], a[b][0][2 * half], a[b][1][2 * half], a[b][0][2 * half + 1], a[b][1][2 * half + 1], half ? v.z : v.x, half ? v.w : v.y);
        }
  }
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) acc[b][n][i] = fmaf(scale[b][i / 2], sum[b][n][i], acc[b][n][i]);
}

/// Sums of the warps, and D; by the warps that multiply. A warp's sums lie over the places that it has read.
template <class Tile>
__device__ __forceinline__ void finish_gathered(const DirectParams& p, float scale, uint8_t* places, const float (&acc)[Tile::kBlocks][Tile::kColumns][4], int row0, int col0) {
  constexpr int kPlane = Tile::kOwn / 4;
  float* const sums = reinterpret_cast<float*>(places);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncwarp();
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[warp * kPlane + (n * 8 + lane % 4 * 2 + i % 2) * Tile::kPitch + b * 16 + lane / 4 + i / 2 * 8] = acc[b][n][i];
  ptx::bar_sync(2, Tile::kWarps * 32);
  const int columns = min(p.cols - col0, Tile::kCols);
  for (int e = threadIdx.x; e < Tile::kRows * columns; e += Tile::kWarps * 32) {
    const int at = e / Tile::kRows * Tile::kPitch + e % Tile::kRows, row = row0 + e % Tile::kRows, col = col0 + e / Tile::kRows;
    float v = sums[at];
#pragma unroll
    for (int k = 1; k < Tile::kWarps; k++) v += sums[k * kPlane + at];
    if (row < p.rows) store_element(p.e.d, row * p.e.d_row_stride + col * p.e.d_col_stride, p.e.dtype, finish(p.e, scale, v, row, col));
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_direct_gathered(const __grid_constant__ DirectParams p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const uint32_t base = ptx::smem_address(shared);
  const int row0 = blockIdx.x * Tile::kRows, col0 = blockIdx.y * Tile::kCols, lane = threadIdx.x % 32, warp = __shfl_sync(~0u, int(threadIdx.x / 32), 0);
  const int read0 = min(row0, (p.tiles_m - 1) * Tile::kRows);  // a last CTA that has no rows, so that clusters are whole, reads those of its peer
  ptx::griddepcontrol_launch_dependents();
  if (!p.early) ptx::griddepcontrol_wait();
  if (warp == Tile::kWarps) return fetch_gathered<Tile>(p, base, read0, col0);
  ptx::cluster_arrive_relaxed();
  const GatheredLane<Tile> at(p, base, read0, col0);
  const uint8_t* from[2 * Tile::kBlocks];
#pragma unroll
  for (int i = 0; i < 2 * Tile::kBlocks; i++) from[i] = p.w + min(read0 + lane / 4 + i * 8, p.rows - 1) * p.w_pitch + warp * 64 + lane % 4 * 16;  // rows that do not exist: the last
#pragma unroll
  for (int r = 0; r < Tile::kAhead; r++) ask_run<Tile>(at.own, from, r);
  touch(p.e);  // or what is first read of the parameters at the end would be waited for there
  asm volatile("" ::"l"(p.e.d_row_stride), "r"(int(p.e.linear)), "r"(p.rows), "r"(p.cols));
#pragma unroll
  for (int r = Tile::kAhead; r < Tile::kRuns; r++) wait_asked<Tile::kAhead - 1>(), ask_run<Tile>(at.own, from, r);
  ptx::bar_sync(1, Tile::kThreads);  // the barriers exist
  float acc[Tile::kBlocks][Tile::kColumns][4] = {};
#pragma unroll
  for (int r = 0; r < Tile::kRuns; r++) {
    ptx::mbarrier_wait(base + Tile::kAtBars + r * 8, 0);
    if (r == 0) wait_asked<Tile::kRuns - 1>();
    if (r == 1) wait_asked<Tile::kRuns - 2>();
    if constexpr (Tile::kRuns == 4) {
      if (r == 2) wait_asked<1>();
      if (r == 3) wait_asked<0>();
    }
    multiply_gathered<Tile>(acc, at, r);
  }
  if (p.early) ptx::griddepcontrol_wait();  // launches ahead may read D, or write what scales it
  finish_gathered<Tile>(p, tensor_scale(p.e), shared + Tile::kAtW, acc, row0, col0);
  ptx::cluster_wait();
}

}  // namespace orrery::kernels
