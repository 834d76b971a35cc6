// Math functions in single precision.
//
// The common ones (exponentials, logarithms, circular, tanh, erf, atan, asin) stay in float; the rare ones are their
// double counterparts rounded once, which costs a GPU's double-precision rate but never an ulp.
#ifndef ORRERY_CC_MATH_FLOAT_H
#define ORRERY_CC_MATH_FLOAT_H
#include <orrery/math_special.h>
#include <orrery/contract_off.h>

namespace orrery_cc {
ORRERY_MATH float fma_(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ORRERY_MATH float abs_(float x) { return __builtin_fabsf(x); }
ORRERY_MATH float inf_f() { return from_bits(0x7f800000u); }
ORRERY_MATH float nan_f() { return from_bits(0x7fffffffu); }
ORRERY_MATH float power_of_two_f(int n) { return from_bits((unsigned)(n + 127) << 23); }  // -126 <= n <= 127

ORRERY_MATH float ldexp_f(float x, int n) {  // one rounding, any n
  if (n > 127) {
    x *= 0x1p127f;
    n -= 127;
    if (n > 127) {
      x *= 0x1p127f;
      n = n - 127 > 127 ? 127 : n - 127;
    }
  } else if (n < -126) {
    x *= 0x1p-102f;
    n += 102;
    if (n < -126) {
      x *= 0x1p-102f;
      n = n + 102 < -126 ? -126 : n + 102;
    }
  }
  return x * power_of_two_f(n);
}
ORRERY_MATH float frexp_f(float x, int* e) { return (float)frexp_d(x, e); }
ORRERY_MATH int ilogb_f(float x) { return ilogb_d(x); }
ORRERY_MATH float logb_f(float x) { return (float)logb_d(x); }

// exp(r) 2^n for |r| <= 0.35 and any n at which the result is not far outside the range of float.
ORRERY_MATH float exp_finish_f(float r, float n) {
  float p = fma_(r * r, poly::exp_f(r), r);
  int k = (int)n, half = k >> 1;  // in two steps: 2^n itself may overflow or be subnormal
  p = p + 1.0f;
  return p * power_of_two_f(half) * power_of_two_f(k - half);
}
ORRERY_MATH float exp_f(float x) {
  x = x > 105.0f ? 105.0f : x < -105.0f ? -105.0f : x;  // NaN stays
  float n = __builtin_rintf(x * 0x1.715476p+0f);
  float r = fma_(n, -0x1.62e430p-1f, x);
  r = fma_(n, 0x1.05c610p-29f, r);
  return x != x ? x : exp_finish_f(r, n);
}
ORRERY_MATH float exp2_f(float x) {
  x = x > 152.0f ? 152.0f : x < -152.0f ? -152.0f : x;
  float n = __builtin_rintf(x);
  return x != x ? x : exp_finish_f((x - n) * 0x1.62e430p-1f, n);
}
ORRERY_MATH float exp10_f(float x) {
  x = x > 46.0f ? 46.0f : x < -46.0f ? -46.0f : x;
  float n = __builtin_rintf(x * 0x1.a934f0p+1f);
  float r = fma_(n, -0x1.344136p-2f, x);
  r = fma_(n, 0x1.ec10c0p-27f, r);
  float t = r * 0x1.26bb1cp+1f;
  t = fma_(r, -0x1.12aabap-25f, t + fma_(r, 0x1.26bb1cp+1f, -t));
  return x != x ? x : exp_finish_f(t, n);
}
// log(m 2^k) = log_f reduced: m in [0.7071, 1.4143], f = m - 1.
ORRERY_MATH float log_reduce_f(float x, float& k) {
  int bias = 0;
  if (x < 0x1p-126f) {
    x *= 0x1p24f;
    bias = -24;
  }
  int b = (int)bits(x), e = (b - 0x3f3504f3) >> 23;  // 0x3f3504f3 is sqrt(1/2)
  k = (float)(e + bias);
  return from_bits((unsigned)(b - (e << 23))) - 1.0f;
}
ORRERY_MATH float log_tail_f(float f) { return f * f * fma_(f, poly::log_f(f), -0.5f); }
ORRERY_MATH float log_f(float x) {
  if (!(x > 0 && x < inf_f())) return x == 0 ? -inf_f() : x > 0 ? x : x != x ? x : nan_f();
  float k, f = log_reduce_f(x, k);
  float hi = k * 0x1.62e400p-1f;  // exact: 13 zero bits
  float s = hi + f, low = k != 0 ? f - (s - hi) : 0.0f;
  return s + (log_tail_f(f) + fma_(k, 0x1.7f7d1cp-20f, low));
}
ORRERY_MATH float log_scaled_f(float x, float c, float cl, float unit, float unit_l) {
  // (f + tail) c + k unit, with c and unit as float pairs
  float k, f = log_reduce_f(x, k);
  float t = log_tail_f(f);
  float s = f + t, sl = t - (s - f);  // |t| < |f|
  float p = s * c, pl = fma_(s, c, -p) + fma_(sl, c, s * cl);
  float hi = k * unit, hl = fma_(k, unit, -hi) + k * unit_l;
  float r = hi + p, rl = k != 0 ? p - (r - hi) : 0.0f;
  return r + (rl + (pl + hl));
}
ORRERY_MATH float log2_f(float x) {
  if (!(x > 0 && x < inf_f())) return log_f(x);
  return log_scaled_f(x, 0x1.715476p+0f, 0x1.4ae0c0p-26f, 1.0f, 0.0f);
}
ORRERY_MATH float log10_f(float x) {
  if (!(x > 0 && x < inf_f())) return log_f(x);
  return log_scaled_f(x, 0x1.bcb7b2p-2f, -0x1.5b235ep-27f, 0x1.344136p-2f, -0x1.ec10c0p-27f);
}
ORRERY_MATH float pow_f(float x, float y) {
  if (x == 1.0f || y == 0.0f) return 1.0f;
  if (x != x || y != y) return x + y;
  float a = abs_(x);
  if (!(a > 0 && a < inf_f()) || !(abs_(y) < inf_f())) return (float)pow_d(x, y);
  bool odd = false;
  if (x < 0) {
    if (y != __builtin_rintf(y)) return nan_f();
    odd = abs_(y) < 0x1p24f && ((int)y & 1);
  }
  // log in double to about 2^-50 is plenty: |y log x| < 110
  int e;
  double m = normalize((double)a, e);
  if (m > 0x1.6a09e667f3bcdp+0) {
    m *= 0.5;
    e += 1;
  }
  double f = m - 1, s = f / (2 + f), z = s * s;
  double l = fma_((double)e, 0x1.62e42fefa39efp-1,
                  s * fma_(z, fma_(z, poly::log_d(z), 0x1.5555555555555p-1), 2.0));
  double p = (double)y * l;
  p = p > 200 ? 200 : p < -200 ? -200 : p;
  double k = __builtin_rint(p * 0x1.71547652b82fep+0), r = fma_(-k, 0x1.62e42fefa39efp-1, p);
  double v = (1 + fma_(r * r, poly::exp_d(r), r)) * power_of_two((int)k);
  return (float)(odd ? -v : v);
}

// ---- circular ------------------------------------------------------------------------------------------------
ORRERY_MATH float reduce_angle_f(float x, int& n) {
  if (abs_(x) > 48000.0f) {
    Pair r = reduce_angle(x, n);
    return (float)r.hi;
  }
  float k = __builtin_rintf(x * 0x1.45f306p-1f);
  n = (int)k;
  float r = fma_(k, -0x1.921fb6p+0f, x);
  r = fma_(k, 0x1.777a5cp-25f, r);
  return fma_(k, 0x1.ee59dap-50f, r);
}
ORRERY_MATH float sin_kernel_f(float r) {
  float z = r * r;
  return fma_(r * z, poly::sin_f(z), r);
}
ORRERY_MATH float cos_kernel_f(float r) {
  float z = r * r;
  return 1.0f + fma_(z, fma_(z, poly::cos_f(z), -0.5f), -0.5f * fma_(r, r, -z));
}
ORRERY_MATH float select_sin_f(float r, int n) {
  float v = n & 1 ? cos_kernel_f(r) : sin_kernel_f(r);
  return n & 2 ? -v : v;
}
ORRERY_MATH float sin_f(float x) {
  if (!(abs_(x) < inf_f())) return nan_f();
  int n;
  float r = reduce_angle_f(x, n);
  return x == 0 ? x : select_sin_f(r, n);
}
ORRERY_MATH float cos_f(float x) {
  if (!(abs_(x) < inf_f())) return nan_f();
  int n;
  float r = reduce_angle_f(x, n);
  return select_sin_f(r, n + 1);
}
ORRERY_MATH void sincos_f(float x, float* s, float* c) {
  if (!(abs_(x) < inf_f())) {
    *s = *c = nan_f();
    return;
  }
  int n;
  float r = reduce_angle_f(x, n), a = sin_kernel_f(r), b = cos_kernel_f(r);
  *s = n & 1 ? (n & 2 ? -b : b) : (n & 2 ? -a : a);
  *c = n & 1 ? (n & 2 ? a : -a) : (n & 2 ? -b : b);
  if (x == 0) *s = x;
}
ORRERY_MATH float tan_f(float x) {
  if (!(abs_(x) < inf_f())) return nan_f();
  int n;
  float r = reduce_angle_f(x, n), s = sin_kernel_f(r), c = cos_kernel_f(r);
  return x == 0 ? x : n & 1 ? -c / s : s / c;
}
ORRERY_MATH float reduce_half_turns_f(float x, int& n, float& low) {
  float k = __builtin_rintf(2 * x), f = fma_(k, -0.5f, x);
  n = abs_(x) < 0x1p24f ? (int)k & 3 : 0;
  float r = f * 0x1.921fb6p+1f;
  low = fma_(f, -0x1.777a5cp-24f, fma_(f, 0x1.921fb6p+1f, -r));
  return r;
}
ORRERY_MATH float select_sinpi_f(float r, float low, int n) {
  float v;
  if (n & 1) {
    float z = r * r;
    v = 1.0f + fma_(z, fma_(z, poly::cos_f(z), -0.5f), -fma_(0.5f, fma_(r, r, -z), r * low));
  } else {
    float z = r * r;
    v = r + fma_(r * z, poly::sin_f(z), low);
  }
  return n & 2 ? -v : v;
}
ORRERY_MATH float sinpi_f(float x) {
  if (!(abs_(x) < inf_f())) return nan_f();
  if (x == __builtin_rintf(x)) return __builtin_copysignf(0.0f, x);
  int n;
  float low, r = reduce_half_turns_f(x, n, low);
  return select_sinpi_f(r, low, n);
}
ORRERY_MATH float cospi_f(float x) {
  if (!(abs_(x) < inf_f())) return nan_f();
  int n;
  float low, r = reduce_half_turns_f(x, n, low), v = select_sinpi_f(r, low, n + 1);
  return v == 0 ? 0.0f : v;
}
ORRERY_MATH float atan_unit_f(float a) {
  float z = a * a;
  return fma_(a * z, poly::atan_f(z), a);
}
ORRERY_MATH float atan_f(float x) {
  float a = abs_(x);
  if (a != a) return x;
  float r = a <= 1 ? atan_unit_f(a) : 0x1.921fb6p+0f - (atan_unit_f(1.0f / a) + 0x1.777a5cp-25f);
  return __builtin_copysignf(r, x);
}
ORRERY_MATH float atan2_f(float y, float x) {
  if (x != x || y != y) return x + y;
  float a = abs_(x), b = abs_(y);
  bool steep = b > a;
  float large = steep ? b : a, small = steep ? a : b;
  float r = large == 0 ? 0.0f : small == inf_f() ? 0x1.921fb6p-1f : atan_unit_f(small / large);
  if (steep) r = 0x1.921fb6p+0f - (r + 0x1.777a5cp-25f);
  if (bits(x) >> 31) r = 0x1.921fb6p+1f - (r + 0x1.777a5cp-24f);
  return __builtin_copysignf(r, y);
}
ORRERY_MATH float asin_tail_f(float a, float z) { return a * z * poly::asin_f(z); }
ORRERY_MATH float asin_half_f(float z) {
  float s = __builtin_sqrtf(z), low = z > 0 ? fma_(-s, s, z) / (2 * s) : 0.0f;
  return 2 * (s + (low + asin_tail_f(s, z)));
}
ORRERY_MATH float asin_f(float x) {
  float a = abs_(x);
  if (!(a <= 1)) return nan_f();
  if (a < 0.5f) return x + asin_tail_f(x, x * x);
  return (float)asin_d((double)x);
}
ORRERY_MATH float acos_f(float x) {
  float a = abs_(x);
  if (!(a <= 1)) return nan_f();
  if (a < 0.5f) return 0x1.921fb6p+0f - (x + (asin_tail_f(x, x * x) + 0x1.777a5cp-25f));
  float h = asin_half_f(0.5f * (1 - a));
  return x > 0 ? h : 0x1.921fb6p+1f - (h + 0x1.777a5cp-24f);
}

// ---- hyperbolic and error functions --------------------------------------------------------------------------
ORRERY_MATH float tanh_f(float x) {
  float a = abs_(x);
  if (a < 0.55f) return fma_(x * (x * x), poly::tanh_f(x * x), x);
  float r = a > 9.5f ? 1.0f : 1.0f - 2.0f / (exp_f(2 * a) + 1.0f);
  return a != a ? x : __builtin_copysignf(r, x);
}
ORRERY_MATH float erf_f(float x) {
  float a = abs_(x);
  if (a < 0.92f) return fma_(x, 0x1.20dd76p+0f, x * (poly::erf_f(x * x) - 0x1.f7ac92p-25f));
  return (float)erf_d(x);
}
ORRERY_MATH float rsqrt_f(float x) {
#if defined(__CUDA_ARCH__)
  return __nvvm_rsqrt_approx_f(x);
#else
  return (float)(1.0 / __builtin_sqrt((double)x));
#endif
}
ORRERY_MATH float norm_f(int n, const float* v) {
  double s = 0;
  bool infinite = false;
  for (int i = 0; i < n; i++) {
    s = fma_((double)v[i], (double)v[i], s);
    infinite = infinite || abs_(v[i]) == inf_f();
  }
  return infinite ? inf_f() : (float)__builtin_sqrt(s);
}
ORRERY_MATH float rnorm_f(int n, const float* v) {
  double s = 0;
  for (int i = 0; i < n; i++) {
    if (abs_(v[i]) == inf_f()) return 0;
    s = fma_((double)v[i], (double)v[i], s);
  }
  return (float)(1 / __builtin_sqrt(s));
}
#define ORRERY_BY_DOUBLE(F) \
  ORRERY_MATH float F##_f(float x) { return (float)F##_d((double)x); }
ORRERY_BY_DOUBLE(expm1)
ORRERY_BY_DOUBLE(log1p)
ORRERY_BY_DOUBLE(cbrt)
ORRERY_BY_DOUBLE(rcbrt)
ORRERY_BY_DOUBLE(sinh)
ORRERY_BY_DOUBLE(cosh)
ORRERY_BY_DOUBLE(asinh)
ORRERY_BY_DOUBLE(acosh)
ORRERY_BY_DOUBLE(atanh)
ORRERY_BY_DOUBLE(erfc)
ORRERY_BY_DOUBLE(erfcx)
ORRERY_BY_DOUBLE(erfinv)
ORRERY_BY_DOUBLE(erfcinv)
ORRERY_BY_DOUBLE(normcdf)
ORRERY_BY_DOUBLE(normcdfinv)
ORRERY_BY_DOUBLE(tgamma)
ORRERY_BY_DOUBLE(lgamma)
ORRERY_BY_DOUBLE(j0)
ORRERY_BY_DOUBLE(j1)
ORRERY_BY_DOUBLE(y0)
ORRERY_BY_DOUBLE(y1)
ORRERY_BY_DOUBLE(i0)
ORRERY_BY_DOUBLE(i1)
#undef ORRERY_BY_DOUBLE
}  // namespace orrery_cc
#include <orrery/contract_restore.h>
#endif
