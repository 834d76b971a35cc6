// sem/mufu.cc: the interpolators of mufu.h.
#include "sem/mufu.h"

#include <bit>
#include <cmath>

namespace orrery::sem::mufu {
namespace {

struct Row {
  int64_t c0;
  int32_t c1, c2;
};
#include "sem/mufu_tables.inc"

// The square of a 17-bit x in units of 2^19, from partial products that lose the bits below 2^18.
int64_t square(uint32_t x) {
  uint32_t sum = 0;
  for (int i = 0; i < 17; i++)
    if (x >> i & 1) sum += x >> (18 - i);
  return sum >> 1;
}
int64_t interpolate(const Row& row, uint32_t x, int64_t squared) { return row.c0 + int64_t(row.c1) * x + row.c2 * squared; }

// A significand with its leading bit anywhere, truncated to 24 bits.
Value normalised(uint64_t magnitude, int exponent_of_bit0, bool negative) {
  if (!magnitude) return {0, 0, negative};
  const int top = 63 - std::countl_zero(magnitude);
  const uint64_t sig = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  return {uint32_t(sig), exponent_of_bit0 + top, negative};
}

}  // namespace

Value rcp(Value v) {
  const uint32_t fraction = v.significand & 0x7fffff, x = fraction & 0xffff;
  const int64_t sum = interpolate(k_rcp[fraction >> 16], x, square(x << 1));
  return normalised(uint64_t(sum >> 15), -24 - v.exponent, v.negative);
}

Value rsqrt(Value v) {
  const uint32_t odd = uint32_t(v.exponent) & 1, fraction = (v.significand & 0x7fffff) | odd << 23, x = fraction & 0x1ffff;
  const int half = (v.exponent - int(odd)) / 2;
  if (!fraction) return {1u << 23, -half, false};
  const int64_t sum = interpolate(k_rsqrt[fraction >> 17], x, square(x) << 2);
  return normalised(uint64_t(sum >> 16), -24 - half, false);
}

Value sqrt(Value v) {
  const uint32_t odd = uint32_t(v.exponent) & 1, fraction = (v.significand & 0x7fffff) | odd << 23, x = fraction & 0x1ffff;
  const int half = (v.exponent - int(odd)) / 2;
  if (!fraction) return {1u << 23, half, false};
  const int64_t sum = interpolate(k_sqrt[fraction >> 17], x, square(x) << 1);
  return normalised(uint64_t(sum >> 17), half - 23, false);
}

Value ex2(float x) {
  const bool negative = std::signbit(x);
  const auto fixed = uint64_t(std::ldexp(std::fabs(double(x)), 23));
  uint32_t fraction = uint32_t(fixed & 0x7fffff);
  int whole = int(fixed >> 23);
  if (negative) {  // the complement of the fraction, one unit short of the difference to 1
    whole = -whole - (fraction != 0);
    if (fraction) fraction = ~fraction & 0x7fffff;
  }
  const uint32_t low = fraction & 0x1ffff;
  const int64_t sum = interpolate(k_ex2[fraction >> 17], low, square(low));
  return normalised(uint64_t(sum >> 15), whole - 23, false);
}

Value lg2(Value v) {
  const uint32_t fraction = v.significand & 0x7fffff, x = fraction & 0x1ffff;
  int64_t sum = 0;
  if (fraction || v.exponent) sum = interpolate(k_lg2[fraction >> 17], x, square(x) << 1) >> 2;
  sum += int64_t(v.exponent) << 36;
  const bool negative = sum < 0;
  return normalised(uint64_t(negative ? ~sum : sum), -36, negative);
}

Value tanh(Value v) {
  const TanhRows& rows = kTanhRows[v.exponent - TanhRows::kLeast];
  const uint32_t fraction = v.significand & 0x7fffff, x = fraction >> (6 - rows.bits) & 0x1ffff;
  return normalised(uint64_t(interpolate(k_tanh[rows.first + (fraction >> (23 - rows.bits))], x, square(x))), -39, v.negative);
}

Value sine(float turns, bool cosine) {
  const double scaled = std::ldexp(std::fabs(double(turns)), 25);
  // beyond 2^63 every unit is a whole turn
  const uint64_t fixed = scaled < 0x1p63 ? uint64_t(scaled) : 0;
  const uint32_t quarter = uint32_t(fixed >> 23) + cosine;
  uint32_t fraction = uint32_t(fixed) & 0x7fffff;
  if (quarter & 1) fraction = ~fraction & 0x7fffff;
  const bool negative = (quarter >> 1 & 1) != (!cosine && std::signbit(turns));
  const uint32_t x = fraction & 0x1ffff;
  return normalised(uint64_t(interpolate(k_sin[fraction >> 17], x, square(x))), -37, negative);
}

}  // namespace orrery::sem::mufu
