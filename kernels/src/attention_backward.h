// What the host tells the kernels of attention backward.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "orrery/kernels.h"

namespace orrery::kernels {

constexpr int kBackwardQueries = 64, kBackwardKeys = 128;  // of a tile

struct BackwardParams {
  CUtensorMap q, k, v, d_out, dk, dv;  // dims: dim, seq, head, batch
  const void *out_rows, *d_out_rows;
  AttentionArgs::Strides out_strides, d_out_strides, dq_strides;  // elements
  const float* lse;
  void* dq;
  // In the workspace, for every query tile of every head: lse in units of log2 (infinity for rows that see no key or are not
  // there) and sum of out * d_out, 64 each; and the sums of dq as attention_backward.cu lays them out.
  float *lse2, *delta, *dq_sums;
  int batch, heads, heads_per_kv, seq_q, seq_k;
  int offset;            // causal: query i sees keys up to i + offset
  int q_tiles, k_tiles;
  float scale, scale_log2;
  bool causal;
};

cudaError_t launch_attention_backward(const BackwardParams& p, int dim, cudaStream_t stream);

}  // namespace orrery::kernels
