// What the host tells the attention kernel.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "orrery/kernels.h"

namespace orrery::kernels {

struct AttentionParams {
  CUtensorMap q, k, v, out;  // dims: dim, seq, head, batch
  float* lse;
  int batch, heads, seq_q, seq_k;
  int heads_per_kv;
  int offset;            // query i sees keys up to i + offset (causal)
  int cluster;           // CTAs that share keys and values: 1 or 2
  int q_tiles, tiles;    // of a head; in all
  int head_group;        // heads worked on together, so that their keys and values stay in L2
  int longest_first;     // 1: how tiles are dealt with a mask (work_at); 0: in pairs
  int window;            // query i sees only the last so many of its keys; 0: all (causal)
  const int32_t *q_starts, *k_starts;  // sequences of their own lengths; null: all are seq_q and seq_k long
  int q_rows, k_rows;                  // of all sequences
  void* rows_out;                      // likewise: out and its strides in elements
  int64_t out_seq, out_head;
  float scale_log2;      // softmax scale times log2(e); sigmoid: half the scale
  float bias;            // sigmoid: half of what is added to a score
};

/// Keys of one tile.
constexpr int attention_keys(bool causal) { return causal ? 128 : 160; }

/// Launches the kernel for these types on `blocks` persistent CTAs.
cudaError_t launch_attention(const AttentionParams& p, DType dtype, int dim, bool causal, bool sigmoid, int blocks,
                             cudaStream_t stream);

}  // namespace orrery::kernels
