// Special functions in double precision: error functions and their inverses, gamma, Bessel.
//
// Zeros are factored out wherever the CUDA bound is relative (lgamma at 1 and 2, the Bessel functions below 8), so
// that the relative error stays small beside them. Sources: the definitions in the DLMF; polynomials by cc/math/fit.py.
#ifndef ORRERY_CC_MATH_SPECIAL_H
#define ORRERY_CC_MATH_SPECIAL_H
#include <orrery/math_double.h>
#include <orrery/contract_off.h>

namespace orrery_cc {
// ---- error functions -----------------------------------------------------------------------------------------
ORRERY_MATH double erfcx_positive(double x) {  // x >= 0
  double t = (x - 4) / (x + 4);
  if (x > 0x1p60) return 0x1.20dd750429b6dp-1 / x;
  return poly::erfcx_d(t) / fma_(2, x, 1);
}
ORRERY_MATH double exp_square(double x, double xl, double sign) {  // exp(sign (x + xl)^2)
  Pair s = two_product(x, x);
  return exp_scaled(sign * s.hi, sign * (s.lo + 2 * x * xl), 0);
}
ORRERY_MATH double erfc_pair(double x, double xl) {  // erfc(x + xl)
  if (x != x) return x;
  double a = abs_(x);
  if (a < 0.5) {
    double e = fma_(x, poly::erf_d(x * x), x * 0x1.20dd750429b6dp+0);
    return 1 - (e + xl * 0x1.20dd750429b6dp+0);
  }
  if (x < -6.5) return 2;
  if (x > 28) return 0;
  double l = x < 0 ? -xl : xl;
  double r = exp_square(a, l, -1) * erfcx_positive(a);
  return x < 0 ? 2 - r : r;
}
ORRERY_MATH double erfc_d(double x) { return erfc_pair(x, 0); }
ORRERY_MATH double erf_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  if (a < 0.92) {
    if (a < 0x1p-900) return x * 0x1.20dd750429b6dp+0;
    return fma_(x, 0x1.20dd750429b6dp+0, x * poly::erf_d(x * x));
  }
  return copysign_(a > 6.5 ? 1.0 : 1 - erfc_d(a), x);
}
ORRERY_MATH double erfcx_d(double x) {
  if (x != x) return x;
  if (abs_(x) < 0.5) return exp_d(x * x) * erfc_d(x);
  if (x >= 0) return x == inf_d() ? 0 : erfcx_positive(x);
  if (x < -27) return inf_d();
  return fma_(2, exp_square(x, 0, 1), -(x > -6.5 ? erfcx_positive(-x) : 0));
}
// y with erfc(y) = p, for 0 < p <= 1/2.
ORRERY_MATH double erfcinv_tail(double p) {
  double w = -log_d(p), s = __builtin_sqrt(w);
  double y = s < 1.3 ? 0.4769362762044699 + (w - 0.6931471805599453) * 0.55
                     : s * (s < 6.95 ? poly::erfcinv_d(s) : poly::erfcinv2_d(s));
  for (int i = 0; i < (s < 1.3 ? 4 : 2); i++) {  // Halley on erfc(y)/p - 1
    double ratio = erfc_d(y) / p;
    // d/dy erfc = -2/sqrt(pi) exp(-y^2); erfc / derivative = -erfcx(y) sqrt(pi)/2
    double step = (1 - 1 / ratio) * erfcx_positive(y) * 0x1.c5bf891b4ef6ap-1;
    y += step / (1 - y * step);
  }
  return y;
}
ORRERY_MATH double erfinv_d(double x) {
  double a = abs_(x);
  if (!(a <= 1)) return nan_d();
  if (a == 1) return copysign_(inf_d(), x);
  if (a > 0.5) return copysign_(erfcinv_tail(1 - a), x);
  if (a < 0x1p-30) return x * 0x1.c5bf891b4ef6ap-1;
  double w = -log1p_d(-a * a);
  double y = a * poly::erfinv_d(w);
  double step = (erf_d(y) - a) * 0x1.c5bf891b4ef6ap-1 * exp_d(y * y);
  y -= step / (1 + y * step);
  return copysign_(y, x);
}
ORRERY_MATH double erfcinv_d(double x) {
  if (!(x >= 0 && x <= 2)) return nan_d();
  if (x == 0) return inf_d();
  if (x == 2) return -inf_d();
  if (x < 0.5) return erfcinv_tail(x);
  if (x > 1.5) return -erfcinv_tail(2 - x);
  return erfinv_d(1 - x);
}
ORRERY_MATH double normcdf_d(double x) {
  if (x < -40) return 0;
  if (x > 40) return 1;
  Pair z = two_product(-x, 0x1.6a09e667f3bcdp-1);
  z.lo = fma_(-x, -0x1.bdd3413b26456p-55, z.lo);
  return 0.5 * erfc_pair(z.hi, z.lo);
}
ORRERY_MATH double normcdfinv_d(double x) { return -0x1.6a09e667f3bcdp+0 * erfcinv_d(2 * x); }

// ---- gamma ---------------------------------------------------------------------------------------------------
// lgamma(x) for x >= 8 as a pair.
ORRERY_MATH Pair lgamma_stirling(double x, double xl) {
  Pair l = log_pair(x, xl);
  Pair m = add(multiply(l, add(Pair{x, xl}, -0.5)), Pair{-x, -xl});
  double inverse = 1 / x;
  double c = inverse * poly::stirling_d(inverse * inverse);
  return add(add(m, Pair{0x1.d67f1c864beb5p-1, -0x1.65b5a1b7ff5dfp-55}), c);
}
// Product x (x + 1) ... up to the first term >= 8, and that term.
ORRERY_MATH Pair rising_product(double x, Pair& end) {
  Pair p = {1, 0};
  Pair t = {x, 0};
  while (t.hi < 8) {
    p = multiply(p, t);
    t = add(t, 1);
  }
  end = t;
  return p;
}
// Gamma(x) = value * 2^scale for x > 0.
ORRERY_MATH double gamma_positive(double x, int& scale) {
  Pair end;
  Pair p = rising_product(x, end);
  Pair l = lgamma_stirling(end.hi, end.lo);
  int n;
  Pair q = exp_reduced(l.hi, l.lo, n);
  scale = n;
  Pair e = fast_sum(1.0, q.hi);
  e.lo += q.lo;
  Pair r = divide(e, p);
  return r.hi + r.lo;
}
ORRERY_MATH double tgamma_d(double x) {
  if (x != x || x == inf_d()) return x;
  if (x == 0) return copysign_(inf_d(), x);
  if (x > 172) return inf_d();
  int scale;
  if (x > 0) {
    if (x < 0x1p-60) return 1 / x;
    double g = gamma_positive(x, scale);
    return ldexp_d(g, scale);
  }
  if (is_integer(x)) return nan_d();
  double s = sinpi_d(x);
  if (x < -185) return s > 0 ? -0.0 : 0.0;
  if (x > -0x1p-60) return 1 / x;
  // Gamma(x) = -pi / (x sin(pi x) Gamma(-x))
  double g = gamma_positive(-x, scale);
  double m = -0x1.921fb54442d18p+1 / (s * g * x);
  return ldexp_d(m, -scale);
}
ORRERY_MATH Pair lgamma_positive(double x) {
  if (x < 0.7) {
    Pair l = log_pair(x, 0);
    double c = x < 0x1p-70 ? 0 : x * (x - 1) * poly::lgamma_d(x);
    return add(Pair{c, 0}, Pair{-l.hi, -l.lo});
  }
  if (x < 1.75) {
    double y = x - 1;
    return two_product(y * (y - 1), poly::lgamma_d(y));
  }
  if (x < 3) {
    double y = x - 2;
    return two_product((x - 1) * y, poly::lgamma2_d(y));
  }
  if (x >= 8) {
    if (x > 0x1p1015) return {x > 0x1.74p1014 ? inf_d() : x * 700, 0};
    return lgamma_stirling(x, 0);
  }
  Pair end;
  Pair p = rising_product(x, end);
  Pair l = log_pair(p.hi, p.lo);
  return add(lgamma_stirling(end.hi, end.lo), Pair{-l.hi, -l.lo});
}
ORRERY_MATH double lgamma_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  if (a == inf_d() || a == 0) return inf_d();
  if (x > 0) {
    if (x > 0x1p1000) {
      double l = log_d(x);
      return x * (l - 1);
    }
    Pair r = lgamma_positive(x);
    return r.hi + r.lo;
  }
  if (is_integer(x)) return inf_d();
  if (a < 0x1p-70) return -log_d(a);
  // lgamma(x) = log(pi) - log(a |sin(pi a)|) - lgamma(a)
  Pair product = two_product(a, abs_(sinpi_d(a)));
  Pair l = log_pair(product.hi, product.lo);
  Pair r = add(Pair{0x1.250d048e7a1bdp+0, 0x1.7abf2ad8d5088p-57}, Pair{-l.hi, -l.lo});
  Pair g = lgamma_positive(a);
  r = add(r, Pair{-g.hi, -g.lo});
  return r.hi + r.lo;
}

// ---- Bessel functions ----------------------------------------------------------------------------------------
// Hankel's expansion for x >= 8: sqrt(2/(pi x)) (p cos(x - chi) - q sin(x - chi)), or with sin and cos for Y.
ORRERY_MATH double bessel_large(double x, int order, bool second) {
  if (x == inf_d()) return 0;
  double u = 8 / x, v = u * u, s, c;
  sincos_d(x, &s, &c);
  double p = order ? poly::p1(v) : poly::p0(v);
  double q = u * (order ? poly::q1(v) : poly::q0(v));
  // cos(x - pi/4) = (c + s)/sqrt 2, sin(x - pi/4) = (s - c)/sqrt 2; order 1 is a quarter turn later.
  double cosine = order ? s - c : c + s, sine = order ? -(c + s) : s - c;
  double amplitude = __builtin_sqrt(0x1.45f306dc9c883p-2 / x);  // sqrt(1/(pi x))
  return amplitude * (second ? fma_(p, sine, q * cosine) : fma_(p, cosine, -q * sine));
}
#define ORRERY_NEAR(F, hi, lo) ((((x) - (hi)) - (lo)) * poly::F(((x) - (hi)) - (lo)))
ORRERY_MATH double j0_d(double x) {
  x = abs_(x);
  if (x != x) return x;
  if (x < 1.4) return poly::j0_small(x * x);
  if (x < 3.96) return ORRERY_NEAR(j0_z1, 0x1.33d152e971b40p+1, -0x1.0f539d7da258ep-53);
  if (x < 7.1) return ORRERY_NEAR(j0_z2, 0x1.6148f5b2c2e45p+2, 0x1.75054cd60a517p-54);
  if (x <= 8) return ORRERY_NEAR(j0_z3, 0x1.14eb56cccdecap+3, -0x1.51970714c7c25p-52);
  return bessel_large(x, 0, false);
}
ORRERY_MATH double j1_d(double a) {
  double x = abs_(a), r;
  if (x != x) return x;
  if (x < 2) r = x * poly::j1_small(x * x);
  else if (x < 5.42) r = ORRERY_NEAR(j1_z1, 0x1.ea75575af6f09p+1, -0x1.60155a9d1b256p-53);
  else if (x <= 8) r = ORRERY_NEAR(j1_z2, 0x1.c0ff5f3b47250p+2, -0x1.b226d9d243827p-54);
  else r = bessel_large(x, 1, false);
  return a < 0 ? -r : r;
}
ORRERY_MATH double y0_d(double x) {
  if (x != x) return x;
  if (x < 0) return nan_d();
  if (x == 0) return -inf_d();
  if (x < 0.55) return fma_(0x1.45f306dc9c883p-1 * log_d(x), j0_d(x), poly::y0_small(x * x));
  if (x < 1.55) return ORRERY_NEAR(y0_z1, 0x1.c982eb8d417eap-1, 0x1.ea9d270347f83p-56);
  if (x < 2.5) return poly::y0_mid(x - 2);
  if (x < 5.53) return ORRERY_NEAR(y0_z2, 0x1.fa9534d98569cp+1, -0x1.f06ae7804384ep-54);
  if (x <= 8) return ORRERY_NEAR(y0_z3, 0x1.c581dc4e72103p+2, -0x1.9774a495f56cfp-54);
  return bessel_large(x, 0, true);
}
ORRERY_MATH double y1_d(double x) {
  if (x != x) return x;
  if (x < 0) return nan_d();
  if (x < 0x1p-1020) return x == 0 ? -inf_d() : -0x1.45f306dc9c883p-1 / x;
  if (x < 1.5)
    return fma_(x, poly::y1_small(x * x), 0x1.45f306dc9c883p-1 * (log_d(x) * j1_d(x) - 1 / x));
  if (x < 3.85) return ORRERY_NEAR(y1_z1, 0x1.193bed4dff243p+1, -0x1.bd1e50d219bfdp-55);
  if (x < 7.01) return ORRERY_NEAR(y1_z2, 0x1.5b7fe4e87b02ep+2, 0x1.dfe7bac228e8cp-52);
  if (x <= 8) return ORRERY_NEAR(y1_z3, 0x1.13127ae6169b4p+3, 0x1.479cc068d9046p-52);
  return bessel_large(x, 1, true);
}
#undef ORRERY_NEAR
ORRERY_MATH double jn_d(int n, double x) {
  if (n < 0) return nan_d();
  if (n == 0) return j0_d(x);
  if (n == 1) return j1_d(x);
  double a = abs_(x);
  if (a != a) return x;
  double r;
  if (a == 0 || a == inf_d()) {
    r = 0;
  } else if (a > n) {  // forward recurrence is stable
    double below = j0_d(a);
    r = j1_d(a);
    for (int k = 1; k < n; k++) {
      double next = fma_(2.0 * k / a, r, -below);
      below = r;
      r = next;
    }
  } else {  // Miller: downward from an order at which J is negligible, scaled by J0 + 2 (J2 + J4 + ...) = 1
    int top = 2 * ((n + (int)__builtin_sqrt(160.0 * n) + 20) / 2);
    double above = 0, here = 0x1p-900, sum = 0;
    r = 0;
    for (int k = top; k > 0; k--) {
      double below = fma_(2.0 * k / a, here, -above);
      above = here;
      here = below;
      if (abs_(here) > 0x1p300) {
        above *= 0x1p-600;
        here *= 0x1p-600;
        sum *= 0x1p-600;
        r *= 0x1p-600;
      }
      if ((k & 1) && k > 1) sum += here;  // here = J(k-1), even order
      if (k == n) r = above;
    }
    r /= fma_(2, sum, here);
  }
  return x < 0 && (n & 1) ? -r : r;
}
ORRERY_MATH double yn_d(int n, double x) {
  if (n < 0) return nan_d();
  if (n == 0) return y0_d(x);
  if (x != x) return x;
  if (x < 0) return nan_d();
  if (x == inf_d()) return 0;
  double below = y0_d(x), r = y1_d(x);
  for (int k = 1; k < n && r > -inf_d(); k++) {
    double next = fma_(2.0 * k / x, r, -below);
    below = r;
    r = next;
  }
  return r;
}
ORRERY_MATH double i0_d(double x) {
  double a = abs_(x);
  if (a != a) return x;
  if (a < 8) return poly::i0_small(a * a);
  if (a == inf_d()) return a;
  double e = exp_scaled(a, 0, -1);
  return e * (poly::i0_tail(8 / a) / __builtin_sqrt(a)) * 2;
}
ORRERY_MATH double i1_d(double x) {
  double a = abs_(x), r;
  if (a != a || a == inf_d()) return x;
  if (a < 8) r = a * poly::i1_small(a * a);
  else r = exp_scaled(a, 0, -1) * (poly::i1_tail(8 / a) / __builtin_sqrt(a)) * 2;
  return copysign_(r, x);
}
}  // namespace orrery_cc
#include <orrery/contract_restore.h>
#endif
