// mhd_residual: against the method written from its definition in long double, line by line of the whole block; and from outside: a uniform state stays,
// sums over the block stay, turned axes give turned results, and errors on a circularly polarised Alfven wave fall by the order when elements are halved.
#include <array>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;
using Real = long double;
using State = std::array<Real, 8>;

namespace {

struct Block {
  int order;
  int64_t n[3];      // elements
  double size[3];    // of one
  double gamma = 5. / 3;
  int64_t points() const { return int64_t(order) * order * order; }
  int64_t elements() const { return n[0] * n[1] * n[2]; }
  int64_t values() const { return elements() * 8 * points(); }
  /// Of a variable at a point, by its number along each axis over all elements.
  int64_t at(int variable, const int64_t (&i)[3]) const {
    int64_t element = 0, point = 0;
    for (int axis = 2; axis >= 0; axis--) element = element * n[axis] + i[axis] / order, point = point * order + i[axis] % order;
    return (element * 8 + variable) * points() + point;
  }
  template <class Body>
  void each_point(Body body) const {
    int64_t i[3];
    for (i[2] = 0; i[2] < n[2] * order; i[2]++)
      for (i[1] = 0; i[1] < n[1] * order; i[1]++)
        for (i[0] = 0; i[0] < n[0] * order; i[0]++) body(i);
  }
};

std::vector<Real> solution_points(int order) {
  std::vector<Real> x(order);
  for (int s = 0; s < order; s++) x[s] = -std::cos((2 * s + 1) * std::acos(Real(-1)) / (2 * order));
  return x;
}
Real legendre(int n, Real x) { return n == 0 ? 1 : n == 1 ? x : ((2 * n - 1) * x * legendre(n - 1, x) - (n - 1) * legendre(n - 2, x)) / n; }
/// Ends, and between them the roots of P_(order - 1), found by halving where it changes its sign.
std::vector<Real> flux_points(int order) {
  std::vector<Real> x = {-1};
  constexpr int kSteps = 1000;
  for (int k = 0; k < kSteps; k++) {
    Real low = -1 + 2 * (k + Real(0.25)) / kSteps, high = low + Real(2) / kSteps;
    if ((legendre(order - 1, low) < 0) == (legendre(order - 1, high) < 0)) continue;
    for (int i = 0; i < 80; i++) {
      const Real middle = (low + high) / 2;
      ((legendre(order - 1, middle) < 0) == (legendre(order - 1, low) < 0) ? low : high) = middle;
    }
    x.push_back(low);
  }
  x.push_back(1);
  if (int(x.size()) != order + 1) check::fail("%d flux points of order %d", int(x.size()), order);
  return x;
}
/// The k-th polynomial of Lagrange on `nodes`, and its derivative.
Real lagrange(const std::vector<Real>& nodes, int k, Real x) {
  Real v = 1;
  for (int m = 0; m < int(nodes.size()); m++)
    if (m != k) v *= (x - nodes[m]) / (nodes[k] - nodes[m]);
  return v;
}
Real lagrange_slope(const std::vector<Real>& nodes, int k, Real x) {
  Real sum = 0;
  for (int l = 0; l < int(nodes.size()); l++) {
    if (l == k) continue;
    Real v = 1 / (nodes[k] - nodes[l]);
    for (int m = 0; m < int(nodes.size()); m++)
      if (m != k && m != l) v *= (x - nodes[m]) / (nodes[k] - nodes[m]);
    sum += v;
  }
  return sum;
}
/// Integrals over [-1, 1] of the polynomials of Lagrange, by Gauss's rule on the roots of P_8.
std::vector<Real> quadrature(const std::vector<Real>& nodes) {
  const std::vector<Real> gauss = flux_points(9);
  std::vector<Real> w(nodes.size(), 0);
  for (int g = 1; g <= 8; g++) {
    const Real x = gauss[g], slope = 8 * (x * legendre(8, x) - legendre(7, x)) / (x * x - 1);
    for (size_t k = 0; k < nodes.size(); k++) w[k] += 2 / ((1 - x * x) * slope * slope) * lagrange(nodes, int(k), x);
  }
  return w;
}

/// Flux along an axis and the fastest signal, as textbooks have them; terms: what its terms come to without their signs.
State flux(const State& u, int axis, Real gamma, Real& speed, Real& terms) {
  const Real rho = u[0], *m = &u[1], e = u[4], *b = &u[5];
  Real m2 = 0, b2 = 0, mb = 0;
  for (int i = 0; i < 3; i++) m2 += m[i] * m[i], b2 += b[i] * b[i], mb += m[i] * b[i];
  const Real p = (gamma - 1) * (e - m2 / rho / 2 - b2 / 2), total = p + b2 / 2, v = m[axis] / rho;
  if (!(rho > 0 && p > 0)) check::fail("a state of the test has density %g, pressure %g", double(rho), double(p));
  State f;
  f[0] = m[axis];
  for (int i = 0; i < 3; i++) f[1 + i] = m[i] * v - b[i] * b[axis] + (i == axis ? total : 0), f[5 + i] = v * b[i] - m[i] / rho * b[axis];
  f[4] = (e + total) * v - b[axis] * mb / rho;
  const Real a2 = gamma * p / rho, sum = a2 + b2 / rho;
  speed = std::fabs(v) + std::sqrt((sum + std::sqrt(std::max(Real(0), sum * sum - 4 * a2 * b[axis] * b[axis] / rho))) / 2);
  terms = std::max(std::fabs(e) + std::fabs(total) + m2 / rho + b2, Real(1)) * (std::fabs(v) + std::sqrt(b2 / rho) + 1);
  return f;
}

struct Expected {
  std::vector<Real> rate;
  std::vector<Real> terms;  // what sums of magnitudes come to, of each point
};

Expected expected(const Block& k, const std::vector<double>& u) {
  const int n = k.order;
  const auto at = solution_points(n), fluxes = flux_points(n);
  std::vector<std::vector<Real>> value(n + 1, std::vector<Real>(n)), slope(n, std::vector<Real>(n + 1));
  for (int j = 0; j <= n; j++)
    for (int i = 0; i < n; i++) value[j][i] = lagrange(at, i, fluxes[j]), slope[i][j] = lagrange_slope(fluxes, j, at[i]);
  Expected r{std::vector<Real>(u.size(), 0), std::vector<Real>(u.size(), 0)};
  for (int axis = 0; axis < 3; axis++) {
    const int a = (axis + 1) % 3, b = (axis + 2) % 3;
    const int64_t lines = k.n[a] * n * k.n[b] * n, count = k.n[axis] * n;
    check::parallel(lines, [&](int64_t line) {
      int64_t i[3];
      i[a] = line % (k.n[a] * n), i[b] = line / (k.n[a] * n);
      const auto state = [&](int64_t element, int j) {
        State s{};
        for (int c = 0; c < 8; c++)
          for (int q = 0; q < n; q++) i[axis] = (element + k.n[axis]) % k.n[axis] * n + q, s[c] += value[j][q] * u[k.at(c, i)];
        return s;
      };
      for (int64_t element = 0; element < count / n; element++) {
        std::vector<State> f(n + 1);
        Real most = 0, speed, terms;
        for (int j = 0; j <= n; j++) {
          const State here = state(element, j);
          f[j] = flux(here, axis, k.gamma, speed, terms);
          most = std::max(most, terms);
          if (j > 0 && j < n) continue;
          const State there = j ? state(element + 1, 0) : state(element - 1, n);
          Real other;
          const State g = flux(there, axis, k.gamma, other, terms);
          const Real sign = j ? 1 : -1;  // towards the upper side
          for (int c = 0; c < 8; c++) f[j][c] = (f[j][c] + g[c]) / 2 - std::max(speed, other) / 2 * sign * (there[c] - here[c]);
          most = std::max(most, terms) + std::max(speed, other);
        }
        for (int q = 0; q < n; q++) {
          i[axis] = element * n + q;
          for (int c = 0; c < 8; c++) {
            Real sum = 0, sizes = 0;
            for (int j = 0; j <= n; j++) sum += slope[q][j] * f[j][c], sizes += std::fabs(slope[q][j]) * most;
            r.rate[k.at(c, i)] -= 2 / Real(k.size[axis]) * sum, r.terms[k.at(c, i)] += 2 / Real(k.size[axis]) * sizes;
          }
        }
      }
    });
  }
  return r;
}

/// From density, velocity, pressure, field.
State conserved(const std::array<Real, 8>& w, Real gamma) {
  State u = w;
  Real v2 = 0, b2 = 0;
  for (int i = 0; i < 3; i++) u[1 + i] = w[0] * w[1 + i], v2 += w[1 + i] * w[1 + i], b2 += w[5 + i] * w[5 + i];
  u[4] = w[4] / (gamma - 1) + w[0] * v2 / 2 + b2 / 2;
  return u;
}

/// Waves through the block, and noise at each point.
std::vector<double> random_state(const Block& k, uint64_t seed) {
  check::Random random(seed);
  const std::array<Real, 8> base = {1, 0.3, -0.2, 0.4, 1, 0.6, -0.5, 0.7};
  Real phase[8][3];
  for (auto& p : phase)
    for (Real& x : p) x = random.unit();
  std::vector<double> u(k.values());
  k.each_point([&](const int64_t(&i)[3]) {
    std::array<Real, 8> w;
    for (int c = 0; c < 8; c++) {
      w[c] = base[c] + 0.03 * random.symmetric();
      for (int axis = 0; axis < 3; axis++) w[c] += 0.1 * std::sin(2 * std::acos(Real(-1)) * (Real(i[axis]) / Real(k.n[axis] * k.order) + phase[c][axis]));
    }
    const State s = conserved(w, k.gamma);
    for (int c = 0; c < 8; c++) u[k.at(c, i)] = double(s[c]);
  });
  return u;
}

MhdArgs arguments(const Block& k, const Buffer& u, const Buffer& out) {
  MhdArgs a;
  a.u = u.as<double>(), a.out = out.as<double>(), a.nx = k.n[0], a.ny = k.n[1], a.nz = k.n[2], a.order = k.order, a.gamma = k.gamma;
  a.size_x = k.size[0], a.size_y = k.size[1], a.size_z = k.size[2];
  return a;
}
std::vector<double> residual(const Block& k, const std::vector<double>& u) {
  const Buffer du(u), out(u.size() * 8);
  STATUS_OK(mhd_residual(arguments(k, du, out), nullptr));
  return out.host<double>();
}

constexpr double kUnit = 0x1p-53;
/// What errors are bounded by, in units of the sum of magnitudes that a value is made of, which takes the largest flux of a line for all of it: a dozen roundings of
/// interpolation and flux one after the other seldom go the same way, nor do the terms of a sum.
constexpr double kBound = 6;
double worst_ratio = 0;

void exact(const Block& k, double base_weight, double u_weight, double rate_weight) {
  char what[120];
  std::snprintf(what, sizeof what, "mhd order %d, %lld x %lld x %lld, weights %g %g %g", k.order, (long long)k.n[0], (long long)k.n[1], (long long)k.n[2], base_weight, u_weight, rate_weight);
  const auto u = random_state(k, 3), base = random_state(k, 4);
  const Buffer du(u, 16), dbase(base);
  Buffer out(u.size() * 8, 16);
  MhdArgs a = arguments(k, du, out);
  a.base = base_weight != 0 ? dbase.as<double>() : nullptr, a.base_weight = base_weight, a.u_weight = u_weight, a.rate_weight = rate_weight;
  STATUS_OK(mhd_residual(a, nullptr));
  const auto got = out.host<double>();
  const Expected want = expected(k, u);
  for (size_t i = 0; i < u.size(); i++) {
    const Real value = base_weight * Real(base[i]) + u_weight * Real(u[i]) + rate_weight * want.rate[i];
    const Real size = std::fabs(base_weight * base[i]) + std::fabs(u_weight * u[i]) + std::fabs(rate_weight) * want.terms[i];
    const double ratio = double(std::fabs(got[i] - value) / size) / kUnit;
    if (!(ratio <= kBound)) check::fail("%s: [%zu] is %.17g, want %.17g, off by %g units of its terms", what, i, got[i], double(value), ratio);
    worst_ratio = std::max(worst_ratio, ratio);
  }
  out.check_guards(what), du.check_guards(what), dbase.check_guards(what);
  if (du.host<double>() != u || dbase.host<double>() != base) check::fail("%s: an input changed", what);
  check::Results::all().add(what, out.host<unsigned char>());
  // Once more, over base itself where there is one.
  out.poison();
  if (a.base) a.out = dbase.as<double>();
  STATUS_OK(mhd_residual(a, nullptr));
  if ((a.base ? dbase : out).host<unsigned char>() != [&] { std::vector<unsigned char> b(got.size() * 8); std::memcpy(b.data(), got.data(), b.size()); return b; }()) check::fail("%s: other bits the second time", what);
}

void uniform(const Block& k) {
  const State s = conserved({1.1, 0.3, -0.2, 0.4, 0.9, 0.6, -0.5, 0.7}, k.gamma);
  std::vector<double> u(k.values());
  k.each_point([&](const int64_t(&i)[3]) { for (int c = 0; c < 8; c++) u[k.at(c, i)] = double(s[c]); });
  const auto got = residual(k, u);
  const Expected want = expected(k, u);
  for (size_t i = 0; i < u.size(); i++)
    if (!(std::fabs(got[i]) <= kBound * kUnit * double(want.terms[i]))) check::fail("order %d: a uniform state changes by %g", k.order, got[i]);
}

void conserves(const Block& k) {
  const auto u = random_state(k, 5), got = residual(k, u);
  const Expected want = expected(k, u);
  const auto w = quadrature(solution_points(k.order));
  Real sum[8] = {}, size[8] = {};
  k.each_point([&](const int64_t(&i)[3]) {
    const Real weight = w[i[0] % k.order] * w[i[1] % k.order] * w[i[2] % k.order];
    for (int c = 0; c < 8; c++) sum[c] += weight * got[k.at(c, i)], size[c] += std::fabs(weight) * want.terms[k.at(c, i)];
  });
  for (int c = 0; c < 8; c++) {
    if (!(std::fabs(sum[c]) <= kBound * kUnit * size[c])) check::fail("order %d: variable %d is not conserved: %g of %g", k.order, c, double(sum[c]), double(size[c]));
  }
}

/// x to y, y to z, z to x, of places and of vectors.
void turned(const Block& k) {
  Block t = k;
  for (int axis = 0; axis < 3; axis++) t.n[(axis + 1) % 3] = k.n[axis], t.size[(axis + 1) % 3] = k.size[axis];
  const auto there = [&](int c, const int64_t(&i)[3]) {
    const int64_t j[3] = {i[2], i[0], i[1]};
    return t.at(c == 0 || c == 4 ? c : c < 4 ? 1 + c % 3 : 5 + (c - 4) % 3, j);
  };
  const auto u = random_state(k, 6);
  std::vector<double> v(u.size());
  k.each_point([&](const int64_t(&i)[3]) { for (int c = 0; c < 8; c++) v[there(c, i)] = u[k.at(c, i)]; });
  const auto a = residual(k, u), b = residual(t, v);
  const Expected want = expected(k, u);
  k.each_point([&](const int64_t(&i)[3]) {
    for (int c = 0; c < 8; c++)
      check::expect_near(b[there(c, i)], a[k.at(c, i)], 2 * kBound * kUnit * double(want.terms[k.at(c, i)]), "turned axes", k.at(c, i), c);
  });
}

/// A circularly polarised Alfven wave along the diagonal of the unit cube, and what it changes by with time: exact at any amplitude.
struct Wave {
  static constexpr double kGamma = 5. / 3, kAmplitude = 0.2;
  Real omega() const { return 2 * std::acos(Real(-1)) * std::sqrt(Real(3)) * kField; }  // density 1: the wave's speed is its field along the diagonal
  static constexpr double kField = 1;
  /// At a phase; slope: its derivative by the phase instead.
  State at(Real phase, bool slope) const {
    const Real along = 1 / std::sqrt(Real(3)), e1[3] = {1 / std::sqrt(Real(2)), -1 / std::sqrt(Real(2)), 0}, e2[3] = {1 / std::sqrt(Real(6)), 1 / std::sqrt(Real(6)), -2 / std::sqrt(Real(6))};
    std::array<Real, 8> w = {1, 0, 0, 0, 0.5, 0, 0, 0};
    for (int i = 0; i < 3; i++) {
      const Real across = kAmplitude * (std::cos(phase) * e1[i] + std::sin(phase) * e2[i]);
      w[5 + i] = kField * along + across, w[1 + i] = -across;
    }
    State u = conserved(w, kGamma);
    if (!slope) return u;
    State d{};
    for (int i = 0; i < 3; i++) d[5 + i] = kAmplitude * (-std::sin(phase) * e1[i] + std::cos(phase) * e2[i]), d[1 + i] = -d[5 + i];
    return d;
  }
};
Block cube(int order, int64_t n) { return {order, {n, n, n}, {1. / double(n), 1. / double(n), 1. / double(n)}, Wave::kGamma}; }
template <class Body>
void each_phase(const Block& k, Real time, Body body) {
  const auto x = solution_points(k.order);
  k.each_point([&](const int64_t(&i)[3]) {
    Real sum = 0;
    for (int axis = 0; axis < 3; axis++) sum += (Real(i[axis] / k.order) + (x[i[axis] % k.order] + 1) / 2) / Real(k.n[axis]);
    body(i, 2 * std::acos(Real(-1)) * sum - Wave{}.omega() * time);
  });
}
std::vector<double> wave_at(const Block& k, Real time) {
  std::vector<double> u(k.values());
  each_phase(k, time, [&](const int64_t(&i)[3], Real phase) {
    const State s = Wave{}.at(phase, false);
    for (int c = 0; c < 8; c++) u[k.at(c, i)] = double(s[c]);
  });
  return u;
}
double mean_distance(const std::vector<double>& a, const std::vector<double>& b) {
  Real sum = 0;
  for (size_t i = 0; i < a.size(); i++) sum += std::fabs(Real(a[i]) - Real(b[i]));
  return double(sum / Real(a.size()));
}

/// The mean error of the rate: one order is lost where fluxes that are off by the order are differentiated.
double rate_error(int order, int64_t n) {
  const Block k = cube(order, n);
  std::vector<double> want(k.values());
  each_phase(k, 0, [&](const int64_t(&i)[3], Real phase) {
    const State d = Wave{}.at(phase, true);
    for (int c = 0; c < 8; c++) want[k.at(c, i)] = double(-Wave{}.omega() * d[c]);
  });
  return mean_distance(residual(k, wave_at(k, 0)), want);
}
void rate_converges(int order, int64_t n) {
  const double coarse = rate_error(order, n), fine = rate_error(order, 2 * n), found = std::log2(coarse / fine);
  std::printf("order %d, rate of an Alfven wave: %.3g on %lld^3 elements, %.3g on %lld^3: order %.2f\n", order, coarse, (long long)n, fine, (long long)(2 * n), found);
  if (!(found > order - 1 - 0.4)) check::fail("order %d: the rate's error falls by order %.2f only", order, found);
}
/// The wave after a fifth of a unit of time, by stages of the third-order scheme, each a launch: here no order is lost, once what
/// the first steps leave has been damped.
double wave_error(int order, int64_t n, int steps) {
  const Block k = cube(order, n);
  const double end = 0.2, dt = end / steps;
  const Buffer u(wave_at(k, 0)), u1(k.values() * 8), u2(k.values() * 8);
  const auto stage = [&](const Buffer& from, const Buffer& to, double base_weight, double weight) {
    MhdArgs a = arguments(k, from, to);
    a.base = base_weight != 0 ? u.as<double>() : nullptr, a.base_weight = base_weight, a.u_weight = weight, a.rate_weight = weight * dt;
    STATUS_OK(mhd_residual(a, nullptr));
  };
  for (int i = 0; i < steps; i++) stage(u, u1, 0, 1), stage(u1, u2, 0.75, 0.25), stage(u2, u, 1. / 3, 2. / 3);
  return mean_distance(u.host<double>(), wave_at(k, end));
}
void wave_converges(int order, int64_t n) {
  const int steps = int(double(n) * (2 * order - 1) * (order < 5 ? 1.25 : 4.));  // stable, and what time adds is less than what space does
  const double coarse = wave_error(order, n, steps), fine = wave_error(order, 2 * n, 2 * steps), found = std::log2(coarse / fine);
  std::printf("order %d, an Alfven wave after 0.2: off by %.3g on %lld^3 elements, %.3g on %lld^3: order %.2f\n", order, coarse, (long long)n, fine, (long long)(2 * n), found);
  if (!(found > order - 0.6)) check::fail("order %d: the wave's error falls by order %.2f only", order, found);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  for (int order = 2; order <= 6; order++) {
    exact({order, {1, 1, 1}, {1, 0.7, 1.3}}, 0, 0, 1);
    exact({order, {5, 3, 2}, {0.5, 0.7, 0.4}, 1.4}, 0.25, 0.75, 0.01);
    exact({order, {4, 2, 3}, {1, 1, 1}}, 0, 1, -0.5);
    exact({order, {2, 1, 4}, {1, 2, 3}}, 0, 0, 1);
    if (small) continue;
    exact({order, {9, 5, 7}, {0.3, 0.2, 0.4}}, 0, 0, 1);
    exact({order, {8, 6, 21}, {0.3, 0.2, 0.4}, 2}, 1. / 3, 2. / 3, 0.02);
    exact({order, {17, 1, 1}, {1, 1, 1}}, 0, 0, 1);
    exact({order, {1, 11, 2}, {1, 1, 1}}, 0, 0, 1);
    exact({order, {1, 2, 40}, {1, 1, 1}}, 0.5, 0.5, 0.1);
  }
  std::printf("farthest from long double: %.2f units of 2^-53 of a value's terms\n", worst_ratio);
  for (int order = 2; order <= 6; order++) uniform({order, {3, 2, 2}, {0.1, 0.2, 0.3}}), conserves({order, {3, 3, 2}, {0.1, 0.2, 0.3}}), turned({order, {3, 2, 1}, {0.1, 0.2, 0.3}});
  for (int order = 2; order <= (small ? 4 : 6); order++) rate_converges(order, small ? (order < 4 ? 4 : 2) : order < 5 ? 8 : 4);
  if (small) wave_converges(3, 4);
  else
    for (int order = 2; order <= 5; order++) wave_converges(order, order < 5 ? 8 : 4);
  std::printf("PASS spectral differences\n");
}
