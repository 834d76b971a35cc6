// What cuda_fp16.h, cuda_bf16.h and cuda_fp8.h share: exact conversions between narrow formats and float.
#ifndef ORRERY_CC_NARROW_FLOAT_H
#define ORRERY_CC_NARROW_FLOAT_H
#include <cuda_runtime.h>
#ifndef ORRERY_HD
#define ORRERY_HD static inline __host__ __device__
#endif

#ifdef __clang__
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))  // as in orrery_cc.h
#endif
namespace orrery_cc {
enum Rounding { kNearest, kZero, kUp, kDown };

// A binary format: exponent bits, fraction bits; the rest follows from IEEE's rules.
template <int E, int M> struct Format {
  static constexpr int kBias = (1 << (E - 1)) - 1;
  static constexpr unsigned kExponentMask = (1u << E) - 1, kFractionMask = (1u << M) - 1;
};

// The bits of x in format <E, M>, with infinities; overflow as IEEE's mode says. x is a double so that every source
// (float, double, integer) is rounded once.
template <int E, int M> ORRERY_HD unsigned narrow(double x, Rounding mode) {
  typedef Format<E, M> F;
  unsigned long long b = __builtin_bit_cast(unsigned long long, x);
  unsigned sign = (unsigned)(b >> 63) << (E + M);
  if (x != x) return F::kExponentMask << M | F::kFractionMask;  // the canonical NaN: 0x7fff
  unsigned infinity = F::kExponentMask << M;
  double a = x < 0 ? -x : x;
  bool up_away = mode == kUp ? !(b >> 63) : mode == kDown ? (b >> 63) != 0 : false;
  if (a == 0) return sign;
  if (__builtin_isinf(a)) return sign | infinity;
  unsigned long long m = __builtin_bit_cast(unsigned long long, a);
  int e = (int)(m >> 52) - 1023;
  if (e < -1000) return sign | (up_away ? 1u : 0u);  // far below every format here
  m = (m & 0xfffffffffffffull) | 0x10000000000000ull;
  int drop = 52 - M;                        // bits of m below the target's last place
  if (e < 1 - F::kBias) drop += 1 - F::kBias - e;
  if (drop > 54) drop = 54;
  unsigned long long kept = m >> drop, rest = m & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  bool away = mode == kNearest ? rest > half || (rest == half && (kept & 1)) : rest != 0 && up_away;
  kept += away;
  unsigned bits = e < 1 - F::kBias ? (unsigned)kept
                                   : (unsigned)kept + ((unsigned)(e + F::kBias - 1) << M);
  if (bits >= infinity) bits = mode == kNearest || up_away ? infinity : infinity - 1;
  return sign | bits;
}
template <int E, int M> ORRERY_HD float widen(unsigned bits) {
  typedef Format<E, M> F;
  unsigned sign = bits >> (E + M) & 1, e = bits >> M & F::kExponentMask, f = bits & F::kFractionMask;
  float v;
  if (e == F::kExponentMask) {
    v = __builtin_bit_cast(float, 0x7f800000u | f << (23 - M) | (f ? 0x400000u : 0u));
  } else if (e == 0) {
    v = (float)f * __builtin_bit_cast(float, (unsigned)(127 + 1 - F::kBias - M) << 23);
  } else {
    v = __builtin_bit_cast(float, (e + 127 - F::kBias) << 23 | f << (23 - M));
  }
  return sign ? -v : v;
}
ORRERY_HD float relu(float x) { return x > 0 || x != x ? x : 0.0f; }
// A double as a float that a later rounding to 11 bits or fewer cannot tell from it (sticky last bit).
ORRERY_HD float round_to_odd(double x) {
  float f = (float)x;
  if ((double)f == x || x != x || __builtin_isinf(f)) return f;
  unsigned b = __builtin_bit_cast(unsigned, f);
  double a = x < 0 ? -x : x, g = f < 0 ? -(double)f : (double)f;
  if (g > a) b -= 1;
  return __builtin_bit_cast(float, b | 1u);
}
template <class T> ORRERY_HD unsigned word(T v) { return __builtin_bit_cast(unsigned, v); }
ORRERY_HD bool unordered(float x, float y) { return x != x || y != y; }
}  // namespace orrery_cc
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
