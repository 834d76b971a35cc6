// attention_backward: argument checks, the workspace, tensor maps.
#include "attention_backward.h"

#include <cmath>
#include <vector>

#include "arguments.h"
#include "attention_tensors.h"

namespace orrery::kernels {
namespace {

constexpr int64_t kMax = 1 << 24;

int64_t query_tiles(const AttentionBackwardArgs& a) { return (a.seq_q + kBackwardQueries - 1) / kBackwardQueries * a.heads * a.batch; }

Status check(const AttentionBackwardArgs& a) {
  const struct { const char* name; int64_t value; } sizes[] = {{"batch", a.batch}, {"heads", a.heads}, {"kv_heads", a.kv_heads}, {"seq_q", a.seq_q}, {"seq_k", a.seq_k}};
  for (const auto& it : sizes)
    if (it.value < 1 || it.value > kMax) return bad(it.name, "must be in [1, 2^24]");
  if (a.dtype != DType::kBF16) return bad("dtype", "must be bf16");
  if (a.dim != 64 && a.dim != 128) return bad("dim", "must be 64 or 128");
  if (a.heads % a.kv_heads) return bad("kv_heads", "must divide heads");
  if (!std::isfinite(a.scale) || a.scale < 0) return bad("scale", "must be finite and not negative");
  const struct { const char *name, *strides_name; const void* data; const AttentionArgs::Strides& s; int64_t seq, heads; } all[] = {
      {"q", "q_strides", a.q, a.q_strides, a.seq_q, a.heads},
      {"k", "k_strides", a.k, a.k_strides, a.seq_k, a.kv_heads},
      {"v", "v_strides", a.v, a.v_strides, a.seq_k, a.kv_heads},
      {"out", "out_strides", a.out, a.out_strides, a.seq_q, a.heads},
      {"d_out", "d_out_strides", a.d_out, a.d_out_strides, a.seq_q, a.heads},
      {"dq", "dq_strides", a.dq, a.dq_strides, a.seq_q, a.heads},
      {"dk", "dk_strides", a.dk, a.dk_strides, a.seq_k, a.kv_heads},
      {"dv", "dv_strides", a.dv, a.dv_strides, a.seq_k, a.kv_heads}};
  for (const auto& it : all)
    if (Status s = check_tensor(it.name, it.strides_name, it.data, it.s, a.batch, it.seq, it.heads, a.dim); !s.ok()) return s;
  if (!a.lse || !aligned(a.lse, 4)) return bad("lse", "is null or misaligned");
  if (!a.workspace || !aligned(a.workspace, 256)) return bad("workspace", "is null or not 256-byte aligned");
  if (query_tiles(a) > 1 << 30 || a.batch * a.kv_heads * ((a.seq_k + kBackwardKeys - 1) / kBackwardKeys) > 1 << 30) return bad("batch", "times heads times length is too large");
  std::vector<Extent> at;
  for (const auto& it : all) at.push_back(extent_of_tensor(it.name, it.data, it.s, a.batch, it.seq, it.heads, a.dim));
  const Extent lse = dense("lse", a.lse, product(product(a.batch, a.heads), a.seq_q) * 4), work = dense("workspace", a.workspace, int64_t(attention_backward_workspace(a)));
  for (size_t w = 5; w < at.size(); w++) {
    for (size_t i = 0; i < at.size(); i++)
      if (i != w)
        if (Status s = apart(at[w], {at[i]}); !s.ok()) return s;
    if (Status s = apart(at[w], {lse}); !s.ok()) return s;
  }
  for (const Extent& e : at)
    if (Status s = apart(work, {e}); !s.ok()) return s;
  return apart(work, {lse});
}

}  // namespace

size_t attention_backward_workspace(const AttentionBackwardArgs& a) {
  return a.batch > 0 && a.heads > 0 && a.seq_q > 0 && a.dim > 0 ? size_t(query_tiles(a)) * kBackwardQueries * (2 + size_t(a.dim)) * 4 : 256;
}

Status attention_backward(const AttentionBackwardArgs& a, cudaStream_t stream) {
  if (Status s = check(a); !s.ok()) return s;
  BackwardParams p{};
  const DType t = a.dtype;
  if (!encode_tensor(&p.q, a.q, t, a.q_strides, a.batch, a.seq_q, a.heads, a.dim, kBackwardQueries) ||
      !encode_tensor(&p.d_out, a.d_out, t, a.d_out_strides, a.batch, a.seq_q, a.heads, a.dim, kBackwardQueries) ||
      !encode_tensor(&p.k, a.k, t, a.k_strides, a.batch, a.seq_k, a.kv_heads, a.dim, kBackwardKeys) ||
      !encode_tensor(&p.v, a.v, t, a.v_strides, a.batch, a.seq_k, a.kv_heads, a.dim, kBackwardKeys) ||
      !encode_tensor(&p.dk, a.dk, t, a.dk_strides, a.batch, a.seq_k, a.kv_heads, a.dim, 16) ||
      !encode_tensor(&p.dv, a.dv, t, a.dv_strides, a.batch, a.seq_k, a.kv_heads, a.dim, 16))
    return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.out_rows = a.out, p.d_out_rows = a.d_out, p.out_strides = a.out_strides, p.d_out_strides = a.d_out_strides, p.dq_strides = a.dq_strides;
  p.lse = a.lse, p.dq = a.dq;
  const int64_t rows = query_tiles(a) * kBackwardQueries;
  p.lse2 = static_cast<float*>(a.workspace), p.delta = p.lse2 + rows, p.dq_sums = p.delta + rows;
  p.batch = int(a.batch), p.heads = int(a.heads), p.heads_per_kv = int(a.heads / a.kv_heads), p.seq_q = int(a.seq_q), p.seq_k = int(a.seq_k);
  p.offset = int(a.seq_k - a.seq_q), p.causal = a.causal;
  p.q_tiles = int((a.seq_q + kBackwardQueries - 1) / kBackwardQueries), p.k_tiles = int((a.seq_k + kBackwardKeys - 1) / kBackwardKeys);
  p.scale = a.scale > 0 ? a.scale : 1.f / std::sqrt(float(a.dim)), p.scale_log2 = p.scale * 1.44269504f;
  return launched(launch_attention_backward(p, int(a.dim), stream));
}

}  // namespace orrery::kernels
