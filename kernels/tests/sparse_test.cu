// sparsify and gemm_sparse against float64: which elements are kept, odd sizes, padded rows, bias and activation, refusals.
//
// Bound: products of f16 or bf16 values are exact and each tensor-core step truncates at 2^-24 of its largest term, so a sum
// is within (k / 16) 2^-22 of its terms' magnitudes; then one rounding.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t;
  int64_t m, n, k, pad;
  bool bias;
  Activation activation;
};

/// The two of largest magnitude of every four, of equal ones the first; zeros for the others.
std::vector<double> kept(const std::vector<unsigned char>& w, DType t, int64_t count) {
  std::vector<double> out(count, 0.0);
  for (int64_t g = 0; g < count; g += 4)
    for (int turn = 0; turn < 2; turn++) {
      int64_t best = -1;
      for (int64_t i = g; i < g + 4; i++)
        if (out[i] == 0 && (best < 0 || std::fabs(check::to_double(w.data(), i, t)) > std::fabs(check::to_double(w.data(), best, t)))) best = i;
      out[best] = check::to_double(w.data(), best, t);
    }
  return out;
}

void run(const Case& c) {
  check::Random random(c.m + 3 * c.n + 5 * c.k);
  const int64_t a_pitch = c.k + c.pad, d_pitch = c.n + c.pad;
  std::vector<unsigned char> a(c.m * a_pitch * 2), w(c.n * c.k * 2);
  for (int64_t i = 0; i < c.m * a_pitch; i++) check::from_double(a.data(), i, c.t, i % a_pitch < c.k ? random.spread(4) : NAN);
  for (int64_t i = 0; i < c.n * c.k; i++) check::from_double(w.data(), i, c.t, random.below(5) ? random.spread(3) : random.below(2) ? 0.25 : -0.25);
  std::vector<float> bias(c.n);
  for (float& x : bias) x = float(random.symmetric());
  const Buffer da(a), dw(w), d_bias(bias);
  Buffer values(c.n * c.k), codes(sparse_codes_bytes(c.n, c.k)), d(c.m * d_pitch * 2);
  STATUS_OK(sparsify(values.data(), codes.data(), dw.data(), c.t, c.n, c.k, c.k, nullptr));
  SparseGemmArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k, g.a = {da.data(), c.t, a_pitch, 1}, g.values = values.data(), g.codes = codes.data(), g.d = {d.data(), c.t, d_pitch, 1};
  g.alpha = 0.75f, g.col_bias = c.bias ? d_bias.as<float>() : nullptr, g.activation = c.activation;
  STATUS_OK(gemm_sparse(g, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const std::vector<double> dense = kept(w, c.t, c.n * c.k);
  const auto got = d.host<unsigned char>();
  char what[100];
  std::snprintf(what, sizeof what, "sparse type %d %lldx%lldx%lld", int(c.t), (long long)c.m, (long long)c.n, (long long)c.k);
  if (c.activation != Activation::kNone) std::snprintf(what + std::strlen(what), sizeof what - std::strlen(what), " activation %d", int(c.activation));
  check::Results::all().add(what, got);
  check::parallel(c.m, [&](int64_t i) {
    for (int64_t j = 0; j < d_pitch; j++) {
      if (j >= c.n) {
        if (got[(i * d_pitch + j) * 2] != 0xFF) check::fail("%s: wrote between rows", what);
        continue;
      }
      double sum = 0, mass = 0;
      for (int64_t e = 0; e < c.k; e++) {
        if (dense[j * c.k + e] == 0) continue;
        const double t = check::to_double(a.data(), i * a_pitch + e, c.t) * dense[j * c.k + e];
        sum += t, mass += std::fabs(t);
      }
      double want = sum * 0.75 + (c.bias ? bias[j] : 0), bound = 0.75 * mass * double(c.k) / 16 * 0x1p-22 + 1e-6 * (1 + std::fabs(want));
      bound = check::activation_error(want, bound, c.activation), want = check::activated(want, c.activation);
      check::expect_near(check::to_double(got.data(), i * d_pitch + j, c.t), want, bound + check::rounding(c.t, std::fabs(want) + bound), what, i, j);
    }
  });
  for (const Buffer* x : {&values, &codes, &d}) x->check_guards(what);
}

void refusals() {
  Buffer x(1 << 16), v(1 << 16), c(1 << 16), d(1 << 16);
  SparseGemmArgs g;
  g.m = 16, g.n = 64, g.k = 64, g.a = {x.data(), DType::kF16, 64, 1}, g.values = v.data(), g.codes = c.data(), g.d = {d.data(), DType::kF16, 64, 1};
  auto with = [&](auto change) { SparseGemmArgs h = g; change(h); return gemm_sparse(h, nullptr); };
  NAMES(with([](SparseGemmArgs& h) { h.k = 40; }), "k");
  NAMES(with([](SparseGemmArgs& h) { h.n = 60; }), "n");
  NAMES(with([](SparseGemmArgs& h) { h.m = -1; }), "m");
  NAMES(with([](SparseGemmArgs& h) { h.values = nullptr; }), "values");
  NAMES(with([](SparseGemmArgs& h) { h.codes = nullptr; }), "codes");
  NAMES(with([](SparseGemmArgs& h) { h.a.dtype = DType::kF32; }), "a.dtype");
  NAMES(with([](SparseGemmArgs& h) { h.a.row_stride = 60; }), "a strides");
  NAMES(with([](SparseGemmArgs& h) { h.d.data = const_cast<void*>(h.a.data); }), "d.data");
  NAMES(with([](SparseGemmArgs& h) { h.d.dtype = DType::kF32; }), "d.dtype");
  NAMES(sparsify(v.data(), c.data(), x.data(), DType::kF16, 4, 24, 24, nullptr), "cols");
  NAMES(sparsify(v.data(), nullptr, x.data(), DType::kF16, 4, 32, 32, nullptr), "codes");
  NAMES(sparsify(v.data(), c.data(), x.data(), DType::kF32, 4, 32, 32, nullptr), "dtype");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  const DType B = DType::kBF16, H = DType::kF16;
  std::vector<Case> cases = {{H, 5, 24, 48, 0, false, Activation::kNone}, {B, 130, 280, 144, 8, true, Activation::kRelu}, {H, 70, 520, 400, 0, true, Activation::kNone}};
  for (DType t : {B, H}) {
    cases.push_back({t, 40, 72, 80, 8, true, Activation::kSilu}), cases.push_back({t, 40, 72, 96, 0, true, Activation::kGelu});
  }
  if (!small)
    for (DType t : {B, H})
      for (const auto& [m, n, k] : {std::tuple{1, 8, 16}, {128, 256, 128}, {300, 1000, 1040}, {2000, 768, 512}, {64, 4096, 2048}})
        cases.push_back({t, m, n, k, 16, true, Activation::kRelu}), cases.push_back({t, m, n, k, 0, false, Activation::kNone});
  for (const Case& c : cases) run(c);
  std::printf("PASS sparse: %zu cases\n", cases.size());
}
