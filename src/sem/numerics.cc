// sem/numerics.cc: the rules of the machines, and the block sum on one output, by the definition.
//
// This is the reference and the way for every awkward output: NaN, infinity, exponents near the ends of f32. The loop
// over whole tiles that common data takes is block_sum.inc.
#include "sem/numerics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sem/block_sum.h"
#include "sem/factors.h"

namespace orrery::sem {
namespace {

struct Term {
  int64_t value;  // signed significand
  int scale;      // value * 2^scale
};

// v * 2^shift, cut toward zero.
int64_t cut(int64_t v, int shift) {
  if (shift >= 0) return v << std::min(shift, 40);
  if (shift < -62) return 0;
  return v < 0 ? -(-v >> -shift) : v >> -shift;
}

constexpr uint32_t kInfinity32 = 0x7f800000, kInfinity16 = 0x7c00;

// The sum * 2^scale as the result format; a sum that is or rounds to zero is +0.
uint32_t finish(const SumRule& rule, int64_t sum, int scale) {
  if (sum == 0) return 0;
  const bool neg = sum < 0;
  const uint64_t mag = neg ? uint64_t(-sum) : uint64_t(sum);
  if (rule.half_result) {
    const uint32_t r = uint32_t(round_magnitude<5, 10>(neg, mag, scale, Round::rn));
    return r ? r | uint32_t(neg) << 15 : 0;
  }
  // truncation to fewer bits than f32 has commutes with truncation to f32; overflow gives infinity all the same
  const int top = 63 - std::countl_zero(mag) + scale;
  if (top > 127) return kInfinity32 | uint32_t(neg) << 31;
  const uint32_t r = uint32_t(round_magnitude<8, 23>(neg, mag, scale, Round::rz)) & ~0u << (23 - rule.result_bits);
  return r ? r | uint32_t(neg) << 31 : 0;
}

uint32_t one_block(const SumRule& rule, Format fa, Format fb, const Parts* a, const Parts* b, const uint8_t* order, int n, uint32_t c_bits) {
  const Format fc = rule.half_result ? format_of(Element::f16) : format_of(Element::f32);
  const Parts c = take_apart(c_bits, fc);
  bool nan = c.nan, plus = c.infinite && !c.negative, minus = c.infinite && c.negative;
  // the floor: a block's largest exponent is never far below the smallest normal result
  int largest = fc.smallest() - 7;
  Term terms[65];
  int count = 0;
  auto take = [&](uint64_t significand, bool neg, int exponent, int mantissa_bits) {
    if (!significand) return;
    terms[count++] = {neg ? -int64_t(significand) : int64_t(significand), exponent - mantissa_bits};
    largest = std::max(largest, exponent);
  };
  for (int i = 0; i < n; i++) {
    const Parts &x = a[order[i]], &y = b[order[i]];
    const bool neg = x.negative != y.negative;
    nan |= x.nan || y.nan;
    if (x.infinite || y.infinite) {
      if ((!x.infinite && !x.significand) || (!y.infinite && !y.significand)) nan = true;
      else (neg ? minus : plus) = true;
    } else {
      take(uint64_t(x.significand) * y.significand, neg, x.exponent + y.exponent, fa.mantissa_bits + fb.mantissa_bits);
    }
  }
  take(c.significand, c.negative, c.exponent, fc.mantissa_bits);
  if (nan || (plus && minus)) return rule.half_result ? kNan16 : kNan32;
  if (plus || minus) return rule.half_result ? kInfinity16 | uint32_t(minus) << 15 : kInfinity32 | uint32_t(minus) << 31;
  int64_t sum = 0;
  const int scale = largest - rule.fraction_bits;
  for (int i = 0; i < count; i++) sum += cut(terms[i].value, terms[i].scale - scale);
  return finish(rule, sum, scale);
}

uint32_t nearest_add(bool half, uint32_t x, uint32_t y) {
  if (half) return narrow<F16>(double(F16{uint16_t(x)}.f32()) + F16{uint16_t(y)}.f32()).bits;
  return bits_of(canonical(f32_of(x) + f32_of(y)));
}

uint32_t one_output(const SumRule& rule, Format fa, Format fb, const Parts* a, const Parts* b, const uint8_t* order, int k, uint32_t c) {
  uint32_t sum = rule.late_c ? 0 : c;
  for (int at = 0; at < k; at += rule.block) sum = one_block(rule, fa, fb, a, b, order + at, std::min(rule.block, k - at), sum);
  return rule.late_c ? nearest_add(rule.half_result, sum, c) : sum;
}

std::vector<uint8_t> order_of(const SumRule& rule, int k) {
  std::vector<uint8_t> order;
  for (int half = 0; half < (rule.interleaved ? 2 : 1); half++)
    for (int i = 0; i < k; i++)
      if (!rule.interleaved || (i % 4 >= 2) == half) order.push_back(uint8_t(i));
  return order;
}

std::vector<Parts> all_apart(const uint32_t* bits, size_t n, Format f) {
  std::vector<Parts> p(n);
  for (size_t i = 0; i < n; i++) p[i] = take_apart(bits[i], f);
  return p;
}

}  // namespace

SumRule sum_rule(TensorCore core, Element a, Element, bool half_result, bool native_fp8) {
  SumRule r;
  r.half_result = half_result;
  const bool fp8 = a == Element::e4m3 || a == Element::e5m2, tf32 = a == Element::tf32;
  switch (core) {
    case TensorCore::volta: r.block = 4, r.fraction_bits = 23; break;
    case TensorCore::turing: r.block = 8, r.fraction_bits = 24; break;
    case TensorCore::ampere: r.block = tf32 ? 4 : 8, r.fraction_bits = 24; break;
    case TensorCore::ada:
      r.block = fp8 ? 16 : tf32 ? 4 : 8;
      r.fraction_bits = r.result_bits = 13;
      if (!fp8) r.fraction_bits = 24, r.result_bits = 23;
      break;
    case TensorCore::hopper:
      r.block = tf32 ? 8 : 16;
      if (fp8 && native_fp8) r.block = 32, r.fraction_bits = r.result_bits = 13;
      if (fp8 && !native_fp8) r.late_c = r.interleaved = true;
  }
  return r;
}

TensorCore tensor_core_of(int sm) {
  if (sm >= 90) return TensorCore::hopper;
  if (sm >= 89) return TensorCore::ada;
  if (sm >= 80) return TensorCore::ampere;
  return sm >= 75 ? TensorCore::turing : TensorCore::volta;
}

void multiply_by_definition(const SumRule& rule, Element a_type, Element b_type, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                            const uint8_t* wanted, ChosenRows chosen) {
  const Format fa = format_of(a_type), fb = format_of(b_type);
  const std::vector<uint8_t> order = order_of(rule, k);
  const std::vector<Parts> pa = all_apart(a, size_t(m) * k, fa);
  const int rows = chosen.row ? chosen.count : k;
  std::vector<Parts> pb(size_t(n) * rows), column(static_cast<size_t>(k));
  for (int j = 0; j < n; j++)
    for (int x = 0; x < rows; x++) pb[size_t(j) * rows + x] = take_apart(b[x * n + j], fb);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      if (wanted && !wanted[i * n + j]) continue;
      const Parts* with = &pb[size_t(j) * rows];
      for (int x = 0; chosen.row && x < k; x++) column[size_t(x)] = with[chosen.row[i * k + x]];
      cd[i * n + j] = one_output(rule, fa, fb, &pa[size_t(i) * k], chosen.row ? column.data() : with, order.data(), k, cd[i * n + j]);
    }
}

namespace {
struct Tables {
  SumTile sum;
  FastTile fast;
};
const Tables& tables() {
  static const Tables chosen = [] {
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
    return wide ? Tables{sum_tile_v4, fast_tile_v4} : Tables{sum_tile_v3, fast_tile_v3};
  }();
  return chosen;
}
}  // namespace

namespace {
// e4m3 as the f16 of the same value: its subnormals become normal numbers.
uint32_t half_of_e4m3(uint32_t v) {
  const Parts p = take_apart(v, format_of(Element::e4m3));
  if (p.nan) return kNan16;
  return narrow<F16>(std::ldexp(double(p.significand), p.exponent - 3)).bits | uint32_t(p.negative) << 15;
}
std::vector<uint32_t> halves_of_e4m3(const uint32_t* v, int n) {
  std::vector<uint32_t> out(n);
  for (int i = 0; i < n; i++) out[i] = half_of_e4m3(v[i]);
  return out;
}
}  // namespace

void multiply(const SumRule& rule, Element a_type, Element b_type, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
              ChosenRows chosen) {
  // Factors of one fp8 format are multiplied by their own exponents; of two formats, as f16 values.
  if (rule.late_c && a_type != b_type && a_type == Element::e4m3)
    return multiply(rule, Element::f16, b_type, halves_of_e4m3(a, m * k).data(), b, cd, m, n, k, chosen);
  if (rule.late_c && a_type != b_type && b_type == Element::e4m3)
    return multiply(rule, a_type, Element::f16, a, halves_of_e4m3(b, (chosen.row ? chosen.count : k) * n).data(), cd, m, n, k, chosen);
  thread_local std::vector<uint8_t> left;
  left.assign(size_t(m) * n, 0);
  const std::vector<uint8_t> order = order_of(rule, k);
  if (tables().sum(rule, a_type, b_type, order.data(), a, b, cd, m, n, k, chosen, left.data()))
    multiply_by_definition(rule, a_type, b_type, a, b, cd, m, n, k, left.data(), chosen);
}

void multiply_fast(Element a_type, Element b_type, bool half_result, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k,
                   ChosenRows chosen) {
  tables().fast(a_type, b_type, half_result, a, b, cd, m, n, k, chosen);
}

}  // namespace orrery::sem
