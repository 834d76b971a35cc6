// What the host tells a GEMM kernel, and what a compiled GEMM kernel tells the host about itself.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <vector>

#include "fast_divide.h"
#include "orrery/kernels.h"

namespace orrery::kernels {

/// From an accumulator to an element of D; (row, col) are those of the product as the kernel computes it,
/// so with swapped operands the host has exchanged every row_ with its col_.
struct Epilogue {
  void* d;
  const void* c;
  int64_t d_row_stride, d_col_stride, c_row_stride, c_col_stride;
  const float *scale_a, *scale_b, *row_scale, *col_scale, *row_bias, *col_bias;
  float alpha, beta;
  int m, n;
  DType dtype;
  Activation activation;
  bool linear;  // alpha and the tensor scales are all there is
};

struct GemmParams {
  CUtensorMap a, b, d;
  Epilogue e;
  int k_steps;                       // stages of K
  int tiles_m, tiles_n, raster;      // counted in tiles of a cluster
  FastDivide by_band, by_raster, by_rest;  // raster * tiles_n; raster; rows of the last band
  int cluster_m, cluster_n, split;   // the first two are powers of two
  FastDivide by_split;               // by the CTAs or parts that share the K of a tile
  FastDivide by_tiles;               // kSplit, kParts: tiles of a part of K; parts follow each other
  int plane_rows;                    // kParts: rows of the workspace that a part takes
  int cluster_m_log, cluster_n_log;
  int stagger;
  uint64_t hint_a, hint_b;           // what L2 should do with the operands (l2_hints.h)
  bool a_at_once, b_at_once;         // the map of an MN-major operand has its slabs of 64 rows as a dimension
  bool a_early, b_early;             // operand may be loaded before the kernels we depend on have ended
  const int32_t* group_ends;         // grouped products only: one past the last row of each
  int groups;
  const float *block_a, *block_b;    // scales of 128 of k, [row][k / 128] and [column / 128][k / 128]; null: none
  int whole_tiles;                   // stream-K: tiles that are not cut, counted in waves; K steps dealt to a share, and to how
  int share_steps, share_rest;       // many shares one more
  FastDivide by_steps, by_share, by_longer_share;  // k_steps; share_steps; share_steps + 1
  void* parts;                       // stream-K: accumulators of parts of tiles; how many of a cut tile are there
  unsigned* arrived;
  bool straight, tma_store;          // D is stored in one of the fast ways (gemm_epilogue.cuh)
  bool turned;                       // and by its columns: they are what is contiguous
};

/// Columns that are turned round at a time, of a tile of kWidth, the last of them fewer, and those that one copy stores.
template <int kWidth>
constexpr int kTurnedBox = kWidth % 64 == 0 ? 64 : kWidth % 48 == 0 ? 48 : kWidth % 32 == 0 ? 32 : 16;
template <int kWidth>
constexpr int kTurnedPiece = kTurnedBox<kWidth> == 16 ? 64 : kTurnedBox<kWidth>;

/// One instantiation. Tile sizes are of one CTA's stage (ping-pong: of one warpgroup's tile).
struct GemmKernel {
  DType a, b;
  bool a_mn_major, b_mn_major;
  GemmConfig::Schedule schedule;
  int tile_m, tile_n;
  int slabs;                         // 128-byte pieces of K in a stage (kDirect, kStream: CTAs meant to share an SM)
  bool promote;
  int shared_bytes, threads;
  const void* function;
  // kStream: sums of K that a CTA leaves, and how many stages of K a CTA must have and may have.
  int planes = 0, least_stages = 0, most_stages = 1 << 30;
  int only_split = 0;                // kStream: the number of CTAs that share K that it is for; 0: any
  bool spare_blocks = false;         // kStream: launches that overlap have a CTA for each SM (spare_blocks.h)
  int box_slabs = 1;                 // kStream: 128-byte pieces of K of each part in a stage (widened: of X)
  int turned_box = 0;                // columns of a 16-bit D that a copy stores the fast way; 0: they are not
};

/// The direct path (gemm_direct.cuh): `kernel` is one of its own, `args` as the kernel sees them.
cudaError_t gemm_direct_launch(const GemmArgs& args, const Epilogue& epilogue, const GemmConfig& config, const GemmKernel& kernel,
                               cudaStream_t stream);

/// The streamed path (gemm_stream.cuh): whether `kernel`, one of its own, suits, and its launch.
bool gemm_stream_fits(const GemmArgs& args, const GemmConfig& config, const GemmKernel& kernel);
Status gemm_stream_launch(const GemmArgs& args, const Epilogue& epilogue, const GemmConfig& config, const GemmKernel& kernel,
                          cudaStream_t stream);

/// Narrow weights widened to wgmma's operand in registers, for activations of 16 bits, in tiles of few columns (kStream; gemm_widen.cuh) or of many
/// (gemm_widen_tiles.cuh): the kernels, whether one suits, and the launch. b is the type of the activations for int4 weights, else e4m3.
const std::vector<GemmKernel>& widen_kernels();
void add_widen_tiles(std::vector<GemmKernel>& out);
Status gemm_widen_tiles_launch(const WeightOnlyArgs& args, const Epilogue& epilogue, const GemmConfig& config, const GemmKernel& kernel,
                               cudaStream_t stream);
bool gemm_widen_fits(const WeightOnlyArgs& args, const GemmConfig& config, const GemmKernel& kernel);
Status gemm_widen_launch(const WeightOnlyArgs& args, const Epilogue& epilogue, const GemmConfig& config, const GemmKernel& kernel,
                         cudaStream_t stream);

/// Adds up `count` planes of plane_rows x pitch floats to D (gemm_parts.cu), once the launch ahead has ended. beside: its blocks are to be on
/// the SMs by then, beside those of a launch that was told the same (launch.h, most_shared).
cudaError_t gemm_sum_parts(const Epilogue& epilogue, const float* parts, int count, int plane_rows, int pitch, int sms, bool beside, cudaStream_t stream);

/// The simple path: any strides, any alignment, any m, n, k.
cudaError_t gemm_simple(const GemmArgs& args, const Epilogue& epilogue, cudaStream_t stream);

}  // namespace orrery::kernels
