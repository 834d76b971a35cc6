// Holds Orrery's CUDA math functions against MPFR: the largest error in ulp of each, over random arguments of every
// magnitude of its domain, must stay within the bound of the CUDA C++ Programming Guide (version 13, "Mathematical
// Functions"). The same headers are compiled for the device by `orrery cc`; here they are host code.
//
//   math_accuracy [samples per range]
#include <mpfr.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <orrery/math_float.h>

namespace {
using namespace orrery_cc;
typedef std::function<void(mpfr_t, const mpfr_t)> Exact;

struct Range {
  double lo, hi;
  bool log_spaced;  // magnitudes evenly spread over the exponents; sign as in lo
};

constexpr int kPrecision = 240;

// Error of `got` in units in the last place of the exact value, for a format of `digits` bits and least exponent.
double ulp_error(double got, const mpfr_t exact, int digits, int min_exponent) {
  if (mpfr_nan_p(exact)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isnan(got)) return INFINITY;
  double limit = digits == 24 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
  if (std::isinf(got)) return mpfr_cmp_d(exact, limit) > 0 || mpfr_cmp_d(exact, -limit) < 0 ? 0 : INFINITY;
  if (mpfr_inf_p(exact)) return INFINITY;
  mpfr_t d;
  mpfr_init2(d, kPrecision);
  mpfr_sub_d(d, exact, got, MPFR_RNDN);
  long e = mpfr_zero_p(exact) ? min_exponent : std::max<long>(mpfr_get_exp(exact) - digits, min_exponent);
  mpfr_mul_2si(d, d, -e, MPFR_RNDN);
  double r = std::fabs(mpfr_get_d(d, MPFR_RNDN));
  mpfr_clear(d);
  return r;
}

std::mt19937_64 generator(12345);
double sample(const Range& r) {
  double u = double(generator() >> 11) * 0x1p-53;
  if (!r.log_spaced) return r.lo + (r.hi - r.lo) * u;
  double a = std::fabs(r.lo), b = std::fabs(r.hi);
  return std::copysign(std::exp(std::log(a) + (std::log(b) - std::log(a)) * u), r.lo);
}

int failures = 0;
int samples = 20000;

template <class T>
void check(const char* name, double bound, T (*f)(T), const Exact& exact, std::vector<Range> ranges) {
  constexpr bool single = sizeof(T) == 4;
  double worst = 0, at = 0;
  mpfr_t x, y;
  mpfr_inits2(kPrecision, x, y, nullptr);
  for (const Range& r : ranges)
    for (int i = 0; i < samples; i++) {
      T v = T(i == 0 ? r.lo : i == 1 ? r.hi : sample(r));
      mpfr_set_d(x, double(v), MPFR_RNDN);
      exact(y, x);
      double e = ulp_error(double(f(v)), y, single ? 24 : 53, single ? -149 : -1074);
      if (!(e <= worst)) worst = e, at = double(v);
    }
  mpfr_clears(x, y, nullptr);
  bool ok = worst <= bound;
  failures += !ok;
  std::printf("%-14s %6.3f ulp (bound %g) at %a = %.9g%s\n", name, worst, bound, at, at, ok ? "" : "   FAIL");
}

template <class T>
void check2(const char* name, double bound, T (*f)(T, T), int (*exact)(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t),
            std::vector<std::pair<Range, Range>> ranges) {
  constexpr bool single = sizeof(T) == 4;
  double worst = 0, at = 0, at2 = 0;
  mpfr_t x, y, z;
  mpfr_inits2(kPrecision, x, y, z, nullptr);
  for (auto& [ra, rb] : ranges)
    for (int i = 0; i < samples; i++) {
      T a = T(sample(ra)), b = T(sample(rb));
      mpfr_set_d(x, double(a), MPFR_RNDN);
      mpfr_set_d(y, double(b), MPFR_RNDN);
      exact(z, x, y, MPFR_RNDN);
      double e = ulp_error(double(f(a, b)), z, single ? 24 : 53, single ? -149 : -1074);
      if (!(e <= worst)) worst = e, at = double(a), at2 = double(b);
    }
  mpfr_clears(x, y, z, nullptr);
  bool ok = worst <= bound;
  failures += !ok;
  std::printf("%-14s %6.3f ulp (bound %g) at %a, %a%s\n", name, worst, bound, at, at2, ok ? "" : "   FAIL");
}

#define M(call) [](mpfr_t y, const mpfr_t x) { call; }
#define M1(f) M(mpfr_##f(y, x, MPFR_RNDN))

// Power series of the modified Bessel function I_n.
void bessel_i(mpfr_t y, const mpfr_t x, int n) {
  mpfr_t t, q;
  mpfr_init2(t, 2000);
  mpfr_init2(q, 2000);
  mpfr_t s;
  mpfr_init2(s, 2000);
  mpfr_div_ui(t, x, 2, MPFR_RNDN);
  mpfr_sqr(q, t, MPFR_RNDN);
  if (n == 0) mpfr_set_ui(t, 1, MPFR_RNDN);
  mpfr_set(s, t, MPFR_RNDN);
  for (unsigned k = 1; k < 3000; k++) {
    mpfr_mul(t, t, q, MPFR_RNDN);
    mpfr_div_ui(t, t, k * (k + n), MPFR_RNDN);
    mpfr_add(s, s, t, MPFR_RNDN);
    if (mpfr_zero_p(t) || mpfr_get_exp(t) < mpfr_get_exp(s) - 300) break;
  }
  mpfr_set(y, s, MPFR_RNDN);
  mpfr_clears(t, q, s, nullptr);
}
void erfcx_exact(mpfr_t y, const mpfr_t x) {
  mpfr_t s;
  mpfr_init2(s, 2200);
  mpfr_sqr(s, x, MPFR_RNDN);
  mpfr_exp(s, s, MPFR_RNDN);
  mpfr_erfc(y, x, MPFR_RNDN);
  mpfr_mul(y, y, s, MPFR_RNDN);
  mpfr_clear(s);
}
void normcdf_exact(mpfr_t y, const mpfr_t x) {
  mpfr_t s;
  mpfr_init2(s, kPrecision);
  mpfr_sqrt_ui(s, 2, MPFR_RNDN);
  mpfr_div(s, x, s, MPFR_RNDN);
  mpfr_neg(s, s, MPFR_RNDN);
  mpfr_erfc(y, s, MPFR_RNDN);
  mpfr_div_ui(y, y, 2, MPFR_RNDN);
  mpfr_clear(s);
}
// erfcinv by Newton on log(erfc(y)) = log(x), which is concave and cannot overshoot.
void erfcinv_exact(mpfr_t y, const mpfr_t p) {
  mpfr_t e, t, l, s;
  mpfr_inits2(kPrecision, e, t, l, s, nullptr);
  mpfr_log(l, p, MPFR_RNDN);
  double start = erfcinv_d(mpfr_get_d(p, MPFR_RNDN));
  mpfr_set_d(y, start, MPFR_RNDN);
  for (int i = 0; i < 3; i++) {
    mpfr_erfc(e, y, MPFR_RNDN);
    mpfr_log(t, e, MPFR_RNDN);
    mpfr_sub(t, t, l, MPFR_RNDN);
    mpfr_mul(t, t, e, MPFR_RNDN);
    mpfr_sqr(s, y, MPFR_RNDN);
    mpfr_exp(s, s, MPFR_RNDN);
    mpfr_mul(t, t, s, MPFR_RNDN);
    mpfr_const_pi(s, MPFR_RNDN);
    mpfr_sqrt(s, s, MPFR_RNDN);
    mpfr_mul(t, t, s, MPFR_RNDN);
    mpfr_div_ui(t, t, 2, MPFR_RNDN);
    mpfr_add(y, y, t, MPFR_RNDN);
  }
  mpfr_clears(e, t, l, s, nullptr);
}
void erfinv_exact(mpfr_t y, const mpfr_t x) {
  mpfr_t p;
  mpfr_init2(p, kPrecision + 1100);
  mpfr_ui_sub(p, 1, x, MPFR_RNDN);
  erfcinv_exact(y, p);
  mpfr_clear(p);
}
void normcdfinv_exact(mpfr_t y, const mpfr_t x) {
  mpfr_t p;
  mpfr_init2(p, kPrecision);
  mpfr_mul_ui(p, x, 2, MPFR_RNDN);
  erfcinv_exact(y, p);
  mpfr_sqrt_ui(p, 2, MPFR_RNDN);
  mpfr_mul(y, y, p, MPFR_RNDN);
  mpfr_neg(y, y, MPFR_RNDN);
  mpfr_clear(p);
}
void lgamma_exact(mpfr_t y, const mpfr_t x) {
  int sign;
  mpfr_lgamma(y, &sign, x, MPFR_RNDN);
}

#define BOTH(name, bf, bd, exact, ...)                                \
  check<float>(#name "f", bf, name##_f, exact, {__VA_ARGS__});        \
  check<double>(#name, bd, name##_d, exact, {__VA_ARGS__})

void exponentials() {
  Range any{-0x1p-40, -80, true}, up{0x1p-40, 80, true}, all{-80, 80, false}, edge{-104, -86, false};
  Range wide{-745, 709, false}, wide2{-1075, 1024, false}, wide10{-323, 308, false};
  BOTH(exp, 1, 1, M1(exp), any, up, all, edge);
  check<double>("exp wide", 1, exp_d, M1(exp), {wide});
  BOTH(exp2, 2, 1, M1(exp2), any, up, all, Range{-149, 128, false});
  check<double>("exp2 wide", 1, exp2_d, M1(exp2), {wide2});
  BOTH(exp10, 2, 1, M1(exp10), {-0x1p-40, -40, true}, {0x1p-40, 38, true}, {-45, 38, false});
  check<double>("exp10 wide", 1, exp10_d, M1(exp10), {wide10});
  BOTH(expm1, 1, 1, M1(expm1), any, up, all, Range{-2, 2, false});
  Range pos{0x1p-149, 0x1p127, true}, near{0.5, 2, false}, tight{0.99, 1.01, false};
  Range sub{0x1p-1074, 0x1p1023, true};
  BOTH(log, 1, 1, M1(log), pos, near, tight);
  BOTH(log2, 1, 1, M1(log2), pos, near, tight);
  BOTH(log10, 2, 1, M1(log10), pos, near, tight);
  check<double>("log wide", 1, log_d, M1(log), {sub});
  check<double>("log2 wide", 1, log2_d, M1(log2), {sub});
  BOTH(log1p, 1, 1, M1(log1p), {0x1p-100, 0x1p120, true}, {-0x1p-100, -0.999, true}, {-0.9, 4, false});
  BOTH(cbrt, 1, 1, M1(cbrt), pos, Range{-0x1p-140, -0x1p120, true}, near);
  BOTH(rcbrt, 1, 1, M(mpfr_cbrt(y, x, MPFR_RNDN); mpfr_ui_div(y, 1, y, MPFR_RNDN)), pos, near);
  check<double>("cbrt wide", 1, cbrt_d, M1(cbrt), {sub});
  check<double>("rcbrt wide", 1, rcbrt_d, M(mpfr_cbrt(y, x, MPFR_RNDN); mpfr_ui_div(y, 1, y, MPFR_RNDN)), {sub});
  BOTH(rsqrt, 2, 1, M1(rec_sqrt), pos, near);
}
void circular() {
  Range small{0x1p-60, 1, true}, mid{-100, 100, false}, far{1, 48000, true}, huge{48000, 0x1p127, true};
  Range vast{0x1p30, 0x1p1023, true};
  BOTH(sin, 2, 2, M1(sin), small, mid, far, huge);
  BOTH(cos, 2, 2, M1(cos), small, mid, far, huge);
  BOTH(tan, 4, 2, M1(tan), small, mid, far, huge);
  check<double>("sin vast", 2, sin_d, M1(sin), {vast});
  check<double>("cos vast", 2, cos_d, M1(cos), {vast});
  BOTH(sinpi, 1, 2, M1(sinpi), small, mid, far);
  BOTH(cospi, 1, 2, M1(cospi), small, mid, far);
  Range unit{-1, 1, false}, any{0x1p-100, 0x1p100, true}, minus{-0x1p-100, -0x1p100, true};
  BOTH(asin, 2, 2, M1(asin), unit, small);
  BOTH(acos, 2, 2, M1(acos), unit, small);
  BOTH(atan, 2, 2, M1(atan), any, minus, Range{-4, 4, false});
  std::vector<std::pair<Range, Range>> planes;
  for (Range a : {any, minus})
    for (Range b : {any, minus}) planes.push_back({a, b});
  planes.push_back({{-3, 3, false}, {-3, 3, false}});
  check2<float>("atan2f", 3, atan2_f, mpfr_atan2, planes);
  check2<double>("atan2", 2, atan2_d, mpfr_atan2, planes);
}
void hyperbolic() {
  Range tiny{0x1p-60, 1, true}, mid{-20, 20, false}, big{-88, 88, false}, wide{-710, 710, false};
  BOTH(sinh, 3, 2, M1(sinh), tiny, mid, big);
  BOTH(cosh, 2, 1, M1(cosh), tiny, mid, big);
  BOTH(tanh, 2, 1, M1(tanh), tiny, mid, Range{-2, 2, false});
  check<double>("sinh wide", 2, sinh_d, M1(sinh), {wide});
  check<double>("cosh wide", 1, cosh_d, M1(cosh), {wide});
  BOTH(asinh, 3, 3, M1(asinh), tiny, mid, Range{1, 0x1p120, true});
  BOTH(acosh, 4, 4, M1(acosh), {1, 3, false}, {1, 0x1p120, true});
  BOTH(atanh, 3, 2, M1(atanh), tiny, Range{-1, 1, false});
}
void special() {
  BOTH(erf, 2, 2, M1(erf), {0x1p-60, 1, true}, {-6, 6, false});
  BOTH(erfc, 4, 5, M1(erfc), {0x1p-60, 1, true}, {-6, 10, false});
  check<double>("erfc wide", 5, erfc_d, M1(erfc), {{5, 27.2, false}});
  BOTH(erfcx, 4, 4, erfcx_exact, {0x1p-40, 1, true}, {-9, 9, false}, {9, 1e4, true});
  BOTH(erfinv, 2, 5, erfinv_exact, {0x1p-40, 0.99, true}, {0.001, 0.9999, false});
  BOTH(erfcinv, 4, 6, erfcinv_exact, {0x1p-120, 1, true}, {0.01, 1.99, false});
  BOTH(normcdf, 5, 5, normcdf_exact, {-12, 6, false});
  check<double>("normcdf wide", 5, normcdf_d, normcdf_exact, {{-38, -5, false}});
  BOTH(normcdfinv, 5, 8, normcdfinv_exact, {0x1p-120, 0.5, true}, {0.01, 0.99, false});
  BOTH(tgamma, 5, 10, M1(gamma), {0x1p-40, 30, true}, {-30, 34, false});
  check<double>("tgamma wide", 10, tgamma_d, M1(gamma), {{1, 171.5, false}, {-170, -1, false}});
  BOTH(lgamma, 6, 4, lgamma_exact, {0x1p-100, 3, true}, {0.5, 12, false}, {3, 0x1p100, true}, {-2.26, 0, false});
  BOTH(j0, 9, 7, M1(j0), {0x1p-20, 8, true}, {0, 8, false});
  BOTH(j1, 9, 7, M1(j1), {0x1p-20, 8, true}, {0, 8, false});
  BOTH(y0, 9, 7, M1(y0), {0x1p-20, 8, true}, {0.01, 8, false});
  BOTH(y1, 9, 7, M1(y1), {0x1p-20, 8, true}, {0.01, 8, false});
  BOTH(i0, 6, 6, M(bessel_i(y, x, 0)), {-9, 9, false}, {9, 80, false});
  BOTH(i1, 6, 6, M(bessel_i(y, x, 1)), {-9, 9, false}, {9, 80, false});
}
void two_arguments() {
  Range pos{0x1p-100, 0x1p100, true}, exponent{-1.2, 1.2, false}, base{0.01, 100, true}, power{-18, 18, false};
  Range near{0.9, 1.1, false}, large{-800, 800, false};
  std::vector<std::pair<Range, Range>> r = {{pos, exponent}, {base, power}, {near, large}};
  check2<float>("powf", 4, pow_f, mpfr_pow, r);
  r.push_back({{0.5, 2, false}, {-1000, 1000, false}});
  check2<double>("pow", 2, pow_d, mpfr_pow, r);
}
}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) samples = std::atoi(argv[1]);
  exponentials();
  two_arguments();
  circular();
  hyperbolic();
  special();
  std::printf("%s\n", failures ? "FAIL" : "PASS");
  return failures != 0;
}
