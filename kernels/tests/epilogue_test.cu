// What a product may have fused, against float64: beta C (also in place), every scale and bias alone and all of them at once, every activation; D and C by rows, by
// columns and with gaps on both axes; operands with a large spread of exponents, with strides that no tensor map takes, and none at all (k = 0).
// Bounds: of the sum as in gemm_reference.h; then one rounding of f32 for each step of the epilogue, what activations are off by (check.h), and one rounding to D.
#include <algorithm>

#include "gemm_reference.h"

using namespace orrery::kernels;
using check::Random;

namespace {

bool g_small = false;

enum : unsigned { kC = 1, kScaleA = 2, kScaleB = 4, kRowScale = 8, kColScale = 16, kRowBias = 32, kColBias = 64, kAll = 127, kInPlace = 128 };
enum class Layout { kRows, kColumns, kGaps };
const char* const kLayouts[] = {"rows", "columns", "gaps"};

struct Fused {
  unsigned parts;
  Activation activation;
  Layout layout;
};

std::vector<float> factors(Random& random, int64_t n) {
  std::vector<float> v(n);
  for (float& x : v) x = float((1 + random.unit()) * (random.below(2) ? 1 : -1));
  return v;
}

/// The product of one case: sums in float64 and their bounds, found once for all epilogues.
struct Product {
  Case c;
  Operand a, b;
  Reference sums;
};

Product make_product(Case c, int spread) {
  Random random(c.m * 31 + c.n * 17 + c.k + int(c.in_a) + 5);
  Product p{c, make_operand(random, c.in_a, c.m, c.k, c.a_trans, c.pad, spread), make_operand(random, c.in_b, c.k, c.n, c.b_trans, c.pad, spread), {}};
  c.out = DType::kF32;
  p.sums = reference(c, p.a, p.b, {}, {}, 1);
  return p;
}

int run(const Product& p, const Fused& f, int most_configs) {
  const Case& c = p.c;
  Random random(c.m + c.n + f.parts);
  const auto scale_a = factors(random, 1), scale_b = factors(random, 1), row_scale = factors(random, c.m), col_scale = factors(random, c.n), row_bias = factors(random, c.m), col_bias = factors(random, c.n);
  const check::Buffer d_scale_a(scale_a), d_scale_b(scale_b), d_row_scale(row_scale), d_col_scale(col_scale), d_row_bias(row_bias), d_col_bias(col_bias), a(p.a.host), b(p.b.host);
  const int64_t inner = f.layout == Layout::kGaps ? 2 : 1, outer = inner * ((f.layout == Layout::kColumns ? c.m : c.n) + 6);
  const int64_t rs = f.layout == Layout::kColumns ? inner : outer, cs = f.layout == Layout::kColumns ? outer : inner;
  const int size = size_of(c.out);
  std::vector<unsigned char> old(((c.m - 1) * rs + (c.n - 1) * cs + 1) * size, 0xFF);
  for (int64_t i = 0; i < c.m; i++)
    for (int64_t j = 0; j < c.n; j++) check::from_double(old.data(), i * rs + j * cs, c.out, random.spread(4));
  const check::Buffer before(old);
  check::Buffer d(old.size());
  GemmArgs g;
  g.m = c.m, g.n = c.n, g.k = c.k;
  g.a = {a.data(), c.in_a, p.a.row_stride, p.a.col_stride}, g.b = {b.data(), c.in_b, p.b.row_stride, p.b.col_stride}, g.d = {d.data(), c.out, rs, cs};
  g.alpha = c.in_a == DType::kI8 ? 1.f / 512 : 0.75f;  // numbers of int8 are 15 times as large
  if (f.parts & kC) g.beta = -1.5f, g.c = {f.parts & kInPlace ? d.data() : before.data(), c.out, rs, cs};
  if (f.parts & kScaleA) g.scale_a = d_scale_a.as<float>();
  if (f.parts & kScaleB) g.scale_b = d_scale_b.as<float>();
  if (f.parts & kRowScale) g.row_scale = d_row_scale.as<float>();
  if (f.parts & kColScale) g.col_scale = d_col_scale.as<float>();
  if (f.parts & kRowBias) g.row_bias = d_row_bias.as<float>();
  if (f.parts & kColBias) g.col_bias = d_col_bias.as<float>();
  g.activation = f.activation, g.promote = c.promote;
  check::Buffer workspace(std::vector<unsigned char>(gemm_workspace(), 0));
  g.workspace = workspace.data(), g.workspace_bytes = gemm_workspace();
  std::vector<double> want(p.sums.want.size()), bound(want.size());
  for (size_t s = 0; s < p.sums.want.size(); s++) {
    const int64_t i = p.sums.rows[s], j = p.sums.cols[s];
    double scale = g.alpha, add = 0, loose = 0;
    if (f.parts & kScaleA) scale *= scale_a[0];
    if (f.parts & kScaleB) scale *= scale_b[0];
    if (f.parts & kRowScale) scale *= row_scale[i];
    if (f.parts & kColScale) scale *= col_scale[j];
    const auto plus = [&](double x) { add += x, loose += std::fabs(x); };
    if (f.parts & kC) plus(g.beta * check::to_double(old.data(), i * rs + j * cs, c.out));
    if (f.parts & kRowBias) plus(row_bias[i]);
    if (f.parts & kColBias) plus(col_bias[j]);
    const double v = p.sums.want[s] * scale + add;
    const double error = (p.sums.bound[s] + 6 * 0x1p-24 * std::fabs(p.sums.want[s])) * std::fabs(scale) + 4 * 0x1p-24 * (loose + std::fabs(v));
    const double result = check::activated(v, f.activation), off = check::activation_error(v, error, f.activation);
    want[s] = result, bound[s] = off + check::rounding(c.out, std::fabs(result) + off);
  }
  std::vector<GemmConfig> configs(4096);
  configs.resize(std::min(4096, gemm_candidates(g, configs.data(), 4096)));
  GemmConfig simple;
  simple.schedule = GemmConfig::Schedule::kSimple;
  configs.insert(configs.begin(), {gemm_choose(g), simple});
  const int step = std::max(1, int(configs.size()) / most_configs);
  int done = 0;
  for (size_t x = 0; x < configs.size(); x += x < 2 ? 1 : step, done++) {
    g.config = configs[x], g.overlap = x % 2;
    const std::string what = describe(c, g.config) + ", fused " + std::to_string(f.parts) + " activation " + std::to_string(int(f.activation)) + " D by " + kLayouts[int(f.layout)];
    d.poison();
    if (f.parts & kInPlace) CUDA_OK(cudaMemcpy(d.data(), old.data(), old.size(), cudaMemcpyHostToDevice));
    if (Status s = gemm(g, nullptr); !s.ok()) check::fail("%s: %s %s", what.c_str(), s.argument ? s.argument : "", s.reason);
    if (cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) check::fail("%s: %s", what.c_str(), cudaGetErrorString(e));
    const auto got = d.host<unsigned char>();
    check::Results::all().add(what, got);
    std::vector<bool> element(got.size() / size);
    for (int64_t i = 0; i < c.m; i++)
      for (int64_t j = 0; j < c.n; j++) element[i * rs + j * cs] = true;
    for (size_t x = 0; x < want.size(); x++)  // all of them, or samples of large products
      check::expect_near(check::to_double(got.data(), p.sums.rows[x] * rs + p.sums.cols[x] * cs, c.out), want[x], bound[x], what.c_str(), p.sums.rows[x], p.sums.cols[x]);
    for (size_t i = 0; i < got.size(); i++)
      if (!element[i / size] && got[i] != 0xFF) check::fail("%s: wrote between elements", what.c_str());
    d.check_guards(what.c_str());
  }
  return done;
}

void group(const char* name, const Case& c, int spread, int most) {
  const Product p = make_product(c, spread);
  int done = 0, count = 0;
  const auto one = [&](unsigned parts, Activation activation, Layout layout) { done += run(p, {parts, activation, layout}, most), count++; };
  for (unsigned part : {kC, kScaleA, kScaleB, kRowScale, kColScale, kRowBias, kColBias}) one(part, Activation::kNone, Layout::kRows);
  one(kC | kInPlace, Activation::kNone, Layout::kRows), one(kAll | kInPlace, Activation::kSilu, Layout::kColumns);
  for (Activation activation : {Activation::kRelu, Activation::kGelu, Activation::kSilu}) one(kAll, activation, Layout::kRows), one(0, activation, Layout::kRows);
  for (Layout layout : {Layout::kColumns, Layout::kGaps}) one(0, Activation::kNone, layout), one(kAll, Activation::kGelu, layout), one(kC, Activation::kNone, layout);
  std::printf("ok %s: %d epilogues, %d runs\n", name, count, done);
  std::fflush(stdout);
}

/// Operands whose elements lie anywhere: gaps on both axes, one line for all, addresses of any alignment. And sums of no terms.
void strides() {
  const DType kinds[] = {DType::kBF16, DType::kF16, DType::kF32, DType::kE4M3, DType::kE5M2, DType::kI8};
  const int64_t m = 37, n = 29, k = g_small ? 50 : 700;
  int done = 0;
  for (DType t : kinds)
    for (const auto& [rs, cs] : {std::pair<int64_t, int64_t>{3 * k + 1, 3}, {2, 2 * m + 1}, {0, 1}, {1, 0}, {k, 1}, {k + 1, 1}}) {
      Random random(int(t) + rs);
      const int size = size_of(t);
      Case c{t, t, DType::kF32, false, false, m, n, k};
      Operand a{std::vector<unsigned char>(((m - 1) * rs + (k - 1) * cs + 1) * size, 0xFF), t, rs, cs}, b = make_operand(random, t, k, n, true, 5);
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < k; j++) check::from_double(a.host.data(), i * rs + j * cs, t, random.spread(3));
      const Reference r = reference(c, a, b, {}, {}, 1);
      const check::Buffer da(a.host, size), db(b.host, 2 * size);
      check::Buffer d(m * n * 4);
      GemmArgs g;
      g.m = m, g.n = n, g.k = k;
      g.a = {da.data(), t, rs, cs}, g.b = {db.data(), t, b.row_stride, b.col_stride}, g.d = {d.data(), DType::kF32, n, 1};
      STATUS_OK(gemm(g, nullptr));
      const auto got = d.host<float>();
      for (size_t s = 0; s < r.want.size(); s++)
        check::expect_near(got[r.rows[s] * n + r.cols[s]], r.want[s], r.bound[s] + (t == DType::kI8 ? -1e-7 : 0), "strides", r.rows[s], r.cols[s]);
      d.check_guards("strides");
      done++;
    }
  check::Buffer d(m * n * 4), bias(std::vector<float>(n, 3.f));
  GemmArgs g;
  g.m = m, g.n = n, g.d = {d.data(), DType::kF32, n, 1}, g.a.dtype = g.b.dtype = DType::kF16, g.col_bias = bias.as<float>(), g.activation = Activation::kRelu;
  STATUS_OK(gemm(g, nullptr));
  for (float x : d.host<float>())
    if (x != 3.f) check::fail("a product of no terms and a bias of 3 is %g", x);
  std::printf("ok strides: %d products\n", done);
}

}  // namespace

int main(int argc, char** argv) {
  g_small = check::small_mode(argc, argv);
  const auto B = DType::kBF16, H = DType::kF16, F = DType::kF32, E4 = DType::kE4M3, E5 = DType::kE5M2, I = DType::kI8;
  strides();
  const int most = g_small ? 1 : 24;
  const int64_t m = g_small ? 70 : 300, n = g_small ? 72 : 264, k = g_small ? 136 : 520;
  group("bf16, exponents of 12", {B, B, B, false, true, m, n, k}, 12, most);
  group("f32 by tf32, exponents of 12", {F, F, F, false, true, m, n, k}, 12, most);
  group("e4m3", {E4, E4, B, false, true, m, n, k}, 3, most);
  group("int8", {I, I, F, false, true, m, n, k}, 3, most);
  if (!g_small) {
    group("f16, exponents of 6", {H, H, F, false, true, m, n, k}, 6, most);
    group("bf16, N-major", {B, B, B, false, false, m, n, k}, 3, most);
    group("bf16, M-major", {B, B, F, true, false, m, n, k}, 3, most);
    group("e4m3 promoted", {E4, E4, H, false, true, m, n, k, true}, 3, most);
    group("e5m2 by e4m3", {E5, E4, B, false, true, m, n, k}, 3, most);
    group("bf16, few rows", {B, B, B, false, true, 13, 328, 2064}, 3, most);
    group("e4m3, few rows", {E4, E4, B, false, true, 13, 328, 2064}, 3, most);
    group("int8, few rows", {I, I, B, false, true, 13, 328, 2064}, 3, most);
    group("bf16, few tiles of deep K", {B, B, B, false, true, 100, 152, 4104}, 3, most);
  }
  std::printf("PASS epilogues\n");
}
