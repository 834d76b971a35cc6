// The library's calls for bench/peers.py, which times them in turns with other libraries' in one process. Tensors are dense,
// in the order of their indices; each call returns 0 where the library took it.
#include "orrery/kernels.h"

using namespace orrery::kernels;

namespace {

int result(const Status& s) { return s.ok() ? 0 : 1; }
cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

extern "C" {

/// bf16, batch x seq x heads x dim; lse may be null.
int orrery_attention(void* out, float* lse, const void* q, const void* k, const void* v, long batch, long heads, long seq, long dim, int causal, void* stream) {
  AttentionArgs a;
  a.q = q, a.k = k, a.v = v, a.out = out, a.lse = lse;
  a.batch = batch, a.heads = a.kv_heads = heads, a.seq_q = a.seq_k = seq, a.dim = dim, a.causal = causal != 0;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {seq * heads * dim, heads * dim, dim};
  return result(attention_forward(a, stream_of(stream)));
}

/// e4m3, batch x seq x heads x dim; out bf16. Bytes of workspace where q is null.
long orrery_attention_fp8(void* out, const void* q, const void* k, const void* v, void* workspace, long batch, long heads, long seq, long dim, int causal, void* stream) {
  AttentionArgs a;
  a.q = q, a.k = k, a.v = v, a.out = out, a.workspace = workspace, a.dtype = DType::kE4M3;
  a.batch = batch, a.heads = a.kv_heads = heads, a.seq_q = a.seq_k = seq, a.dim = dim, a.causal = causal != 0;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {seq * heads * dim, heads * dim, dim};
  if (!q) return long(attention_workspace(a));
  return result(attention_forward(a, stream_of(stream)));
}

/// bf16, rows x heads x dim; starts: batch + 1 on the device.
int orrery_varlen(void* out, const void* q, const void* k, const void* v, const int* starts, long batch, long heads, long rows, long longest, long dim, int causal,
                  void* stream) {
  AttentionArgs a;
  a.q = q, a.k = k, a.v = v, a.out = out, a.q_starts = a.k_starts = starts, a.q_rows = a.k_rows = rows;
  a.batch = batch, a.heads = a.kv_heads = heads, a.seq_q = a.seq_k = longest, a.dim = dim, a.causal = causal != 0;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {0, heads * dim, dim};
  return result(attention_forward(a, stream_of(stream)));
}

/// bf16, batch x seq x heads x dim. Bytes of workspace where d_out is null.
long orrery_backward(void* dq, void* dk, void* dv, const void* q, const void* k, const void* v, const void* out, const float* lse, const void* d_out, void* workspace,
                     long batch, long heads, long seq, long dim, int causal, void* stream) {
  AttentionBackwardArgs a;
  a.q = q, a.k = k, a.v = v, a.out = out, a.d_out = d_out, a.lse = lse, a.dq = dq, a.dk = dk, a.dv = dv, a.workspace = workspace;
  a.batch = batch, a.heads = a.kv_heads = heads, a.seq_q = a.seq_k = seq, a.dim = dim, a.causal = causal != 0;
  if (!d_out) return long(attention_backward_workspace(a));
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = a.d_out_strides = a.dq_strides = a.dk_strides = a.dv_strides = {seq * heads * dim, heads * dim, dim};
  return result(attention_backward(a, stream_of(stream)));
}

/// bf16 or (fp8) e4m3 operands, bf16 results: d rows x n = a rows x k times b groups x n x k.
int orrery_grouped(void* d, const void* a, const void* b, const int* ends, long rows, long n, long k, long groups, int fp8, void* stream) {
  GroupedGemmArgs g;
  g.rows = rows, g.n = n, g.k = k, g.groups = int(groups), g.group_ends = ends;
  g.a = {a, fp8 ? DType::kE4M3 : DType::kBF16, k, 1}, g.b = b, g.b_stride = k, g.d = {d, DType::kBF16, n, 1};
  return result(gemm_grouped(g, stream_of(stream)));
}

/// e4m3 with a scale for every 128 of k: a m x k, b n x k, d m x n bf16; scale_a m x k / 128, scale_b n / 128 x k / 128.
int orrery_block_scaled(void* d, const void* a, const void* b, const float* scale_a, const float* scale_b, long m, long n, long k, void* stream) {
  GemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = {a, DType::kE4M3, k, 1}, g.b = {b, DType::kE4M3, 1, k}, g.d = {d, DType::kBF16, n, 1};
  g.block_scale_a = scale_a, g.block_scale_b = scale_b;
  return result(gemm(g, stream_of(stream)));
}

/// bf16: d m x n = a m x k times w' of n x k, of which `values` and `codes` are what sparsify leaves; sparsifies w first where it is given.
int orrery_sparse(void* d, const void* a, void* values, void* codes, const void* w, long m, long n, long k, void* stream) {
  if (w) return result(sparsify(values, codes, w, DType::kBF16, n, k, k, stream_of(stream)));
  SparseGemmArgs g;
  g.m = m, g.n = n, g.k = k, g.a = {a, DType::kBF16, k, 1}, g.values = values, g.codes = codes, g.d = {d, DType::kBF16, n, 1};
  return result(gemm_sparse(g, stream_of(stream)));
}

}  // extern "C"
