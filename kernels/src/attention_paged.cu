// attention_paged: argument checks, how many CTAs share a sequence's keys, launches. What they do is in attention_paged.cuh.
#include "attention_paged.cuh"

#include <algorithm>
#include <bit>
#include <cmath>

#include "arguments.h"

namespace orrery::kernels {
namespace {

Status check(const PagedAttentionArgs& a) {
  const struct { const char* name; int64_t value, most; } sizes[] = {
      {"batch", a.batch, 65535}, {"heads", a.heads, 1 << 20}, {"kv_heads", a.kv_heads, 1 << 20}, {"pages", a.pages, 0x7fffffff}, {"max_seq", a.max_seq, 1 << 30}};
  for (const auto& it : sizes)
    if (it.value < 0 || it.value > it.most) return bad(it.name, "is negative or too large");
  if (a.dtype != DType::kBF16 && a.dtype != DType::kF16) return bad("dtype", "must be bf16 or f16");
  if (a.dim != 64 && a.dim != 128 && a.dim != 192 && a.dim != 256) return bad("dim", "must be 64, 128, 192 or 256");
  if (a.kv_heads == 0 ? a.heads != 0 : a.heads % a.kv_heads || a.heads / a.kv_heads > kMostGroup) return bad("kv_heads", "must divide heads, into groups of at most 16");
  if (a.page_size < kStep || a.page_size > 1 << 20 || !std::has_single_bit(uint64_t(a.page_size))) return bad("page_size", "must be a power of two, 16 or more");
  if (!std::isfinite(a.scale) || a.scale < 0) return bad("scale", "must be finite and not negative");
  if (a.window < 0) return bad("window", "must not be negative");
  if (a.splits < 0 || a.splits > kMostSplits) return bad("splits", "must be in [0, 128]");
  if (a.batch == 0 || a.heads == 0) return {};
  const struct { const char* name; const void* p; uintptr_t align; } pointers[] = {{"q", a.q, 16}, {"k_cache", a.k_cache, 16}, {"v_cache", a.v_cache, 16},
      {"out", a.out, 2}, {"page_table", a.page_table, 4}, {"seq_lens", a.seq_lens, 4}, {"workspace", a.workspace, 16}};
  for (const auto& it : pointers)
    if (!it.p || !aligned(it.p, it.align)) return bad(it.name, "is null or misaligned");
  if (!aligned(a.lse, 4)) return bad("lse", "is misaligned");
  if (!a.e4m3_cache && (a.scale_k || a.scale_v)) return bad(a.scale_k ? "scale_k" : "scale_v", "is for a cache of e4m3");
  if (Status s = check_floats({{"scale_k", a.scale_k}, {"scale_v", a.scale_v}}); !s.ok()) return s;
  if (a.q_stride % 8 || a.q_stride < a.heads * a.dim) return bad("q_stride", "must be a multiple of 8, at least heads times dim");
  if (a.out_stride < a.heads * a.dim) return bad("out_stride", "must be at least heads times dim");
  if (a.page_stride % 8 || a.page_stride < 0) return bad("page_stride", "must be a multiple of 8");
  if (a.token_stride % 8 || a.token_stride < a.dim) return bad("token_stride", "must be a multiple of 8, at least dim");
  if (a.head_stride % 8 || a.head_stride < 0) return bad("head_stride", "must be a multiple of 8");
  if (a.table_pitch < (a.max_seq + a.page_size - 1) / a.page_size) return bad("table_pitch", "is less than the pages of max_seq");
  const Extent q{"q_stride", a.q, a.heads * a.dim * 2, {{a.batch, product(a.q_stride, 2)}}}, out{"out", a.out, a.heads * a.dim * 2, {{a.batch, product(a.out_stride, 2)}}};
  const int size = a.e4m3_cache ? 1 : 2;
  const auto cache = [&](const char* name, const void* data) {
    return Extent{name, data, a.dim * size, {{a.pages, product(a.page_stride, size)}, {a.page_size, product(a.token_stride, size)}, {a.kv_heads, product(a.head_stride, size)}}};
  };
  const Extent k = cache("k_cache", a.k_cache), v = cache("v_cache", a.v_cache), table = dense("page_table", a.page_table, product(product(a.batch, a.table_pitch), 4)), lengths = dense("seq_lens", a.seq_lens, a.batch * 4);
  if (span(q) == kMostBytes) return bad("q_stride", "is too large");
  if (span(out) == kMostBytes) return bad("out_stride", "is too large");
  if (span(k) == kMostBytes) {
    const int64_t most = std::max({a.page_stride, a.token_stride, a.head_stride});
    return bad(a.page_stride == most ? "page_stride" : a.token_stride == most ? "token_stride" : "head_stride", "is too large");
  }
  if (table.bytes >= kMostBytes) return bad("table_pitch", "is too large");
  const Extent lse = dense("lse", a.lse, a.batch * a.heads * 4);
  const Extent scale_k = dense("scale_k", a.scale_k, 4), scale_v = dense("scale_v", a.scale_v, 4);
  if (Status s = apart(out, {q, k, v, table, lengths, lse, scale_k, scale_v}); !s.ok()) return s;
  if (Status s = apart(lse, {q, k, v, table, lengths, scale_k, scale_v}); !s.ok()) return s;
  return apart(dense("workspace", a.workspace, int64_t(attention_paged_workspace(a))), {q, k, v, table, lengths, out, lse, scale_k, scale_v});
}

/// As many CTAs as fit on all SMs, of at least 128 keys.
int splits_of(const PagedAttentionArgs& a) {
  if (a.splits > 0) return a.splits;
  const int64_t rows = std::max<int64_t>(a.batch * a.kv_heads, 1), keys = a.window > 0 ? std::min(a.window, a.max_seq) : a.max_seq;
  return int(std::clamp<int64_t>(std::min(ctas_of(int(a.dim)) * sm_count() / rows, keys / 128), 1, kMostSplits));
}

template <class T, class C, int kDim>
cudaError_t launch(const PagedParams& p, int64_t batch, cudaStream_t stream) {
  attend<T, C, kDim><<<dim3(unsigned(p.kv_heads * p.splits), unsigned(batch)), warps_of(kDim) * 32, 0, stream>>>(p);
  if (p.splits == 1) return cudaGetLastError();
  if (cudaError_t e = cudaGetLastError()) return e;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(batch * p.heads)), config.blockDim = dim3(kCombineThreads), config.stream = stream;
  config.attrs = attribute, config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, combine<T, kDim>, p);
}

}  // namespace

size_t attention_paged_workspace(const PagedAttentionArgs& a) {
  const int64_t splits = splits_of(a);
  return size_t(std::max<int64_t>(16, splits == 1 ? 0 : std::max<int64_t>(a.batch * a.heads, 0) * splits * (a.dim + 2) * 4));
}

Status attention_paged(const PagedAttentionArgs& a, cudaStream_t stream) {
  if (Status s = check(a); !s.ok()) return s;
  if (a.batch == 0 || a.heads == 0) return {};
  PagedParams p{};
  p.q = a.q, p.k = a.k_cache, p.v = a.v_cache, p.out = a.out, p.lse = a.lse;
  p.table = a.page_table, p.lengths = a.seq_lens, p.table_pitch = a.table_pitch;
  p.q_stride = a.q_stride, p.out_stride = a.out_stride, p.page_stride = a.page_stride, p.token_stride = a.token_stride, p.head_stride = a.head_stride;
  p.window = a.window, p.heads = int(a.heads), p.kv_heads = int(a.kv_heads), p.group = int(a.heads / a.kv_heads);
  p.page_log = std::countr_zero(uint64_t(a.page_size)), p.pages = int(a.pages), p.max_seq = int(a.max_seq);
  p.splits = splits_of(a);
  p.sums = static_cast<float*>(a.workspace), p.tops = p.sums + a.batch * a.heads * p.splits * a.dim;
  p.scale_log2 = (a.scale > 0 ? a.scale : 1.f / std::sqrt(float(a.dim))) * 1.44269504f;
  p.scale_k = a.scale_k, p.scale_v = a.scale_v;
  const auto typed = [&](auto zero, auto dim) {
    using T = decltype(zero);
    return launched(a.e4m3_cache ? launch<T, PlainE4M3, dim>(p, a.batch, stream) : launch<T, Plain16, dim>(p, a.batch, stream));
  };
  const auto go = [&](auto dim) { return a.dtype == DType::kBF16 ? typed(__nv_bfloat16(), dim) : typed(__half(), dim); };
  switch (a.dim) {
    case 64: return go(std::integral_constant<int, 64>());
    case 128: return go(std::integral_constant<int, 128>());
    case 192: return go(std::integral_constant<int, 192>());
    default: return go(std::integral_constant<int, 256>());
  }
}

}  // namespace orrery::kernels
