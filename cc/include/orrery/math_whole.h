// Functions whose result is exact or is defined on bits: remainders, neighbours, rounding to integers.
#ifndef ORRERY_CC_MATH_WHOLE_H
#define ORRERY_CC_MATH_WHOLE_H
#include <orrery/math_double.h>

namespace orrery_cc {
// |x| mod |y| with the low bits of the quotient, by long division of the significands, 11 bits at a time.
ORRERY_MATH double remainder_bits(double x, double y, unsigned& quotient) {
  int ex, ey;
  u64 mx = (bits(normalize(x, ex)) & 0xfffffffffffffull) | 0x10000000000000ull;
  u64 my = (bits(normalize(y, ey)) & 0xfffffffffffffull) | 0x10000000000000ull;
  quotient = 0;
  if (ex < ey) return abs_(x);
  int left = ex - ey;
  u64 q = mx / my;
  mx %= my;
  while (left > 0) {
    int step = left < 11 ? left : 11;
    mx <<= step;
    q = (q << step) + mx / my;
    mx %= my;
    left -= step;
  }
  quotient = (unsigned)q;
  return ldexp_d((double)mx, ey - 52);  // exact: a multiple of the least unit of y
}
ORRERY_MATH bool remainder_undefined(double x, double y) {
  return x != x || y != y || !(abs_(x) < inf_d()) || y == 0;
}
ORRERY_MATH double fmod_d(double x, double y) {
  if (remainder_undefined(x, y)) return nan_d();
  if (x == 0 || abs_(y) == inf_d()) return x;
  unsigned q;
  return copysign_(remainder_bits(x, y, q), x);
}
ORRERY_MATH double remquo_d(double x, double y, int* quotient) {
  *quotient = 0;
  if (remainder_undefined(x, y)) return nan_d();
  if (x == 0 || abs_(y) == inf_d()) return x;
  unsigned q;
  double r = remainder_bits(x, y, q), a = abs_(y);
  // Nearest multiple, ties to even; 2 r may overflow only where y is huge, so compare r with a - r.
  if (r > a - r || (r == a - r && (q & 1))) {
    r -= a;
    q += 1;
  }
  bool negative = (bits(x) ^ bits(y)) >> 63;
  int low = (int)(q & 0x7fffffffu);
  *quotient = negative ? -low : low;
  return bits(x) >> 63 ? -r : r;
}
ORRERY_MATH double remainder_d(double x, double y) {
  int q;
  return remquo_d(x, y, &q);
}
ORRERY_MATH float fmod_f(float x, float y) { return (float)fmod_d(x, y); }
ORRERY_MATH float remainder_f(float x, float y) { return (float)remainder_d(x, y); }
ORRERY_MATH float remquo_f(float x, float y, int* q) { return (float)remquo_d(x, y, q); }

ORRERY_MATH double nextafter_d(double x, double y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0) return copysign_(0x1p-1074, y);
  u64 b = bits(x);
  return from_bits((x < y) == (x > 0) ? b + 1 : b - 1);
}
ORRERY_MATH float nextafter_f(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0) return __builtin_copysignf(0x1p-149f, y);
  unsigned b = bits(x);
  return from_bits((x < y) == (x > 0) ? b + 1 : b - 1);
}
ORRERY_MATH double round_d(double x) {  // halves away from zero
  double t = __builtin_trunc(x), d = x - t;
  return abs_(d) >= 0.5 ? copysign_(abs_(t) + 1, x) : abs_(x) < 0x1p52 ? copysign_(t, x) : x;
}
ORRERY_MATH float round_f(float x) {
  float t = __builtin_truncf(x), d = x - t, a = __builtin_fabsf(d);
  return a >= 0.5f ? __builtin_copysignf(__builtin_fabsf(t) + 1, x)
                   : __builtin_fabsf(x) < 0x1p23f ? __builtin_copysignf(t, x) : x;
}
ORRERY_MATH double modf_d(double x, double* whole) {
  double t = __builtin_trunc(x);
  *whole = t;
  return copysign_(abs_(x) == inf_d() ? 0 : x - t, x);
}
ORRERY_MATH float modf_f(float x, float* whole) {
  float t = __builtin_truncf(x);
  *whole = t;
  return __builtin_copysignf(__builtin_isinf(x) ? 0 : x - t, x);
}
ORRERY_MATH double powi_d(double x, int n) {
  double r = 1;
  for (unsigned k = n < 0 ? 0u - (unsigned)n : (unsigned)n; k; k >>= 1) {
    if (k & 1) r *= x;
    x *= x;
  }
  return n < 0 ? 1 / r : r;
}
}  // namespace orrery_cc
#endif
