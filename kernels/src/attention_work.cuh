// Which tiles of queries a CTA of attention_kernel.cuh works on, in which order, and which keys they see: asked by its scout, and where it has
// none by its producer and its consumers alike, so that they agree. S is attention_kernel.cuh's Shape. Not here: what is done with a tile.
#pragma once
#include "attention_near.cuh"
#include "attention_params.h"

namespace orrery::kernels {

constexpr int kNoMore = -1, kSkip = -2;
struct Work {
  int row0, head, batch, key_tiles;  // key_tiles: one past the last; or kNoMore, kSkip
  int first = 0;                     // tile of keys
  int q_base = 0, k_base = 0, seq_q = 0, seq_k = 0, offset = 0;  // of the sequence, where each has its own length
  NearTile near;                                                 // with a neighbourhood mask
};

/// Fills in where sequence `w.batch` lies.
__device__ __forceinline__ void find_sequence(const AttentionParams& p, Work& w) {
  w.q_base = min(max(__ldg(p.q_starts + w.batch), 0), p.q_rows), w.k_base = min(max(__ldg(p.k_starts + w.batch), 0), p.k_rows);
  w.seq_q = max(0, min(min(__ldg(p.q_starts + w.batch + 1), p.q_rows) - w.q_base, p.seq_q));
  w.seq_k = max(0, min(min(__ldg(p.k_starts + w.batch + 1), p.k_rows) - w.k_base, p.seq_k));
  w.offset = w.seq_k - w.seq_q;
}
template <class S>
__device__ __forceinline__ int queries_of(const AttentionParams& p, const Work& w) { return S::kLengths ? w.seq_q : p.seq_q; }
template <class S>
__device__ __forceinline__ int keys_of(const AttentionParams& p, const Work& w) { return S::kLengths ? w.seq_k : p.seq_k; }
template <class S>
__device__ __forceinline__ int offset_of(const AttentionParams& p, const Work& w) { return S::kLengths ? w.offset : p.offset; }

/// The i-th tile of this CTA. Heads go in groups whose keys and values fit in L2. With the causal mask a CTA takes the
/// tiles of a head in pairs, the i-th longest with the i-th shortest: all pairs are the same work. Or, as a window wants it,
/// tiles are dealt in rounds, the longest first, every other round the other way round. The CTAs of a cluster
/// take neighbouring tiles and see the keys of the longer one.
template <class S>
__device__ __forceinline__ Work work_at(const AttentionParams& p, int i) {
  const int rows = (p.q_tiles + S::kCluster - 1) / S::kCluster;  // tiles of a head, counted by clusters
  const bool pairs = S::kCausal && !p.longest_first;
  const int units = pairs ? (rows + 1) / 2 : rows, clusters = int(gridDim.x) / S::kCluster, all_heads = p.heads * p.batch;
  const int round = pairs ? i / 2 : i, turned = p.longest_first & round, mine = int(blockIdx.x) / S::kCluster;
  const int t = round * clusters + (turned ? clusters - 1 - mine : mine);
  if (t >= units * all_heads) return Work{0, 0, 0, kNoMore};
  const int group = p.by_group.divide(t);
  const int first = group * p.head_group, heads = min(p.head_group, all_heads - first);
  const int in_group = t - first * units, unit = (heads == p.head_group ? p.by_heads : p.by_last_heads).divide(in_group), head = first + in_group - unit * heads;
  const int row = pairs && i % 2 ? unit : rows - 1 - unit;
  if (pairs && i % 2 && unit == rows - 1 - unit) return Work{0, 0, 0, kSkip};  // the middle one has no partner
  const int batch = p.by_batch.divide(head);
  Work w{(row * S::kCluster + int(blockIdx.x) % S::kCluster) * kQueries, head - batch * p.heads, batch, 0};
  if constexpr (S::kLengths) {
    find_sequence(p, w);
    if (w.row0 >= w.seq_q) return Work{0, 0, 0, kSkip};
  }
  if constexpr (S::kNear) {
    w.near = NearTile(p.near, row);
    w.key_tiles = w.near.count[0] * w.near.count[1] * w.near.count[2];
    return w;
  }
  const int seq_k = keys_of<S>(p, w), last = S::kCausal ? min(seq_k, (row + 1) * S::kCluster * kQueries + offset_of<S>(p, w)) : seq_k;
  w.key_tiles = last > 0 ? (last + S::kKeys - 1) / S::kKeys : 0;
  if constexpr (S::kWindow) w.first = min(w.key_tiles, max(0, row * S::kCluster * kQueries + p.offset - p.window + 1) / S::kKeys);
  return w;
}

}  // namespace orrery::kernels
