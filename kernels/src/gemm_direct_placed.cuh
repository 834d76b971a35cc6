// Direct GEMM (gemm_direct.cuh) of int4 weights and 16 columns of 16 bits: W in registers from the start of the launch, X through places in shared
// memory.
//
// X of 16 columns is twice what a CTA reads of W, and no register is left for it: gemm_direct_kept.cuh, which keeps W in shared memory and X
// in registers, spills. So it is the other way round here: a lane's pieces of W, all that it ever needs, go straight to 64 registers, and
// X is copied to shared memory half a group of scales at a time.
//
//   warp    an eighth of K, whole groups of scales, of 32 rows; its copies of X and its places for them are its own: no barriers
//   place   64 of k of the 16 columns, 128 bytes each, 16-byte pieces exchanged (of line l, piece i lies at i ^ l % 8). As many as leave
//           the first-level cache enough room for the loads of W
//   column  a quad of lanes reads the line of column g / 2 + g % 2 * 4 of eight: the quads of one phase of a load then meet no bank twice
//
// W is asked for by and by, so that it does not stand before X of the launch ahead, and that launch's end lets it in at any time: there
// is a CTA of each of two launches on every SM (spare_blocks.h). Not here: sums and D (finish_direct), instances and launch
// (gemm_weight_only.cu).
#pragma once
#include "arguments.h"
#include "gemm_direct.cuh"
#include "spare_blocks.h"

namespace orrery::kernels {

/// kRuns: groups of scales of a warp; K is 8 times as many.
template <class T_, int kRuns_>
struct PlacedTile {
  using T = T_;
  using W = Int4;
  static constexpr int kBlocks = 2, kColumns = 2, kRows = 16 * kBlocks, kCols = 8 * kColumns, kWarpsK = 8, kThreads = 32 * kWarpsK, kPerSm = 2;
  static constexpr int kPiecesX = 4;    // of X for one of W
  static constexpr int kUnderWay = 4;   // loads of W, of a lane
  static constexpr int kRuns = kRuns_, kHalves = 2 * kRuns, kK = kWarpsK * kRuns * 128;
  static constexpr int kPlaces = kHalves < 5 ? kHalves : 5, kPlaceBytes = kCols * 128, kPitch = kRows + 4;
  static constexpr int kShared = kWarpsK * kPlaces * kPlaceBytes;
  static_assert(kRuns % 2 == 0 && kWarpsK * kCols * kPitch * 4 <= kShared);  // scales are read in pairs; sums lie over the places
  static bool takes(const WeightOnlyArgs& g) { return g.k == kK && aligned(g.scales, 4); }
};

/// This lane's pieces and scales of a warp's W: [group of scales][16 rows][row g or g + 8].
template <class Tile>
struct PlacedW {
  uint4 piece[Tile::kRuns][Tile::kBlocks][2];
  uint32_t scales[Tile::kRuns / 2][Tile::kBlocks][2];

  /// Two loads at a time, when those before the last two have come: four are under way at most. Rows that do not exist are read as the last one.
  __device__ __forceinline__ void load(const DirectParams& p, int row0) {
    constexpr int kLoads = Tile::kRuns * 4, kUnderWay = Tile::kUnderWay;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint8_t* from[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = min(row0 + lane / 4 + i * 8, p.rows - 1);
      from[i] = p.w + row * p.w_pitch + warp * (Tile::kRuns * 64) + lane % 4 * 16;
    }
#pragma unroll
    for (int n = 0; n < kLoads; n++) {
      if (n % 2 == 0 && n >= kUnderWay) {  // adds nothing, but only once that load has come
        const uint32_t nothing = piece[(n - kUnderWay + 1) / 4][(n - kUnderWay + 1) % 4 / 2][1].x & p.nothing;
#pragma unroll
        for (int i = 0; i < 2; i++) from[n % 4 + i] += nothing;
      }
      piece[n / 4][n % 4 / 2][n % 2] = load_once(from[n % 4] + n / 4 * 64);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const uint16_t* const of = p.scales + int64_t(min(row0 + lane / 4 + i * 8, p.rows - 1)) * (Tile::kK / 128) + warp * Tile::kRuns;
#pragma unroll
      for (int r = 0; r < Tile::kRuns / 2; r++) scales[r][i / 2][i % 2] = __ldg(reinterpret_cast<const uint32_t*>(of) + r);
    }
  }
};

/// A warp's way through X: 64 of k after 64 of k, from L2 to its places and from there to fragments. Columns that do not exist are read as
/// the last one: they give columns of D that nobody reads.
template <class Tile>
struct PlacedX {
  const uint8_t* from[4];  // of this lane's pieces of lines lane / 8, + 4, + 8, + 12
  uint32_t to, line;
  int lane_piece;

  __device__ __forceinline__ PlacedX(const DirectParams& p, uint32_t places, int col0) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int j = 0; j < 4; j++) from[j] = p.x + min(col0 + lane / 8 + 4 * j, p.cols - 1) * p.x_pitch + warp * (Tile::kRuns * 256) + lane % 8 * 16;
    to = places + lane / 8 * 128;
    const int l = lane / 8 + lane / 4 % 2 * 4;
    line = places + l * 128, lane_piece = lane % 4 ^ l;
  }
  /// Starts copies of the half; always one commit group.
  __device__ __forceinline__ void copy(int half) const {
    const int lane = threadIdx.x % 32;
    if (half < Tile::kHalves) {
#pragma unroll
      for (int j = 0; j < 4; j++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + half % Tile::kPlaces * Tile::kPlaceBytes + j * 512 + (((lane % 8) ^ ((lane / 8 + 4 * j) & 7)) << 4)),
                     "l"(from[j] + half * 128)
                     : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }
  /// Fragments of 32 of k, the first or second of the half.
  __device__ __forceinline__ void take(uint32_t (&x)[Tile::kColumns][4], int half, int q) const {
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(x[n][0]), "=r"(x[n][1]), "=r"(x[n][2]), "=r"(x[n][3])
                   : "r"(line + half % Tile::kPlaces * Tile::kPlaceBytes + n * 1024 + ((lane_piece ^ q * 4) << 4))
                   : "memory");
  }
};

/// The products of a warp's groups of scales.
template <class Tile>
__device__ __forceinline__ void multiply_placed(const PlacedW<Tile>& w, const PlacedX<Tile>& at, float (&acc)[Tile::kBlocks][Tile::kColumns][4]) {
  using T = typename Tile::T;
  float sum[Tile::kBlocks][Tile::kColumns][4];
#pragma unroll
  for (int half = 0; half < Tile::kHalves; half++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Tile::kPlaces - 1) : "memory");
    __syncwarp();
    if (half % 2 == 0) {
#pragma unroll
      for (int i = 0; i < Tile::kBlocks * Tile::kColumns * 4; i++) (&sum[0][0][0])[i] = 0.f;
    }
#pragma unroll
    for (int q = 0; q < 2; q++) {
      uint32_t x[Tile::kColumns][4], a[Tile::kBlocks][2][4];
      at.take(x, half, q);
#pragma unroll
      for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
        for (int h = 0; h < 2; h++) Int4::widen<T>(a[b][h], w.piece[half / 2][b][h], half % 2 * 2 + q);
#pragma unroll
      for (int i = 0; i < 4; i += 2)
#pragma unroll
        for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
          for (int n = 0; n < Tile::kColumns; n++) mma_16816<T>(sum[b][n], a[b][0][i], a[b][1][i], a[b][0][i + 1], a[b][1][i + 1], x[n][i], x[n][i + 1]);
    }
    if (half % 2) {
#pragma unroll
      for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
        for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
          for (int i = 0; i < 4; i++) acc[b][n][i] = fmaf(scale_at<T>(w.scales[half / 4][b][i / 2], half / 2 % 2), sum[b][n][i], acc[b][n][i]);
    }
    __syncwarp();  // the place is free
    at.copy(half + Tile::kPlaces);
  }
}

/// Sums of the warps, and D; sums: over the places.
template <class Tile>
__device__ __forceinline__ void finish_placed(const DirectParams& p, float scale, float* sums, const float (&acc)[Tile::kBlocks][Tile::kColumns][4], int row0, int col0) {
  constexpr int kPlane = Tile::kCols * Tile::kPitch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncthreads();
#pragma unroll
  for (int b = 0; b < Tile::kBlocks; b++)
#pragma unroll
    for (int n = 0; n < Tile::kColumns; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) sums[warp * kPlane + (n * 8 + lane % 4 + i % 2 * 4) * Tile::kPitch + b * 16 + lane / 4 + i / 2 * 8] = acc[b][n][i];
  __syncthreads();
  for (int e = threadIdx.x; e < Tile::kRows * Tile::kCols; e += Tile::kThreads) {
    const int at = e / Tile::kRows * Tile::kPitch + e % Tile::kRows, row = row0 + e % Tile::kRows, col = col0 + e / Tile::kRows;
    float v = sums[at];
#pragma unroll
    for (int k = 1; k < Tile::kWarpsK; k++) v += sums[k * kPlane + at];
    if (row < p.rows && col < p.cols)
      store_element(p.e.d, row * p.e.d_row_stride + col * p.e.d_col_stride, p.e.dtype, finish(p.e, scale, v, row, col));
  }
}

template <class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) gemm_direct_placed(const __grid_constant__ DirectParams p) {
  extern __shared__ __align__(16) uint8_t shared[];
  const int row0 = blockIdx.x * Tile::kRows, col0 = blockIdx.y * Tile::kCols;
  ptx::griddepcontrol_launch_dependents();
  if (row0 >= p.rows) return keep_place();
  if (!p.early) ptx::griddepcontrol_wait();
  PlacedW<Tile> w;
  w.load(p, row0);
  const float scale = tensor_scale(p.e);
  touch(p.e);  // or what is first read of the parameters at the end would be waited for there
  asm volatile("" ::"l"(p.e.d_row_stride), "r"(int(p.e.linear)), "r"(p.rows), "r"(p.cols), "f"(scale));
  if (p.early && threadIdx.x / 32 == 0) prefetch_columns<Tile>(p, col0, 0, p.k / 256);
  const PlacedX<Tile> x(p, ptx::smem_address(shared) + threadIdx.x / 32 * (Tile::kPlaces * Tile::kPlaceBytes), col0);
  ptx::griddepcontrol_wait();
#pragma unroll
  for (int half = 0; half < Tile::kPlaces; half++) x.copy(half);
  float acc[Tile::kBlocks][Tile::kColumns][4] = {};
  multiply_placed<Tile>(w, x, acc);
  finish_placed<Tile>(p, scale, reinterpret_cast<float*>(shared), acc, row0, col0);
}

}  // namespace orrery::kernels
