// What the host tells a GEMM kernel, and what a compiled GEMM kernel tells the host about itself.
#pragma once
#include <cuda.h>

#include <cstdint>

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
  int k_steps;                       // of 128 bytes of K
  int tiles_m, tiles_n, raster;      // counted in tiles of a cluster
  int cluster_m, cluster_n, split;
  bool a_early, b_early;             // operand may be loaded before the kernels we depend on have ended
  bool tma_store;
};

/// One instantiation. Tile sizes are of one CTA's stage (ping-pong: of one warpgroup's tile).
struct GemmKernel {
  DType a, b;
  bool a_mn_major, b_mn_major;
  GemmConfig::Schedule schedule;
  int tile_m, tile_n;
  bool promote;
  int shared_bytes, threads;
  const void* function;
};


/// The simple path: any strides, any alignment, any m, n, k.
cudaError_t gemm_simple(const GemmArgs& args, const Epilogue& epilogue, cudaStream_t stream);

}  // namespace orrery::kernels
