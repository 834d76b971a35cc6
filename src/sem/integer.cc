// sem/integer.cc: integer arithmetic: add .. mad, the 24-bit forms, division, extrema, dot products, carries.
//
// Where the PTX manual leaves a result open (division by zero), the meaning is what an H200 does.
// Source: PTX ISA manual, "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic".
#include <limits>

#include "sem/families.h"

namespace orrery::sem {
namespace {

template <class T>
using U = std::make_unsigned_t<T>;
template <class T>
constexpr T kMax = std::numeric_limits<T>::max();
template <class T>
constexpr T kMin = std::numeric_limits<T>::min();
template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, std::conditional_t<sizeof(T) == 8, __int128, int64_t>,
                                std::conditional_t<sizeof(T) == 8, unsigned __int128, uint64_t>>;

template <class T> T add(T a, T b) { return T(U<T>(a) + U<T>(b)); }
template <class T> T sub(T a, T b) { return T(U<T>(a) - U<T>(b)); }
template <class T> T saturate(Wide<T> v) { return v > Wide<T>(kMax<T>) ? kMax<T> : v < Wide<T>(kMin<T>) ? kMin<T> : T(v); }
template <class T> T add_sat(T a, T b) { return saturate<T>(Wide<T>(a) + b); }
template <class T> T sub_sat(T a, T b) { return saturate<T>(Wide<T>(a) - b); }
template <class T> T mul_lo(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }
template <class T> T mul_hi(T a, T b) { return T((Wide<T>(a) * b) >> (8 * sizeof(T))); }
template <class T> T mad_lo(T a, T b, T c) { return add(mul_lo(a, b), c); }
template <class T> T mad_hi(T a, T b, T c) { return add(mul_hi(a, b), c); }
int32_t mad_hi_sat(int32_t a, int32_t b, int32_t c) { return saturate<int32_t>(int64_t(mul_hi(a, b)) + c); }
template <class T, class D> D mul_wide(T a, T b) { return D(D(a) * D(b)); }
template <class T, class D> D mad_wide(T a, T b, D c) { return add<D>(mul_wide<T, D>(a, b), c); }
template <class T> T sad(T a, T b, T c) { return add<T>(c, a > b ? sub(a, b) : sub(b, a)); }
template <class T> T absolute(T a) { return a < 0 ? sub<T>(0, a) : a; }
template <class T> T negate(T a) { return sub<T>(0, a); }
template <class T> T smaller(T a, T b) { return b < a ? b : a; }
template <class T> T larger(T a, T b) { return a < b ? b : a; }
template <class T> T smaller3(T a, T b, T c) { return smaller(smaller(a, b), c); }
template <class T> T larger3(T a, T b, T c) { return larger(larger(a, b), c); }
template <class T> T smaller_relu(T a, T b) { return larger<T>(smaller(a, b), 0); }
template <class T> T larger_relu(T a, T b) { return larger<T>(larger(a, b), 0); }
template <class T> T smaller3_relu(T a, T b, T c) { return larger<T>(smaller3(a, b, c), 0); }
template <class T> T larger3_relu(T a, T b, T c) { return larger<T>(larger3(a, b, c), 0); }

template <class T> T divide(T a, T b) {
  if (b == 0) return T(~U<T>(0));
  if (std::is_signed_v<T> && b == T(-1)) return negate(a);
  return a / b;
}
template <class T> T remainder(T a, T b) {
  if (b == 0) return T(~U<T>(0));
  if (std::is_signed_v<T> && b == T(-1)) return 0;
  return a % b;
}

template <class T> int64_t low24(T a) {
  if constexpr (std::is_signed_v<T>) return int32_t(uint32_t(a) << 8) >> 8;
  else return a & 0xffffff;
}
template <class T> T mul24_lo(T a, T b) { return T(low24(a) * low24(b)); }
template <class T> T mul24_hi(T a, T b) { return T((low24(a) * low24(b)) >> 16); }
template <class T> T mad24_lo(T a, T b, T c) { return add(mul24_lo(a, b), c); }
template <class T> T mad24_hi(T a, T b, T c) { return add(mul24_hi(a, b), c); }
int32_t mad24_hi_sat(int32_t a, int32_t b, int32_t c) { return saturate<int32_t>(int64_t(mul24_hi(a, b)) + c); }

template <class A, class B> uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 4; i++) c += uint32_t(int32_t(A(a >> (8 * i))) * int32_t(B(b >> (8 * i))));
  return c;
}
template <class A, class B, int Shift> uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c) {
  for (int i = 0; i < 2; i++) c += uint32_t(int32_t(A(a >> (16 * i))) * int32_t(B(b >> (8 * i + Shift))));
  return c;
}

PureFn find_minmax(const Form& f, Arity n) {
  const bool max = f.op == Op::max, relu = f.has(Mod::relu), three = n.sources == 3;
  auto choose = [&]<class T>() -> PureFn {
    if (three) {
      if (relu) return max ? warp<&larger3_relu<T>> : warp<&smaller3_relu<T>>;
      return max ? warp<&larger3<T>> : warp<&smaller3<T>>;
    }
    if (relu) return max ? warp<&larger_relu<T>> : warp<&smaller_relu<T>>;
    return max ? warp<&larger<T>> : warp<&smaller<T>>;
  };
  auto packed = [&]<class T>() -> PureFn {
    if (three) {
      if (relu) return max ? warp<&Halves<&larger3_relu<T>>::packed> : warp<&Halves<&smaller3_relu<T>>::packed>;
      return max ? warp<&Halves<&larger3<T>>::packed> : warp<&Halves<&smaller3<T>>::packed>;
    }
    if (relu) return max ? warp<&Halves<&larger_relu<T>>::packed> : warp<&Halves<&smaller_relu<T>>::packed>;
    return max ? warp<&Halves<&larger<T>>::packed> : warp<&Halves<&smaller<T>>::packed>;
  };
  if (f.type() == Type::u16x2) return packed.operator()<uint16_t>();
  if (f.type() == Type::s16x2) return packed.operator()<int16_t>();
  return for_integer(f.type(), choose);
}

PureFn find_multiply(const Form& f) {
  const Type t = f.type();
  const bool mad = f.op == Op::mad;
  if (f.has(Mod::wide)) {
    switch (t) {
      case Type::u16: return mad ? warp<&mad_wide<uint16_t, uint32_t>> : warp<&mul_wide<uint16_t, uint32_t>>;
      case Type::s16: return mad ? warp<&mad_wide<int16_t, int32_t>> : warp<&mul_wide<int16_t, int32_t>>;
      case Type::u32: return mad ? warp<&mad_wide<uint32_t, uint64_t>> : warp<&mul_wide<uint32_t, uint64_t>>;
      case Type::s32: return mad ? warp<&mad_wide<int32_t, int64_t>> : warp<&mul_wide<int32_t, int64_t>>;
      default: return nullptr;
    }
  }
  if (mad && f.has(Mod::sat)) return t == Type::s32 && f.has(Mod::hi) ? warp<&mad_hi_sat> : nullptr;
  if (f.has(Mod::hi))
    return for_integer(t, [&]<class T>() -> PureFn { return mad ? warp<&mad_hi<T>> : warp<&mul_hi<T>>; });
  return for_integer(t, [&]<class T>() -> PureFn { return mad ? warp<&mad_lo<T>> : warp<&mul_lo<T>>; });
}

PureFn find_24(const Form& f) {
  const bool mad = f.op == Op::mad24, hi = f.has(Mod::hi);
  if (f.has(Mod::sat)) return mad && hi && f.type() == Type::s32 ? warp<&mad24_hi_sat> : nullptr;
  auto choose = [&]<class T>() -> PureFn {
    if (mad) return hi ? warp<&mad24_hi<T>> : warp<&mad24_lo<T>>;
    return hi ? warp<&mul24_hi<T>> : warp<&mul24_lo<T>>;
  };
  if (f.type() == Type::u32) return choose.operator()<uint32_t>();
  if (f.type() == Type::s32) return choose.operator()<int32_t>();
  return nullptr;
}

PureFn find_dot(const Form& f) {
  const bool sa = isa::is_signed(f.type(0)), sb = isa::is_signed(f.type(1)), hi = f.has(Mod::hi);
  if (f.op == Op::dp4a) {
    if (sa) return sb ? warp<&dp4a<int8_t, int8_t>> : warp<&dp4a<int8_t, uint8_t>>;
    return sb ? warp<&dp4a<uint8_t, int8_t>> : warp<&dp4a<uint8_t, uint8_t>>;
  }
  return with_bool(hi, [&](auto h) -> PureFn {
    constexpr int shift = h ? 16 : 0;
    if (sa) return sb ? warp<&dp2a<int16_t, int8_t, shift>> : warp<&dp2a<int16_t, uint8_t, shift>>;
    return sb ? warp<&dp2a<uint16_t, int8_t, shift>> : warp<&dp2a<uint16_t, uint8_t, shift>>;
  });
}

PureFn find_add_sub(const Form& f) {
  const bool subtract = f.op == Op::sub;
  if (packed16(f.type()))  // the halves wrap alike for both signs
    return subtract ? warp<&Halves<&sub<uint16_t>>::packed> : warp<&Halves<&add<uint16_t>>::packed>;
  if (f.has(Mod::sat)) {
    if (f.type() != Type::s32) return nullptr;
    return subtract ? warp<&sub_sat<int32_t>> : warp<&add_sat<int32_t>>;
  }
  return for_integer(f.type(), [&]<class T>() -> PureFn { return subtract ? warp<&sub<T>> : warp<&add<T>>; });
}

// -- carries: the condition code is a predicate, the last source and the last destination

template <class T> Two<T, bool> add_cc(T a, T b) { return {T(a + b), T(a + b) < a}; }
template <class T> Two<T, bool> addc_cc(T a, T b, bool c) {
  unsigned __int128 v = (unsigned __int128)(a) + b + c;
  return {T(v), bool(v >> (8 * sizeof(T)) & 1)};
}
template <class T> T addc(T a, T b, bool c) { return a + b + c; }
template <class T> Two<T, bool> sub_cc(T a, T b) { return {T(a - b), a < b}; }
template <class T> Two<T, bool> subc_cc(T a, T b, bool c) {
  unsigned __int128 v = (unsigned __int128)(a) - b - c;
  return {T(v), bool(v >> (8 * sizeof(T)) & 1)};
}
template <class T> T subc(T a, T b, bool c) { return a - b - c; }
template <class T> U<T> product(T a, T b, bool hi) { return U<T>(hi ? mul_hi(a, b) : mul_lo(a, b)); }
template <class T, bool Hi> Two<U<T>, bool> mad_cc(T a, T b, U<T> c) { return add_cc<U<T>>(product(a, b, Hi), c); }
template <class T, bool Hi> Two<U<T>, bool> madc_cc(T a, T b, U<T> c, bool x) { return addc_cc<U<T>>(product(a, b, Hi), c, x); }
template <class T, bool Hi> U<T> madc(T a, T b, U<T> c, bool x) { return product(a, b, Hi) + c + x; }

PureFn find_carry_add(const Form& f, bool wide) {
  const bool out = f.has(Mod::cc);
  auto choose = [&]<class T>() -> PureFn {
    switch (f.op) {
      case Op::add: return warp<&add_cc<T>>;
      case Op::sub: return warp<&sub_cc<T>>;
      case Op::addc: return out ? warp<&addc_cc<T>> : warp<&addc<T>>;
      case Op::subc: return out ? warp<&subc_cc<T>> : warp<&subc<T>>;
      default: return nullptr;
    }
  };
  return wide ? choose.operator()<uint64_t>() : choose.operator()<uint32_t>();
}

}  // namespace

PureFn find_carry(const Form& f) {
  const Type t = f.type();
  const bool out = f.has(Mod::cc), in = f.op == Op::addc || f.op == Op::subc || f.op == Op::madc;
  if (!out && !in) return nullptr;
  const bool wide = t == Type::u64 || t == Type::s64;
  if (!wide && t != Type::u32 && t != Type::s32) return nullptr;
  if (f.op != Op::mad && f.op != Op::madc) return find_carry_add(f, wide);
  return with_bool(f.has(Mod::hi), [&](auto hi) -> PureFn {
    constexpr bool h = hi;
    auto choose = [&]<class T>() -> PureFn {
      if (f.op == Op::mad) return warp<&mad_cc<T, h>>;
      return out ? warp<&madc_cc<T, h>> : warp<&madc<T, h>>;
    };
    switch (t) {
      case Type::u32: return choose.template operator()<uint32_t>();
      case Type::s32: return choose.template operator()<int32_t>();
      case Type::u64: return choose.template operator()<uint64_t>();
      default: return choose.template operator()<int64_t>();
    }
  });
}

PureFn find_integer(const Form& f, Arity n) {
  if (f.has(Mod::cc)) return nullptr;
  switch (f.op) {
    case Op::add: case Op::sub: return find_add_sub(f);
    case Op::mul: case Op::mad: return find_multiply(f);
    case Op::mul24: case Op::mad24: return find_24(f);
    case Op::sad: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&sad<T>>; });
    case Op::div: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&divide<T>>; });
    case Op::rem: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&remainder<T>>; });
    case Op::abs: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&absolute<T>>; });
    case Op::neg: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&negate<T>>; });
    case Op::min: case Op::max: return find_minmax(f, n);
    case Op::dp4a: case Op::dp2a: return find_dot(f);
    default: return nullptr;
  }
}

}  // namespace orrery::sem
