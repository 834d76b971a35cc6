// attention_paged against float64: a decode step over a cache whose pages are in random order; windows, splits, caches of e4m3.
//
// Bound for one element: as in attention_test.cu; values of e4m3 are exact in the types that they are widened to.
#include <algorithm>

#include "attention_operands.h"

using namespace orrery::kernels;
using check::Buffer, check::dot, check::fill, check::values;

namespace {

struct PagedCase {
  DType t;
  int64_t batch, heads, kv_heads, dim, page_size, longest, window;
  int splits;
  bool e4m3 = false;  // the caches
};

void run(const PagedCase& c) {
  check::Random random(c.longest * 5 + c.heads + c.dim + c.splits);
  const int64_t per_sequence = (c.longest + c.page_size - 1) / c.page_size, pages = per_sequence * c.batch, token = c.kv_heads * c.dim;
  const DType cached = c.e4m3 ? DType::kE4M3 : c.t;
  std::vector<unsigned char> q(c.batch * c.heads * c.dim * 2), k(pages * c.page_size * token * size_of(cached)), v(k.size());
  fill(q, c.t, random), fill(k, cached, random), fill(v, cached, random);
  std::vector<int32_t> table(pages), lengths(c.batch);
  for (int64_t i = 0; i < pages; i++) table[i] = int32_t(i);
  for (int64_t i = pages - 1; i > 0; i--) std::swap(table[i], table[random.below(i + 1)]);
  for (int64_t b = 0; b < c.batch; b++) lengths[b] = int32_t(b == 0 ? c.longest : b == 1 ? 0 : 1 + random.below(c.longest));
  for (int64_t b = 0; b < c.batch; b++)  // what lies beyond a sequence's end must not matter
    for (int64_t j = lengths[b]; j < per_sequence * c.page_size; j++)
      for (int64_t d = 0; d < token; d++) {
        const int64_t at = (table[b * per_sequence + j / c.page_size] * c.page_size + j % c.page_size) * token + d;
        check::from_double(k.data(), at, cached, NAN), check::from_double(v.data(), at, cached, NAN);
      }
  const Buffer dq(q), dk(k), dv(v), dtable(table), dlengths(lengths);
  Buffer out(q.size()), lse(c.batch * c.heads * 4);
  PagedAttentionArgs a;
  a.q = dq.data(), a.k_cache = dk.data(), a.v_cache = dv.data(), a.out = out.data(), a.lse = lse.as<float>();
  a.page_table = dtable.as<int32_t>(), a.seq_lens = dlengths.as<int32_t>(), a.dtype = c.t;
  a.batch = c.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.dim = c.dim, a.pages = pages, a.page_size = c.page_size;
  a.table_pitch = per_sequence, a.max_seq = c.longest, a.q_stride = a.out_stride = c.heads * c.dim;
  a.page_stride = c.page_size * token, a.token_stride = token, a.head_stride = c.dim, a.window = c.window, a.splits = c.splits, a.scale = 0.2f;
  const Buffer scales(std::vector<float>{0.625f, 1.75f});
  if (c.e4m3) a.e4m3_cache = true, a.scale_k = scales.as<float>(), a.scale_v = a.scale_k + 1;
  const double scale = c.e4m3 ? 0.2f * 0.625 : 0.2f, scale_v = c.e4m3 ? 1.75 : 1;
  Buffer workspace(attention_paged_workspace(a));
  a.workspace = workspace.data();
  STATUS_OK(attention_paged(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  const auto got_lse = lse.host<float>();
  const double u = check::unit_roundoff(c.t);
  char what[160];
  std::snprintf(what, sizeof what, "paged type %d heads %lld/%lld dim %lld page %lld longest %lld window %lld splits %d", int(c.t), (long long)c.heads,
                (long long)c.kv_heads, (long long)c.dim, (long long)c.page_size, (long long)c.longest, (long long)c.window, c.splits);
  if (c.e4m3) std::strcat(what, " e4m3");
  check::Results::all().add(what, got);
  const std::vector<float> fq = values(q, c.t), fk = values(k, cached), fv = values(v, cached);
  check::parallel(c.batch * c.heads, [&](int64_t bh) {
    const int64_t b = bh / c.heads, h = bh % c.heads, kvh = h / (c.heads / c.kv_heads), keys = lengths[b];
    const int64_t first = c.window ? std::max<int64_t>(0, keys - c.window) : 0;
    const auto cache = [&](const std::vector<float>& x, int64_t j) {
      return x.data() + (table[b * per_sequence + j / c.page_size] * c.page_size + j % c.page_size) * token + kvh * c.dim;
    };
    std::vector<double> p(keys - first), want(c.dim), mass(c.dim);
    double top = -INFINITY, sum = 0;
    for (int64_t j = first; j < keys; j++) p[j - first] = dot(fq.data() + bh * c.dim, cache(fk, j), c.dim) * scale, top = std::max(top, p[j - first]);
    for (double& x : p) sum += x = std::exp(x - top);
    if (keys > 0) check::expect_near(got_lse[bh], top + std::log(sum), 1e-4 * (1 + std::fabs(top)), what, b, h);
    else if (got_lse[bh] != -INFINITY) check::fail("%s: lse of a sequence without keys is %g", what, got_lse[bh]);
    for (int64_t j = first; j < keys; j++) {
      const float* const value = cache(fv, j);
      for (int64_t d = 0; d < c.dim; d++) {
        const double t = p[j - first] / sum * value[d] * scale_v;
        want[d] += t, mass[d] += std::fabs(t);
      }
    }
    for (int64_t d = 0; d < c.dim; d++) {
      const double bound = (u + 2e-4) * mass[d];
      check::expect_near(check::to_double(got.data(), bh * c.dim + d, c.t), want[d], bound + check::rounding(c.t, std::fabs(want[d]) + bound), what, bh, d);
    }
  });
  out.check_guards(what), lse.check_guards(what), workspace.check_guards(what);
}

void refusals() {
  Buffer x(1 << 16);
  PagedAttentionArgs a;
  a.q = a.k_cache = a.v_cache = x.data(), a.out = a.workspace = x.data(), a.page_table = a.seq_lens = x.as<int32_t>();
  a.batch = 1, a.heads = a.kv_heads = 2, a.dim = 64, a.pages = 1, a.page_size = 16, a.table_pitch = 1, a.max_seq = 16;
  a.q_stride = a.out_stride = 128, a.page_stride = 16 * 128, a.token_stride = 128, a.head_stride = 64;
  auto with = [&](auto change) { PagedAttentionArgs h = a; change(h); return attention_paged(h, nullptr); };
  NAMES(with([](PagedAttentionArgs& h) { h.q = nullptr; }), "q");
  NAMES(with([](PagedAttentionArgs& h) { h.workspace = nullptr; }), "workspace");
  NAMES(with([](PagedAttentionArgs& h) { h.page_size = 24; }), "page_size");
  NAMES(with([](PagedAttentionArgs& h) { h.kv_heads = 3; }), "kv_heads");
  NAMES(with([](PagedAttentionArgs& h) { h.max_seq = 17; }), "table_pitch");
  NAMES(with([](PagedAttentionArgs& h) { h.dim = 96; }), "dim");
  NAMES(with([](PagedAttentionArgs& h) { h.token_stride = 60; }), "token_stride");
  NAMES(with([](PagedAttentionArgs& h) { h.splits = 129; }), "splits");
  NAMES(with([](PagedAttentionArgs& h) { h.scale_v = static_cast<const float*>(h.q); }), "scale_v");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<PagedCase> cases = {{B, 3, 4, 2, 128, 16, 131, 0, 1}, {H, 3, 8, 1, 64, 32, 200, 0, 3}, {B, 2, 16, 1, 128, 64, 300, 70, 2}, {H, 2, 3, 3, 64, 16, 40, 0, 5},
                                  {B, 2, 4, 2, 192, 16, 150, 60, 2}, {H, 3, 10, 1, 256, 32, 170, 0, 3},
                                  {B, 3, 4, 2, 128, 16, 131, 0, 1, true}, {H, 2, 8, 1, 64, 32, 200, 70, 3, true}, {H, 2, 4, 2, 192, 16, 150, 0, 2, true}, {B, 3, 10, 1, 256, 32, 170, 60, 3, true}};
  if (!small)
    for (DType t : {B, H})
      for (int64_t dim : {64, 128, 192, 256})
        for (int splits : {0, 1, 7, 128})
          for (int64_t window : {0, 500}) {
            cases.push_back({t, 5, 32, 8, dim, 16, 3000, window, splits});
            cases.push_back({t, 3, 16, 1, dim, 128, 1111, window, splits});
            if (splits == 0) cases.push_back({t, 4, 32, 8, dim, 64, 2000, window, splits, true});
            if (splits == 7) cases.push_back({t, 3, 13, 1, dim, 16, 999, window, splits, true});
          }
  for (const PagedCase& c : cases) run(c);
  std::printf("PASS attention_paged: %zu cases\n", cases.size());
}
