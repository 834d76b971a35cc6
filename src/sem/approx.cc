// sem/approx.cc: the approximate functions: what the assembler makes of each .approx form around the special-function
// unit, whose results mufu.h gives bit for bit.
//
// Without .ftz the assembler scales arguments and results that the unit would flush, and refines the f64 reciprocal root.
// Source: PTX ISA manual; recorded H200 results.
#include <cmath>

#include "sem/families.h"
#include "sem/mufu.h"
#include "sem/mufu_lanes.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

using mufu::Value;

inline float flush(float v) { return bits_of(v) & 0x7f800000 ? v : f32_of(bits_of(v) & 0x80000000); }
inline float zero(bool negative) { return negative ? -0.0f : 0.0f; }
inline float infinity(bool negative) { return negative ? -HUGE_VALF : HUGE_VALF; }

// A finite nonzero f32, subnormals normalised.
Value value_of(float v) {
  const uint32_t b = bits_of(v), x = b >> 23 & 0xff, f = b & 0x7fffff;
  if (x) return {f | 1u << 23, int(x) - 127, bool(b >> 31)};
  const int shift = std::countl_zero(f) - 8;
  return {f << shift, -126 - shift, bool(b >> 31)};
}
// Below the normal numbers: zero, or rounded to the nearest subnormal.
template <bool Ftz> float pack(Value v) {
  if (!v.significand) return zero(v.negative);
  if (v.exponent > 127) return infinity(v.negative);
  if (v.exponent >= -126) return f32_of(uint32_t(v.negative) << 31 | uint32_t(v.exponent + 127) << 23 | (v.significand & 0x7fffff));
  if (Ftz) return zero(v.negative);
  return f32_of(uint32_t(v.negative) << 31 | uint32_t(round_magnitude<8, 23>(v.negative, v.significand, v.exponent - 23, Round::rn)));
}

template <bool Z> float rcp(float a) {
  if (Z) a = flush(a);
  if (a != a) return nan32();
  if (a == 0) return infinity(std::signbit(a));
  if (std::isinf(a)) return zero(std::signbit(a));
  return pack<Z>(mufu::rcp(value_of(a)));
}
template <bool Z> float root(float a) {
  if (Z) a = flush(a);
  if (a != a || a < 0) return nan32();
  if (a == 0 || std::isinf(a)) return a;
  return pack<Z>(mufu::sqrt(value_of(a)));
}
template <bool Z> float rsqrt(float a) {
  if (Z) a = flush(a);
  if (a != a || a < 0) return nan32();
  if (a == 0) return infinity(std::signbit(a));
  if (std::isinf(a)) return 0.0f;
  return pack<Z>(mufu::rsqrt(value_of(a)));
}
template <bool Z, bool Cosine> float sine(float a) {
  if (Z) a = flush(a);
  if (a != a || std::isinf(a)) return nan32();
  const double exact = double(a) * double(f32_of(0x3e22f983));  // 1 / 2 pi, and a product cut toward zero
  float turns = float(exact);
  if (std::fabs(double(turns)) > std::fabs(exact)) turns = f32_of(bits_of(turns) - 1);
  return pack<true>(mufu::sine(Z ? flush(turns) : turns, Cosine));
}
template <bool Z> float lg2(float a) {
  if (Z) a = flush(a);
  if (a != a || a < 0) return nan32();
  if (a == 0) return infinity(true);
  if (std::isinf(a)) return a;
  if (bits_of(a) & 0x7f800000) return pack<true>(mufu::lg2(value_of(a)));
  return pack<true>(mufu::lg2(value_of(a * 0x1p24f))) - 24.0f;
}
float ex2_flushing(float a) {
  if (a != a) return nan32();
  if (std::fabs(a) >= 128) return a > 0 ? HUGE_VALF : 0.0f;
  return pack<true>(mufu::ex2(a));
}
template <bool Z> float ex2(float a) {
  if (Z || !(a < -126.0f)) return ex2_flushing(a);
  const float half = ex2_flushing(a * 0.5f);
  return half * half;
}
float tanh_(float a) {
  const float size = std::fabs(a);
  if (a != a) return nan32();
  if (size < 0x1p-8f) return a;
  return size < 8 ? pack<true>(mufu::tanh(value_of(a))) : std::copysign(1.0f, a);
}

// a / b as a times 1 / b. The full form scales both where 1 / b would be lost.
template <bool Z> float times(float a, float b) {
  const double exact = double(a) * double(b);
  const bool tiny = std::fabs(exact) < 0x1p-126 - 0x1p-151;  // after rounding with an unbounded exponent
  return Z && tiny ? zero(std::signbit(exact)) : canonical(float(exact));
}
template <bool Z> float divide(float a, float b) {
  if (Z) return times<true>(flush(a), rcp<true>(b));
  const float scale = std::fabs(b) < 0x1p-126f ? 0x1p24f : 1.0f;
  return times<false>(a * scale, rcp<true>(b * scale));
}
template <bool Z> float divide_full(float a, float b) {
  if (Z) a = flush(a), b = flush(b);
  const float size = std::fabs(b);
  float scale = 1.0f;
  if (size > 0x1p126f && size < HUGE_VALF) scale = 0.25f;
  else if (size < 0x1p-126f) scale = 0x1p24f;
  return times<Z>(a * scale, rcp<true>(b * scale));
}

// The f64 forms work on the upper words; the lower word of the result is zero.
double rcp64(double a) {
  const uint64_t b = bits_of(a), sign = b & 1ull << 63;
  const int x = int(b >> 52 & 0x7ff);
  if (x == 0x7ff && b >> 32 & 0xfffff) return std::bit_cast<double>(0x7fffffff00000000ull);
  if (x == 0) return std::bit_cast<double>(sign | 0x7ffull << 52);
  if (x == 0x7ff) return std::bit_cast<double>(sign);
  const Value r = mufu::rcp({1u << 23 | (uint32_t(b >> 32) & 0xfffff) << 3, 0, false});
  const int e = r.exponent + 1023 - (x - 1023);
  if (e <= 0) return std::bit_cast<double>(sign);
  return std::bit_cast<double>(sign | uint64_t(e) << 52 | uint64_t(r.significand >> 3 & 0xfffff) << 32);
}
double rsqrt64_flushing(double a) {
  const uint64_t b = bits_of(a), sign = b & 1ull << 63;
  const int x = int(b >> 52 & 0x7ff);
  if ((x == 0x7ff && b >> 32 & 0xfffff) || (sign && x)) return std::bit_cast<double>(0x7fffffff00000000ull);
  if (x == 0) return std::bit_cast<double>(sign | 0x7ffull << 52);
  if (x == 0x7ff) return 0.0;
  const Value r = mufu::rsqrt({1u << 23 | (uint32_t(b >> 32) & 0xfffff) << 3, x - 1023, false});
  return std::bit_cast<double>(uint64_t(r.exponent + 1023) << 52 | uint64_t(r.significand >> 3 & 0xfffff) << 32);
}
// What the assembler makes of the form without .ftz: the unit's result and a step of third order, of a subnormal number scaled.
double rsqrt64_refined(double a) {
  const double seed = rsqrt64_flushing(a), error = std::fma(a, -(seed * seed), 1.0);
  return std::fma(std::fma(error, 0.375, 0.5), seed * error, seed);
}
double rsqrt64(double a) {
  const uint64_t b = bits_of(a), sign = b & 1ull << 63;
  if (a == 0) return std::bit_cast<double>(sign | 0x7ffull << 52);
  if (a != a) return std::bit_cast<double>(b | 1ull << 51);
  if (sign) return std::bit_cast<double>(0xfff8000000000000ull);
  if (std::isinf(a)) return 0.0;
  return a < 0x1p-1022 ? rsqrt64_refined(a * 0x1p54) * 0x1p27 : rsqrt64_refined(a);
}

// The unit's f32 results, truncated. Of ex2 overflow is infinity all the same.
template <class H> H tanh16(H a) { return narrow<H>(tanh_(a.f32()), Round::rz); }
template <class H> H ex216(H a) {
  const float v = ex2<true>(a.f32());
  if (H::kExponentBits == 5 && v >= 0x1p16f) return {0x7c00};
  return narrow<H>(v, Round::rz);
}

/// All lanes: the ordinary ones by the vector, the others one by one.
template <auto Lane, MufuLanes::Function MufuLanes::* Lanes>
void by_vector(const Form& form, void* const* d, const void* const* s, uint32_t mask) {
  if (!d[0]) return;
  mask &= ~(mufu_lanes().*Lanes)(static_cast<const uint32_t*>(s[0]), static_cast<uint32_t*>(d[0]), mask);
  if (mask) Warp<Lane>::run(form, d, s, mask);
}
template <auto Lane>
void divide_by_vector(const Form& form, void* const* d, const void* const* s, uint32_t mask) {
  if (!d[0]) return;
  mask &= ~mufu_lanes().div(static_cast<const uint32_t*>(s[0]), static_cast<const uint32_t*>(s[1]), static_cast<uint32_t*>(d[0]), mask);
  if (mask) Warp<Lane>::run(form, d, s, mask);
}

template <auto Lane, MufuLanes::Function MufuLanes::* Lanes>
constexpr PureFn unit() {
  return &by_vector<Lane, Lanes>;
}

template <bool Z>
PureFn find_f32(const Form& f) {
  switch (f.op) {
    case Op::rcp: return unit<&rcp<Z>, &MufuLanes::rcp>();
    case Op::sqrt: return unit<&root<Z>, &MufuLanes::sqrt>();
    case Op::rsqrt: return unit<&rsqrt<Z>, &MufuLanes::rsqrt>();
    case Op::sin: return unit<&sine<Z, false>, &MufuLanes::sin>();
    case Op::cos: return unit<&sine<Z, true>, &MufuLanes::cos>();
    case Op::lg2: return unit<&lg2<Z>, &MufuLanes::lg2>();
    case Op::ex2: return unit<&ex2<Z>, &MufuLanes::ex2>();
    case Op::tanh: return unit<&tanh_, &MufuLanes::tanh>();
    case Op::div: return f.has(Mod::full) ? &divide_by_vector<&divide_full<Z>> : &divide_by_vector<&divide<Z>>;
    default: return nullptr;
  }
}

}  // namespace

PureFn find_approximate(const Form& f) {
  const Type t = f.type();
  const bool ftz = f.has(Mod::ftz);
  if (t == Type::f32) return ftz ? find_f32<true>(f) : find_f32<false>(f);
  if (t == Type::f64 && f.op == Op::rcp) return warp<&rcp64>;
  if (t == Type::f64 && f.op == Op::rsqrt)
    return ftz ? warp<&rsqrt64_flushing> : warp<&rsqrt64>;
  if (f.op != Op::tanh && f.op != Op::ex2) return nullptr;
  const bool tanh = f.op == Op::tanh;
  PureFn fn = nullptr;
  if (t == Type::f16) fn = tanh ? warp<&tanh16<F16>> : warp<&ex216<F16>>;
  if (t == Type::bf16) fn = tanh ? warp<&tanh16<BF16>> : warp<&ex216<BF16>>;
  if (t == Type::f16x2) fn = tanh ? warp<&Halves<&tanh16<F16>>::packed> : warp<&Halves<&ex216<F16>>::packed>;
  if (t == Type::bf16x2) fn = tanh ? warp<&Halves<&tanh16<BF16>>::packed> : warp<&Halves<&ex216<BF16>>::packed>;
  return fn;
}

}  // namespace orrery::sem
