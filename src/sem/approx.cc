// sem/approx.cc: the approximate functions.
//
// Source: PTX ISA manual, bounds of the .approx forms.
#include <cmath>

#include "sem/families.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

inline float flush(float v) { return bits_of(v) & 0x7f800000 ? v : f32_of(bits_of(v) & 0x80000000); }
template <bool Ftz> float in(float v) { return Ftz ? flush(v) : v; }
template <bool Ftz> float out(double v) {
  const float r = canonical(float(v));
  return Ftz ? flush(r) : r;
}

template <bool Z> float rcp(float a) { return out<Z>(1.0 / double(in<Z>(a))); }
template <bool Z> float sqrt_(float a) { return out<Z>(std::sqrt(double(in<Z>(a)))); }
template <bool Z> float rsqrt(float a) { return out<Z>(1.0 / std::sqrt(double(in<Z>(a)))); }
template <bool Z> float sine(float a) { return out<Z>(std::sin(double(in<Z>(a)))); }
template <bool Z> float cosine(float a) { return out<Z>(std::cos(double(in<Z>(a)))); }
template <bool Z> float lg2(float a) { return out<Z>(std::log2(double(in<Z>(a)))); }
template <bool Z> float ex2(float a) { return out<Z>(std::exp2(double(in<Z>(a)))); }
float tanh_(float a) { return out<false>(std::tanh(double(a))); }
template <bool Z> float divide(float a, float b) {
  const float y = std::fabs(in<Z>(b));
  if (!Z && y > 0x1p126f && y < HUGE_VALF && std::isfinite(a)) return 0.0f;
  return out<Z>(double(in<Z>(a)) / double(in<Z>(b)));
}
template <bool Z> float divide_full(float a, float b) { return out<Z>(double(in<Z>(a)) / double(in<Z>(b))); }
double rcp64(double a) { return 1.0 / a; }
double rsqrt64(double a) { return double(1.0L / std::sqrt(static_cast<long double>(a))); }  // one rounding: the hardware is within 1 ulp
template <class H> H tanh16(H a) { return narrow<H>(std::tanh(double(a.f32()))); }
template <class H> H ex216(H a) { return narrow<H>(std::exp2(double(a.f32()))); }

template <bool Z>
Pure find_f32(const Form& f) {
  auto bounded = [](PureFn fn, double ulp) { return Pure{fn, Exactness::bounded, ulp}; };
  switch (f.op) {
    case Op::rcp: return bounded(warp<&rcp<Z>>, 1);
    case Op::sqrt: return bounded(warp<&sqrt_<Z>>, 3);
    case Op::rsqrt: return bounded(warp<&rsqrt<Z>>, 2);
    case Op::sin: return bounded(warp<&sine<Z>>, 8);
    case Op::cos: return bounded(warp<&cosine<Z>>, 8);
    case Op::lg2: return bounded(warp<&lg2<Z>>, 4);
    case Op::ex2: return bounded(warp<&ex2<Z>>, 2);
    case Op::tanh: return bounded(warp<&tanh_>, 1024);
    case Op::div: return f.has(Mod::full) ? bounded(warp<&divide_full<Z>>, 2) : bounded(warp<&divide<Z>>, 2);
    default: return {};
  }
}

}  // namespace

Pure find_approximate(const Form& f) {
  const Type t = f.type();
  const bool ftz = f.has(Mod::ftz);
  if (t == Type::f32) return ftz ? find_f32<true>(f) : find_f32<false>(f);
  if (t == Type::f64 && f.op == Op::rcp) return {warp<&rcp64>, Exactness::bounded, 0x1p33};
  if (t == Type::f64 && f.op == Op::rsqrt) return {warp<&rsqrt64>, Exactness::bounded, 0x1p33};
  if (f.op != Op::tanh && f.op != Op::ex2) return {};
  const bool tanh = f.op == Op::tanh;
  PureFn fn = nullptr;
  if (t == Type::f16) fn = tanh ? warp<&tanh16<F16>> : warp<&ex216<F16>>;
  if (t == Type::bf16) fn = tanh ? warp<&tanh16<BF16>> : warp<&ex216<BF16>>;
  if (t == Type::f16x2) fn = tanh ? warp<&Halves<&tanh16<F16>>::packed> : warp<&Halves<&ex216<F16>>::packed>;
  if (t == Type::bf16x2) fn = tanh ? warp<&Halves<&tanh16<BF16>>::packed> : warp<&Halves<&ex216<BF16>>::packed>;
  return {fn, Exactness::bounded, 2};
}

}  // namespace orrery::sem
