// What gemm's tests compare with: cases, operands with NaN between their lines, and products in float64 with a bound for each element.
//
// Bound for one element: in one instruction (16 of k for f16 and bf16, 8 for tf32, 32 for fp8) every product and the
// sum so far are truncated to f bits below the largest of them (f = 25; 13 for fp8), and the result to 23 (13); so
// an instruction is off by at most (terms + 1) * 2^-f + 2^-23 times the largest magnitude. Promotion restarts the sum
// every 128 of k and adds up in f32. tf32 drops 13 bits of each factor: 2^-9 of the product. Then one rounding to the
// type of D. The simple path rounds each term once in f32.
// Not here: which cases there are, and who runs them (gemm_test.cu).
#pragma once
#include <algorithm>

#include "check.h"

namespace {

using namespace orrery::kernels;
using check::Random;

struct Case {
  DType in_a, in_b, out;
  bool a_trans, b_trans;  // A stored k x m, B stored n x k
  int64_t m, n, k;
  bool promote = false, epilogue = false;
  int64_t pad = 0;  // elements added to each pitch
  GemmConfig::Schedule only = GemmConfig::Schedule::kAuto;  // of the configurations; kAuto: all
  bool blocks = false;  // scales for 128 of k
  int rows = 0, per_sm = 0;  // and of those with this only, where not 0: tile_m and CTAs an SM
  int split = 0;             // and CTAs that share K
  bool turned = false;       // and of those only that compute D' = B' A' in tiles and leave D turned round
};

struct Operand {
  std::vector<unsigned char> host;
  DType t;
  int64_t row_stride, col_stride;
  double at(int64_t i, int64_t j) const { return check::to_double(host.data(), i * row_stride + j * col_stride, t); }
};

int64_t round_up(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }

/// spread: exponents are uniform in [-spread, spread].
Operand make_operand(Random& random, DType t, int64_t rows, int64_t cols, bool transposed, int64_t pad, int spread = 3) {
  Operand o;
  o.t = t;
  const int64_t pitch = round_up(transposed ? rows : cols, 16 / size_of(t)) + pad, lines = transposed ? cols : rows;
  o.row_stride = transposed ? 1 : pitch, o.col_stride = transposed ? pitch : 1;
  o.host.assign(pitch * lines * size_of(t), 0xFF);  // the padding is NaN: reading it shows
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < cols; j++)
      check::from_double(o.host.data(), i * o.row_stride + j * o.col_stride, t, random.spread(spread));
  return o;
}

struct Reference {
  std::vector<int64_t> rows, cols;       // sampled positions
  std::vector<double> want, bound;
};

Reference reference(const Case& c, const Operand& a, const Operand& b, const std::vector<float>& bias,
                    const std::vector<float>& row_scale, double alpha,
                    const std::vector<float>& block_a = {}, const std::vector<float>& block_b = {}) {
  Reference r;
  const bool all = double(c.m) * c.n * c.k <= 3e7;
  Random random(77);
  const int64_t samples = all ? c.m * c.n : 3000;
  for (int64_t s = 0; s < samples; s++) {
    r.rows.push_back(all ? s / c.n : s < 400 ? c.m - 1 - s % std::min<int64_t>(20, c.m) : random.below(c.m));
    r.cols.push_back(all ? s % c.n : s < 400 ? c.n - 1 - s / 20 % c.n : random.below(c.n));
  }
  r.want.resize(samples), r.bound.resize(samples);
  const bool exact = c.in_a == DType::kI8, fp8 = size_of(c.in_a) == 1, tf32 = c.in_a == DType::kF32;
  const int width = fp8 ? 32 : tf32 ? 8 : 16;
  const double per_step = fp8 ? (width + 2) * 0x1p-13 : (width + 1) * 0x1p-25 + 0x1p-23;
  check::parallel(samples, [&](int64_t s) {
    double sum = 0, mass = 0, partial = 0, largest = 0, error = 0;
    for (int64_t k = 0; k < c.k; k++) {
      const double t = a.at(r.rows[s], k) * b.at(k, r.cols[s]);
      const int64_t blocks = (c.k + 127) / 128;
      const double x = c.blocks ? double(block_a[r.rows[s] * blocks + k / 128]) * block_b[r.cols[s] / 128 * blocks + k / 128] : 1;
      if (k % width == 0) largest = std::fabs(partial);
      sum += t * x, partial += t, mass += std::fabs(t * x), largest = std::max(largest, std::fabs(t));
      if (k % width == width - 1 || k == c.k - 1) error += per_step * std::max(largest, std::fabs(partial)) * std::fabs(x);
      if ((c.promote || c.blocks) && fp8 && k % 128 == 127) partial = 0;
    }
    if (exact) error = 0;  // but for the rounding of sums to f32, which the next line has
    if (c.blocks) error += 3 * 0x1p-24 * mass;
    error += c.k * 0x1p-24 * mass + (tf32 ? 0x1p-9 * mass : 0);
    double scale = alpha, add = 0;
    if (c.epilogue) scale *= row_scale[r.rows[s]], add = bias[r.cols[s]];
    error *= std::fabs(scale);
    double want = sum * scale + add;
    error += 4 * 0x1p-24 * std::fabs(want) + 0x1p-24 * std::fabs(add);
    if (c.epilogue) want = std::max(want, 0.0);
    r.want[s] = want;
    r.bound[s] = error + 1.01 * check::unit_roundoff(c.out) * (std::fabs(want) + error) + 1e-7;
  });
  return r;
}

std::string describe(const Case& c, const GemmConfig& g) {
  char text[256];
  std::snprintf(text, sizeof text, "types %d %d %d layout %d%d %lldx%lldx%lld pad %lld promote %d epilogue %d: schedule "
                "%d tile %dx%d cluster %dx%d split %d swap %d per_sm %d", int(c.in_a), int(c.in_b), int(c.out), c.a_trans, c.b_trans,
                (long long)c.m, (long long)c.n, (long long)c.k, (long long)c.pad, c.promote, c.epilogue, int(g.schedule),
                g.tile_m, g.tile_n, g.cluster_m, g.cluster_n, g.split_k, g.swap, g.per_sm);
  return text;
}

}  // namespace
