// Elementary functions in double precision: exponentials, logarithms, powers, roots, circular and hyperbolic functions.
//
// Written for the ulp bounds of the CUDA C++ Programming Guide, from IEEE operations and fma only, so that the same
// text runs on a host (tests/cuda/math_accuracy.cc holds it against MPFR). Where one rounding too many would break a
// bound, a value is carried as an unevaluated sum hi + lo (type Pair). Nothing here relies on contraction: it is off.
// Polynomials: math_polynomials.h. Special functions: math_special.h. Single precision: math_float.h.
#ifndef ORRERY_CC_MATH_DOUBLE_H
#define ORRERY_CC_MATH_DOUBLE_H

#ifdef __CUDA__
#define ORRERY_MATH static __inline__ __host__ __device__
#else
#define ORRERY_MATH static inline
#endif
#include <orrery/contract_off.h>
#include <orrery/math_polynomials.h>

namespace orrery_cc {
typedef unsigned long long u64;
typedef long long i64;

ORRERY_MATH double fma_(double a, double b, double c) { return __builtin_fma(a, b, c); }
ORRERY_MATH u64 bits(double x) { return __builtin_bit_cast(u64, x); }
ORRERY_MATH unsigned bits(float x) { return __builtin_bit_cast(unsigned, x); }
ORRERY_MATH double from_bits(u64 b) { return __builtin_bit_cast(double, b); }
ORRERY_MATH float from_bits(unsigned b) { return __builtin_bit_cast(float, b); }
ORRERY_MATH double nan_d() { return from_bits(0x7ff8000000000000ull); }
ORRERY_MATH double inf_d() { return from_bits(0x7ff0000000000000ull); }
ORRERY_MATH double abs_(double x) { return __builtin_fabs(x); }
ORRERY_MATH double copysign_(double x, double s) { return __builtin_copysign(x, s); }

// hi + lo, |lo| no larger than half an ulp of hi (or nearly so).
struct Pair {
  double hi, lo;
};
ORRERY_MATH Pair two_sum(double a, double b) {
  double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
ORRERY_MATH Pair fast_sum(double a, double b) {  // |a| >= |b| or a == 0
  double s = a + b;
  return {s, b - (s - a)};
}
ORRERY_MATH Pair two_product(double a, double b) {
  double p = a * b;
  return {p, fma_(a, b, -p)};
}
ORRERY_MATH Pair add(Pair a, Pair b) {
  Pair s = two_sum(a.hi, b.hi);
  return fast_sum(s.hi, s.lo + (a.lo + b.lo));
}
ORRERY_MATH Pair add(Pair a, double b) {
  Pair s = two_sum(a.hi, b);
  return fast_sum(s.hi, s.lo + a.lo);
}
ORRERY_MATH Pair multiply(Pair a, Pair b) {
  Pair p = two_product(a.hi, b.hi);
  return fast_sum(p.hi, p.lo + fma_(a.hi, b.lo, a.lo * b.hi));
}
ORRERY_MATH Pair multiply(Pair a, double b) {
  Pair p = two_product(a.hi, b);
  return fast_sum(p.hi, fma_(a.lo, b, p.lo));
}
ORRERY_MATH Pair divide(Pair a, Pair b) {
  double q = a.hi / b.hi;
  double r = fma_(-q, b.hi, a.hi) + (a.lo - q * b.lo);
  return fast_sum(q, r / b.hi);
}

// ---- scaling -------------------------------------------------------------------------------------------------
ORRERY_MATH double power_of_two(int n) { return from_bits((u64)(n + 1023) << 52); }  // -1022 <= n <= 1023

// x * 2^n with one rounding, for any n.
ORRERY_MATH double ldexp_d(double x, int n) {
  if (n > 1023) {
    x *= 0x1p1023;
    n -= 1023;
    if (n > 1023) {
      x *= 0x1p1023;
      n = n - 1023 > 1023 ? 1023 : n - 1023;
    }
  } else if (n < -1022) {
    x *= 0x1p-969;  // 2^-1022 * 2^53: a subnormal result is rounded only by the last product
    n += 969;
    if (n < -1022) {
      x *= 0x1p-969;
      n = n + 969 < -1022 ? -1022 : n + 969;
    }
  }
  return x * power_of_two(n);
}
// Significand in [1, 2) and exponent of a finite non-zero x.
ORRERY_MATH double normalize(double x, int& exponent) {
  int bias = 0;
  if (abs_(x) < 0x1p-1022) {
    x *= 0x1p54;
    bias = 54;
  }
  u64 b = bits(x);
  exponent = (int)((b >> 52) & 0x7ff) - 1023 - bias;
  return from_bits((b & 0x800fffffffffffffull) | 0x3ff0000000000000ull);
}
ORRERY_MATH double frexp_d(double x, int* e) {
  if (x == 0 || !(abs_(x) < inf_d())) {
    *e = 0;
    return x + x;
  }
  int k;
  double m = normalize(x, k);
  *e = k + 1;
  return m * 0.5;
}
ORRERY_MATH int ilogb_d(double x) {
  if (x == 0) return -2147483647 - 1;
  if (x != x) return -2147483647 - 1;
  if (abs_(x) == inf_d()) return 2147483647;
  int k;
  normalize(x, k);
  return k;
}
ORRERY_MATH double logb_d(double x) {
  if (x == 0) return -inf_d();
  if (!(abs_(x) < inf_d())) return x * x;
  return ilogb_d(x);
}

// ---- exponentials --------------------------------------------------------------------------------------------
// 2^n (1 + q) = exp(x + xl), |x| < 800; q as a pair.
ORRERY_MATH Pair exp_reduced(double x, double xl, int& n) {
  double k = __builtin_rint(x * 0x1.71547652b82fep+0);
  n = (int)k;
  double r = fma_(-k, 0x1.62e42fefa39efp-1, x);
  double l = -k * 0x1.abc9e3b39803fp-56 + xl;
  Pair s = fast_sum(r, l);
  r = s.hi;
  double p = r * r * poly::exp_d(r);
  Pair q = fast_sum(r, p);
  q.lo += fma_(s.lo, r, s.lo);
  return q;
}
ORRERY_MATH double exp_scaled(double x, double xl, int scale) {  // exp(x + xl) * 2^scale
  if (x != x) return x;
  if (x > 800) return inf_d();
  if (x < -800) return 0;
  int n;
  Pair q = exp_reduced(x, xl, n);
  return ldexp_d(1 + (q.hi + q.lo), n + scale);
}
ORRERY_MATH double exp_d(double x) { return exp_scaled(x, 0, 0); }
// exp(x + xl) as a pair, for 0 <= x < 700.
ORRERY_MATH Pair exp_pair(double x, double xl) {
  int n;
  Pair q = exp_reduced(x, xl, n);
  Pair e = fast_sum(1.0, q.hi);
  e.lo += q.lo;
  double s = power_of_two(n);
  return {e.hi * s, e.lo * s};
}
ORRERY_MATH double exp2_d(double x) {
  if (x != x) return x;
  if (x > 1100) return inf_d();
  if (x < -1100) return 0;
  double k = __builtin_rint(x), f = x - k;
  Pair t = two_product(f, 0x1.62e42fefa39efp-1);
  int n;
  Pair q = exp_reduced(t.hi, fma_(f, 0x1.abc9e3b39803fp-56, t.lo), n);
  return ldexp_d(1 + (q.hi + q.lo), n + (int)k);
}
ORRERY_MATH double exp10_d(double x) {
  if (x != x) return x;
  if (x > 310) return inf_d();
  if (x < -330) return 0;
  Pair t = two_product(x, 0x1.26bb1bbb55516p+1);
  return exp_scaled(t.hi, fma_(x, -0x1.f48ad494ea3e9p-53, t.lo), 0);
}
ORRERY_MATH double expm1_d(double x) {
  if (x != x) return x;
  if (x > 720) return inf_d();
  if (x < -40) return -1 + 0x1p-60;
  if (abs_(x) < 0x1p-54) return x;
  int n;
  Pair q = exp_reduced(x, 0, n);
  if (n == 0) return q.hi + q.lo;
  if (n > 1000) return ldexp_d(1 + (q.hi + q.lo), n);
  double s = power_of_two(n);
  Pair t = two_sum(s - 1, s * q.hi);  // s - 1 is exact for n in [-52, 52]; beyond, its error is below the result's ulp
  return t.hi + (t.lo + s * q.lo);
}

// ---- logarithms ----------------------------------------------------------------------------------------------
// log(m + ml) as a pair good to about 2^-66, for a positive finite m and |ml| far below m.
ORRERY_MATH Pair log_pair(double m, double ml) {
  int k;
  int scale = 0;
  if (m < 0x1p-1022) {
    m *= 0x1p54;
    ml *= 0x1p54;
    scale = 54;
  }
  u64 b = bits(m);
  k = (int)(b >> 52) - 1023;
  m = from_bits((b & 0xfffffffffffffull) | 0x3ff0000000000000ull);
  if (ml != 0) ml = k > 1022 ? ml * 0x1p-1023 : ml * power_of_two(-k);
  k -= scale;
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    ml *= 0.5;
    k += 1;
  }
  Pair f = fast_sum(m - 1, ml);
  if (m == 1) f = {ml, 0};
  Pair d = two_sum(2, f.hi);
  d.lo += f.lo;
  Pair s = divide(f, d);  // log m = 2 atanh(s)
  Pair z = multiply(s, s);
  double tail = z.hi * z.hi * poly::log_d(z.hi);  // 2 atanh(s) = s (2 + 2/3 z + tail)
  Pair c = two_product(z.hi, 0x1.5555555555555p-1);
  c.lo += fma_(z.lo, 0x1.5555555555555p-1, z.hi * 0x1.5555555555555p-55);
  c = fast_sum(c.hi, c.lo + tail);
  Pair series = multiply(s, c);
  Pair result = add({2 * s.hi, 2 * s.lo}, series);
  if (k == 0) return result;
  double n = k;
  Pair l = two_product(n, 0x1.62e42fefa39efp-1);
  l.lo = fma_(n, 0x1.abc9e3b39803fp-56, l.lo);
  return add(l, result);
}
// Handles the arguments at which a logarithm is not finite; true if `result` is set.
ORRERY_MATH bool log_special(double x, double& result) {
  if (x > 0 && x < inf_d()) return false;
  result = x == 0 ? -inf_d() : x > 0 ? x : x != x ? x : nan_d();
  return true;
}
ORRERY_MATH double log_d(double x) {
  double special;
  if (log_special(x, special)) return special;
  Pair l = log_pair(x, 0);
  return l.hi + l.lo;
}
ORRERY_MATH double log2_d(double x) {
  double special;
  if (log_special(x, special)) return special;
  Pair l = multiply(log_pair(x, 0), Pair{0x1.71547652b82fep+0, 0x1.777d0ffda0d24p-56});
  return l.hi + l.lo;
}
ORRERY_MATH double log10_d(double x) {
  double special;
  if (log_special(x, special)) return special;
  Pair l = multiply(log_pair(x, 0), Pair{0x1.bcb7b1526e50ep-2, 0x1.95355baaafad3p-57});
  return l.hi + l.lo;
}
ORRERY_MATH double log1p_d(double x) {
  if (x != x || x == inf_d()) return x;
  if (x <= -1) return x == -1 ? -inf_d() : nan_d();
  if (abs_(x) < 0x1p-54) return x;
  Pair s = two_sum(1, x);
  Pair l = log_pair(s.hi, s.lo);
  return l.hi + l.lo;
}

// ---- powers and roots ----------------------------------------------------------------------------------------
ORRERY_MATH bool is_integer(double y) { return y == __builtin_rint(y); }
ORRERY_MATH bool is_odd(double y) { return is_integer(y) && abs_(y) < 0x1p53 && ((i64)y & 1); }
ORRERY_MATH double pow_d(double x, double y) {
  if (x == 1 || y == 0) return 1;
  if (x != x || y != y) return x + y;
  double a = abs_(x);
  bool negative = x < 0 || (x == 0 && bits(x) >> 63);
  if (a == 0 || a == inf_d()) {
    double r = (a == 0) == (y > 0) ? 0.0 : inf_d();
    return negative && is_odd(y) ? -r : r;
  }
  if (abs_(y) == inf_d()) return a == 1 ? 1 : (a > 1) == (y > 0) ? inf_d() : 0;
  if (negative && !is_integer(y)) return nan_d();
  Pair l = log_pair(a, 0);
  double p = y * l.hi;
  double r;
  if (!(abs_(p) < 800)) {
    r = p > 0 ? inf_d() : 0;
  } else {
    r = exp_scaled(p, fma_(y, l.lo, fma_(y, l.hi, -p)), 0);
  }
  return negative && is_odd(y) ? -r : r;
}
ORRERY_MATH double rsqrt_d(double x) {
  double y = 1 / __builtin_sqrt(x);
  if (!(x > 0x1p-1000) || x > 0x1p1000) return y;  // zero, infinity, NaN, and ends where the residual would round
  Pair t = two_product(x, y);
  double e = fma_(-t.hi, y, 1) - t.lo * y;
  return fma_(0.5 * y, e, y);
}
ORRERY_MATH double cbrt_d(double x) {
  if (x == 0 || !(abs_(x) < inf_d())) return x + x;
  int e;
  double m = abs_(normalize(x, e));
  int third = (e + 3 * 400) / 3 - 400, rest = e - 3 * third;
  m *= power_of_two(rest);  // [1, 8)
  // A quadratic through the interval, then Halley twice and Newton with an exact residual.
  double y = fma_(fma_(-0.0155, m, 0.266), m, 0.76);
  for (int i = 0; i < 3; i++) {
    double c = y * y * y;
    y *= fma_(2, m, c) / fma_(2, c, m);
  }
  Pair sq = two_product(y, y);
  double residual = fma_(sq.hi, y, -m) + sq.lo * y;
  y -= residual / (3 * sq.hi);
  return copysign_(y * power_of_two(third), x);
}
ORRERY_MATH double rcbrt_d(double x) {
  double c = cbrt_d(x);
  if (c == 0 || !(abs_(c) < inf_d())) return 1 / c;
  double y = 1 / c;
  int e;  // one Newton step on x y^3 = 1, with x scaled so that nothing overflows
  double m = normalize(x, e);
  int third = (e + 3 * 400) / 3 - 400;
  m *= power_of_two(e - 3 * third);
  double t = y * power_of_two(third);
  Pair sq = two_product(t, t);
  Pair cube = two_product(sq.hi, t);
  cube.lo += sq.lo * t;
  double residual = fma_(-cube.hi, m, 1) - cube.lo * m;
  return y + y * residual * (1.0 / 3);
}
// Sum of squares of n values, scaled by 2^(-2 scale), as a pair.
ORRERY_MATH Pair sum_of_squares(const double* v, int n, int& scale) {
  double largest = 0;
  for (int i = 0; i < n; i++) largest = abs_(v[i]) > largest ? abs_(v[i]) : largest;
  scale = 0;
  if (largest > 0x1p500) scale = 600;
  if (largest < 0x1p-400 && largest > 0) scale = -600;
  Pair s = {0, 0};
  for (int i = 0; i < n; i++) {
    double x = scale > 0 ? v[i] * 0x1p-600 : scale < 0 ? v[i] * 0x1p600 : v[i];
    s = add(s, two_product(x, x));
  }
  return s;
}
ORRERY_MATH bool any_infinite(const double* v, int n) {
  for (int i = 0; i < n; i++)
    if (abs_(v[i]) == inf_d()) return true;
  return false;
}
ORRERY_MATH double norm_d(int n, const double* v) {
  if (any_infinite(v, n)) return inf_d();
  int scale;
  Pair s = sum_of_squares(v, n, scale);
  if (!(s.hi > 0)) return s.hi;
  double r = __builtin_sqrt(s.hi);
  r += (fma_(-r, r, s.hi) + s.lo) / (2 * r);
  return scale > 0 ? r * 0x1p600 : scale < 0 ? r * 0x1p-600 : r;
}
ORRERY_MATH double rnorm_d(int n, const double* v) {
  if (any_infinite(v, n)) return 0;
  int scale;
  Pair s = sum_of_squares(v, n, scale);
  if (!(s.hi > 0)) return 1 / s.hi;
  double y = 1 / __builtin_sqrt(s.hi);
  Pair t = two_product(s.hi, y);
  double e = fma_(-t.hi, y, 1) - (t.lo + s.lo * y) * y;
  y = fma_(0.5 * y, e, y);
  return scale > 0 ? y * 0x1p-600 : scale < 0 ? y * 0x1p600 : y;
}

// ---- circular functions --------------------------------------------------------------------------------------
// x = n pi/2 + r for |x| >= 2^30: the fraction of x * 2/pi from the 192 bits of 2/pi that matter (Payne and Hanek).
ORRERY_MATH u64 two_over_pi(int word) {
  const u64 table[20] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
                         0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                         0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
                         0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
                         0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  return table[word];
}
ORRERY_MATH u64 high_product(u64 a, u64 b) { return (u64)(((unsigned __int128)a * b) >> 64); }
ORRERY_MATH Pair reduce_large(double x, int& n) {
  u64 b = bits(x), m = (b & 0xfffffffffffffull) | 0x10000000000000ull;
  int e = (int)((b >> 52) & 0x7ff) - 1075;  // |x| = m 2^e, e > -30
  // Bits of 2/pi above weight 2^(2-e) contribute multiples of 4 to the quotient: start just before them.
  int start = e - 2 < 0 ? 0 : e - 2, word = start / 64, shift = start % 64;
  u64 w0 = two_over_pi(word), w1 = two_over_pi(word + 1), w2 = two_over_pi(word + 2), w3 = two_over_pi(word + 3);
  if (shift) {
    w0 = w0 << shift | w1 >> (64 - shift);
    w1 = w1 << shift | w2 >> (64 - shift);
    w2 = w2 << shift | w3 >> (64 - shift);
  }
  // product = m * (w0 w1 w2), kept modulo 2^192; as a number it is product * 2^(e - start - 192).
  u64 p2 = m * w2, c2 = high_product(m, w2);
  u64 p1 = m * w1, c1 = high_product(m, w1);
  p1 += c2;
  c1 += p1 < c2;
  u64 p0 = m * w0 + c1, top = high_product(m, w0) + (p0 < c1);
  int left = e - start;  // 2 once e >= 2, else e: the binary point is `left` bits below the top of p0
  // Move the two integer bits to the top of p0.
  int up = left - 2;
  u64 f0 = p0, f1 = p1, f2 = p2;
  if (up < 0) {  // e < 2: the integer part reaches beyond the top; only its two low bits matter, which are in p0
    int down = -up;
    f2 = f2 >> down | f1 << (64 - down);
    f1 = f1 >> down | f0 << (64 - down);
    f0 = f0 >> down | top << (64 - down);
  }
  n = (int)(f0 >> 62);
  u64 h = f0 << 2 | f1 >> 62, l = f1 << 2 | f2 >> 62;
  bool negative = false;
  if (h >> 63) {  // take the nearest multiple
    n += 1;
    h = ~h;
    l = ~l;
    negative = true;
  }
  if (h == 0) {  // cannot happen for a double, kept for safety of the shifts below
    h = l;
    l = 0;
    if (h == 0) return {0, 0};
    double tiny = (double)(i64)(h >> 1) * 0x1p-127 * 0x1.921fb54442d18p+0;
    return {negative ? -tiny : tiny, 0};
  }
  int z = __builtin_clzll(h);
  if (z) {
    h = h << z | l >> (64 - z);
    l <<= z;
  }
  double hi = (double)(h >> 11), lo = (double)((h & 0x7ff) << 42 | l >> 22);
  double s = power_of_two(-53 - z);
  Pair fraction = {hi * s, lo * s * 0x1p-53};
  Pair r = multiply(fraction, Pair{0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54});
  if (negative) r = {-r.hi, -r.lo};
  if (b >> 63) {
    r = {-r.hi, -r.lo};
    n = -n;
  }
  return r;
}
// x - n pi/2, |result| <= pi/4 (nearly); n modulo 4 matters.
ORRERY_MATH Pair reduce_angle(double x, int& n) {
  if (abs_(x) < 0.78) {
    n = 0;
    return {x, 0};
  }
  if (abs_(x) >= 0x1p30) return reduce_large(x, n);
  double k = __builtin_rint(x * 0x1.45f306dc9c883p-1);
  n = (int)k;
  double r = fma_(-k, 0x1.921fb54442d18p+0, x);  // exact: a multiple of 2^-52 below 1
  Pair p = two_product(k, 0x1.1a62633145c07p-54);
  Pair s = two_sum(r, -p.hi);
  s.lo = fma_(k, 0x1.f1976b7ed8fbcp-110, s.lo - p.lo);
  return fast_sum(s.hi, s.lo);
}
ORRERY_MATH Pair sin_pair(Pair r) {
  double z = r.hi * r.hi;
  double tail = fma_(z * r.hi, poly::sin_d(z), r.lo * fma_(-0.5, z, 1));
  return fast_sum(r.hi, tail);
}
ORRERY_MATH Pair cos_pair(Pair r) {
  double z = r.hi * r.hi, half = 0.5 * z, h = 1 - half;
  double zl = fma_(r.hi, r.hi, -z);
  double low = ((1 - h) - half) - 0.5 * zl;
  return fast_sum(h, low + fma_(z * z, poly::cos_d(z), -r.hi * r.lo));
}
ORRERY_MATH double sin_kernel(Pair r) { return sin_pair(r).hi; }
ORRERY_MATH double cos_kernel(Pair r) { return cos_pair(r).hi; }
ORRERY_MATH bool angle_special(double x) { return !(abs_(x) < inf_d()); }
ORRERY_MATH double select_sin(Pair r, int n) {
  double v = n & 1 ? cos_kernel(r) : sin_kernel(r);
  return n & 2 ? -v : v;
}
ORRERY_MATH double sin_d(double x) {
  if (angle_special(x)) return nan_d();
  int n;
  Pair r = reduce_angle(x, n);
  if (n == 0 && abs_(x) < 0x1p-27) return x;
  return select_sin(r, n);
}
ORRERY_MATH double cos_d(double x) {
  if (angle_special(x)) return nan_d();
  int n;
  Pair r = reduce_angle(x, n);
  return select_sin(r, n + 1);
}
ORRERY_MATH void sincos_d(double x, double* s, double* c) {
  if (angle_special(x)) {
    *s = *c = nan_d();
    return;
  }
  int n;
  Pair r = reduce_angle(x, n);
  double a = sin_kernel(r), b = cos_kernel(r);
  *s = n & 1 ? (n & 2 ? -b : b) : (n & 2 ? -a : a);
  *c = n & 1 ? (n & 2 ? a : -a) : (n & 2 ? -b : b);
  if (n == 0 && abs_(x) < 0x1p-27) *s = x;
}
ORRERY_MATH double tan_d(double x) {
  if (angle_special(x)) return nan_d();
  if (abs_(x) < 0x1p-27) return x;
  int n;
  Pair r = reduce_angle(x, n);
  Pair s = sin_pair(r), c = cos_pair(r);
  Pair t = n & 1 ? divide(Pair{-c.hi, -c.lo}, s) : divide(s, c);
  return t.hi + t.lo;
}
// pi x reduced: the quarter turn n and the rest.
ORRERY_MATH Pair reduce_half_turns(double x, int& n) {
  double k = __builtin_rint(2 * x);
  double f = fma_(k, -0.5, x);
  n = abs_(k) < 0x1p52 ? (int)((i64)k & 3) : 0;  // beyond, x is an even integer or so large that 2 x mod 4 is 0
  if (abs_(x) >= 0x1p52) n = abs_(x) < 0x1p53 && ((i64)x & 1) ? 2 : 0;
  Pair p = two_product(f, 0x1.921fb54442d18p+1);
  p.lo = fma_(f, 0x1.1a62633145c07p-53, p.lo);
  return p;
}
ORRERY_MATH double sinpi_d(double x) {
  if (angle_special(x)) return nan_d();
  if (is_integer(x)) return copysign_(0.0, x);
  int n;
  Pair r = reduce_half_turns(x, n);
  return select_sin(r, n);
}
ORRERY_MATH double cospi_d(double x) {
  if (angle_special(x)) return nan_d();
  int n;
  Pair r = reduce_half_turns(x, n);
  double v = select_sin(r, n + 1);
  return v == 0 ? 0 : v;
}

// ---- inverse circular functions ------------------------------------------------------------------------------
ORRERY_MATH double atan_unit(double a) {  // 0 <= a <= 1
  double z = a * a;
  return fma_(a * z, poly::atan_d(z), a);
}
ORRERY_MATH double atan_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  double r;
  if (a <= 1) {
    r = atan_unit(a);
  } else {
    double inverse = 1 / a, t = atan_unit(inverse);
    r = 0x1.921fb54442d18p+0 - (t - 0x1.1a62633145c07p-54);
  }
  return copysign_(r, x);
}
ORRERY_MATH double atan2_d(double y, double x) {
  if (x != x || y != y) return x + y;
  double a = abs_(x), b = abs_(y), r;
  bool steep = b > a;
  double large = steep ? b : a, small = steep ? a : b;
  if (large == 0) {
    r = 0;
  } else if (small == inf_d()) {
    r = 0x1.921fb54442d18p-1;
  } else {
    double q = small / large;
    // A subnormal quotient has lost bits, but then so has the result; nothing smaller than it is representable.
    r = atan_unit(q);
  }
  if (steep) r = 0x1.921fb54442d18p+0 - (r - 0x1.1a62633145c07p-54);
  if (bits(x) >> 63) r = 0x1.921fb54442d18p+1 - (r - 0x1.1a62633145c07p-53);
  return copysign_(r, y);
}
ORRERY_MATH double asin_tail_d(double a, double z) { return a * z * poly::asin_d(z); }
// 2 asin(sqrt(z)) for z = (1 - |x|)/2 <= 1/4, as a pair.
ORRERY_MATH Pair asin_half(double z) {
  double s = __builtin_sqrt(z);
  if (z == 0) return {0, 0};
  double low = fma_(-s, s, z) / (2 * s);
  return fast_sum(2 * s, 2 * (low + asin_tail_d(s, z)));
}
ORRERY_MATH double asin_d(double x) {
  double a = abs_(x);
  if (!(a <= 1)) return nan_d();
  if (a < 0.5) return x + asin_tail_d(x, x * x);
  Pair h = asin_half(0.5 * (1 - a));
  Pair r = two_sum(0x1.921fb54442d18p+0, -h.hi);
  return copysign_(r.hi + (r.lo + (0x1.1a62633145c07p-54 - h.lo)), x);
}
ORRERY_MATH double acos_d(double x) {
  double a = abs_(x);
  if (!(a <= 1)) return nan_d();
  if (a < 0.5) {
    Pair r = two_sum(0x1.921fb54442d18p+0, -x);
    return r.hi + (r.lo + (0x1.1a62633145c07p-54 - asin_tail_d(x, x * x)));
  }
  Pair h = asin_half(0.5 * (1 - a));
  if (x > 0) return h.hi + h.lo;
  Pair r = two_sum(0x1.921fb54442d18p+1, -h.hi);
  return r.hi + (r.lo + (0x1.1a62633145c07p-53 - h.lo));
}

// ---- hyperbolic functions ------------------------------------------------------------------------------------
ORRERY_MATH double sinh_d(double x) {
  double a = abs_(x), r;
  if (a != a) return x;
  if (a < 1) return fma_(x * (x * x), poly::sinh_d(x * x), x);
  if (a > 22) {
    r = exp_scaled(a, 0, -1);
  } else {
    Pair e = exp_pair(a, 0);
    Pair s = two_sum(0.5 * e.hi, -0.5 / e.hi);
    r = s.hi + (s.lo + 0.5 * e.lo);
  }
  return copysign_(r, x);
}
ORRERY_MATH double cosh_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  if (a > 22) return exp_scaled(a, 0, -1);
  Pair e = exp_pair(a, 0);
  Pair inverse = divide({0.5, 0}, e);
  Pair s = two_sum(0.5 * e.hi, inverse.hi);
  return s.hi + (s.lo + (0.5 * e.lo + inverse.lo));
}
ORRERY_MATH double tanh_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  if (a < 0.55) return fma_(x * (x * x), poly::tanh_d(x * x), x);
  if (a > 22) return copysign_(1.0, x);
  Pair q = divide({2, 0}, add(exp_pair(2 * a, 0), 1));
  Pair r = two_sum(1, -q.hi);
  return copysign_(r.hi + (r.lo - q.lo), x);
}
ORRERY_MATH double asinh_d(double x) {
  double a = abs_(x), r;
  if (!(a < inf_d())) return x;
  if (a < 0x1p-28) return x;
  if (a > 0x1p28) {
    Pair l = add(log_pair(a, 0), Pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    r = l.hi + l.lo;
  } else {
    double z = a * a;
    r = log1p_d(a + z / (1 + __builtin_sqrt(1 + z)));
  }
  return copysign_(r, x);
}
ORRERY_MATH double acosh_d(double x) {
  if (!(x >= 1)) return nan_d();
  if (x == inf_d()) return x;
  if (x > 0x1p28) {
    Pair l = add(log_pair(x, 0), Pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56});
    return l.hi + l.lo;
  }
  double t = x - 1;
  return log1p_d(t + __builtin_sqrt(fma_(t, t, 2 * t)));
}
ORRERY_MATH double atanh_d(double x) {
  double a = abs_(x);
  if (!(a <= 1)) return nan_d();
  if (a == 1) return copysign_(inf_d(), x);
  if (a < 0x1p-28) return x;
  Pair n = {2 * a, 0}, d = two_sum(1, -a);
  Pair y = divide(n, d);  // atanh = log1p(y)/2
  Pair s = two_sum(1, y.hi);
  Pair l = log_pair(s.hi, s.lo + y.lo);
  return copysign_(0.5 * (l.hi + l.lo), x);
}
}  // namespace orrery_cc
#include <orrery/contract_restore.h>
#endif
