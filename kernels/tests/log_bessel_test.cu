// log_bessel_i and log_bessel_k against logarithms rounded from 60 digits (log_bessel_reference.inc, which make_log_bessel makes): from 1e-300 to 1e15 in
// order and argument, at the edges of every region, along the curve where the two logarithms pass zero.
//
// Bounds, in units of 2^-53: 16 of max(1, |result|), relative errors but for logarithms near zero; of the result itself 4 for I of order 0, whose
// logarithm is x^2 / 4 next to zero.
#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

struct Reference { double v, x, i, k; };
const Reference kReferences[] = {
#include "log_bessel_reference.inc"
};
constexpr int64_t kCount = sizeof kReferences / sizeof kReferences[0];

using Function = Status (*)(double*, const double*, int64_t, const double*, int64_t, cudaStream_t);
struct Tested { const char* name; Function call; double Reference::*want; double bound; };
const Tested kTested[] = {{"log_bessel_i", log_bessel_i, &Reference::i, 16}, {"log_bessel_k", log_bessel_k, &Reference::k, 16}};

std::vector<double> column(double Reference::*member) {
  std::vector<double> out;
  for (const Reference& r : kReferences) out.push_back(r.*member);
  return out;
}

/// All references, a few elements beyond a block, from addresses that only 8 bytes divide.
void accurate(const Tested& t) {
  const Buffer v(column(&Reference::v), 8), x(column(&Reference::x), 16);
  Buffer out(kCount * 8, 8);
  STATUS_OK(t.call(out.as<double>(), v.as<double>(), 1, x.as<double>(), kCount, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  const auto got = out.host<double>();
  double worst = 0;
  int64_t where = 0;
  for (int64_t i = 0; i < kCount; i++) {
    const Reference& r = kReferences[i];
    const double want = r.*t.want, units = std::fabs(got[i] - want) * 0x1p53 / std::max(1., std::fabs(want));
    if (!(units <= worst)) worst = units, where = i;
    if (!(units <= t.bound)) check::fail("%s(%.17g, %.17g) is %.17g, want %.17g: %.1f units", t.name, r.v, r.x, got[i], want, units);
    if (r.v == 0 && t.want == &Reference::i) check::expect_near(got[i], want, 4 * 0x1p-53 * std::fabs(want), "log I_0", i, 0);
  }
  std::printf("%s: %.2f units of 2^-53 at most, at v %.9g x %.9g\n", t.name, worst, kReferences[where].v, kReferences[where].x);
  check::Results::all().add(t.name, out.host<unsigned char>());
  out.check_guards(t.name);
  // In place of either argument, and one order for all: the same bits.
  for (double Reference::*place : {&Reference::v, &Reference::x}) {
    const Buffer same(column(place));
    STATUS_OK(t.call(same.as<double>(), place == &Reference::v ? same.as<double>() : v.as<double>(), 1, place == &Reference::x ? same.as<double>() : x.as<double>(), kCount, nullptr));
    if (same.host<double>() != got) check::fail("%s in place: other bits", t.name);
  }
  for (int64_t i : {int64_t(0), kCount / 2, kCount - 1}) {
    out.poison();
    STATUS_OK(t.call(out.as<double>(), v.as<double>() + i, 0, x.as<double>(), kCount, nullptr));
    if (out.host<double>()[i] != got[i]) check::fail("%s of one order: other bits", t.name);
  }
}

void special(const Tested& t, bool second) {
  const double inf = INFINITY, nan = NAN;
  const struct { double v, x, i, k; } all[] = {{0, 0, 0, inf}, {2, 0, -inf, inf}, {0, 1e300, 1e300, -1e300}, {1, inf, inf, -inf}, {inf, 1, -inf, inf}, {inf, inf, nan, nan}, {-1, 1, nan, nan}, {1, -1, nan, nan},
                                               {nan, 1, nan, nan}, {1, nan, nan, nan}, {nan, nan, nan, nan}};
  std::vector<double> v, x;
  for (const auto& a : all) v.push_back(a.v), x.push_back(a.x);
  const Buffer dv(v), dx(x);
  Buffer out(v.size() * 8);
  STATUS_OK(t.call(out.as<double>(), dv.as<double>(), 1, dx.as<double>(), int64_t(v.size()), nullptr));
  const auto got = out.host<double>();
  for (size_t i = 0; i < v.size(); i++) {
    const double want = second ? all[i].k : all[i].i;
    if (!(got[i] == want || (std::isnan(got[i]) && std::isnan(want)))) check::fail("%s(%g, %g) is %g, want %g", t.name, v[i], x[i], got[i], want);
  }
  out.check_guards(t.name);
}

/// References in another order, so that warps have other mixtures of regions: the same bits.
void mixed(const Tested& t, int64_t n) {
  std::vector<double> v(n), x(n);
  for (int64_t i = 0; i < n; i++) v[i] = kReferences[i * 397 % kCount].v, x[i] = kReferences[i * 397 % kCount].x;
  const Buffer dv(v), dx(x), first_v(column(&Reference::v)), first_x(column(&Reference::x));
  Buffer out(n * 8), first(kCount * 8);
  STATUS_OK(t.call(out.as<double>(), dv.as<double>(), 1, dx.as<double>(), n, nullptr));
  STATUS_OK(t.call(first.as<double>(), first_v.as<double>(), 1, first_x.as<double>(), kCount, nullptr));
  const auto got = out.host<double>(), want = first.host<double>();
  for (int64_t i = 0; i < n; i++)
    if (got[i] != want[i * 397 % kCount]) check::fail("%s: [%lld] of %lld has other bits", t.name, (long long)i, (long long)n);
  out.check_guards(t.name);
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  for (const Tested& t : kTested) {
    accurate(t), special(t, t.want == &Reference::k);
    for (int64_t n : {int64_t(1), int64_t(257)}) mixed(t, n);
    if (!small) mixed(t, 5000001);
  }
  std::printf("PASS log Bessel: %lld references\n", (long long)kCount);
}
