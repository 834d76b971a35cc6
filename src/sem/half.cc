// sem/half.cc: f16 and bf16 arithmetic, plain and packed.
//
// Each meaning computes in double, exactly or rounded to odd, and rounds once to the format. The packed forms apply
// the plain meaning to both halves.
// Source: PTX ISA manual, "Half Precision Floating-Point Instructions".
#include "sem/families.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

template <class H> constexpr uint16_t kOne = H::kExponentBits == 5 ? 0x3c00 : 0x3f80;
template <class H> H flush(H v) { return v.bits & (H::kExponentBits == 5 ? 0x7c00 : 0x7f80) ? v : H{uint16_t(v.bits & 0x8000)}; }
template <class H, bool Ftz> double in(H v) { return (Ftz ? flush(v) : v).f32(); }
// .ftz flushes what is below the smallest normal number after rounding with an unbounded exponent, that is by more
// than half a unit in the last place of the binade below; v is exact or rounded to odd, so the comparison is exact.
template <class H, bool Ftz, bool Sat> H out(double v) {
  H r = narrow<H>(v);
  if (Ftz && std::fabs(v) < 0x1p-14 - 0x1p-26) r.bits &= 0x8000;
  if (Sat) {
    if (r.is_nan() || r.bits & 0x8000) return {0};
    return r.bits > kOne<H> ? H{kOne<H>} : r;
  }
  return r;
}
template <class H> H relu(H v) { return v.is_nan() ? v : v.bits & 0x8000 ? H{0} : v; }

template <class H, bool Ftz, bool Sat> H add(H a, H b) { return out<H, Ftz, Sat>(in<H, Ftz>(a) + in<H, Ftz>(b)); }
template <class H, bool Ftz, bool Sat> H sub(H a, H b) { return out<H, Ftz, Sat>(in<H, Ftz>(a) - in<H, Ftz>(b)); }
template <class H, bool Ftz, bool Sat> H mul(H a, H b) { return out<H, Ftz, Sat>(in<H, Ftz>(a) * in<H, Ftz>(b)); }
inline double fused(double a, double b, double c) {
  const double p = a * b;
  if (!std::isfinite(p) || !std::isfinite(c)) return p + c;
  return add_to_odd(p, c);
}
template <class H, bool Ftz, bool Sat> H fma(H a, H b, H c) {
  return out<H, Ftz, Sat>(fused(in<H, Ftz>(a), in<H, Ftz>(b), in<H, Ftz>(c)));
}
template <class H, bool Ftz> H fma_relu(H a, H b, H c) { return relu(fma<H, Ftz, false>(a, b, c)); }
// .oob: a or b equal to the out-of-bounds NaN gives zero instead of a NaN.
template <class H> bool out_of_bounds(H v) { return (v.bits & 0x7fff) == 0x7ff7; }
template <class H, bool Relu> H fma_oob(H a, H b, H c) {
  if (out_of_bounds(a) || out_of_bounds(b)) return {0};
  const H r = fma<H, false, false>(a, b, c);
  return Relu ? relu(r) : r;
}
template <class H, bool Ftz> H absolute(H a) {
  if (Ftz) a = flush(a);
  return a.is_nan() ? H{kNan16} : H{uint16_t(a.bits & 0x7fff)};
}
template <class H, bool Ftz> H negate(H a) {
  if (Ftz) a = flush(a);
  return a.is_nan() ? H{kNan16} : H{uint16_t(a.bits ^ 0x8000)};
}

template <class H, bool Max> H extreme(H a, H b) {
  if (a.is_nan()) return b.is_nan() ? H{kNan16} : b;
  if (b.is_nan()) return a;
  const float x = a.f32(), y = b.f32();
  if (x == y) return {uint16_t(Max ? a.bits & b.bits : a.bits | b.bits)};
  return (x < y) == Max ? b : a;
}
template <class H, bool Max, bool Ftz, bool NaN, bool XorAbs> H minmax(H a, H b) {
  if (Ftz) a = flush(a), b = flush(b);
  if (NaN && (a.is_nan() || b.is_nan())) return {kNan16};
  if (!XorAbs) return extreme<H, Max>(a, b);
  const uint16_t sign = (a.bits ^ b.bits) & 0x8000;
  const H r = extreme<H, Max>({uint16_t(a.bits & 0x7fff)}, {uint16_t(b.bits & 0x7fff)});
  return r.is_nan() ? H{kNan16} : H{uint16_t(r.bits | sign)};
}

template <auto F> PureFn plain_or_packed(bool packed) { return packed ? warp<&Halves<F>::packed> : warp<F>; }

template <class H, bool Ftz>
PureFn find_minmax(const Form& f, bool packed) {
  return with_bool(f.op == Op::max, [&](auto m) {
    return with_bool(f.has(Mod::NaN), [&](auto q) {
      return with_bool(f.has(Mod::abs), [&](auto x) -> PureFn {
        constexpr bool M = m, Q = q, X = x;
        return plain_or_packed<&minmax<H, M, Ftz, Q, X>>(packed);
      });
    });
  });
}

template <class H, bool Ftz>
PureFn find(const Form& f, bool packed) {
  if (f.has(Mod::oob)) return f.has(Mod::relu) ? plain_or_packed<&fma_oob<H, true>>(packed) : plain_or_packed<&fma_oob<H, false>>(packed);
  if (f.has(Mod::relu)) return f.op == Op::fma ? plain_or_packed<&fma_relu<H, Ftz>>(packed) : nullptr;
  return with_bool(f.has(Mod::sat), [&](auto sat) -> PureFn {
    constexpr bool S = sat;
    switch (f.op) {
      case Op::add: return plain_or_packed<&add<H, Ftz, S>>(packed);
      case Op::sub: return plain_or_packed<&sub<H, Ftz, S>>(packed);
      case Op::mul: return plain_or_packed<&mul<H, Ftz, S>>(packed);
      case Op::fma: return plain_or_packed<&fma<H, Ftz, S>>(packed);
      case Op::abs: return plain_or_packed<&absolute<H, Ftz>>(packed);
      case Op::neg: return plain_or_packed<&negate<H, Ftz>>(packed);
      case Op::min: case Op::max: return find_minmax<H, Ftz>(f, packed);
      default: return nullptr;
    }
  });
}

}  // namespace

PureFn find_half(const Form& f, Arity) {
  const Type t = f.type();
  const bool ftz = f.has(Mod::ftz), packed = t == Type::f16x2 || t == Type::bf16x2;
  if (f.n_types != 1) return nullptr;
  if (t == Type::f16 || t == Type::f16x2) return ftz ? find<F16, true>(f, packed) : find<F16, false>(f, packed);
  if (t == Type::bf16 || t == Type::bf16x2) return find<BF16, false>(f, packed);
  return nullptr;
}

}  // namespace orrery::sem
