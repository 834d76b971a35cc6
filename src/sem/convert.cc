// sem/convert.cc: cvt and cvt.pack.
//
// Four kinds: integer to integer (truncate or saturate), integer to float (round), float to integer (round to
// integral, then clamp: float to integer always saturates), float to float (through double, which holds every
// narrower value exactly, so there is one rounding). s8 and s16 results are sign-extended to 32 bits because PTX
// lets the destination register be wider than the type.
// Refused (null): forms that need sm_100 or later (fp4, fp6, ue8m0, stochastic rounding, fp8 from bf16).
// Source: PTX ISA manual, cvt and cvt.pack; NaN results from recorded H200 results.
#include <limits>

#include "sem/families.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

template <class F>
PureFn for_any_integer(Type t, F f) {
  if (t == Type::u8 || t == Type::b8) return f.template operator()<uint8_t>();
  if (t == Type::s8) return f.template operator()<int8_t>();
  return for_integer(t, f);
}
template <class F>
PureFn for_any_float(Type t, F f) {
  switch (t) {
    case Type::f16: return f.template operator()<F16>();
    case Type::bf16: return f.template operator()<BF16>();
    case Type::f32: return f.template operator()<float>();
    case Type::f64: return f.template operator()<double>();
    default: return nullptr;
  }
}

template <class D> using Result = std::conditional_t<std::is_signed_v<D> && sizeof(D) < 4, int32_t, D>;

// -- integer to integer

template <class D, class S> Result<D> truncate(S v) { return Result<D>(D(v)); }
template <class D, class S> Result<D> clamp(S v) {
  constexpr __int128 lo = std::numeric_limits<D>::min(), hi = std::numeric_limits<D>::max();
  return Result<D>(__int128(v) < lo ? D(lo) : __int128(v) > hi ? D(hi) : D(v));
}
PureFn find_int_int(const Form& f) {
  const bool sat = f.has(Mod::sat);
  return for_any_integer(f.type(0), [&]<class D>() -> PureFn {
    return for_any_integer(f.type(1), [&]<class S>() -> PureFn { return sat ? warp<&clamp<D, S>> : warp<&truncate<D, S>>; });
  });
}

// -- what the modifiers of a conversion from or to a float say

Round rounding(const Form& f) {
  if (f.has(Mod::rz) || f.has(Mod::rzi)) return Round::rz;
  if (f.has(Mod::rm) || f.has(Mod::rmi)) return Round::rm;
  if (f.has(Mod::rp) || f.has(Mod::rpi)) return Round::rp;
  return f.has(Mod::rna) ? Round::rna : Round::rn;
}
struct Options {
  Round mode;
  bool integral, ftz, sat, relu, satfinite, from_f64;
  explicit Options(const Form& f)
      : mode(rounding(f)), integral(f.has(Mod::rni) || f.has(Mod::rzi) || f.has(Mod::rmi) || f.has(Mod::rpi)),
        ftz(f.has(Mod::ftz)), sat(f.has(Mod::sat)), relu(f.has(Mod::relu)), satfinite(f.has(Mod::satfinite)),
        from_f64(f.type(1) == Type::f64) {}
};

inline double to_integral(double v, Round mode) {
  const __m128d x = _mm_set_sd(v);
  switch (mode) {
    case Round::rz: return _mm_cvtsd_f64(_mm_round_sd(x, x, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
    case Round::rm: return _mm_cvtsd_f64(_mm_round_sd(x, x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    case Round::rp: return _mm_cvtsd_f64(_mm_round_sd(x, x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC));
    default: return _mm_cvtsd_f64(_mm_round_sd(x, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
}
inline float flush(float v) { return bits_of(v) & 0x7f800000 ? v : f32_of(bits_of(v) & 0x80000000); }

template <class S> double widen(S v, bool ftz) {
  if constexpr (std::is_same_v<S, double>) return v;
  else if constexpr (std::is_same_v<S, float>) return ftz ? flush(v) : v;
  else return v.f32();
}

// -- integer to float

template <class H, class S> H int_to_half(S v, Round mode) {
  constexpr int E = H::kExponentBits, M = H::kMantissaBits;
  if (v == 0) return {0};
  const bool neg = std::is_signed_v<S> && v < 0;
  const uint64_t mag = neg ? uint64_t(0) - uint64_t(int64_t(v)) : uint64_t(v);
  return {uint16_t(round_magnitude<E, M>(neg, mag, 0, mode) | uint64_t(neg) << (E + M))};
}
template <class H, class S>
void run_int_half(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const Options o(f);
  const void* from = s[0];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) {
    H r = int_to_half<H, S>(get<S>(from, i), o.mode);
    if (o.sat) r = r.bits & 0x8000 || r.bits == 0 ? H{0} : H{uint16_t(H::kExponentBits == 5 ? 0x3c00 : 0x3f80)};
    put(to, i, r);
  });
}
template <class D, class S, bool Sat> D int_to_float(S v) {
  if (Sat) return v > 0 ? D(1) : D(0);
  return D(v);
}
PureFn find_int_float(const Form& f) {
  const bool sat = f.has(Mod::sat);
  return for_any_integer(f.type(1), [&]<class S>() -> PureFn {
    switch (f.type(0)) {
      case Type::f16: return &run_int_half<F16, S>;
      case Type::bf16: return &run_int_half<BF16, S>;
      case Type::f32: return sat ? warp<&int_to_float<float, S, true>> : rounding_warp<&int_to_float<float, S, false>>(f);
      case Type::f64: return sat ? warp<&int_to_float<double, S, true>> : rounding_warp<&int_to_float<double, S, false>>(f);
      default: return nullptr;
    }
  });
}

// -- float to integer

template <class D, class S> constexpr D nan_as_integer() {
  return sizeof(S) == 8 || sizeof(D) == 8 ? D(1ull << (8 * sizeof(D) - 1)) : 0;
}
template <class D, class S> Result<D> float_to_int(double v, Round mode) {
  if (v != v) return Result<D>(nan_as_integer<D, S>());
  v = to_integral(v, mode);
  constexpr double lo = double(std::numeric_limits<D>::min()), past = 2.0 * double(1ull << (8 * sizeof(D) - 1 - std::is_signed_v<D>));
  if (v <= lo) return std::numeric_limits<D>::min();
  if (v >= past) return std::numeric_limits<D>::max();
  if constexpr (std::is_same_v<D, uint64_t>) return v >= 0x1p63 ? uint64_t(int64_t(v - 0x1p63)) ^ 1ull << 63 : uint64_t(int64_t(v));
  else return Result<D>(D(int64_t(v)));
}
template <class D, class S>
void run_float_int(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const Options o(f);
  const void* from = s[0];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) { put(to, i, float_to_int<D, S>(widen(get<S>(from, i), o.ftz), o.mode)); });
}
PureFn find_float_int(const Form& f) {
  return for_any_integer(f.type(0), [&]<class D>() -> PureFn {
    return for_any_float(f.type(1), []<class S>() -> PureFn { return &run_float_int<D, S>; });
  });
}

// -- float to float

// A NaN that comes from f64 is not canonical: it keeps its sign and the leading bits of its payload, quieted.
template <class D> D narrow_nan(double v) {
  constexpr int E = std::is_same_v<D, F16> ? 5 : 8, M = std::is_same_v<D, F16> ? 10 : std::is_same_v<D, BF16> ? 7 : 23;
  const uint64_t b = bits_of(v);
  const uint32_t r = uint32_t(b >> 63) << (E + M) | ((1u << E) - 1) << M | 1u << (M - 1) | (uint32_t(b >> (52 - M)) & ((1u << M) - 1));
  if constexpr (M == 23) return f32_of(r);
  else return D{uint16_t(r)};
}

template <class D> D finish(double v, const Options& o) {
  if (o.integral) v = to_integral(v, o.mode);
  if (o.sat) v = v > 0 ? (v < 1 ? v : 1.0) : 0.0;
  if (o.relu && v <= 0) v = 0.0;
  if constexpr (std::is_same_v<D, double>) {
    return v;
  } else if constexpr (std::is_same_v<D, float>) {
    if (v != v) return o.from_f64 ? narrow_nan<D>(v) : nan32();
    const float r = f32_of(uint32_t(encode<8, 23>(v, o.mode)));
    return o.ftz ? flush(r) : r;
  } else {
    if (v != v && o.from_f64) return narrow_nan<D>(v);
    D r = narrow<D>(v, o.mode);
    constexpr uint16_t inf = D::kExponentBits == 5 ? 0x7c00 : 0x7f80;
    if (o.satfinite && (r.bits & 0x7fff) == inf) r.bits--;
    return r;
  }
}
template <class D, class S>
void run_float_float(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const Options o(f);
  const void* from = s[0];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) { put(to, i, finish<D>(widen(get<S>(from, i), o.ftz), o)); });
}

// The conversions that every kernel is full of.
double f32_to_f64(float v) { return v; }
double f32_to_f64_ftz(float v) { return canonical(flush(v)); }
float f64_to_f32(double v) { return v != v ? narrow_nan<float>(v) : float(v); }
float copy_f32(float v) { return v; }
float f16_to_f32(F16 v) { return canonical(v.f32()); }
F16 f32_to_f16(float v) { return v != v ? F16{kNan16} : F16{uint16_t(_cvtss_sh(v, 0))}; }
float bf16_to_f32(BF16 v) { return v.f32(); }
BF16 f32_to_bf16(float v) {
  const uint32_t b = bits_of(v);
  return v != v ? BF16{kNan16} : BF16{uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16)};
}
PureFn find_common(const Form& f) {
  const Type d = f.type(0), s = f.type(1);
  const Options o(f);
  if (d == Type::f64 && s == Type::f32 && o.ftz && !o.sat) return warp<&f32_to_f64_ftz>;
  if (o.integral || o.ftz || o.sat || o.relu || o.satfinite || o.mode != Round::rn) return nullptr;
  if (d == Type::f64 && s == Type::f32) return warp<&f32_to_f64>;
  if (d == Type::f32 && s == Type::f64) return warp<&f64_to_f32>;
  if (d == Type::f32 && s == Type::f32) return warp<&copy_f32>;
  if (d == Type::f32 && s == Type::f16) return warp<&f16_to_f32>;
  if (d == Type::f16 && s == Type::f32) return warp<&f32_to_f16>;
  if (d == Type::f32 && s == Type::bf16) return warp<&bf16_to_f32>;
  if (d == Type::bf16 && s == Type::f32) return warp<&f32_to_bf16>;
  return nullptr;
}
PureFn find_float_float(const Form& f) {
  if (PureFn fn = find_common(f)) return fn;
  return for_any_float(f.type(0), [&]<class D>() -> PureFn {
    return for_any_float(f.type(1), []<class S>() -> PureFn { return &run_float_float<D, S>; });
  });
}

// -- fp8, tf32 and packed results

template <int E, int M> uint32_t to_fp8(double v, bool relu) {
  if (v != v) return 0x7f;
  if (relu && v <= 0) return 0;
  constexpr uint32_t largest = E == 4 ? 0x7e : 0x7b;
  const uint32_t r = uint32_t(encode<E, M>(v, Round::rn)), mag = r & 0x7f;
  if (std::isinf(v) || mag > largest) return (r & 0x80) | largest;
  return r;
}
// e4m3 has no infinity: its top exponent is an ordinary one, so encode with one more exponent than the format shows.
template <> uint32_t to_fp8<4, 3>(double v, bool relu) {
  if (v != v) return 0x7f;
  if (relu && v <= 0) return 0;
  const uint32_t sign = std::signbit(v) ? 0x80 : 0;
  const double mag = std::fabs(v);
  if (mag >= 464) return sign | 0x7e;
  if (mag == 0) return sign;
  const uint64_t b = bits_of(mag);
  const int x = int(b >> 52);
  if (x == 0) return sign;
  const uint64_t sig = (b & ((1ull << 52) - 1)) | 1ull << 52;
  const uint32_t r = uint32_t(round_magnitude<5, 3>(false, sig, x - 1075 - 8, Round::rn));  // bias 15 instead of 7
  return sign | (r > 0x7e ? 0x7e : r);
}
F16 from_e4m3(uint32_t b) {
  const uint16_t sign = uint16_t((b & 0x80) << 8);
  if ((b & 0x7f) == 0x7f) return {kNan16};
  const double mag = (b & 0x78) ? std::ldexp(double(8 + (b & 7)), int(b >> 3 & 15) - 10) : std::ldexp(double(b & 7), -9);
  return {uint16_t(narrow<F16>(mag).bits | sign)};
}
F16 from_e5m2(uint32_t b) {
  const F16 r{uint16_t(b << 8)};
  return r.is_nan() ? F16{kNan16} : r;
}

template <class H>
void run_pair_from_f32(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const Options o(f);
  const void *high = s[0], *low = s[1];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) {
    const uint32_t h = finish<H>(widen(get<float>(high, i), o.ftz), o).bits, l = finish<H>(widen(get<float>(low, i), o.ftz), o).bits;
    put(to, i, h << 16 | l);
  });
}
template <bool E4> uint32_t fp8_of(double v, bool relu) { return E4 ? to_fp8<4, 3>(v, relu) : to_fp8<5, 2>(v, relu); }
template <bool E4>
void run_fp8_from_f32(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const bool relu = f.has(Mod::relu);
  const void *high = s[0], *low = s[1];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) {
    put(to, i, fp8_of<E4>(get<float>(high, i), relu) << 8 | fp8_of<E4>(get<float>(low, i), relu));
  });
}
template <bool E4, bool Relu> uint32_t fp8_from_halves(uint32_t v) {
  return fp8_of<E4>(F16{uint16_t(v >> 16)}.f32(), Relu) << 8 | fp8_of<E4>(F16{uint16_t(v)}.f32(), Relu);
}
template <bool E4, bool Relu> uint32_t halves_from_fp8(uint32_t v) {
  F16 h = E4 ? from_e4m3(v >> 8 & 0xff) : from_e5m2(v >> 8 & 0xff), l = E4 ? from_e4m3(v & 0xff) : from_e5m2(v & 0xff);
  if (Relu && !h.is_nan() && h.bits & 0x8000) h = {0};
  if (Relu && !l.is_nan() && l.bits & 0x8000) l = {0};
  return uint32_t(h.bits) << 16 | l.bits;
}

void run_tf32(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const Options o(f);
  const void* from = s[0];
  void* to = d[0];
  if (!to) return;
  for_lanes(mask, [&](int i) {
    const float v = get<float>(from, i);
    uint32_t r;
    const uint32_t b = bits_of(v);
    if (o.mode == Round::rna) {  // works on the bits: NaNs are not special
      r = ((b & 0x7f800000) == 0x7f800000 ? b : b + 0x1000) & 0xffffe000;
      if (o.satfinite && (r & 0x7f800000) == 0x7f800000) r -= 0x2000;
    } else if (v != v) {
      r = 0x7fffe000;
    } else if (o.relu && v <= 0) {
      r = 0;
    } else {
      r = uint32_t(encode<8, 10>(v, o.mode)) << 13;
    }
    put(to, i, r);
  });
}

PureFn find_packed(const Form& f) {
  const Type d = f.type(0), s = f.type(1);
  const bool relu = f.has(Mod::relu);
  if (d == Type::tf32) return s == Type::f32 ? &run_tf32 : nullptr;
  if (s == Type::f32) {
    if (d == Type::f16x2) return &run_pair_from_f32<F16>;
    if (d == Type::bf16x2) return &run_pair_from_f32<BF16>;
    if (d == Type::e4m3x2) return &run_fp8_from_f32<true>;
    if (d == Type::e5m2x2) return &run_fp8_from_f32<false>;
  }
  if (s == Type::f16x2 && d == Type::e4m3x2) return relu ? warp<&fp8_from_halves<true, true>> : warp<&fp8_from_halves<true, false>>;
  if (s == Type::f16x2 && d == Type::e5m2x2) return relu ? warp<&fp8_from_halves<false, true>> : warp<&fp8_from_halves<false, false>>;
  if (d == Type::f16x2 && s == Type::e4m3x2) return relu ? warp<&halves_from_fp8<true, true>> : warp<&halves_from_fp8<true, false>>;
  if (d == Type::f16x2 && s == Type::e5m2x2) return relu ? warp<&halves_from_fp8<false, true>> : warp<&halves_from_fp8<false, false>>;
  return nullptr;
}

// -- cvt.pack: a saturates into the upper field, b into the lower; the 8-bit and narrower forms shift c up by two fields

template <class D, int Bits> uint32_t saturate_to(int32_t v) {
  const int32_t lo = std::is_signed_v<D> ? -(1 << (Bits - 1)) : 0, hi = (1 << (Bits - std::is_signed_v<D>)) - 1;
  return uint32_t(v < lo ? lo : v > hi ? hi : v) & ((1u << Bits) - 1);
}
template <class D> uint32_t pack2(int32_t a, int32_t b) { return saturate_to<D, 16>(a) << 16 | saturate_to<D, 16>(b); }
template <class D, int Bits> uint32_t pack_onto(int32_t a, int32_t b, uint32_t c) {
  return c << (2 * Bits) | saturate_to<D, Bits>(a) << Bits | saturate_to<D, Bits>(b);
}

}  // namespace

PureFn find_convert_pack(const Form& f) {
  switch (f.type(0)) {
    case Type::u16: return warp<&pack2<uint16_t>>;
    case Type::s16: return warp<&pack2<int16_t>>;
    case Type::u8: return warp<&pack_onto<uint8_t, 8>>;
    case Type::s8: return warp<&pack_onto<int8_t, 8>>;
    case Type::u4: return warp<&pack_onto<uint8_t, 4>>;
    case Type::s4: return warp<&pack_onto<int8_t, 4>>;
    default: return nullptr;
  }
}

PureFn find_convert(const Form& f) {
  if (f.n_types != 2 || f.has(Mod::rs)) return nullptr;
  const bool from = isa::is_float(f.type(1)) && f.type(1) != Type::tf32, to = isa::is_float(f.type(0)) && f.type(0) != Type::tf32;
  if (f.type(0) == Type::tf32 || isa::class_of(f.type(0)) == isa::TypeClass::packed || isa::class_of(f.type(1)) == isa::TypeClass::packed)
    return find_packed(f);
  if (from) return to ? find_float_float(f) : find_float_int(f);
  return to ? find_int_float(f) : find_int_int(f);
}

}  // namespace orrery::sem
