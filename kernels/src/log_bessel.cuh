// log I_v(x) and log K_v(x) of one order and argument, in double. Both are sums of positive terms, or of terms that shrink as fast as they
// alternate, and only their logarithms grow with the range: nothing overflows. Where they come from, with r = sqrt(v^2 + x^2):
//
//   v >= 20, x >= 20 both: the expansion for large orders. Written in powers of 1 / r its coefficients are polynomials of (v / r)^2, so that it
//   or both          is the expansion for large arguments where v = 0; the further out, the fewer terms
//   v < 20, x < 20   I: the power series, all of whose terms are positive
//   and x >= 1/2     K: the integral over exp(-x cosh t) cosh(v t) by the rule of trapezoids with a step of 1/8, whose error falls faster than any
//                    power of the step; all terms positive
//   or x < 1/2       K: Temme's series for an order within a half of zero, then upwards by the recurrence of ratios
//
// Not here: negative orders (I), derivatives, the complex plane.
#pragma once
#include <cmath>

namespace orrery::kernels {
namespace {

#include "log_bessel_coefficients.inc"

constexpr double kExpansionFrom = 20, kTemmeBelow = 0.5;
constexpr double kGamma = 0.57721566490153286, kPi = 3.1415926535897932, kLog2 = 0.69314718055994531;

/// sum of kSeries[k] u^k.
template <int kTerms>
__device__ __forceinline__ double polynomial(const double* c, double u) {
  double s = c[kTerms - 1];
#pragma unroll
  for (int k = kTerms - 2; k >= 0; k--) s = fma(s, u, c[k]);
  return s;
}

/// log Gamma(1 + v) of -1/2 <= v <= 1/2, to its relative precision also next to zero.
__device__ __forceinline__ double log_gamma_beside_one(double v) { return v * (1 - kGamma) - log1p(v) + v * v * polynomial<26>(kZeta, -v); }

/// How far v eta = r - v log((v + r) / x) and what both functions have in common go.
struct Far {
  double r, eta, y;
  int terms;
  __device__ __forceinline__ Far(double v, double x) : r(hypot(v, x)) {
    const double ratio = (v + v * (v / (r + x))) / x, t = v / r;
    const double from_root = fma(-kRootRest, v, fma(-kRoot, v, x));
    // The difference would lose what r is larger than it by: next to the ratio of v and x where it is zero it is a series.
    if (fabs(from_root) < 0.2 * v) eta = from_root * polynomial<34>(kAroundRoot, from_root / v);
    else eta = r - v * (ratio < 1e300 ? log1p(ratio) : log(v + r) - log(x));
    y = t * t;
    terms = r < 26 ? 20 : r < 60 ? 14 : r < 400 ? 9 : r < 1e5 ? 5 : 3;
  }
  /// The expansion in w, 1 / r for I and -1 / r for K.
  __device__ __forceinline__ double sum(double w) const {
    double s = 0;
    for (int k = terms; k >= 1; k--) {
      const double* c = kDebye + k * (k + 1) / 2 - 1;
      double p = c[k];
      for (int j = k - 1; j >= 0; j--) p = fma(p, y, c[j]);
      s = (s + p) * w;
    }
    return 1 + s;
  }
};

__device__ double log_i(double v, double x) {
  if (!(v >= 0 && x >= 0)) return NAN;
  if (x == 0) return v == 0 ? 0 : -INFINITY;
  if (isinf(x) || isinf(v)) return isinf(x) ? isinf(v) ? NAN : INFINITY : -INFINITY;
  if (v >= kExpansionFrom || x >= kExpansionFrom) {
    const Far far(v, x);
    return far.eta + log(far.sum(1 / far.r) / sqrt(2 * kPi * far.r));
  }
  // Four terms to a division: each is the one before times q over d.
  const double q = x * x / 4;
  double term = 1, s = 0;
  for (int k = 1; term > 0x1p-56 * (1 + s) || k == 1; k += 4) {
    const double d1 = k * (k + v), d2 = (k + 1) * (k + 1 + v), d3 = (k + 2) * (k + 2 + v), d4 = (k + 3) * (k + 3 + v);
    const double each = term * q / (d1 * d2 * (d3 * d4));
    s = fma(each, fma(fma(d2 + q, d3, q * q), d4, q * q * q), s);
    term = each * (q * q * q);
  }
  const double log_half = log(x / 2), front = v * log_half;
  if (v < 0.5) return front - log_gamma_beside_one(v) + log1p(s);
  if (front < -600) return front - lgamma(v + 1) + log1p(s);
  return log(pow(x / 2, v) / (v * tgamma(v)) * (1 + s));  // not of v + 1, whose rounding is worth some 40 units in the last place at v = 15
}

/// Temme's series: K_u(x) and x K_{u+1}(x) of |u| <= 1/2, x < 1/2.
__device__ __forceinline__ void temme(double u, double x, double* k0, double* xk1) {
  // 1 / Gamma(1 + u) and 1 / Gamma(1 - u), by their even and odd powers.
  const double uu = u * u;
  double even = kRecipGamma[16], odd = kRecipGamma[17];
#pragma unroll
  for (int k = 14; k >= 0; k -= 2) even = fma(even, uu, kRecipGamma[k]), odd = fma(odd, uu, kRecipGamma[k + 1]);
  const double above = even + u * odd, below = even - u * odd;
  const double log_half = -log(x / 2), sigma = u * log_half;
  const double size = fabs(sigma), grown = expm1(size), large = 1 + grown;  // what sinh needs near zero and cosh far from it
  const double slope = size > 0 ? 0.5 * (grown + grown / large) / size : 1, e = sigma < 0 ? 1 / large : large;
  double f = (slope * log_half * even - 0.5 * (large + 1 / large) * odd) / (above * below);
  double p = 0.5 * e / above, q = 0.5 / (e * below), c = 1, k_sum = f, next = p;
  const double quarter = x * x / 4;
  for (int k = 1; k < 16; k++) {
    f = (k * f + p + q) / (k * double(k) - uu);
    p /= k - u, q /= k + u;
    c *= quarter / k;
    k_sum = fma(c, f, k_sum);
    next = fma(c, p - k * f, next);
    if (c * f < 0x1p-56 * k_sum && c * p < 0x1p-56 * next) break;
  }
  *k0 = k_sum, *xk1 = 2 * next;
}

__device__ double log_k(double v, double x) {
  if (!(v >= 0 && x >= 0)) return NAN;
  if (x == 0) return INFINITY;
  if (isinf(x) || isinf(v)) return isinf(x) ? isinf(v) ? NAN : -INFINITY : INFINITY;
  if (v >= kExpansionFrom || x >= kExpansionFrom) {
    const Far far(v, x);
    return log(far.sum(-1 / far.r) / sqrt(2 / kPi * far.r)) - far.eta;
  }
  if (x < kTemmeBelow) {
    const int n = int(rint(v));
    const double u = v - n;
    double k0, ratio, grown = 1;
    temme(u, x, &k0, &ratio);
    ratio /= k0;  // x K_{u+1} / K_u
    for (int k = 1; k <= n; k++) {
      grown *= ratio;
      ratio = 2 * (u + k) + x * x / ratio;
    }
    return log(k0 * grown) - (n ? n * log(x) : 0);
  }
  // The largest term is where sinh t = v / x; beyond it they fall ever faster.
  const double less = exp(-0.25 * v);  // what exp(-v t) loses to exp(v t) from one place to the next
  double s = 0.5, share = 1;
  for (int n = 1; n < 56; n++) {
    share *= less;
    const double term = exp(fma(-x, kCosh[n], v * (0.125 * n)));
    s = fma(0.5 * term, 1 + share, s);
    if (term < 0x1p-57 * s) break;
  }
  return log(0.125 * exp(-x) * s);  // not less x, which may be nearly as much
}

}  // namespace
}  // namespace orrery::kernels
