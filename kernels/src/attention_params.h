// What the host tells the attention kernel.
#pragma once
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "fast_divide.h"
#include "orrery/kernels.h"

namespace orrery::kernels {

// kNear, kEvery, kWhole: neighbourhoods of which some tiles of keys are cut for a warp of queries, nearly all, or none; kOwn: those
// whose warpgroups have tiles of keys of their own (attention_own.cuh).
// kNarrow, kLine: windows and neighbourhoods on a line that are narrow (attention_narrow.cuh).
enum class Mask { kNone, kCausal, kWindow, kNear, kEvery, kWhole, kOwn, kNarrow, kLine };

/// A neighbourhood mask (attention_near.cuh); axis 0 is the innermost, axes that are not there have one place.
struct NearParams {
  int extent[3], window[3];
  FastDivide stride[3];
  int q_log[3], k_log[3];       // boxes of 128 queries, of 128 or 64 keys: logs of their sides
  int q_tiles[3];               // boxes of queries on each axis
  uint32_t spread_x, spread_y;  // copy the bits of a line of keys to all lines of a plane; those of a plane to all planes
  int line, plane;              // logs of a thread's bits of a line of keys, and of a plane
  // How tiles of queries are dealt: those of one kind after those of another, the kinds with the most tiles of keys first. A kind has on each
  // axis the tiles between `edge` and `edge + inner`, where windows are moved at neither end, or the others. The first `fuller` CTAs get a
  // tile more than the others; which kinds those take more of makes up for it.
  struct Kind {
    int end[2];                      // of its tiles, all heads', and those of the kinds before: of those of the fuller CTAs, of the others
    int split;                       // of its tiles so many are for the fuller CTAs
    int outer;                       // bit a: on axis a the others
    int tiles;                       // of a head
    FastDivide by_group, by_x, by_y; // tiles of the heads that are worked on together, those of a head on axes 0 and 1
  } kinds[8];
  FastDivide by_heads;               // heads that are worked on together
  int edge[3], inner[3], fuller;
};

/// A neighbourhood of which each warpgroup has tiles of keys of its own (attention_own.cuh); `near` has no boxes of keys then.
struct OwnParams {
  CUtensorMap k_part, v_part;   // boxes of `part` places on the axis that the warpgroups share
  int axis;                     // that axis: 1 or 2; tiles span the two others
  int thick, part;              // places of a tile on it; what the distance between the warpgroups is a multiple of
  int line, place;              // eights of keys of a line of a tile, and of a place on the axis
  uint32_t spread_x, spread_t;  // copy the bits of a line to all lines of a place; those of a place to all places
};

/// With a narrow causal window, tiles of the last round, which does not fill all CTAs: a part of 64 queries is dealt on its own.
struct SplitTiles {
  int first;                   // of these tiles, which are the last; where none is split beyond all
  int heavy;                   // so many of them have three parts; the light ones that follow
  int light_log, light_parts;  // have one or two: the log of that, and how many that are in all
  int parts;                   // of all of them
};

struct AttentionParams {
  CUtensorMap q, k, v, out;  // dims: dim, seq, head, batch
  float* lse;
  int batch, heads, seq_q, seq_k;
  int heads_per_kv;
  int offset;            // query i sees keys up to i + offset (causal)
  int cluster;           // CTAs that share keys and values: 1 or 2
  int q_tiles, tiles;    // of a head; in all
  int head_group;        // heads worked on together, so that their keys and values stay in L2
  // A group of heads' tiles (pairs of them), its heads, those of the last group; heads of a batch; heads of a head of keys.
  FastDivide by_group, by_heads, by_last_heads, by_batch, by_kv;
  int longest_first;     // 1: how tiles are dealt with a mask (work_at); 0: in pairs
  int short_rows;        // with a window: tiles of a head (of clusters) whose queries see less than it; with a narrow one also the light one; on a
                         // line: tiles of two warpgroups' queries
  int light;             // 1: of the last tile a warpgroup or two have no queries
  FastDivide by_all;     // heads times batch
  FastDivide by_runs;    // with a narrow window: a head's tiles are so many runs, worked on side by side
  int run;               // tiles of a run
  int keys;              // of a tile
  int window;            // query i sees only the last so many of its keys; 0: all (causal)
  const int32_t *q_starts, *k_starts;  // sequences of their own lengths; null: all are seq_q and seq_k long
  int q_rows, k_rows;                  // of all sequences
  void* rows_out;                      // out and its strides in elements
  int64_t out_seq, out_head, out_batch;
  NearParams near;
  const float *scale_q, *scale_k, *scale_v;  // e4m3: device scalars; null: 1
  float scale_log2;      // softmax scale times log2(e); sigmoid: half the scale
  float bias;            // sigmoid: half of what is added to a score
  OwnParams own;
  SplitTiles split;
};

constexpr int kQueries = 128;  // of a tile
/// Of attention_narrow.cuh; and the widest window that it is for (NOTES.md).
constexpr int kNarrowQueries = 192, kNarrowKeys = 64, kNarrowWindow = 1024;

/// Keys of one tile: as many as shared memory and registers allow.
constexpr int kMostKeys = 160;
constexpr int kOwnKeys = 144;  // where each warpgroup has its own: as many, or kMostKeys
constexpr int kWideNearKeys = 64;  // of a box, with a neighbourhood and head dimensions above 128
constexpr int attention_keys(int dim, Mask mask) { return dim > 128 ? (mask == Mask::kNear ? kWideNearKeys : 80) : mask == Mask::kNone ? kMostKeys : 128; }

/// Launches the kernel for these types on `blocks` persistent CTAs.
cudaError_t launch_attention(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream);
cudaError_t launch_attention_wide(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream);  // 192, 256
cudaError_t launch_attention_near(const AttentionParams& p, DType dtype, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream);
cudaError_t launch_attention_near_wide(const AttentionParams& p, DType dtype, int dim, bool sigmoid, int blocks, cudaStream_t stream);  // 192, 256: kNear alone
cudaError_t launch_attention_narrow(const AttentionParams& p, DType dtype, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream);
cudaError_t launch_attention_own(const AttentionParams& p, DType dtype, int dim, bool sigmoid, int blocks, cudaStream_t stream);

/// Sequences of their own lengths, softmax; sigmoids, of one length or their own: all dimensions.
cudaError_t launch_attention_lengths(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream);
cudaError_t launch_attention_sigmoid(const AttentionParams& p, DType dtype, int dim, Mask mask, int blocks, cudaStream_t stream);
/// e4m3, all dimensions: sequences of one length, or of their own.
cudaError_t launch_attention_fp8(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream);
cudaError_t launch_attention_fp8_lengths(const AttentionParams& p, int dim, Mask mask, bool sigmoid, int blocks, cudaStream_t stream);
/// V turned round for it, rows of `padded` keys (a multiple of 128).
cudaError_t launch_turn_values(void* turned, const AttentionArgs& a, int64_t padded, cudaStream_t stream);

/// Chooses the boxes of a neighbourhood mask and encodes the tensor maps for them; mask: becomes kEvery, kWhole or kOwn where that fits better. Errors: false where the driver refuses a map.
bool plan_near(const AttentionArgs& a, AttentionParams* p, Mask* mask);
Status check_near(const AttentionArgs& a);

}  // namespace orrery::kernels
