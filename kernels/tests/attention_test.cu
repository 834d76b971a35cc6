// attention_forward against float64: odd lengths, causal offsets, grouped heads, strided layouts, rows without keys.
//
// Bound for one element: the probabilities are rounded to the operand type (u), the sum of exponentials and the scores
// are f32; so |error| <= (u + 2e-4) * sum p |v| plus one rounding of the result. Scores are kept below about 20.
#include <algorithm>

#include "attention_operands.h"

using namespace orrery::kernels;
using check::Buffer, check::dot, check::fill, check::values;

namespace {

struct Case {
  DType t;
  int64_t batch, heads, kv_heads, seq_q, seq_k, dim;
  bool causal, packed;  // packed: q, k, v interleaved in one tensor of 3 x heads
  int64_t window = 0;
  bool sigmoid = false;
  Neighborhood near = {};
  int64_t pad = 0;  // elements between heads, and between tokens beside that; tensors then begin 16 bytes behind a multiple of 4,096
};

/// The keys that query i sees, by the definition of the masks.
std::vector<int64_t> keys_of(const Case& c, int64_t i) {
  std::vector<int64_t> keys;
  if (c.near.rank == 0) {
    const int64_t end = c.causal ? std::max<int64_t>(0, std::min(c.seq_k, i + c.seq_k - c.seq_q + 1)) : c.seq_k;
    for (int64_t j = c.window ? std::max<int64_t>(0, end - c.window) : 0; j < end; j++) keys.push_back(j);
    return keys;
  }
  const Neighborhood& n = c.near;
  keys.push_back(0);
  for (int a = 0, inner = int(c.seq_q); a < n.rank; a++) {
    inner /= int(n.extent[a]);
    const int64_t place = i / inner % n.extent[a], middle = std::min(place / n.stride[a] * n.stride[a] + n.stride[a] / 2, n.extent[a] - 1);
    const int64_t start = std::clamp<int64_t>(middle - n.window[a] / 2, 0, n.extent[a] - n.window[a]);
    std::vector<int64_t> next;
    for (int64_t base : keys)
      for (int64_t j = start; j < start + n.window[a]; j++) next.push_back(base + j * inner);
    keys = next;
  }
  return keys;
}

void run(const Case& c) {
  check::Random random(c.seq_q * 7 + c.seq_k + c.dim);
  const int64_t head = c.dim + c.pad, pitch_q = (c.packed ? 3 : 1) * c.heads * head + c.pad, pitch_out = c.heads * head + c.pad;
  const int64_t pitch_k = c.packed ? pitch_q : c.kv_heads * head + c.pad;
  const size_t at = c.pad ? 16 : 0;
  const int64_t nq = c.batch * c.seq_q * pitch_q, nk = c.packed ? 0 : c.batch * c.seq_k * pitch_k;
  const bool fp8 = c.t == DType::kE4M3;
  const int size = size_of(c.t);
  const DType out_type = fp8 ? DType::kBF16 : c.t;
  std::vector<unsigned char> q(nq * size), k(nk * size), v(nk * size);
  for (auto* x : {&q, &k, &v}) fill(*x, c.t, random);
  const Buffer dq(q, at), dk(k, at), dv(v, at), scales(std::vector<float>{1.25f, 0.5f, 3.f});
  Buffer out(c.batch * c.seq_q * pitch_out * 2, at), lse(c.batch * c.heads * c.seq_q * 4);
  AttentionArgs a;
  a.q = dq.data(), a.k = c.packed ? dq.data() + c.heads * c.dim * size : dk.data();
  a.v = c.packed ? dq.data() + 2 * c.heads * c.dim * size : dv.data();
  a.out = out.data(), a.lse = lse.as<float>(), a.dtype = c.t;
  a.batch = c.batch, a.heads = c.heads, a.kv_heads = c.kv_heads, a.seq_q = c.seq_q, a.seq_k = c.seq_k, a.dim = c.dim;
  a.q_strides = {c.seq_q * pitch_q, pitch_q, head};
  a.k_strides = a.v_strides = {c.seq_k * pitch_k, pitch_k, head};
  a.out_strides = {c.seq_q * pitch_out, pitch_out, head};
  a.causal = c.causal, a.scale = 0.2f, a.window = c.window, a.sigmoid = c.sigmoid, a.neighborhood = c.near;
  if (c.sigmoid) a.sigmoid_bias = -2.5f, a.lse = nullptr;
  Buffer workspace(attention_workspace(a));
  if (fp8) a.workspace = workspace.data(), a.scale_q = scales.as<float>(), a.scale_k = a.scale_q + 1, a.scale_v = a.scale_q + 2;
  const double score_scale = double(a.scale) * (fp8 ? 1.25 * 0.5 : 1), value_scale = fp8 ? 3 : 1;
  STATUS_OK(attention_forward(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  const auto got_lse = lse.host<float>();
  const std::vector<float> fq = values(q, c.t), fk = values(k, c.t), fv = values(v, c.t);
  const float* hk = c.packed ? fq.data() + c.heads * c.dim : fk.data();
  const float* hv = c.packed ? fq.data() + 2 * c.heads * c.dim : fv.data();
  // Products of e4m3 keep 13 fraction bits of the largest term in each step of 32.
  const double u = check::unit_roundoff(c.t) + (fp8 ? double(c.seq_k) / 32 * 0x1p-12 : 0);
  char what[200];
  std::snprintf(what, sizeof what, "type %d batch %lld heads %lld/%lld seq %lld/%lld dim %lld causal %d window %lld sigmoid %d axes %d", int(c.t), (long long)c.batch,
                (long long)c.heads, (long long)c.kv_heads, (long long)c.seq_q, (long long)c.seq_k, (long long)c.dim, c.causal, (long long)c.window, c.sigmoid, c.near.rank);
  if (c.pad) std::snprintf(what + std::strlen(what), sizeof what - std::strlen(what), " pad %lld", (long long)c.pad);
  check::Results::all().add(what, got);
  std::vector<std::pair<int64_t, int64_t>> rows;  // a batch's head, a query
  const int64_t every = c.seq_q > 600 ? 37 : 1;
  for (int64_t bh = 0; bh < c.batch * c.heads; bh++)
    for (int64_t i = bh % every; i < c.seq_q; i += every) rows.emplace_back(bh, i);
  check::parallel(int64_t(rows.size()), [&](int64_t r) {
    const auto [bh, i] = rows[r];
    const int64_t b = bh / c.heads, h = bh % c.heads, kvh = h / (c.heads / c.kv_heads);
    const std::vector<int64_t> seen = keys_of(c, i);
    const int64_t keys = int64_t(seen.size());
    const auto of_key = [&](const float* x, int64_t e) { return x + (b * c.seq_k + seen[e]) * pitch_k + kvh * head; };
    std::vector<double> p(keys);
    double top = -INFINITY, sum = 0;
    for (int64_t e = 0; e < keys; e++)
      p[e] = dot(fq.data() + (b * c.seq_q + i) * pitch_q + h * head, of_key(hk, e), c.dim) * score_scale, top = std::max(top, p[e]);
    for (double& x : p) sum += x = c.sigmoid ? 1 / (1 + std::exp(-x - double(a.sigmoid_bias))) : std::exp(x - top);
    if (c.sigmoid) sum = 1;  // rows are not normalised
    else if (const float l = got_lse[bh * c.seq_q + i]; keys) check::expect_near(l, top + std::log(sum), (fp8 ? 4e-3 : 1e-4) * (1 + std::fabs(top)), what, bh, i);
    else if (l != -INFINITY) check::fail("%s: lse of a row without keys is %g", what, l);
    std::vector<double> want(c.dim), mass(c.dim), slack(c.dim);
    for (int64_t e = 0; e < keys; e++) {
      const float* const value = of_key(hv, e);
      for (int64_t d = 0; d < c.dim; d++) {
        const double t = value_scale * p[e] / sum * value[d];
        want[d] += t, mass[d] += std::fabs(t);
        // Against float64 only: tanh.approx is good to 2^-10.987 of its value, which is near 1 where a sigmoid is near 0.
        slack[d] += c.sigmoid ? 2.6e-4 * value_scale * std::fabs(value[d]) : 0;
      }
    }
    for (int64_t d = 0; d < c.dim; d++) {
      const double bound = (u + 2e-4 + (fp8 ? 4e-3 : 0)) * mass[d] + slack[d] + (fp8 && keys ? value_scale * 0x1p-17 * double(keys) / sum : 0);
      check::expect_near(check::to_double(got.data(), (b * c.seq_q + i) * pitch_out + h * head + d, out_type), want[d],
                         bound + check::rounding(out_type, std::fabs(want[d]) + bound), what, bh * c.seq_q + i, d);
    }
  });
  for (int64_t i = 0; c.pad && i < c.batch * c.seq_q * pitch_out; i++)
    if (i % pitch_out % head >= c.dim || i % pitch_out >= c.heads * head)
      if (got[2 * i] != 0xFF || got[2 * i + 1] != 0xFF) check::fail("%s: wrote between heads or tokens", what);
  out.check_guards(what), lse.check_guards(what);
}

/// Sequences of their own lengths, one after the other; bounds as above. Some rows at the end belong to none of them.
void run_lengths(DType t, int64_t heads, int64_t kv_heads, int64_t dim, bool causal, const std::vector<std::pair<int, int>>& lengths, int64_t window = 0, bool sigmoid = false) {
  check::Random random(dim + heads + int64_t(lengths.size()));
  constexpr int64_t kSpare = 5;
  std::vector<int32_t> q_starts{0}, k_starts{0};
  int64_t longest_q = 1, longest_k = 1;
  for (const auto& [q, k] : lengths) {
    q_starts.push_back(q_starts.back() + q), k_starts.push_back(k_starts.back() + k);
    longest_q = std::max<int64_t>(longest_q, q), longest_k = std::max<int64_t>(longest_k, k);
  }
  const int64_t q_rows = q_starts.back() + kSpare, k_rows = k_starts.back() + kSpare;
  const bool fp8 = t == DType::kE4M3;
  const int size = size_of(t);
  const DType out_type = fp8 ? DType::kBF16 : t;
  std::vector<unsigned char> q(q_rows * heads * dim * size), k(k_rows * kv_heads * dim * size), v(k.size());
  for (auto* x : {&q, &k, &v}) fill(*x, t, random);
  const Buffer dq(q), dk(k), dv(v), dq_starts(q_starts), dk_starts(k_starts);
  Buffer out(q_rows * heads * dim * 2), lse(heads * q_rows * 4);
  AttentionArgs a;
  a.q = dq.data(), a.k = dk.data(), a.v = dv.data(), a.out = out.data(), a.lse = lse.as<float>(), a.dtype = t;
  a.batch = int64_t(lengths.size()), a.heads = heads, a.kv_heads = kv_heads, a.seq_q = longest_q, a.seq_k = longest_k, a.dim = dim;
  a.q_strides = a.out_strides = {0, heads * dim, dim}, a.k_strides = a.v_strides = {0, kv_heads * dim, dim};
  a.causal = causal, a.scale = 0.2f, a.q_starts = dq_starts.as<int32_t>(), a.k_starts = dk_starts.as<int32_t>(), a.q_rows = q_rows, a.k_rows = k_rows;
  a.window = window, a.sigmoid = sigmoid;
  if (sigmoid) a.sigmoid_bias = -2.5f, a.lse = nullptr;
  Buffer workspace(attention_workspace(a));
  if (fp8) a.workspace = workspace.data();
  STATUS_OK(attention_forward(a, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<unsigned char>();
  const auto got_lse = lse.host<float>();
  char what[120];
  std::snprintf(what, sizeof what, "lengths: type %d heads %lld/%lld dim %lld causal %d", int(t), (long long)heads, (long long)kv_heads, (long long)dim, causal);
  if (window || sigmoid) std::snprintf(what + std::strlen(what), sizeof what - std::strlen(what), " window %lld sigmoid %d", (long long)window, sigmoid);
  check::Results::all().add(what, got);
  const std::vector<float> fq = values(q, t), fk = values(k, t), fv = values(v, t);
  std::vector<std::pair<int64_t, int64_t>> rows;  // a sequence's head, a query
  for (int64_t bh = 0; bh < int64_t(lengths.size()) * heads; bh++)
    for (int64_t i = 0; i < lengths[bh / heads].first; i++) rows.emplace_back(bh, i);
  check::parallel(int64_t(rows.size()), [&](int64_t r) {
    const auto [bh, i] = rows[r];
    const int64_t b = bh / heads, h = bh % heads, kvh = h / (heads / kv_heads), seq_q = lengths[b].first, seq_k = lengths[b].second;
    const int64_t row = q_starts[b] + i, keys = causal ? std::max<int64_t>(0, std::min(seq_k, i + seq_k - seq_q + 1)) : seq_k;
    const int64_t from = window ? std::max<int64_t>(0, keys - window) : 0;
    const auto of_key = [&](const std::vector<float>& x, int64_t j) { return x.data() + ((k_starts[b] + j) * kv_heads + kvh) * dim; };
    std::vector<double> p(keys), want(dim), mass(dim), slack(dim);
    double top = -INFINITY, sum = 0;
    for (int64_t j = from; j < keys; j++) p[j] = dot(fq.data() + (row * heads + h) * dim, of_key(fk, j), dim) * double(a.scale), top = std::max(top, p[j]);
    for (int64_t j = from; j < keys; j++) sum += p[j] = sigmoid ? 1 / (1 + std::exp(-p[j] - double(a.sigmoid_bias))) : std::exp(p[j] - top);
    const float l = got_lse[h * q_rows + row];
    if (sigmoid) sum = 1;
    else if (keys) check::expect_near(l, top + std::log(sum), (fp8 ? 4e-3 : 1e-4) * (1 + std::fabs(top)), what, bh, i);
    else if (l != -INFINITY) check::fail("%s: lse of a row without keys is %g", what, l);
    const double u = check::unit_roundoff(t) + 2e-4 + (fp8 ? double(seq_k) / 32 * 0x1p-12 + 4e-3 : 0);  // as above
    for (int64_t j = from; j < keys; j++) {
      const float* const value = of_key(fv, j);
      for (int64_t d = 0; d < dim; d++) {
        const double x = p[j] / sum * value[d];
        want[d] += x, mass[d] += std::fabs(x);
        if (sigmoid) slack[d] += 2.6e-4 * std::fabs(value[d]);
      }
    }
    for (int64_t d = 0; d < dim; d++) {
      const double bound = u * mass[d] + slack[d] + (fp8 && keys ? 0x1p-17 * double(keys) / sum : 0);
      check::expect_near(check::to_double(got.data(), (row * heads + h) * dim + d, out_type), want[d], bound + check::rounding(out_type, std::fabs(want[d]) + bound), what, bh * seq_q + i, d);
    }
  });
  for (size_t i = size_t(q_starts.back()) * heads * dim * 2; i < got.size(); i++)
    if (got[i] != 0xFF) check::fail("%s: wrote to a row that is no sequence's", what);
  out.check_guards(what), lse.check_guards(what), workspace.check_guards(what);
}

void refusals() {
  Buffer x(1 << 16), y(1 << 16), z(1 << 16), o(1 << 16);
  AttentionArgs a;
  a.q = x.data(), a.k = y.data(), a.v = z.data(), a.out = o.data();
  a.batch = 1, a.heads = a.kv_heads = 2, a.seq_q = a.seq_k = 16, a.dim = 64;
  a.q_strides = a.k_strides = a.v_strides = a.out_strides = {16 * 128, 128, 64};
  STATUS_OK(attention_forward(a, nullptr));
  auto with = [&](auto change) { AttentionArgs h = a; change(h); return attention_forward(h, nullptr); };
  NAMES(with([](AttentionArgs& h) { h.q = nullptr; }), "q");
  NAMES(with([](AttentionArgs& h) { h.out = nullptr; }), "out");
  NAMES(with([](AttentionArgs& h) { h.k = static_cast<const char*>(h.k) + 2; }), "k");
  NAMES(with([](AttentionArgs& h) { h.dim = 80; }), "dim");
  NAMES(with([](AttentionArgs& h) { h.dtype = DType::kE4M3, h.neighborhood = {1, {16}, {5}, {1}}; }), "dtype");
  NAMES(with([](AttentionArgs& h) { h.dtype = DType::kE4M3; }), "workspace");
  NAMES(with([](AttentionArgs& h) { h.scale_q = reinterpret_cast<const float*>(16); }), "scale_q");
  NAMES(with([](AttentionArgs& h) { h.neighborhood = {4}; }), "neighborhood.rank");
  NAMES(with([](AttentionArgs& h) { h.neighborhood = {1, {16}, {17}}; }), "neighborhood.window");
  NAMES(with([](AttentionArgs& h) { h.neighborhood = {1, {16}, {5}, {6}}; }), "neighborhood.stride");
  NAMES(with([](AttentionArgs& h) { h.neighborhood = {2, {3, 5}, {3, 5}}; }), "seq_q");
  NAMES(with([](AttentionArgs& h) { h.neighborhood = {1, {16}, {5}}, h.causal = true; }), "neighborhood");
  NAMES(with([](AttentionArgs& h) { h.kv_heads = 3; }), "kv_heads");
  NAMES(with([](AttentionArgs& h) { h.dtype = DType::kF32; }), "dtype");
  NAMES(with([](AttentionArgs& h) { h.seq_q = -1; }), "seq_q");
  NAMES(with([](AttentionArgs& h) { h.seq_k = 0; }), "seq_k");
  NAMES(with([](AttentionArgs& h) { h.v_strides.seq = 100; }), "v_strides");
  NAMES(with([](AttentionArgs& h) { h.out = const_cast<void*>(h.q); }), "out");
  NAMES(with([](AttentionArgs& h) { h.scale = NAN; }), "scale");
  NAMES(with([](AttentionArgs& h) { h.window = 5; }), "window");
  NAMES(with([](AttentionArgs& h) { h.q_starts = reinterpret_cast<const int32_t*>(16); }), "k_starts");
  NAMES(with([](AttentionArgs& h) { h.q_rows = -1; }), "q_rows");
  NAMES(with([](AttentionArgs& h) { h.sigmoid_bias = 1; }), "sigmoid_bias");
  CUDA_OK(cudaDeviceSynchronize());
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  const std::string only = argc > 1 ? argv[argc - 1] : "";  // sigmoid, near (neighbourhoods of wide heads), lengths: these alone
  const bool all = only != "sigmoid" && only != "near" && only != "lengths";
  refusals();
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<Case> cases = {{B, 1, 2, 1, 130, 200, 64, true, false}, {H, 1, 1, 1, 70, 70, 128, false, false},
                             {B, 1, 4, 2, 300, 300, 128, true, false}, {H, 2, 2, 2, 1, 400, 64, false, false},
                             {B, 1, 2, 2, 260, 100, 128, true, false}, {H, 2, 2, 2, 77, 77, 64, true, true}, {B, 1, 1, 1, 2100, 2100, 128, true, false},
                             {B, 1, 1, 1, 2100, 2300, 128, true, false, 2049}, {B, 1, 43, 43, 260, 64, 64, false, false},
                             {B, 1, 2, 1, 300, 400, 128, true, false, 70}, {H, 1, 1, 1, 290, 290, 64, true, false, 129}, {B, 1, 2, 2, 140, 300, 128, false, false, 0, true},
                             {H, 1, 2, 1, 200, 200, 64, true, false, 0, true},
                             {B, 1, 2, 1, 200, 300, 192, true, false}, {H, 1, 1, 1, 140, 170, 256, false, false}, {B, 1, 1, 1, 300, 100, 256, true, false},
                             {DType::kE4M3, 1, 2, 1, 200, 300, 128, true, false}, {DType::kE4M3, 2, 2, 2, 140, 140, 128, false, true},
                             {B, 2, 2, 1, 300, 300, 64, false, false, 0, false, {1, {300}, {70}, {3}}},
                             {H, 2, 2, 2, 19 * 37, 19 * 37, 128, false, false, 0, false, {2, {19, 37}, {5, 13}, {1, 4}}},
                             {B, 2, 1, 1, 6 * 7 * 18, 6 * 7 * 18, 64, false, false, 0, false, {3, {6, 7, 18}, {3, 4, 5}, {1, 2, 5}}},
                             {B, 1, 2, 1, 300, 400, 128, true, false, 190}, {H, 2, 1, 1, 290, 290, 64, true, false, 30}, {B, 1, 2, 1, 256, 256, 128, false, false, 0, false, {1, {256}, {128}, {128}}},
                             {H, 1, 1, 1, 32 * 40, 32 * 40, 64, false, false, 0, false, {2, {32, 40}, {16, 16}, {8, 16}}}, {B, 1, 3, 1, 16 * 4 * 24, 16 * 4 * 24, 128, false, false, 0, false, {3, {16, 4, 24}, {5, 3, 7}, {1, 1, 1}}},
                             {H, 1, 2, 1, 47 * 40, 47 * 40, 128, false, false, 0, false, {2, {47, 40}, {16, 16}, {1, 1}}}, {B, 2, 1, 1, 22 * 10 * 16, 22 * 10 * 16, 64, false, false, 0, false, {3, {22, 10, 16}, {8, 8, 8}, {1, 1, 1}}},
                             // Narrow windows, several tiles of queries for each CTA, of which some have them for one or two warpgroups only.
                             {B, 1, 60, 60, 440, 440, 64, true, false, 100}, {H, 1, 50, 10, 400, 490, 128, true, false, 170},
                             {B, 1, 50, 50, 500, 500, 64, false, false, 0, false, {1, {500}, {90}, {1}}},
                             // And some whose last round is dealt in parts of 64 queries: tiles of three parts; of three and of two.
                             {B, 1, 50, 10, 560, 600, 128, true, false, 170}, {H, 1, 34, 34, 828, 828, 64, true, false, 200},
                             // Neighbourhoods whose warpgroups have tiles of 160 keys of their own; and several tiles of queries for each CTA, with tiles of its own and without masks.
                             {B, 1, 3, 1, 40 * 40, 40 * 40, 128, false, false, 0, false, {2, {40, 40}, {24, 24}, {2, 2}}}, {H, 1, 2, 1, 14 * 11 * 16, 14 * 11 * 16, 64, false, false, 0, false, {3, {14, 11, 16}, {10, 10, 10}, {1, 1, 1}}},
                             {H, 1, 40, 40, 30 * 26, 30 * 26, 64, false, false, 0, false, {2, {30, 26}, {11, 13}, {1, 1}}}, {B, 1, 80, 80, 16 * 32, 16 * 32, 64, false, false, 0, false, {2, {16, 32}, {8, 16}, {8, 16}}}};
  const DType E = DType::kE4M3;
  for (const Case& c : {Case{E, 1, 2, 1, 150, 200, 64, true, false}, Case{E, 1, 1, 1, 140, 150, 192, false, false}, Case{E, 1, 2, 2, 130, 170, 256, true, false},  // e4m3 of all dimensions
                        Case{E, 1, 2, 1, 300, 400, 128, true, false, 70}, Case{E, 1, 1, 1, 200, 260, 64, true, false, 190}, Case{E, 1, 1, 1, 200, 150, 256, true, false, 33},  // with windows
                        Case{E, 1, 2, 1, 150, 200, 128, true, false, 0, true}, Case{E, 1, 1, 1, 200, 200, 64, true, false, 70, true},                                           // sigmoids
                        Case{B, 1, 2, 1, 150, 200, 192, true, false, 0, true}, Case{H, 1, 1, 1, 140, 170, 256, false, false, 0, true}, Case{B, 1, 2, 1, 300, 400, 128, true, false, 70, true},
                        Case{H, 1, 1, 1, 200, 120, 64, true, false, 130, true}, Case{B, 1, 1, 1, 200, 260, 256, true, false, 70, true},
                        Case{B, 2, 2, 1, 19 * 37, 19 * 37, 64, false, false, 0, true, {2, {19, 37}, {5, 13}, {1, 4}}}, Case{H, 1, 1, 1, 300, 300, 128, false, false, 0, true, {1, {300}, {70}, {3}}},
                        Case{H, 1, 1, 1, 32 * 16, 32 * 16, 64, false, false, 0, true, {2, {32, 16}, {16, 16}, {8, 16}}}, Case{B, 1, 1, 1, 16 * 4 * 24, 16 * 4 * 24, 128, false, false, 0, true, {3, {16, 4, 24}, {5, 3, 7}, {1, 1, 1}}},
                        // Sigmoids: narrow windows and lines with several tiles of queries for each CTA; warpgroups with tiles of 144 and 160 keys of their own; no masks.
                        Case{H, 1, 50, 10, 400, 490, 128, true, false, 170, true}, Case{B, 1, 34, 34, 828, 700, 64, true, false, 200, true}, Case{B, 1, 50, 50, 500, 500, 64, false, false, 0, true, {1, {500}, {90}, {1}}},
                        Case{H, 1, 2, 1, 47 * 40, 47 * 40, 128, false, false, 0, true, {2, {47, 40}, {16, 16}, {1, 1}}}, Case{B, 1, 2, 1, 14 * 11 * 16, 14 * 11 * 16, 64, false, false, 0, true, {3, {14, 11, 16}, {10, 10, 10}, {1, 1, 1}}},
                        Case{B, 1, 80, 80, 16 * 32, 16 * 32, 128, false, false, 0, true, {2, {16, 32}, {8, 16}, {8, 16}}},
                        // Neighbourhoods of wide heads.
                        Case{B, 2, 2, 1, 19 * 37, 19 * 37, 192, false, false, 0, false, {2, {19, 37}, {5, 13}, {1, 4}}}, Case{H, 1, 2, 1, 300, 300, 256, false, false, 0, false, {1, {300}, {70}, {3}}},
                        Case{B, 1, 1, 1, 6 * 7 * 18, 6 * 7 * 18, 256, false, false, 0, false, {3, {6, 7, 18}, {3, 4, 5}, {1, 2, 5}}}, Case{H, 2, 1, 1, 12 * 20, 12 * 20, 192, false, false, 0, true, {2, {12, 20}, {7, 9}, {1, 1}}},
                        Case{H, 1, 40, 40, 30 * 26, 30 * 26, 192, false, false, 0, false, {2, {30, 26}, {11, 13}, {1, 1}}},
                        Case{B, 2, 3, 1, 70, 90, 64, true, false, 0, false, {}, 8}, Case{H, 1, 2, 2, 150, 150, 128, true, false, 40, false, {}, 24}, Case{E, 2, 2, 1, 70, 90, 128, false, false, 0, false, {}, 16},
                        Case{B, 1, 2, 1, 130, 130, 192, false, false, 0, false, {}, 8}})
    cases.push_back(c);
  if (!small)
    for (DType t : {B, H, E})
      for (int64_t dim : {64, 128, 192, 256})
        for (bool sigmoid : {false, true}) {
          for (bool causal : {false, true})
            for (int64_t n : {1, 129, 1000}) cases.push_back({t, 2, 4, 2, n, n + (n > 500 ? 77 : 0), dim, causal, false, 0, sigmoid});
          for (int64_t window : {1, 16, 100, 513, 5000})
            for (int64_t n : {333, 900}) cases.push_back({t, 1, 4, 2, n, n + (n == 333 ? 70 : -200), dim, true, false, window, sigmoid});
          cases.push_back({t, 2, 3, 3, 200, 333, dim, true, false, 50, sigmoid, {}, t == E ? 16 : 8});
        }
  if (!small)
    for (DType t : {B, H})
      for (int64_t dim : {64, 128})
        for (bool causal : {false, true})
          for (const Case& c : {Case{t, 2, 3, 3, 1, 1, dim, causal, false}, Case{t, 2, 4, 2, 333, 333, dim, causal, false},
                                Case{t, 1, 4, 1, 128, 1000, dim, causal, false}, Case{t, 1, 2, 2, 700, 200, dim, causal, false},
                                Case{t, 2, 4, 4, 257, 257, dim, causal, true}, Case{t, 3, 12, 3, 1024, 1024, dim, causal, false},
                                Case{t, 1, 16, 16, 4096, 4096, dim, causal, false}})
            cases.push_back(c);
  if (!small)
    for (DType t : {B, H})
      for (int64_t dim : {64, 128}) {
        for (int64_t window : {1, 33, 64, 200, 350, 512, 1000, 2050, 100000})
          for (int64_t n : {333, 2500}) cases.push_back({t, 1, 4, 2, n, n + 70, dim, true, false, window});
        for (bool causal : {false, true})
          for (int64_t n : {1, 257, 1024, 3000}) cases.push_back({t, 2, 4, 2, n, n, dim, causal, false, 0, true});
        for (int64_t window : {1, 100, 512, 1024}) cases.push_back({t, 2, 24, 8, 1999, 2100, dim, true, false, window});
        cases.push_back({t, 1, 48, 8, 900, 700, dim, true, false, 333});  // some queries see no key
        for (const Neighborhood& n : {Neighborhood{1, {2000}, {512}, {1}}, Neighborhood{1, {1472}, {129}, {63}}, Neighborhood{1, {1999}, {1024}, {7}}})
          cases.push_back({t, 2, 24, 8, n.extent[0], n.extent[0], dim, false, false, 0, false, n});
      }
  if (!small)
    for (DType t : {B, H}) {
      for (int64_t dim : {192, 256})
        for (bool causal : {false, true})
          for (int64_t n : {1, 129, 1000}) cases.push_back({t, 2, 4, 2, n, n + (n > 500 ? 77 : 0), dim, causal, false}), cases.push_back({t, 1, 2, 2, 900, n, dim, true, false, 1 + n / 3});
      for (int64_t dim : {64, 128})
        for (const Neighborhood& n : {Neighborhood{1, {1}, {1}, {1}}, Neighborhood{1, {2000}, {129}, {16}}, Neighborhood{1, {777}, {777}, {1}}, Neighborhood{2, {40, 50}, {13, 13}, {1, 1}},
                                      Neighborhood{2, {33, 64}, {32, 16}, {8, 16}}, Neighborhood{2, {3, 700}, {1, 90}, {1, 1}}, Neighborhood{3, {5, 20, 24}, {5, 7, 9}, {2, 2, 4}},
                                      Neighborhood{3, {16, 16, 16}, {8, 8, 8}, {4, 4, 8}}, Neighborhood{1, {2000}, {512}, {128}}, Neighborhood{2, {64, 40}, {32, 16}, {8, 16}}, Neighborhood{2, {64, 64}, {24, 9}, {1, 1}},
                                      Neighborhood{3, {12, 24, 16}, {8, 16, 8}, {4, 8, 8}}, Neighborhood{2, {70, 61}, {16, 16}, {1, 1}}, Neighborhood{3, {30, 16, 24}, {6, 6, 6}, {1, 1, 1}},
                                      Neighborhood{2, {90, 77}, {32, 32}, {1, 1}}, Neighborhood{2, {61, 90}, {23, 40}, {3, 1}}, Neighborhood{3, {20, 14, 30}, {10, 9, 10}, {1, 3, 1}}, Neighborhood{2, {64, 61}, {36, 28}, {2, 4}}}) {
          int64_t places = 1;
          for (int axis = 0; axis < n.rank; axis++) places *= n.extent[axis];
          for (bool sigmoid : {false, true}) cases.push_back({t, 2, 4, 2, places, places, dim, false, false, 0, sigmoid, n});
        }
      for (int64_t dim : {192, 256})
        for (const Neighborhood& n : {Neighborhood{1, {1}, {1}, {1}}, Neighborhood{1, {999}, {512}, {128}}, Neighborhood{2, {40, 50}, {13, 13}, {1, 1}}, Neighborhood{2, {33, 64}, {32, 16}, {8, 16}},
                                      Neighborhood{2, {3, 300}, {1, 90}, {1, 1}}, Neighborhood{3, {5, 20, 24}, {5, 7, 9}, {2, 2, 4}}, Neighborhood{3, {16, 8, 16}, {8, 8, 8}, {4, 4, 8}}}) {
          int64_t places = 1;
          for (int axis = 0; axis < n.rank; axis++) places *= n.extent[axis];
          for (bool sigmoid : {false, true}) cases.push_back({t, 2, 4, 2, places, places, dim, false, false, 0, sigmoid, n});
        }
    }
  if (!small)
    for (bool causal : {false, true})
      for (int64_t n : {1, 128, 333, 2000}) cases.push_back({DType::kE4M3, 2, 4, 2, n, n + (n > 300 ? 100 : 0), 128, causal, false});
  if (!all) std::erase_if(cases, [&](const Case& c) { return only == "near" ? c.near.rank == 0 || c.dim < 192 : only != "sigmoid" || !c.sigmoid; });
  for (const Case& c : cases) run(c);
  if (only == "sigmoid" || only == "near") return std::printf("PASS attention, %s: %zu cases\n", only.c_str(), cases.size()), 0;
  for (DType t : {B, H})
    for (bool causal : {false, true}) {
      if (small && (t == H) != causal) continue;
      run_lengths(t, 4, 2, causal ? 128 : 64, causal, {{130, 130}, {0, 40}, {1, 300}, {128, 128}, {17, 0}, {60, 161}, {200, 33}});
      if (!small) run_lengths(t, 3, 1, causal ? 64 : 128, causal, {{1000, 1000}, {3, 2000}, {513, 700}, {777, 777}, {0, 0}, {1, 1}, {64, 64}});
    }
  // All dimensions; windows, of which some are longer than sequences, and sigmoids.
  const std::vector<std::pair<int, int>> few = {{70, 130}, {0, 40}, {128, 128}, {200, 60}, {1, 9}}, many = {{1000, 1000}, {3, 900}, {513, 700}, {0, 0}, {777, 77}, {1, 1}, {64, 640}};
  run_lengths(B, 2, 1, 192, true, few), run_lengths(H, 2, 2, 256, false, few), run_lengths(B, 2, 1, 128, true, few, 50), run_lengths(H, 1, 1, 64, true, few, 129), run_lengths(B, 1, 1, 256, true, few, 33);
  run_lengths(B, 2, 1, 64, true, few, 0, true), run_lengths(H, 1, 1, 128, false, few, 0, true), run_lengths(B, 1, 1, 192, true, few, 40, true);
  run_lengths(E, 2, 1, 128, true, {{70, 130}, {0, 40}, {0, 0}, {17, 0}, {128, 128}, {200, 60}, {1, 9}}), run_lengths(E, 2, 2, 64, true, few, 50), run_lengths(E, 1, 1, 192, false, few, 0, true), run_lengths(E, 1, 1, 256, true, few, 129);
  run_lengths(E, 3, 1, 64, true, {{1, 9}, {20, 120}}, 5);  // the last tile ends more than 64 keys behind the last key
  if (!small)
    for (DType t : {B, H, E})
      for (int64_t dim : {64, 128, 192, 256})
        for (bool sigmoid : {false, true}) {
          for (bool causal : {false, true}) run_lengths(t, 4, 2, dim, causal, many, 0, sigmoid);
          for (int64_t window : {1, 128, 300, 2000}) run_lengths(t, 3, 1, dim, true, many, window, sigmoid);
        }
  if (only == "lengths") return 0;
  std::printf("PASS attention: %zu cases\n", cases.size());
}
