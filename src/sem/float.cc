// sem/float.cc: f32 and f64 arithmetic with every rounding mode.
//
// Results are the host's IEEE results under the form's rounding mode; then .ftz (subnormal inputs and results become
// zeros with the same sign), .sat (clamp to [0, 1], NaN becomes +0) and the GPU's NaN: 7fffffff for every f32 NaN.
// An f64 NaN operand keeps its payload (quieted): b before c before a; a made NaN is fff8000000000000.
// Not here: .approx forms (approx.cc), f16 and bf16 (half.cc).
// Source: PTX ISA manual, "Floating-Point Instructions"; details from recorded H200 results (tests/vectors).
#include "sem/families.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

inline float flush(float v) { return bits_of(v) & 0x7f800000 ? v : f32_of(bits_of(v) & 0x80000000); }
template <bool Ftz> float in(float v) { return Ftz ? flush(v) : v; }
template <bool Ftz, bool Sat> float out(float v) {
  if (Ftz) v = flush(v);
  if (Sat) return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
  return canonical(v);
}

// The host's own flushing decides as the GPU does: a result is flushed if it is below the smallest normal number after
// rounding with an unbounded exponent.
template <auto F>
void flushing_warp(const Form& form, void* const* d, const void* const* s, uint32_t mask) {
  HostRounding scope(host_rounding(form) | _MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON);
  Warp<F>::run(form, d, s, mask);
}
template <bool Ftz, bool Sat> float add(float a, float b) { return out<Ftz, Sat>(in<Ftz>(a) + in<Ftz>(b)); }
template <bool Ftz, bool Sat> float sub(float a, float b) { return out<Ftz, Sat>(in<Ftz>(a) - in<Ftz>(b)); }
template <bool Ftz, bool Sat> float mul(float a, float b) { return out<Ftz, Sat>(in<Ftz>(a) * in<Ftz>(b)); }
template <bool Ftz, bool Sat> float fma(float a, float b, float c) {
  return out<Ftz, Sat>(__builtin_fmaf(in<Ftz>(a), in<Ftz>(b), in<Ftz>(c)));
}
template <bool Ftz> float div(float a, float b) { return out<Ftz, false>(in<Ftz>(a) / in<Ftz>(b)); }
template <bool Ftz> float rcp(float a) { return out<Ftz, false>(1.0f / in<Ftz>(a)); }
template <bool Ftz> float sqrt(float a) { return out<Ftz, false>(_mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(in<Ftz>(a))))); }
template <bool Ftz> float absolute(float a) { return canonical(f32_of(bits_of(in<Ftz>(a)) & 0x7fffffff)); }
template <bool Ftz> float negate(float a) { return canonical(f32_of(bits_of(in<Ftz>(a)) ^ 0x80000000)); }

// Among NaN operands b wins, then c, then a (division: a, then b); the order of a host instruction's operands is the compiler's choice, so the
// NaN is picked here.
inline double quiet(double v) { return std::bit_cast<double>(bits_of(v) | 1ull << 51); }
inline double pick(double r, double a, double b) { return r == r ? r : b != b ? quiet(b) : a != a ? quiet(a) : r; }
double add64(double a, double b) { return pick(a + b, a, b); }
double sub64(double a, double b) { return pick(a - b, a, b); }
double mul64(double a, double b) { return pick(a * b, a, b); }
double fma64(double a, double b, double c) {
  const double r = __builtin_fma(a, b, c);
  return r == r ? r : b != b ? quiet(b) : c != c ? quiet(c) : pick(r, a, a);
}
double div64(double a, double b) { return pick(a / b, b, a); }
double rcp64(double a) { return pick(1.0 / a, a, a); }
double sqrt64(double a) { return pick(_mm_cvtsd_f64(_mm_sqrt_sd(_mm_setzero_pd(), _mm_set_sd(a))), a, a); }
double abs64(double a) { return a != a ? quiet(a) : std::fabs(a); }
double neg64(double a) { return a != a ? quiet(a) : -a; }

// -- extrema: -0 is less than +0; one NaN gives the other operand, or with .NaN the canonical NaN

template <class T> struct Bits;
template <> struct Bits<float> { static constexpr uint32_t quiet = kNan32; };
template <> struct Bits<double> { static constexpr uint64_t quiet = 1ull << 51; };

template <class T, bool Max> T extreme(T a, T b) {
  using B = Bits<T>;
  const auto x = bits_of(a), y = bits_of(b);
  if (a != a && b != b) return sizeof(T) == 8 ? std::bit_cast<T>(y | B::quiet) : std::bit_cast<T>(B::quiet);
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::bit_cast<T>(Max ? x & y : x | y);
  return (a < b) == Max ? b : a;
}
template <bool Max, bool Ftz, bool NaN, bool XorAbs> float extreme32(float a, float b) {
  a = in<Ftz>(a), b = in<Ftz>(b);
  const uint32_t sign = (bits_of(a) ^ bits_of(b)) & 0x80000000;
  if (NaN && (a != a || b != b)) return nan32();
  if (XorAbs) {
    const float r = extreme<float, Max>(f32_of(bits_of(a) & 0x7fffffff), f32_of(bits_of(b) & 0x7fffffff));
    return r != r ? nan32() : f32_of(bits_of(r) | sign);
  }
  return extreme<float, Max>(a, b);
}
template <bool Max, bool Ftz, bool NaN, bool Abs> float extreme3(float a, float b, float c) {
  if (Abs) a = absolute<false>(a), b = absolute<false>(b), c = absolute<false>(c);
  return extreme32<Max, Ftz, NaN, false>(extreme32<Max, Ftz, NaN, false>(a, b), c);
}

PureFn find_minmax(const Form& f, Arity n) {
  const bool max = f.op == Op::max;
  if (f.type() == Type::f64) return max ? warp<&extreme<double, true>> : warp<&extreme<double, false>>;
  return with_bool(max, [&](auto m) {
    return with_bool(f.has(Mod::ftz), [&](auto z) {
      return with_bool(f.has(Mod::NaN), [&](auto q) {
        return with_bool(f.has(Mod::abs), [&](auto x) -> PureFn {
          constexpr bool M = m, Z = z, Q = q, X = x;
          return n.sources == 3 ? warp<&extreme3<M, Z, Q, X>> : warp<&extreme32<M, Z, Q, X>>;
        });
      });
    });
  });
}

PureFn find_f64(const Form& f, Arity n) {
  switch (f.op) {
    case Op::add: return rounding_warp<&add64>(f);
    case Op::sub: return rounding_warp<&sub64>(f);
    case Op::mul: return rounding_warp<&mul64>(f);
    case Op::fma: case Op::mad: return rounding_warp<&fma64>(f);
    case Op::div: return rounding_warp<&div64>(f);
    case Op::rcp: return f.has(Mod::approx) ? nullptr : rounding_warp<&rcp64>(f);
    case Op::sqrt: return rounding_warp<&sqrt64>(f);
    case Op::abs: return warp<&abs64>;
    case Op::neg: return warp<&neg64>;
    case Op::min: case Op::max: return find_minmax(f, n);
    default: return nullptr;
  }
}

template <bool Ftz>
PureFn find_f32(const Form& f, Arity n) {
  return with_bool(f.has(Mod::sat), [&](auto sat) -> PureFn {
    constexpr bool S = sat;
    switch (f.op) {
      case Op::add: return rounding_warp<&add<Ftz, S>>(f);
      case Op::sub: return rounding_warp<&sub<Ftz, S>>(f);
      case Op::mul: return Ftz ? &flushing_warp<&mul<true, S>> : rounding_warp<&mul<false, S>>(f);
      case Op::fma: case Op::mad: return Ftz ? &flushing_warp<&fma<true, S>> : rounding_warp<&fma<false, S>>(f);
      case Op::div: return Ftz ? &flushing_warp<&div<true>> : rounding_warp<&div<false>>(f);
      case Op::rcp: return Ftz ? &flushing_warp<&rcp<true>> : rounding_warp<&rcp<false>>(f);
      case Op::sqrt: return rounding_warp<&sqrt<Ftz>>(f);
      case Op::abs: return warp<&absolute<Ftz>>;
      case Op::neg: return warp<&negate<Ftz>>;
      case Op::min: case Op::max: return find_minmax(f, n);
      default: return nullptr;
    }
  });
}

}  // namespace

PureFn find_float(const Form& f, Arity n) {
  if (f.has(Mod::approx) || f.has(Mod::full) || f.n_types != 1) return nullptr;
  if (f.type() == Type::f64) return find_f64(f, n);
  if (f.type() != Type::f32) return nullptr;
  return f.has(Mod::ftz) ? find_f32<true>(f, n) : find_f32<false>(f, n);
}

}  // namespace orrery::sem
