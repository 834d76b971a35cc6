// The error bound that a run with fast numerics states: each sum within k 2^-24 of the sum of its terms' magnitudes, against
// sums in double precision (products of these factors are exact there).
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "isa/row.h"
#include "sem/fragment.h"
#include "sem/tensor.h"

namespace orrery::sem {
namespace {

struct Layout {
  const char* form;
  int exponent_bits, mantissa_bits, width;  // of a factor
};

double value_of(const Layout& t, uint32_t v) {
  if (t.width == 32) {
    float x;
    v &= ~0x1fffu;  // tf32
    std::memcpy(&x, &v, 4);
    return x;
  }
  const int bias = (1 << (t.exponent_bits - 1)) - 1, e = int(v >> t.mantissa_bits) & ((1 << t.exponent_bits) - 1), m = int(v) & ((1 << t.mantissa_bits) - 1);
  const double x = e ? std::ldexp(1 + std::ldexp(m, -t.mantissa_bits), e - bias) : std::ldexp(m, 1 - bias - t.mantissa_bits);
  return v >> (t.width - 1) & 1 ? -x : x;
}

/// A normal number some powers of two around 1.
uint32_t factor(const Layout& t, int spread, std::mt19937_64& g) {
  const int exponent_bits = t.width == 32 ? 8 : t.exponent_bits, mantissa_bits = t.width == 32 ? 23 : t.mantissa_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int most = std::min(spread, bias - 2), e = bias + int(g() % uint64_t(2 * most + 1)) - most;
  return uint32_t(g() & 1) << (t.width - 1) | uint32_t(e) << mantissa_bits | (uint32_t(g()) & ((1u << mantissa_bits) - 1));
}

struct Register {
  alignas(64) uint32_t words[32];
};

void check(const Layout& t, int spread, uint64_t seed) {
  const auto match = isa::match_name(t.form);
  ASSERT_TRUE(match.error.empty()) << match.error;
  const int k = match.form.shape.k, per = 32 / t.width, ra = 16 * k / per / 32, rb = 8 * k / per / 32;
  std::mt19937_64 g(seed);
  std::vector<Register> s(size_t(ra + rb) + 4), d(4);
  std::vector<double> a(size_t(16 * k)), b(size_t(k * 8)), c(16 * 8), size(16 * 8);
  for (int r = 0; r < ra + rb; r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < per; e++) {
        const uint32_t v = factor(t, spread, g);
        s[size_t(r)].words[lane] = (e ? s[size_t(r)].words[lane] : 0) | v << (t.width % 32 * e);
        const Place at = r < ra ? place_a(16, per, lane, r, e) : place_b(per, lane, r - ra, e);
        if (r < ra) a[size_t(at.row * k + at.col)] = value_of(t, v);
        else b[size_t(at.row * 8 + at.col)] = value_of(t, v);
      }
  for (int r = 0; r < 4; r++)
    for (int lane = 0; lane < 32; lane++) {
      const float x = float(std::ldexp(double(int64_t(g())), int(g() % 20) - 70));
      std::memcpy(&s[size_t(ra + rb + r)].words[lane], &x, 4);
      const Place at = place_c(lane, r);
      c[size_t(at.row * 8 + at.col)] = x;
    }
  std::vector<const void*> from;
  std::vector<void*> to;
  for (auto& r : s) from.push_back(&r);
  for (auto& r : d) to.push_back(&r);
  run_mma(match.form, to.data(), from.data(), {TensorCore::hopper, true});
  for (int r = 0; r < 4; r++)
    for (int lane = 0; lane < 32; lane++) {
      const Place at = place_c(lane, r);
      double sum = c[size_t(at.row * 8 + at.col)], terms = std::fabs(sum);
      for (int x = 0; x < k; x++) {
        const double p = a[size_t(at.row * k + x)] * b[size_t(x * 8 + at.col)];
        sum += p, terms += std::fabs(p);
      }
      float got;
      std::memcpy(&got, &d[size_t(r)].words[lane], 4);
      ASSERT_LE(std::fabs(got - sum), k * std::ldexp(terms, -24)) << t.form << " row " << at.row << " column " << at.col;
    }
}

TEST(fast_numerics, sums_keep_their_bound) {
  static const Layout kForms[] = {{"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 5, 10, 16}, {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 8, 7, 16},
                                  {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 8, 10, 32}, {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, 3, 8},
                                  {"mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 5, 2, 8}};
  for (const Layout& t : kForms)
    for (const int spread : {0, 3, 12})
      for (uint64_t seed = 0; seed < 200; seed++) check(t, spread, seed + uint64_t(spread) * 1000);
}

}  // namespace
}  // namespace orrery::sem
