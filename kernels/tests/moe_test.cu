// moe against float64: sizes that fill no tile, experts without rows, with one and with most of them, rows of no expert, tokens without rows, with and without a
// gate, every activation and type of out, strides and alignments of all kinds, both kinds of tiles; each twice from one workspace, and once more from one that calls of all other
// sizes have used: the same bits, and the workspace's counters left at zero.
//
// Bounds: products of f16 or bf16 values are exact and each tensor-core step truncates at 2^-24 of its largest term, so a sum is within (k / 8) 2^-23 of its terms'
// magnitudes. What that does to the activation, one rounding of what is between the products, its part in the second product, one rounding of y, and one of out.
#include <algorithm>
#include <numeric>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Case {
  DType t, out;
  std::vector<int32_t> ends;
  int64_t rows, tokens, hidden, inner, top_k;
  Activation activation = Activation::kSilu;
  bool gated = true, weighted = true;
  int64_t pad = 0;        // elements more from row to row of everything that has a stride, of out one more than that
  int64_t out_offset = 0; // bytes
  int spread = 3;
};

int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

/// rows x cols elements in rows of `pitch`, not-a-number between them.
std::vector<unsigned char> random_matrix(check::Random& random, DType t, int64_t rows, int64_t cols, int64_t pitch, int spread, double scale) {
  std::vector<unsigned char> v(size_t(rows * pitch * 2), 0xFF);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++) check::from_double(v.data(), i * pitch + j, t, random.spread(spread) * scale);
  return v;
}

/// A value and what it may be off by.
struct Near {
  double value = 0, error = 0;
};

Near product(const std::vector<double>& a, int64_t a0, const std::vector<double>& b, int64_t b0, int64_t k) {
  double sum = 0, mass = 0;
  for (int64_t i = 0; i < k; i++) {
    const double v = a[a0 + i] * b[b0 + i];
    sum += v, mass += std::fabs(v);
  }
  return {sum, mass * double(k / 8 + 6) * 0x1p-23};
}

Near rounded(const Near& v, DType t) { return {v.value, v.error + check::rounding(t, std::fabs(v.value) + v.error)}; }

std::vector<double> doubles(const std::vector<unsigned char>& v, DType t) {
  std::vector<double> out(v.size() / 2);
  for (size_t i = 0; i < out.size(); i++) out[i] = check::to_double(v.data(), int64_t(i), t);
  return out;
}

struct Problem {
  Case c;
  int64_t groups, x_pitch, w1_pitch, w2_pitch, out_pitch, w1_rows;
  std::vector<unsigned char> x, w1, w2;
  std::vector<int32_t> token_rows;
  std::vector<float> weights;

  explicit Problem(const Case& of) : c(of), groups(int64_t(of.ends.size())) {
    check::Random random(c.hidden * 3 + c.inner * 5 + c.rows + c.top_k);
    x_pitch = w1_pitch = round_up(c.hidden, 8) + c.pad, w2_pitch = round_up(c.inner, 8) + c.pad, out_pitch = c.hidden + (c.pad ? c.pad + 1 : 0);
    w1_rows = groups * c.inner * (c.gated ? 2 : 1);
    x = random_matrix(random, c.t, c.rows, c.hidden, x_pitch, c.spread, 1);
    w1 = random_matrix(random, c.t, w1_rows, c.hidden, w1_pitch, c.spread, 1 / std::sqrt(double(c.hidden)));
    w2 = random_matrix(random, c.t, groups * c.hidden, c.inner, w2_pitch, c.spread, 1 / std::sqrt(double(c.inner)));
    // Rows, those of no expert too, are dealt to tokens at random; places that are left name no row, each in another way.
    const int64_t places = c.tokens * c.top_k;
    token_rows.resize(places), weights.resize(places);
    std::iota(token_rows.begin(), token_rows.end(), 0);
    const int32_t nowhere[] = {-1, int32_t(c.rows), INT32_MAX, INT32_MIN};
    for (int64_t i = c.rows; i < places; i++) token_rows[i] = nowhere[i % 4];
    for (int64_t i = places - 1; i > 0; i--) std::swap(token_rows[i], token_rows[random.below(i + 1)]);
    for (float& w : weights) w = float(random.spread(2));
  }

  /// y in float64, and what it may be off by; rows of no expert are empty.
  std::vector<std::vector<Near>> all_rows() const {
    const std::vector<double> xs = doubles(x, c.t), ones = doubles(w1, c.t), twos = doubles(w2, c.t);
    std::vector<std::vector<Near>> y(c.rows);
    check::parallel(c.rows, [&](int64_t i) {
      int64_t g = 0;
      while (g < groups && i >= c.ends[g]) g++;
      if (g == groups) return;
      std::vector<Near> h(c.inner);
      std::vector<double> values(c.inner);
      for (int64_t j = 0; j < c.inner; j++) {
        const int64_t first = g * c.inner * (c.gated ? 2 : 1) + j;
        const Near a = product(xs, i * x_pitch, ones, first * w1_pitch, c.hidden);
        Near v{check::activated(a.value, c.activation), check::activation_error(a.value, a.error, c.activation)};
        if (c.gated) {
          const Near b = product(xs, i * x_pitch, ones, (first + c.inner) * w1_pitch, c.hidden);
          v = {v.value * b.value, v.error * (std::fabs(b.value) + b.error) + std::fabs(v.value) * b.error + std::fabs(v.value * b.value) * 0x1p-22};
        }
        h[j] = rounded(v, c.t), values[j] = v.value;
      }
      y[i].resize(c.hidden);
      for (int64_t j = 0; j < c.hidden; j++) {
        Near v = product(values, 0, twos, (g * c.hidden + j) * w2_pitch, c.inner);
        for (int64_t k = 0; k < c.inner; k++) v.error += h[k].error * std::fabs(twos[(g * c.hidden + j) * w2_pitch + k]);
        y[i][j] = rounded(v, c.t);
      }
    });
    return y;
  }

  void compare(const std::vector<unsigned char>& got, const char* what) const {
    const auto y = all_rows();
    check::parallel(c.tokens, [&](int64_t token) {
      for (int64_t j = 0; j < c.hidden; j++) {
        Near sum;
        double mass = 0;
        for (int64_t s = 0; s < c.top_k; s++) {
          const int32_t row = token_rows[token * c.top_k + s];
          if (row < 0 || row >= c.rows || y[row].empty()) continue;
          const double w = c.weighted ? weights[token * c.top_k + s] : 1;
          sum.value += w * y[row][j].value, sum.error += std::fabs(w) * y[row][j].error, mass += std::fabs(w * y[row][j].value);
        }
        sum.error += mass * double(c.top_k) * 0x1p-23;
        check::expect_near(check::to_double(got.data(), token * out_pitch + j, c.out), sum.value, rounded(sum, c.out).error, what, token, j);
      }
      const int size = size_of(c.out);
      for (int64_t b = (token * out_pitch + c.hidden) * size; b < (token + 1) * out_pitch * size && b < int64_t(got.size()); b++)
        if (got[b] != 0xFF) check::fail("%s: wrote between rows of out, token %lld", what, (long long)token);
    });
  }
};

constexpr size_t kCounters = 1 << 20;

void run(const Case& c, const Buffer& shared, GemmConfig::Schedule schedule) {
  const Problem problem(c);
  char what[200];
  std::snprintf(what, sizeof what, "moe types %d %d, %lld tokens of %lld in %lld rows of %lld experts, inner %lld, activation %d, gate %d, spread %d, schedule %d", int(c.t), int(c.out), (long long)c.tokens, (long long)c.hidden,
                (long long)c.rows, (long long)problem.groups, (long long)c.inner, int(c.activation), int(c.gated), c.spread, int(schedule));
  const Buffer x(problem.x), w1(problem.w1), w2(problem.w2), ends(c.ends), token_rows(problem.token_rows), weights(problem.weights);
  Buffer out(size_t(((c.tokens - 1) * problem.out_pitch + c.hidden) * size_of(c.out)), size_t(c.out_offset));
  MoeArgs a;
  a.tokens = c.tokens, a.rows = c.rows, a.hidden = c.hidden, a.inner = c.inner, a.groups = int(problem.groups), a.top_k = c.top_k;
  a.group_ends = ends.as<int32_t>(), a.x = {x.data(), c.t, problem.x_pitch, 1}, a.w1 = w1.data(), a.w1_stride = problem.w1_pitch, a.w2 = w2.data(), a.w2_stride = problem.w2_pitch;
  a.activation = c.activation, a.gated = c.gated, a.token_rows = token_rows.as<int32_t>(), a.token_weights = c.weighted ? weights.as<float>() : nullptr;
  a.out = {out.data(), c.out, problem.out_pitch, 1}, a.config.schedule = schedule;
  const Buffer own(moe_workspace(a));
  if (own.bytes() < kCounters || own.bytes() > shared.bytes()) check::fail("%s: a workspace of %zu bytes", what, own.bytes());
  CUDA_OK(cudaMemset(own.data(), 0, kCounters));
  std::vector<unsigned char> first;
  for (const Buffer* workspace : {&own, &own, &shared}) {
    out.poison();
    a.workspace = workspace->data();
    STATUS_OK(moe(a, nullptr));
    CUDA_OK(cudaDeviceSynchronize());
    const auto got = out.host<unsigned char>();
    if (first.empty()) {
      check::Results::all().add(what, first = got);
      problem.compare(got, what);
    } else if (got != first) {
      check::fail("%s: other bits the second time", what);
    }
  }
  out.check_guards(what), own.check_guards(what);
  std::vector<unsigned char> counters(kCounters);
  CUDA_OK(cudaMemcpy(counters.data(), own.data(), kCounters, cudaMemcpyDeviceToHost));
  if (std::count(counters.begin(), counters.end(), 0) != int64_t(kCounters)) check::fail("%s: counters are not zero afterwards", what);
}

/// Without any rows, groups or tokens: zeros, or nothing.
void nothing(const Buffer& shared) {
  for (const bool no_groups : {false, true}) {
    Buffer out(5 * 40 * 2);
    const Buffer token_rows(std::vector<int32_t>(10, 0));
    MoeArgs a;
    a.tokens = 5, a.rows = no_groups ? 7 : 0, a.hidden = 40, a.inner = 24, a.groups = no_groups ? 0 : 3, a.top_k = 2, a.token_rows = token_rows.as<int32_t>();
    a.out = {out.data(), DType::kBF16, 40, 1}, a.workspace = shared.data();
    STATUS_OK(moe(a, nullptr));
    for (unsigned char b : out.host<unsigned char>())
      if (b) check::fail("moe without rows: not zero");
    out.check_guards("moe without rows");
    out.poison();
    a.config.schedule = GemmConfig::Schedule::kSplit;
    NAMES(moe(a, nullptr), "config");
    a.tokens = 0;
    STATUS_OK(moe(a, nullptr));
    for (unsigned char b : out.host<unsigned char>())
      if (b != 0xFF) check::fail("moe without tokens: wrote");
  }
}

/// The ends of groups of these sizes.
std::vector<int32_t> ends(std::initializer_list<int32_t> sizes) {
  std::vector<int32_t> v(sizes);
  std::partial_sum(v.begin(), v.end(), v.begin());
  return v;
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  const DType B = DType::kBF16, H = DType::kF16, F = DType::kF32;
  const auto kSilu = Activation::kSilu, kGelu = Activation::kGelu, kRelu = Activation::kRelu, kNone = Activation::kNone;
  std::vector<Case> cases = {
      {B, B, ends({3, 0, 1, 9}), 13, 7, 72, 40, 2},                                  // few rows of each
      {H, H, ends({0, 0, 70, 1, 0}), 71, 36, 136, 72, 2, kGelu},                     // more than one copy of rows, and a single row
      {B, F, ends({140, 2}), 150, 40, 64, 136, 4, kSilu, true, true, 8},             // two tiles of rows, rows of no expert, tiles of both widths in part
      {H, F, ends({1}), 1, 1, 8, 8, 1, kSilu, true, false},
      {B, B, ends({0, 0}), 9, 3, 40, 24, 3},                                         // nobody was routed
      {B, H, ends({20, 21, 0, 23}), 64, 80, 203, 131, 1, kRelu, false, true, 0, 2},  // nothing is a multiple of eight
      {H, B, ends({5, 33}), 40, 9, 264, 300, 8, kNone, false, true, 16, 2},
      {B, B, ends({17, 0, 66}), 83, 12, 328, 200, 9, kSilu, true, true, 8, 0, 8},    // large exponents, more than eight rows a token
  };
  if (!small) {
    for (DType t : {B, H})
      for (bool gated : {true, false})
        for (Activation f : {kNone, kRelu, kGelu, kSilu}) cases.push_back({t, t == B ? H : F, ends({100, 0, 300, 1, 64, 128, 129, 5}), 740, 200, 520, 392, 4, f, gated});
    for (int64_t hidden : {8, 16, 120, 255, 256, 257, 1024})
      for (int64_t inner : {8, 127, 128, 129, 256, 384, 1000}) cases.push_back({B, B, ends({31, 0, 64, 65, 200}), 361, 180, hidden, inner, 2});
    for (int64_t top_k : {1, 7, 16, 17, 32}) cases.push_back({B, F, ends({256, 256, 1, 0, 511}), 1024, 1024 / top_k + 1, 512, 256, top_k, kSilu, true, true, 8, 4});
    std::vector<int32_t> many(200);  // experts of 0 to 12 rows
    for (int i = 0; i < 200; i++) many[i] = (i ? many[i - 1] : 0) + i * 7 % 13;
    cases.push_back({B, B, many, many.back(), many.back() / 8 + 1, 256, 192, 8});
    cases.push_back({H, H, ends({1500, 3, 0, 0, 900, 0, 1, 700}), 3200, 1600, 768, 512, 2});
    cases.push_back({H, H, ends({900, 1000, 0, 1100, 1, 899, 2100, 100, 2000, 92}), 8192, 4096, 64, 2048, 2});
    cases.push_back({B, B, ends({2048, 2048}), 4096, 2048, 512, 1024, 2, kSilu, true, true, 0, 0, 6});
  }
  size_t most = 0;
  for (const Case& c : cases) {
    MoeArgs a;
    a.tokens = c.tokens, a.rows = c.rows, a.hidden = c.hidden, a.inner = c.inner, a.groups = int(c.ends.size()), a.top_k = c.top_k, a.gated = c.gated;
    most = std::max(most, moe_workspace(a));
  }
  const Buffer shared(most);
  CUDA_OK(cudaMemset(shared.data(), 0, kCounters));
  nothing(shared);
  for (const Case& c : cases)
    for (auto schedule : {GemmConfig::Schedule::kPingPong, GemmConfig::Schedule::kCooperative}) run(c, shared, schedule);
  run(cases[0], shared, GemmConfig::Schedule::kAuto);
  std::printf("PASS moe: %zu cases\n", cases.size());
}
