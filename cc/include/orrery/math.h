// The CUDA math functions under their CUDA names, on top of math_double.h, math_special.h, math_float.h, math_whole.h.
//
// Names that the host's C library has too (sin, expf, j0) are device overloads; names of CUDA only (rsqrt, sinpi,
// normcdf) are host-and-device, as with nvcc. Under fast math (__USE_FAST_MATH__, --use_fast_math) sinf, expf and
// their kin become the hardware's approximations.
#ifndef ORRERY_CC_MATH_H
#define ORRERY_CC_MATH_H
#include <orrery/math_float.h>
#include <orrery/math_whole.h>

#define ORRERY_FUNCTION static __device__ __inline__
#define ORRERY_BOTH static __host__ __device__ __inline__
// ---- one argument: name, double function, float function -----------------------------------------------------
#define ORRERY_UNARY(Q, N)                                  \
  Q double N(double x) { return orrery_cc::N##_d(x); }      \
  Q float N##f(float x) { return orrery_cc::N##_f(x); }
#define ORRERY_UNARY_FAST(N, fast)                                              \
  ORRERY_FUNCTION double N(double x) { return orrery_cc::N##_d(x); }            \
  ORRERY_FUNCTION float N##f(float x) { return fast; }
#ifdef __USE_FAST_MATH__
#define ORRERY_FAST(fast, precise) fast
#else
#define ORRERY_FAST(fast, precise) precise
#endif
ORRERY_UNARY_FAST(exp, ORRERY_FAST(__expf(x), orrery_cc::exp_f(x)))
ORRERY_UNARY_FAST(exp2, ORRERY_FAST(__exp2f(x), orrery_cc::exp2_f(x)))
ORRERY_UNARY_FAST(exp10, ORRERY_FAST(__exp10f(x), orrery_cc::exp10_f(x)))
ORRERY_UNARY_FAST(log, ORRERY_FAST(__logf(x), orrery_cc::log_f(x)))
ORRERY_UNARY_FAST(log2, ORRERY_FAST(__log2f(x), orrery_cc::log2_f(x)))
ORRERY_UNARY_FAST(log10, ORRERY_FAST(__log10f(x), orrery_cc::log10_f(x)))
ORRERY_UNARY_FAST(sin, ORRERY_FAST(__sinf(x), orrery_cc::sin_f(x)))
ORRERY_UNARY_FAST(cos, ORRERY_FAST(__cosf(x), orrery_cc::cos_f(x)))
ORRERY_UNARY_FAST(tan, ORRERY_FAST(__tanf(x), orrery_cc::tan_f(x)))
ORRERY_UNARY_FAST(tanh, ORRERY_FAST(__tanhf(x), orrery_cc::tanh_f(x)))
ORRERY_UNARY(ORRERY_FUNCTION, expm1)
ORRERY_UNARY(ORRERY_FUNCTION, log1p)
ORRERY_UNARY(ORRERY_FUNCTION, cbrt)
ORRERY_UNARY(ORRERY_FUNCTION, asin)
ORRERY_UNARY(ORRERY_FUNCTION, acos)
ORRERY_UNARY(ORRERY_FUNCTION, atan)
ORRERY_UNARY(ORRERY_FUNCTION, sinh)
ORRERY_UNARY(ORRERY_FUNCTION, cosh)
ORRERY_UNARY(ORRERY_FUNCTION, asinh)
ORRERY_UNARY(ORRERY_FUNCTION, acosh)
ORRERY_UNARY(ORRERY_FUNCTION, atanh)
ORRERY_UNARY(ORRERY_FUNCTION, erf)
ORRERY_UNARY(ORRERY_FUNCTION, erfc)
ORRERY_UNARY(ORRERY_FUNCTION, tgamma)
ORRERY_UNARY(ORRERY_FUNCTION, lgamma)
ORRERY_UNARY(ORRERY_FUNCTION, j0)
ORRERY_UNARY(ORRERY_FUNCTION, j1)
ORRERY_UNARY(ORRERY_FUNCTION, y0)
ORRERY_UNARY(ORRERY_FUNCTION, y1)
ORRERY_UNARY(ORRERY_FUNCTION, logb)
ORRERY_UNARY(ORRERY_FUNCTION, round)
#define ORRERY_OVERLOADED(N) \
  ORRERY_UNARY(ORRERY_BOTH, N) \
  ORRERY_BOTH float N(float x) { return orrery_cc::N##_f(x); }
ORRERY_OVERLOADED(rsqrt)
ORRERY_OVERLOADED(rcbrt)
ORRERY_OVERLOADED(sinpi)
ORRERY_OVERLOADED(cospi)
ORRERY_OVERLOADED(erfcx)
ORRERY_OVERLOADED(erfinv)
ORRERY_OVERLOADED(erfcinv)
ORRERY_OVERLOADED(normcdf)
ORRERY_OVERLOADED(normcdfinv)
#undef ORRERY_OVERLOADED
ORRERY_FUNCTION float exp10(float x) { return exp10f(x); }
ORRERY_BOTH double cyl_bessel_i0(double x) { return orrery_cc::i0_d(x); }
ORRERY_BOTH double cyl_bessel_i1(double x) { return orrery_cc::i1_d(x); }
ORRERY_BOTH float cyl_bessel_i0f(float x) { return orrery_cc::i0_f(x); }
ORRERY_BOTH float cyl_bessel_i1f(float x) { return orrery_cc::i1_f(x); }
#undef ORRERY_UNARY
#undef ORRERY_UNARY_FAST

// ---- circular pairs ------------------------------------------------------------------------------------------
ORRERY_FUNCTION void sincos(double x, double* s, double* c) { orrery_cc::sincos_d(x, s, c); }
ORRERY_FUNCTION void sincosf(float x, float* s, float* c) { ORRERY_FAST(__sincosf, orrery_cc::sincos_f)(x, s, c); }
ORRERY_FUNCTION void sincos(float x, float* s, float* c) { sincosf(x, s, c); }
ORRERY_BOTH void sincospi(double x, double* s, double* c) { *s = sinpi(x); *c = cospi(x); }
ORRERY_BOTH void sincospif(float x, float* s, float* c) { *s = sinpif(x); *c = cospif(x); }
ORRERY_BOTH void sincospi(float x, float* s, float* c) { sincospif(x, s, c); }

// ---- one instruction -----------------------------------------------------------------------------------------
ORRERY_FUNCTION double sqrt(double x) { return __builtin_sqrt(x); }
ORRERY_FUNCTION float sqrtf(float x) { return __builtin_sqrtf(x); }
ORRERY_FUNCTION double fabs(double x) { return __builtin_fabs(x); }
ORRERY_FUNCTION float fabsf(float x) { return __builtin_fabsf(x); }
ORRERY_FUNCTION double floor(double x) { return __builtin_floor(x); }
ORRERY_FUNCTION float floorf(float x) { return __builtin_floorf(x); }
ORRERY_FUNCTION double ceil(double x) { return __builtin_ceil(x); }
ORRERY_FUNCTION float ceilf(float x) { return __builtin_ceilf(x); }
ORRERY_FUNCTION double trunc(double x) { return __builtin_trunc(x); }
ORRERY_FUNCTION float truncf(float x) { return __builtin_truncf(x); }
ORRERY_FUNCTION double rint(double x) { return __builtin_rint(x); }
ORRERY_FUNCTION float rintf(float x) { return __builtin_rintf(x); }
ORRERY_FUNCTION double nearbyint(double x) { return __builtin_rint(x); }
ORRERY_FUNCTION float nearbyintf(float x) { return __builtin_rintf(x); }
ORRERY_FUNCTION double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
ORRERY_FUNCTION float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ORRERY_FUNCTION double fmax(double a, double b) { return __builtin_fmax(a, b); }
ORRERY_FUNCTION float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
ORRERY_FUNCTION double fmin(double a, double b) { return __builtin_fmin(a, b); }
ORRERY_FUNCTION float fminf(float a, float b) { return __builtin_fminf(a, b); }
ORRERY_FUNCTION double copysign(double a, double b) { return __builtin_copysign(a, b); }
ORRERY_FUNCTION float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
ORRERY_FUNCTION double fdim(double a, double b) { return a <= b ? 0 : a - b; }
ORRERY_FUNCTION float fdimf(float a, float b) { return a <= b ? 0 : a - b; }
ORRERY_BOTH double fdivide(double a, double b) { return a / b; }
ORRERY_BOTH float fdividef(float a, float b) { return a / b; }

// ---- to integers ---------------------------------------------------------------------------------------------
#define ORRERY_TO_INTEGER(T, R, N)                                                          \
  ORRERY_FUNCTION T R(double x) { return (T)__double2ll_rn(x); }                            \
  ORRERY_FUNCTION T R##f(float x) { return (T)__float2ll_rn(x); }                           \
  ORRERY_FUNCTION T N(double x) { return (T)__double2ll_rz(orrery_cc::round_d(x)); }        \
  ORRERY_FUNCTION T N##f(float x) { return (T)__float2ll_rz(orrery_cc::round_f(x)); }
ORRERY_TO_INTEGER(long, lrint, lround)
ORRERY_TO_INTEGER(long long, llrint, llround)
#undef ORRERY_TO_INTEGER
ORRERY_FUNCTION int ilogb(double x) { return orrery_cc::ilogb_d(x); }
ORRERY_FUNCTION int ilogbf(float x) { return orrery_cc::ilogb_f(x); }
ORRERY_FUNCTION int abs(int x) { return x < 0 ? -x : x; }
ORRERY_FUNCTION long labs(long x) { return x < 0 ? -x : x; }
ORRERY_FUNCTION long long llabs(long long x) { return x < 0 ? -x : x; }

// ---- two and more arguments ----------------------------------------------------------------------------------
ORRERY_FUNCTION double pow(double x, double y) { return orrery_cc::pow_d(x, y); }
ORRERY_FUNCTION float powf(float x, float y) { return ORRERY_FAST(__powf, orrery_cc::pow_f)(x, y); }
ORRERY_FUNCTION double powi(double x, int n) { return orrery_cc::powi_d(x, n); }
ORRERY_FUNCTION float powif(float x, int n) { return (float)orrery_cc::powi_d(x, n); }
ORRERY_FUNCTION double atan2(double y, double x) { return orrery_cc::atan2_d(y, x); }
ORRERY_FUNCTION float atan2f(float y, float x) { return orrery_cc::atan2_f(y, x); }
ORRERY_FUNCTION double fmod(double x, double y) { return orrery_cc::fmod_d(x, y); }
ORRERY_FUNCTION float fmodf(float x, float y) { return orrery_cc::fmod_f(x, y); }
ORRERY_FUNCTION double remainder(double x, double y) { return orrery_cc::remainder_d(x, y); }
ORRERY_FUNCTION float remainderf(float x, float y) { return orrery_cc::remainder_f(x, y); }
ORRERY_FUNCTION double remquo(double x, double y, int* q) { return orrery_cc::remquo_d(x, y, q); }
ORRERY_FUNCTION float remquof(float x, float y, int* q) { return orrery_cc::remquo_f(x, y, q); }
ORRERY_FUNCTION double nextafter(double x, double y) { return orrery_cc::nextafter_d(x, y); }
ORRERY_FUNCTION float nextafterf(float x, float y) { return orrery_cc::nextafter_f(x, y); }
ORRERY_FUNCTION double ldexp(double x, int n) { return orrery_cc::ldexp_d(x, n); }
ORRERY_FUNCTION float ldexpf(float x, int n) { return orrery_cc::ldexp_f(x, n); }
ORRERY_FUNCTION double scalbn(double x, int n) { return orrery_cc::ldexp_d(x, n); }
ORRERY_FUNCTION float scalbnf(float x, int n) { return orrery_cc::ldexp_f(x, n); }
namespace orrery_cc {
ORRERY_MATH int clamp_exponent(long n) { return n > 5000 ? 5000 : n < -5000 ? -5000 : (int)n; }
}  // namespace orrery_cc
ORRERY_FUNCTION double scalbln(double x, long n) { return orrery_cc::ldexp_d(x, orrery_cc::clamp_exponent(n)); }
ORRERY_FUNCTION float scalblnf(float x, long n) { return orrery_cc::ldexp_f(x, orrery_cc::clamp_exponent(n)); }
ORRERY_FUNCTION double frexp(double x, int* e) { return orrery_cc::frexp_d(x, e); }
ORRERY_FUNCTION float frexpf(float x, int* e) { return orrery_cc::frexp_f(x, e); }
ORRERY_FUNCTION double modf(double x, double* w) { return orrery_cc::modf_d(x, w); }
ORRERY_FUNCTION float modff(float x, float* w) { return orrery_cc::modf_f(x, w); }
ORRERY_FUNCTION double jn(int n, double x) { return orrery_cc::jn_d(n, x); }
ORRERY_FUNCTION float jnf(int n, float x) { return (float)orrery_cc::jn_d(n, x); }
ORRERY_FUNCTION double yn(int n, double x) { return orrery_cc::yn_d(n, x); }
ORRERY_FUNCTION float ynf(int n, float x) { return (float)orrery_cc::yn_d(n, x); }
ORRERY_FUNCTION double nan(const char*) { return orrery_cc::nan_d(); }
ORRERY_FUNCTION float nanf(const char*) { return orrery_cc::nan_f(); }

ORRERY_BOTH double norm(int n, const double* v) { return orrery_cc::norm_d(n, v); }
ORRERY_BOTH float normf(int n, const float* v) { return orrery_cc::norm_f(n, v); }
ORRERY_BOTH double rnorm(int n, const double* v) { return orrery_cc::rnorm_d(n, v); }
ORRERY_BOTH float rnormf(int n, const float* v) { return orrery_cc::rnorm_f(n, v); }
#define ORRERY_NORMS(T, s)                                                                                    \
  ORRERY_BOTH T norm3d##s(T a, T b, T c) { T v[3] = {a, b, c}; return norm##s(3, v); }                        \
  ORRERY_BOTH T norm4d##s(T a, T b, T c, T d) { T v[4] = {a, b, c, d}; return norm##s(4, v); }                \
  ORRERY_BOTH T rhypot##s(T a, T b) { T v[2] = {a, b}; return rnorm##s(2, v); }                               \
  ORRERY_BOTH T rnorm3d##s(T a, T b, T c) { T v[3] = {a, b, c}; return rnorm##s(3, v); }                      \
  ORRERY_BOTH T rnorm4d##s(T a, T b, T c, T d) { T v[4] = {a, b, c, d}; return rnorm##s(4, v); }              \
  ORRERY_FUNCTION T hypot##s(T a, T b) { T v[2] = {a, b}; return norm##s(2, v); }
ORRERY_NORMS(double, )
ORRERY_NORMS(float, f)
#undef ORRERY_NORMS

// ---- classification, as the C library spells it --------------------------------------------------------------
ORRERY_DEV int __isfinited(double x) { return __builtin_isfinite(x); }
ORRERY_DEV int __isinfd(double x) { return __builtin_isinf(x); }
ORRERY_DEV int __isnand(double x) { return __builtin_isnan(x); }
ORRERY_DEV int __signbitd(double x) { return (int)(orrery_cc::bits(x) >> 63); }
ORRERY_DEV int __signbitf(float x) { return (int)(orrery_cc::bits(x) >> 31); }
ORRERY_DEV int __signbit(double x) { return __signbitd(x); }
ORRERY_DEV int __finite(double x) { return __builtin_isfinite(x); }
ORRERY_DEV int __finitef(float x) { return __builtin_isfinite(x); }
ORRERY_DEV int __isinf(double x) { return __builtin_isinf(x); }
ORRERY_DEV int __isinff(float x) { return __builtin_isinf(x); }
ORRERY_DEV int __isnan(double x) { return __builtin_isnan(x); }
ORRERY_DEV int __isnanf(float x) { return __builtin_isnan(x); }

// ---- min and max of every mixture of arithmetic types --------------------------------------------------------
#define ORRERY_MINMAX(R, A, B)                                                   \
  ORRERY_BOTH R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }              \
  ORRERY_BOTH R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }
ORRERY_MINMAX(int, int, int)
ORRERY_MINMAX(unsigned, unsigned, unsigned)
ORRERY_MINMAX(unsigned, int, unsigned)
ORRERY_MINMAX(unsigned, unsigned, int)
ORRERY_MINMAX(long, long, long)
ORRERY_MINMAX(unsigned long, unsigned long, unsigned long)
ORRERY_MINMAX(unsigned long, long, unsigned long)
ORRERY_MINMAX(unsigned long, unsigned long, long)
ORRERY_MINMAX(long long, long long, long long)
ORRERY_MINMAX(unsigned long long, unsigned long long, unsigned long long)
ORRERY_MINMAX(unsigned long long, long long, unsigned long long)
ORRERY_MINMAX(unsigned long long, unsigned long long, long long)
#undef ORRERY_MINMAX
#define ORRERY_MINMAX(R, A, B, s)                                                        \
  ORRERY_BOTH R max(A a, B b) { return __builtin_fmax##s((R)a, (R)b); }                  \
  ORRERY_BOTH R min(A a, B b) { return __builtin_fmin##s((R)a, (R)b); }
ORRERY_MINMAX(float, float, float, f)
ORRERY_MINMAX(double, double, double, )
ORRERY_MINMAX(double, float, double, )
ORRERY_MINMAX(double, double, float, )
#undef ORRERY_MINMAX
ORRERY_DEV unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
ORRERY_DEV unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
ORRERY_DEV long long llmin(long long a, long long b) { return a < b ? a : b; }
ORRERY_DEV long long llmax(long long a, long long b) { return a > b ? a : b; }
ORRERY_DEV unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
ORRERY_DEV unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
#undef ORRERY_FUNCTION
#undef ORRERY_BOTH
#undef ORRERY_FAST
#endif
