// Hopper (sm_90a) kernels behind a plain C++ interface: device pointers, shapes, strides, a stream.
//
// Every function checks its arguments before it launches anything and names the first one that is out of
// contract: null, misaligned, negative, too large, or written while another argument has the same bytes (where a call
// may work in place, the very same ones are fine). It then enqueues on `stream` and returns. Nothing allocates, nothing synchronises, no global
// state: calls from several host threads are safe. Strides count elements.
//
//   gemm        D = act(alpha * scale * op(A) op(B) + beta * C + bias)
//   attention   softmax(scale * Q K') V, forward
//   the rest    memory-bound kernels: streams, reductions, row norms, rotary embedding, quantisation, ...
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace orrery::kernels {

/// What a call returns: no error, or the argument at fault (a name of the call's interface) and why.
struct Status {
  const char* argument = nullptr;    // null: no argument is at fault
  const char* reason = nullptr;      // null: success
  cudaError_t error = cudaSuccess;   // what the CUDA runtime said, if it was asked
  bool ok() const { return reason == nullptr; }
};

enum class DType : uint8_t { kF32, kF16, kBF16, kE4M3, kE5M2, kI8 };
/// Bytes of one element.
constexpr int size_of(DType t) { return t == DType::kF32 ? 4 : t == DType::kF16 || t == DType::kBF16 ? 2 : 1; }

// --- matrix product ---------------------------------------------------------------------------------------

enum class Activation : uint8_t { kNone, kRelu, kGelu, kSilu };

/// A matrix operand: element (i, j) is at data[i * row_stride + j * col_stride].
struct ConstMatrix {
  const void* data = nullptr;
  DType dtype = DType::kBF16;
  int64_t row_stride = 0, col_stride = 1;
};
struct Matrix {
  void* data = nullptr;
  DType dtype = DType::kBF16;
  int64_t row_stride = 0, col_stride = 1;
};

/// How a product is cut up. Of schedule kAuto, `gemm_choose` decides about all of it.
struct GemmConfig {
  enum class Schedule : uint8_t {
    kAuto,
    kCooperative,  // persistent; two warpgroups share a tile
    kPingPong,     // persistent; two warpgroups alternate tiles, one multiplies while the other stores
    kSplit,        // one tile per cluster, the CTAs of the cluster share its K and add up through DSMEM
    kDirect,       // one tile per CTA or cluster, A from memory to registers without a stop: for few columns
    kStream,       // one tile per CTA or cluster, A through a ring as fast as memory gives it: for few columns
    kStreamK,      // persistent; K steps dealt evenly to CTAs, parts of tiles added up through the workspace
    kSimple,       // plain FMA: any stride, any alignment
    kParts,        // tiles as of kSplit, each of a part of K, left in the workspace and added up by a launch of their own
  };
  Schedule schedule = Schedule::kAuto;
  int tile_m = 0, tile_n = 0;        // of one CTA (ping-pong: of one warpgroup)
  int cluster_m = 1, cluster_n = 1;  // CTAs that share operand tiles by multicast
  int split_k = 1;                   // CTAs that share the K of a tile (kSplit, kDirect, kStream, kParts; kStreamK: 1 for all SMs, else parts)
  int raster = 8;                    // tile rows walked together, for L2 reuse (persistent)
  int stagger = 0;                   // stages by which the second warpgroup starts late (cooperative)
  bool swap = false;                 // compute D' = op(B)' op(A)': puts a small m on the narrow side
  int per_sm = 0;                    // CTAs meant to share an SM (kDirect, kStream)
  bool alone = false;                // persistent, parts: launched plainly even where overlapping is asked for (GemmArgs::overlap)
};

/// One product: a is m x k, b is k x n, c and d are m x n.
struct GemmArgs {
  int64_t m = 0, n = 0, k = 0;
  ConstMatrix a, b;
  Matrix d;
  ConstMatrix c;                      // dtype of d; read only when beta != 0
  float alpha = 1.f, beta = 0.f;
  const float* scale_a = nullptr;     // device scalars, multiplied in; null is 1
  const float* scale_b = nullptr;
  const float* row_scale = nullptr;   // [m], multiplied in
  const float* col_scale = nullptr;   // [n]
  // fp8 only, both or neither: what each 128 of k is multiplied by before it is added up in f32 (implies promote).
  const float* block_scale_a = nullptr;  // [m][ceil(k / 128)]: as quantize_e4m3 leaves them
  const float* block_scale_b = nullptr;  // [ceil(n / 128)][ceil(k / 128)]: one for 128 x 128 of b
  const float* row_bias = nullptr;    // [m], added
  const float* col_bias = nullptr;    // [n]
  Activation activation = Activation::kNone;
  bool promote = false;               // fp8: add up in full f32 every 128 of k (the tensor core keeps ~14 bits)
  bool constant_b = false;            // b is not written by work still running in the stream: may load early
  // Launch as programmatic dependent of the kernel before it in the stream: the start of this one hides behind the end of
  // that one. Nothing is read or written before that one has ended, but for a constant b.
  bool overlap = true;
  // For kStreamK and kParts, which are not chosen without: gemm_workspace() bytes, zeroed once before their first use, not shared by
  // calls that may run at the same time; 256-byte aligned.
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  GemmConfig config;
};

/// Multiplies. a and b: both f16, both bf16, both f32 (tf32 product when strides allow), both int8 or any two fp8
/// types; d: f16, bf16 or f32. The fast path needs, of a and b, one unit stride, the other a multiple of
/// 16 bytes, and 16-byte aligned data (fp8, int8, f32: unit stride along k); anything else takes the simple path.
/// int8 sums are exact up to the one rounding to f32 before scaling (split: one for each part of k).
Status gemm(const GemmArgs& args, cudaStream_t stream);
/// What any product of this device may want as its workspace.
size_t gemm_workspace();

/// The configuration that `gemm` would use for `args`: `args.config` as it is unless its schedule is kAuto, when nothing else in it is
/// looked at.
GemmConfig gemm_choose(const GemmArgs& args);
/// What gemm_choose would take if nothing had been measured: the configuration of least predicted time.
GemmConfig gemm_predict(const GemmArgs& args);

/// All configurations that the library was built with and that accept `args`; returns how many there are
/// and writes at most `capacity` of them.
int gemm_candidates(const GemmArgs& args, GemmConfig* out, int capacity);

/// Products of consecutive row ranges of a, each with a matrix of its own, as a mixture of experts needs them; the sizes are
/// known to the device only: d[i] = act(alpha * scales * a[i] b[g]') for the rows i of group g.
struct GroupedGemmArgs {
  int64_t rows = 0, n = 0, k = 0;      // rows: of a and d
  int groups = 0;
  const int32_t* group_ends = nullptr; // device, [groups]: one past the last row of each group; rows beyond the last are left alone
  ConstMatrix a;                       // rows x k, unit stride along k
  const void* b = nullptr;             // groups x n x k, rows of b_stride elements, dense over groups; type of a
  int64_t b_stride = 0;
  Matrix d;                            // rows x n, unit stride along n; f16, bf16 or f32
  float alpha = 1.f;
  const float *scale_a = nullptr, *scale_b = nullptr;  // device scalars
  const float* row_scale = nullptr;    // [rows], multiplied in
  Activation activation = Activation::kNone;
  GemmConfig config;                   // kCooperative 128 x 256 or kPingPong 128 x 128
};
/// a and b f16, bf16 or e4m3; both 16-byte aligned with strides of a multiple of 16 bytes. A group may be empty.
Status gemm_grouped(const GroupedGemmArgs& args, cudaStream_t stream);

/// Of every four consecutive elements of a row the two of largest magnitude: values rows x cols / 2, dense, and
/// sparse_codes_bytes(rows, cols) bytes that say which, both 16-byte aligned. f16 or bf16; cols a multiple of 16.
size_t sparse_codes_bytes(int64_t rows, int64_t cols);
Status sparsify(void* values, void* codes, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream);

/// Products with a matrix that `sparsify` has left half of: d = act(alpha * a w' + bias).
struct SparseGemmArgs {
  int64_t m = 0, n = 0, k = 0;         // n a multiple of 8, k of 16
  ConstMatrix a;                       // m x k, unit stride along k: f16 or bf16
  const void *values = nullptr, *codes = nullptr;  // of w, n x k
  Matrix d;                            // m x n, type of a, unit stride along n; 16-byte aligned as its rows
  float alpha = 1.f;
  const float* col_bias = nullptr;     // [n]
  Activation activation = Activation::kNone;
};
Status gemm_sparse(const SparseGemmArgs& args, cudaStream_t stream);

/// Weights kept narrow and widened on their way to the tensor core.
enum class WeightFormat : uint8_t {
  kInt4,  // as quantize_int4 leaves them: two's complement plus 8, in words of eight with the even ones in the low half; of the
          // 16 words of 128 elements, word 4 t + q has elements 32 q + 8 t onwards
  kE4M3,  // one byte each
};
/// d = act(alpha * a w' + bias). Any number of rows of a is right; int4 weights are meant for m <= 128.
struct WeightOnlyArgs {
  int64_t m = 0, n = 0, k = 0;         // kInt4: k a multiple of 128
  ConstMatrix a;                       // m x k, unit stride along k: f16, bf16 or (kInt4 only) e4m3
  WeightFormat format = WeightFormat::kInt4;
  const void* weights = nullptr;       // n rows of weight_pitch bytes (a multiple of 16)
  int64_t weight_pitch = 0;
  const void* scales = nullptr;        // kInt4: [n][k / 128], type of a (f16 for e4m3)
  Matrix d;                            // m x n; f16, bf16 or f32
  float alpha = 1.f;
  const float* scale_a = nullptr;      // device scalar
  const float *col_scale = nullptr, *col_bias = nullptr;  // [n]
  Activation activation = Activation::kNone;
  bool overlap = false;                // as in GemmArgs; weights and scales are taken to be constant
  void* workspace = nullptr;           // for kStreamK, which is not chosen without: as in GemmArgs, gemm_workspace() bytes
  size_t workspace_bytes = 0;
  GemmConfig config;
};
Status gemm_weight_only(const WeightOnlyArgs& args, cudaStream_t stream);
int gemm_weight_only_candidates(const WeightOnlyArgs& args, GemmConfig* out, int capacity);

// --- memory-bound kernels ---------------------------------------------------------------------------------

/// STREAM over n elements; arrays 4-byte aligned at least, not partly overlapping.
Status stream_copy(float* c, const float* a, int64_t n, cudaStream_t stream);
Status stream_scale(float* b, const float* c, float s, int64_t n, cudaStream_t stream);
Status stream_add(float* c, const float* a, const float* b, int64_t n, cudaStream_t stream);
Status stream_triad(float* a, const float* b, const float* c, float s, int64_t n, cudaStream_t stream);

/// *out = sum of n floats, in a fixed order (the same bits every time). `workspace`: reduce_workspace() bytes, zeroed
/// once before its first use and not shared by calls that may run at the same time.
size_t reduce_workspace();
Status reduce_sum(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream);
/// *out = the largest or smallest of n floats, not-a-number if one of them is; of none minus or plus infinity. Workspace likewise, which may be the same.
Status reduce_max(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream);
Status reduce_min(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream);

/// Row-wise over rows x cols, row pitch in elements; f16, bf16 or f32 in and out, sums in f32.
Status softmax(void* out, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
               cudaStream_t stream);
/// out = (x - mean) / sqrt(var + eps) * gamma + beta, x = in + residual; `sum_out` gets x when not null.
/// gamma, beta (either may be null), residual (may be null) have the dtype of in.
Status layernorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma,
                 const void* beta, float eps, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
                 cudaStream_t stream);
/// out = x / sqrt(mean(x^2) + eps) * gamma, x = in + residual.
Status rmsnorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma, float eps,
               DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream);

/// Rotary embedding in place: x is tokens x heads x dim (dim even, halves rotated), cos/sin are tokens x dim/2.
Status rotary(void* x, const float* cosines, const float* sines, DType dtype, int64_t tokens, int64_t heads,
              int64_t dim, cudaStream_t stream);

/// e4m3 with one f32 scale per 128 consecutive columns (scale = amax / 448): out rows x cols, scales
/// rows x ceil(cols/128), both dense.
Status quantize_e4m3(void* out, float* scales, const void* in, DType dtype, int64_t rows, int64_t cols,
                     cudaStream_t stream);
Status dequantize_e4m3(void* out, const void* in, const float* scales, DType dtype, int64_t rows, int64_t cols,
                       cudaStream_t stream);

/// int4 with one scale per 128 columns (scale = amax / 7, in the dtype of in: f16 or bf16): out rows x cols / 2 bytes in the
/// order of WeightFormat::kInt4, scales rows x cols / 128, both dense. cols: a multiple of 128.
Status quantize_int4(void* out, void* scales, const void* in, DType dtype, int64_t rows, int64_t cols, cudaStream_t stream);

/// The inverse: out rows x cols (f16 or bf16, the type of the scales), from what quantize_int4 left; out 16-byte aligned.
Status dequantize_int4(void* out, const void* in, const void* scales, DType dtype, int64_t rows, int64_t cols, cudaStream_t stream);

/// out[j][i] = in[i][j]; elements of 1, 2, 4 or 8 bytes, pitches in elements.
Status transpose(void* out, const void* in, int element_bytes, int64_t rows, int64_t cols, int64_t in_pitch,
                 int64_t out_pitch, cudaStream_t stream);

/// out row i = in row indices[i] (gather) or out row indices[i] = in row i (scatter); rows of row_bytes.
/// Indices outside [0, table_rows) give rows of zeros (gather) or are dropped (scatter).
Status gather_rows(void* out, const void* table, const int32_t* indices, int64_t count, int64_t table_rows,
                   int64_t row_bytes, cudaStream_t stream);
Status scatter_rows(void* table, const void* in, const int32_t* indices, int64_t count, int64_t table_rows,
                    int64_t row_bytes, cudaStream_t stream);

/// counts[v] += occurrences of byte v.
Status histogram_u8(uint32_t* counts, const uint8_t* in, int64_t n, cudaStream_t stream);

/// out[i] = in[0] + ... + in[i] (wrapping). `workspace`: scan_workspace(n) bytes.
size_t scan_workspace(int64_t n);
Status inclusive_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, cudaStream_t stream);

/// The k largest of each row, in the order of their columns; of equal ones those with lower columns. values (may be null)
/// rows x k of dtype, indices (may be null) rows x k; NaN counts as larger than infinity, or with its sign set as less
/// than minus infinity; minus zero as less than zero.
Status top_k(void* values, int32_t* indices, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch, int64_t k,
             cudaStream_t stream);

/// Sorts keys upwards, equal keys in their order, and carries values along (both null: keys only). `workspace`:
/// sort_workspace(n) bytes, 256-byte aligned. Up to 16,384 keys an SM are sorted by one cooperative launch.
size_t sort_workspace(int64_t n);
Status sort_u32(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n, void* workspace,
                cudaStream_t stream);

/// Elements at count[0] x count[1] x ... places, stride[d] bytes from one to the next of loop d; innermost last.
struct StridedLayout {
  static constexpr int kMostRank = 5;
  int rank = 0;
  int64_t element_bytes = 0;
  int64_t count[kMostRank] = {}, stride[kMostRank] = {};
};
/// pack: the elements of `in` to a dense `out`. unpack: the dense `in` to the places of `out`, which must not overlap.
Status pack(void* out, const void* in, const StridedLayout& layout, cudaStream_t stream);
Status unpack(void* out, const void* in, const StridedLayout& layout, cudaStream_t stream);

// --- attention --------------------------------------------------------------------------------------------

/// A neighbourhood on a grid of tokens: a query sees the `window` places around it on each axis, all inside the grid: at an edge
/// the window is moved, not cut. The queries of each `stride` on an axis share the window of the middle one. Axes as in an
/// array: the last is innermost; rank 0: no neighbourhood.
struct Neighborhood {
  int rank = 0;
  int64_t extent[3] = {1, 1, 1}, window[3] = {1, 1, 1}, stride[3] = {1, 1, 1};
};

/// q: batch x seq_q x heads x dim, k and v: batch x seq_k x kv_heads x dim, out like q (strides in elements,
/// dim contiguous); kv_heads divides heads. out = softmax(scale * q k' [+ causal mask]) v.
/// causal: query i sees keys up to i + seq_k - seq_q. lse (may be null): batch x heads x seq_q, natural log.
struct AttentionArgs {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  DType dtype = DType::kBF16;  // bf16, f16, or e4m3 (out is bf16 then)
  int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0, dim = 0;  // dim 64, 128, 192 or 256
  struct Strides {
    int64_t batch = 0, seq = 0, head = 0;
  } q_strides, k_strides, v_strides, out_strides;
  float scale = 0.f;  // 0: 1 / sqrt(dim)
  bool causal = false;
  int64_t window = 0;          // with causal: only the last `window` of those keys; 0: all of them
  // Sequences of their own lengths, one after the other without padding: both or neither, device, [batch + 1], ascending from
  // 0; sequence b has the rows starts[b] up to starts[b + 1] of q and out, or k and v. Then seq_q and seq_k are the longest
  // lengths (longer ones are cut), q_rows and k_rows all rows; strides of batches are not used; lse is heads x q_rows. A key
  // that is not finite may reach the outputs of the sequence before its own.
  const int32_t *q_starts = nullptr, *k_starts = nullptr;
  int64_t q_rows = 0, k_rows = 0;
  // Not with causal, e4m3 or sequences of their own lengths; batches dense (the stride of a batch is that of its places).
  // Keys outside of the windows are not seen, but where they are not finite they may reach outputs of the batch before.
  Neighborhood neighborhood;
  bool sigmoid = false;        // out = sigmoid(scale * q k' + sigmoid_bias [masked: 0]) v, rows not normalised; no lse
  float sigmoid_bias = 0.f;
  const float *scale_q = nullptr, *scale_k = nullptr, *scale_v = nullptr;  // e4m3: device scalars, multiplied in; null is 1
  void* workspace = nullptr;   // e4m3: attention_workspace(args) bytes, 256-byte aligned, for values turned round; others: none
};
size_t attention_workspace(const AttentionArgs& args);
Status attention_forward(const AttentionArgs& args, cudaStream_t stream);

/// The gradients of attention_forward's softmax (full or causal): dq, dk, dv from d_out, that of out; q, k, v, out and lse as
/// forward took and left them. Rows of dq are summed in the order of time: their last bits may differ from run to run.
struct AttentionBackwardArgs {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *d_out = nullptr;
  const float* lse = nullptr;  // batch x heads x seq_q
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;  // like q, k, v
  DType dtype = DType::kBF16;  // bf16
  int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0, dim = 0;  // at least 1; dim 64 or 128
  AttentionArgs::Strides q_strides, k_strides, v_strides, out_strides, d_out_strides, dq_strides, dk_strides, dv_strides;
  float scale = 0.f;  // 0: 1 / sqrt(dim)
  bool causal = false;
  void* workspace = nullptr;  // attention_backward_workspace(args) bytes, 256-byte aligned
};
size_t attention_backward_workspace(const AttentionBackwardArgs& args);
Status attention_backward(const AttentionBackwardArgs& args, cudaStream_t stream);

/// How much the last `window` queries look at each key: votes (batch x kv_heads x seq_k) = softmax(scale q k', query i seeing keys up
/// to i + seq_k - seq_q) summed over those queries and the heads that share the key, then averaged over `pool` neighbouring keys
/// (zeros beyond the ends). top_k of them says which keys of a cache to keep, gather_rows keeps them.
struct KvVoteArgs {
  const void *q = nullptr, *k = nullptr;  // as attention_forward takes them
  const float* lse = nullptr;             // batch x heads x seq_q, as attention_forward left it
  float* votes = nullptr;
  DType dtype = DType::kBF16;             // bf16 or f16
  int64_t batch = 0, heads = 0, kv_heads = 0, seq_q = 0, seq_k = 0, dim = 0;  // at least 1; dim 64 or 128
  AttentionArgs::Strides q_strides, k_strides;
  int64_t window = 32, pool = 1;          // pool: odd, at most 1023
  float scale = 0.f;                      // 0: 1 / sqrt(dim)
  void* workspace = nullptr;              // kv_votes_workspace(args) bytes
};
size_t kv_votes_workspace(const KvVoteArgs& args);
Status kv_votes(const KvVoteArgs& args, cudaStream_t stream);

/// One new token per sequence against a paged cache ("decode"): q and out are batch x heads x dim (dense from heads on), the
/// caches pages x page_size x kv_heads x dim by their strides; sequence b sees the seq_lens[b] keys that the pages
/// page_table[b][0 ...] hold in order, or the last `window` of them. Lengths and pages are read on the device; pages
/// outside [0, pages) count as zeros, lengths are clamped to [0, max_seq]. out = softmax(scale * q k') v, zeros without keys.
struct PagedAttentionArgs {
  const void* q = nullptr;
  const void *k_cache = nullptr, *v_cache = nullptr;
  void* out = nullptr;
  float* lse = nullptr;                   // may be null: batch x heads, natural log
  const int32_t *page_table = nullptr, *seq_lens = nullptr;
  DType dtype = DType::kBF16;             // bf16 or f16: of q and out, and of the caches unless
  bool e4m3_cache = false;                // they are of e4m3, strides then in its elements too
  const float *scale_k = nullptr, *scale_v = nullptr;  // of e4m3: what the keys and values are multiplied by; device scalars; null: 1
  int64_t batch = 0, heads = 0, kv_heads = 0, dim = 0;  // dim 64, 128, 192 or 256; at most 16 heads for a kv head
  int64_t pages = 0, page_size = 0;       // page_size: a power of two, 16 or more
  int64_t table_pitch = 0, max_seq = 0;   // entries from row to row of the table; no sequence is longer
  int64_t q_stride = 0, out_stride = 0;   // from sequence to sequence
  int64_t page_stride = 0, token_stride = 0, head_stride = 0;  // of both caches
  int64_t window = 0;                     // 0: all keys
  float scale = 0.f;                      // 0: 1 / sqrt(dim)
  int splits = 0;                         // CTAs that share a sequence's keys; 0: as many as fill the device
  void* workspace = nullptr;              // attention_paged_workspace(args) bytes, 16-byte aligned
};
size_t attention_paged_workspace(const PagedAttentionArgs& args);
Status attention_paged(const PagedAttentionArgs& args, cudaStream_t stream);

// --- kernels of papers ------------------------------------------------------------------------------------

/// out[i] = log I_v(x[i]) and log K_v(x[i]), natural logarithms of the modified Bessel functions (Plesner, Sørensen, Hauberg: Accurate
/// computation of the logarithm of modified Bessel functions on GPUs, ICS 2024), for real orders v and arguments x, each 0 or from 1e-300 to
/// 1e300; v[i], or v[0] of all with v_stride 0 (else 1). Errors are at most 16 2^-53 max(1, |result|) wherever they were measured (tests/log_bessel_test.cu): relative,
/// but absolute where a logarithm is near zero. Not-a-number where v or x is negative or not a number. n doubles each, 8-byte aligned; out may be x, or v with stride 1.
Status log_bessel_i(double* out, const double* v, int64_t v_stride, const double* x, int64_t n, cudaStream_t stream);
Status log_bessel_k(double* out, const double* v, int64_t v_stride, const double* x, int64_t n, cudaStream_t stream);

/// Metropolis sweeps of 64 spin glasses of Edwards and Anderson with couplings of plus and minus one, on size x size sites that close in on themselves:
/// the energy is minus the sum over bonds of coupling x spin x spin. Arrays have a word a site, of which bit r is of glass r. Of the sites (y, x)
/// those with even y + x come first, and then the others, each by rows: site (y, x) is word ((y + x) % 2) size^2 / 2 + y size / 2 + x / 2.
/// A set bit is a spin of -1, or a coupling of -1. A sweep updates all sites of even y + x, then all others.
/// Random numbers are those of Philox4x32-10 under `seed`, of counters that name sweep and site: two calls of one sweep leave what one of two does. A flip
/// is made with the probability it should have to within 2^-32; beta 0 flips all but 2^-32 of the spins.
struct SpinGlassArgs {
  uint64_t* spins = nullptr;                          // size^2 words, 8-byte aligned, updated in place
  const uint64_t *right = nullptr, *down = nullptr;   // couplings of a site to (y, x + 1) and to (y + 1, x)
  int64_t size = 0;                                   // even, 4 to 65534
  double beta = 0;                                    // 1 / temperature
  uint64_t seed = 0, first_sweep = 0;                 // the number of the first sweep of this call
  int64_t sweeps = 1;                                 // two launches each
};
Status spin_glass_sweep(const SpinGlassArgs& args, cudaStream_t stream);

/// Histograms for growing trees on vector-valued gradients, as boosting of an actor and a critic has them (Fuhrer, Tessler, Dalal: Gradient boosting
/// reinforcement learning, 2024): for each node, feature, output and bin the sum of the gradients of the node's samples in that bin, and how many
/// they are. Both are added to what is there: zero them first. Gradients are rounded to units of 1 / scale, once (saturating at
/// 2^31 units; not-a-number counts as zero); their sums are exact, and so the same every time.
struct TreeHistogramArgs {
  int64_t* sums = nullptr;             // nodes x features x outputs x bin_count, in units of 1 / scale; 8-byte aligned
  uint32_t* counts = nullptr;          // nodes x features x bin_count
  const uint8_t* bins = nullptr;       // samples x pitch bytes, 4-byte aligned; bins from bin_count on are left out
  const float* gradients = nullptr;    // samples x outputs
  const int32_t* order = nullptr;      // samples: those of node 0, then of node 1, ... (as sort_u32 leaves them); others than [0, samples) are left out
  const int32_t* begin = nullptr;      // nodes + 1: where in `order` those of a node begin, and the end; ascending
  int64_t samples = 0, features = 0, pitch = 0, bin_count = 0, outputs = 0, nodes = 0;  // pitch: a multiple of 4; up to 256 bins, 16 outputs, 65535 features
  float scale = 0;
};
Status tree_histograms(const TreeHistogramArgs& args, cudaStream_t stream);

/// What a split is worth: with S the sum of a side's gradients and n their number, kL2: the sum over both sides of |S|^2 / (n + l2); kCosine:
/// that, divided by the root of the sum of n |S|^2 / (n + l2)^2.
enum class TreeScore : uint8_t { kL2, kCosine };
/// For each node the split (samples in bins up to `bin` of a feature to the left) that gains most over no split, of equal ones the one of lowest feature, then lowest
/// bin; in float64, the same bits every time.
struct TreeSplitArgs {
  int32_t* split = nullptr;            // nodes x 2: feature and bin, both -1 where no split gains
  double* gain = nullptr;              // nodes; 0 where no split gains
  const int64_t* sums = nullptr;       // as tree_histograms leaves them
  const uint32_t* counts = nullptr;
  int64_t features = 0, bin_count = 0, outputs = 0, nodes = 0;
  float scale = 0;                     // as tree_histograms had it
  double l2 = 0;
  int64_t least_count = 1;             // samples that each side must have
  TreeScore score = TreeScore::kL2;
  void* workspace = nullptr;           // tree_split_workspace(nodes, features) bytes, 8-byte aligned
};
size_t tree_split_workspace(int64_t nodes, int64_t features);
Status tree_split(const TreeSplitArgs& args, cudaStream_t stream);

/// Bipolar integers of `bits` bits (1 to 8) as bit planes: every bit counts -1 or 1 times its power of two, so that the numbers are the odd ones of
/// [-(2^bits - 1), 2^bits - 1], as many below zero as above. Plane i holds bit i of each element, 32 of a row to a word (element 32 w + j in bit j of
/// word w), a row padded with zeros to bit_row_bytes(cols), the planes one after the other; `sums` has for each row the sum of its elements
/// as unsigned numbers of these bits, which gemm_bits needs beside them. (APT-LLM, arXiv 2508.19087: bipolar-INT.)
struct BitMatrix {
  const void* planes = nullptr;        // [bits][rows][bit_row_bytes(cols)], 16-byte aligned
  const int32_t* sums = nullptr;       // [rows]
  int bits = 0;
};
size_t bit_row_bytes(int64_t cols);    // cols / 8, rounded up to 16
/// From signed numbers of `bits` bits in bytes, one each: x stands for the bipolar 2 x + 1; what is out of range is taken to its end. Writes
/// bits * rows * bit_row_bytes(cols) bytes of planes and rows sums.
Status pack_bits(void* planes, int32_t* sums, const int8_t* in, int bits, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream);
/// d = a b', of whole numbers, exact modulo 2^32 (less than that in size up to k = 33,025 of 8 bits each): a is m x k, b is n x k, at least one column each.
struct BitGemmArgs {
  int64_t m = 0, n = 0, k = 0;
  BitMatrix a, b;
  int32_t* d = nullptr;                // m x n, rows of d_stride elements
  int64_t d_stride = 0;
};
Status gemm_bits(const BitGemmArgs& args, cudaStream_t stream);

/// Products without multiplications (ShiftAddViT, arXiv 2306.06446), sums of 32 bits that wrap: d = a w', a is m x k of int8 or int32 (fixed point: the
/// point stays where it was), w is n x k. Neither is a way to go fast on a GPU with tensor cores: that is what they are here to show.
struct ShiftGemmArgs {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;             // rows of a_stride elements
  int a_bytes = 1;                     // 1: int8, 4: int32 (gemm_shift only); a aligned to it
  int64_t a_stride = 0;
  // gemm_shift: one byte each, s + 128 for -2^s and s for 2^s, s in [0, 31] (the two bits between are not looked at); rows of w_stride bytes.
  // gemm_add: one bit each, 1 for 1 and 0 for -1, element 32 j + i in bit i of word j; rows of w_stride words, 4-byte aligned.
  const void* w = nullptr;
  int64_t w_stride = 0;
  int32_t* d = nullptr;                // m x n, rows of d_stride elements
  int64_t d_stride = 0;
};
Status gemm_shift(const ShiftGemmArgs& args, cudaStream_t stream);
Status gemm_add(const ShiftGemmArgs& args, cudaStream_t stream);

/// A sparse matrix times dense ones, as a 1 x 1 convolution of activations in CHW is: out[i] = w x[i] + bias for each image i (Fast Sparse ConvNets,
/// arXiv 1911.09723). w is n x k, kept by blocks of `block` neighbouring rows that have their places in common: block row r has the entries
/// row_starts[r] up to row_starts[r + 1], of which each is a column and `block` values. Read on the device: starts are taken to be
/// within [0, entries], columns outside of [0, k) count as zeros.
struct SpmmArgs {
  int64_t images = 1, n = 0, k = 0, pixels = 0;
  int block = 1;                       // 1, 2 or 4, of which n is a multiple
  int64_t entries = 0;                 // in all rows
  const int32_t* row_starts = nullptr; // [n / block + 1], ascending
  const int32_t* columns = nullptr;    // [entries]
  const void* values = nullptr;        // [entries][block], of dtype
  const void* x = nullptr;             // images x k x pixels, dense
  void* out = nullptr;                 // images x n x pixels, dense
  DType dtype = DType::kBF16;          // f16, bf16 or f32, of values, x and out; sums are f32, in the order of entries
  const float* bias = nullptr;         // [n], may be null
  bool relu = false;
};
Status spmm(const SpmmArgs& args, cudaStream_t stream);

/// A 3 x 3 convolution in groups of `group` channels, as many in as out, with a border of zeros of one pixel: NHWC, out is images x
/// ceil(height / stride) x ceil(width / stride) x channels. (E2GC, arXiv 2006.15100, is about how large groups should be; 1: depthwise.)
struct GroupedConvArgs {
  int64_t images = 0, height = 0, width = 0, channels = 0;  // channels: a multiple of 8 and of group
  int group = 1;                       // 1, 2, 4, 8, 16, 32 or 64
  int stride = 1;                      // 1 or 2
  const void* x = nullptr;             // dense; 16-byte aligned, as out
  const void* w = nullptr;             // [channels][3][3][group], 4-byte aligned
  void* out = nullptr;
  DType dtype = DType::kBF16;          // bf16 or f16; sums are f32
  const float* bias = nullptr;         // [channels], may be null
  bool relu = false;
};
Status conv_grouped(const GroupedConvArgs& args, cudaStream_t stream);

/// The experts of a mixture in one launch, once tokens have been routed: the row i of a token at an expert g is y[i] = act(x[i] w1[g]') w2[g]', or
/// with a gate (act(x[i] gate[g]') * (x[i] up[g]')) w2[g]', and out[t] the sum of y over the rows of token t, each times its weight, in the order in which
/// they are named. Sums are f32; what lies between the products, and y, is rounded to the type of x. The same bits every time.
/// (FlashMoE, arXiv 2506.04667, on one GPU: tiles of all three steps are tasks of a queue that resident blocks take them from.)
struct MoeArgs {
  int64_t tokens = 0, rows = 0, hidden = 0, inner = 0;  // rows: of x, all experts; hidden and inner: at least 1
  int groups = 0;                      // experts
  const int32_t* group_ends = nullptr; // device, [groups]: as in GroupedGemmArgs; a group may be empty
  ConstMatrix x;                       // rows x hidden, unit stride along hidden, f16 or bf16: a token once for each of its experts, as gather_rows leaves it
  const void* w1 = nullptr;            // groups x inner x hidden, or groups x (gate, up) x inner x hidden; rows of w1_stride elements, dense over groups
  int64_t w1_stride = 0;
  const void* w2 = nullptr;            // groups x hidden x inner, rows of w2_stride elements, dense over groups
  int64_t w2_stride = 0;
  Activation activation = Activation::kSilu;
  bool gated = true;
  int64_t top_k = 0;                   // rows that a token can have, 1 to 32
  const int32_t* token_rows = nullptr; // device, tokens x top_k: the rows of each token; those outside of all groups add nothing
  const float* token_weights = nullptr;  // device, tokens x top_k; null: 1 each
  Matrix out;                          // tokens x hidden, unit stride along hidden; f16, bf16 or f32
  GemmConfig config;                   // kCooperative 128 x 256 or kPingPong 128 x 128
  // moe_workspace(args) bytes, 256-byte aligned, of which the first 2^20 are zeroed once before their first use; not shared by calls that may run at the
  // same time. Calls of any sizes may follow each other.
  void* workspace = nullptr;
};
/// x, w1 and w2 of one type, 16-byte aligned with strides of a multiple of 16 bytes; rows / 128 + groups at most 2^17.
size_t moe_workspace(const MoeArgs& args);
Status moe(const MoeArgs& args, cudaStream_t stream);

/// One step of ideal magnetohydrodynamics by the spectral-difference method, which is what CHORUS++ runs for the Sun, on a block of nx x ny x nz equal
/// rectangular elements that closes in on itself: out = base_weight base + u_weight u + rate_weight L(u), where L(u) is the time derivative of u. So one call is a
/// stage of a Runge-Kutta scheme. Lowest storage: {u1 = u + dt L(u)}, {u2 = 3/4 u + 1/4 u1 + dt/4 L(u1)}, {u = 1/3 u + 2/3 u2 + 2/3 dt L(u2)}, where out is base in the last.
/// Each of these is [element z][y][x][variable][point z][y][x]: eight variables (density, momentum x, y, z, total energy, magnetic field x, y, z, in units
/// without 4 pi) at order^3 points, the Chebyshev-Gauss ones -cos((2 s + 1) pi / (2 order)) of [-1, 1] along each axis. Fluxes are taken at the roots of the Legendre
/// polynomial of degree order - 1, and at both ends by Rusanov's (local Lax-Friedrichs) solver with the fast magnetosonic speed. Density and pressure
/// must be positive at flux points: else results are any. Nothing is done about the divergence of the magnetic field, nor are shocks limited.
/// (Sun, Wang, Liu: High-order multidomain spectral difference method, Commun. Comput. Phys. 2, 2007.)
struct MhdArgs {
  double* out = nullptr;                        // 16-byte aligned, as u and base; may be base
  const double *u = nullptr, *base = nullptr;   // base may be null: it counts as zero
  int64_t nx = 0, ny = 0, nz = 0;               // elements
  int order = 0;                                // points of an element in each direction: 2 to 6
  double size_x = 0, size_y = 0, size_z = 0;    // of an element
  double gamma = 5. / 3;                        // ratio of specific heats, above 1
  double base_weight = 0, u_weight = 0, rate_weight = 1;  // 0, 0, 1: the time derivative
};
Status mhd_residual(const MhdArgs& args, cudaStream_t stream);

}  // namespace orrery::kernels
