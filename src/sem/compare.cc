// sem/compare.cc: set, setp, selp, slct, testp, copysign.
//
// A comparison of a whole warp is one mask; combining with a predicate and negating for q are then mask operations.
// Ordered comparisons are false on NaN, the unordered ones (equ .. geu) true; lo, ls, hi, hs are the unsigned names.
// Source: PTX ISA manual, "Comparison and Selection Instructions".
#include "sem/families.h"
#include "sem/smallfloat.h"

namespace orrery::sem {
namespace {

enum class Cmp : uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

bool cmp_of(const Form& f, Cmp& out) {
  static constexpr std::pair<Mod, Cmp> kNames[] = {
      {Mod::eq, Cmp::eq},   {Mod::ne, Cmp::ne},   {Mod::lt, Cmp::lt},   {Mod::lo, Cmp::lt},   {Mod::le, Cmp::le},
      {Mod::ls, Cmp::le},   {Mod::gt, Cmp::gt},   {Mod::hi, Cmp::gt},   {Mod::ge, Cmp::ge},   {Mod::hs, Cmp::ge},
      {Mod::equ, Cmp::equ}, {Mod::neu, Cmp::neu}, {Mod::ltu, Cmp::ltu}, {Mod::leu, Cmp::leu}, {Mod::gtu, Cmp::gtu},
      {Mod::geu, Cmp::geu}, {Mod::num, Cmp::num}, {Mod::nan, Cmp::nan}};
  for (auto [mod, cmp] : kNames)
    if (f.has(mod)) return out = cmp, true;
  return false;
}

// Operand types of comparisons beyond the integers: how a lane is read as a C++ value.
struct Flushed { uint32_t bits; };
struct HalfFlushed { uint16_t bits; };
template <class T> auto value(T v) { return v; }
inline float value(F16 v) { return v.f32(); }
inline float value(BF16 v) { return v.f32(); }
inline float value(Flushed v) { return v.bits & 0x7f800000 ? f32_of(v.bits) : 0.0f; }
inline float value(HalfFlushed v) { return v.bits & 0x7c00 ? F16{v.bits}.f32() : 0.0f; }

template <Cmp C, class V> bool holds(V a, V b) {
  switch (C) {
    case Cmp::eq: return a == b;
    case Cmp::ne: return a < b || a > b;
    case Cmp::lt: return a < b;
    case Cmp::le: return a <= b;
    case Cmp::gt: return a > b;
    case Cmp::ge: return a >= b;
    case Cmp::equ: return !(a < b || a > b);
    case Cmp::neu: return !(a == b);
    case Cmp::ltu: return !(a >= b);
    case Cmp::leu: return !(a > b);
    case Cmp::gtu: return !(a <= b);
    case Cmp::geu: return !(a < b);
    case Cmp::num: return a == a && b == b;
    default: return a != a || b != b;
  }
}

using MaskFn = uint32_t (*)(const void*, const void*, uint32_t);
template <class T, Cmp C, int Half = 0>
uint32_t compare(const void* a, const void* b, uint32_t mask) {
  uint32_t bits = 0;
  for_lanes(mask, [&](int i) {
    if constexpr (Half) {
      const T x = std::bit_cast<T>(uint16_t(get<uint32_t>(a, i) >> 16)), y = std::bit_cast<T>(uint16_t(get<uint32_t>(b, i) >> 16));
      bits |= uint32_t(holds<C>(value(x), value(y))) << i;
    } else {
      bits |= uint32_t(holds<C>(value(get<T>(a, i)), value(get<T>(b, i)))) << i;
    }
  });
  return bits;
}

uint32_t combine(const Form& f, uint32_t bits, const void* const* s) {
  if (f.has(Mod::and_)) return bits & *static_cast<const uint32_t*>(s[2]);
  if (f.has(Mod::or_)) return bits | *static_cast<const uint32_t*>(s[2]);
  if (f.has(Mod::xor_)) return bits ^ *static_cast<const uint32_t*>(s[2]);
  return bits;
}
void put_mask(void* d, uint32_t bits, uint32_t mask) {
  if (!d) return;
  uint32_t* to = static_cast<uint32_t*>(d);
  *to = (*to & ~mask) | (bits & mask);
}

template <MaskFn F>
void setp_one(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  put_mask(d[0], combine(f, F(s[0], s[1], mask), s), mask);
}
template <MaskFn F>
void setp_pair(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const uint32_t bits = F(s[0], s[1], mask), p = combine(f, bits, s), q = combine(f, ~bits, s);
  put_mask(d[0], p, mask);
  put_mask(d[1], q, mask);
}
template <MaskFn Low, MaskFn High>
void setp_halves(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const uint32_t p = combine(f, Low(s[0], s[1], mask), s), q = combine(f, High(s[0], s[1], mask), s);
  put_mask(d[0], p, mask);
  put_mask(d[1], q, mask);
}

uint32_t true_value(Type t) {
  switch (t) {
    case Type::f32: return 0x3f800000;
    case Type::f16: case Type::f16x2: return 0x3c00;
    case Type::bf16: case Type::bf16x2: return 0x3f80;
    case Type::u16: case Type::s16: return 0xffff;
    default: return ~0u;
  }
}
template <MaskFn F>
void set_one(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const uint32_t yes = true_value(f.type()), bits = combine(f, F(s[0], s[1], mask), s);
  if (!d[0]) return;
  uint32_t* to = static_cast<uint32_t*>(d[0]);
  for_lanes(mask, [&](int i) { to[i] = bits >> i & 1 ? yes : 0; });
}
template <MaskFn Low, MaskFn High>
void set_halves(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const uint32_t yes = true_value(f.type()) & 0xffff;
  const uint32_t p = combine(f, Low(s[0], s[1], mask), s), q = combine(f, High(s[0], s[1], mask), s);
  if (!d[0]) return;
  uint32_t* to = static_cast<uint32_t*>(d[0]);
  for_lanes(mask, [&](int i) { to[i] = (p >> i & 1 ? yes : 0) | (q >> i & 1 ? yes << 16 : 0); });
}

template <class T, Cmp C>
PureFn shape(const Form& f, Arity n, bool packed) {
  if (packed) {
    if constexpr (sizeof(T) == 2)
      return f.op == Op::set ? &set_halves<&compare<T, C>, &compare<T, C, 1>> : &setp_halves<&compare<T, C>, &compare<T, C, 1>>;
    return nullptr;
  }
  if (f.op == Op::set) return &set_one<&compare<T, C>>;
  return n.dests == 2 ? &setp_pair<&compare<T, C>> : &setp_one<&compare<T, C>>;
}

template <class T>
PureFn for_cmp(const Form& f, Arity n, Cmp c, bool packed = false) {
  switch (c) {
#define CASE(x) case Cmp::x: return shape<T, Cmp::x>(f, n, packed);
    CASE(eq) CASE(ne) CASE(lt) CASE(le) CASE(gt) CASE(ge)
    default: break;
  }
  if constexpr (!std::is_integral_v<T>) {
    switch (c) {
      CASE(equ) CASE(neu) CASE(ltu) CASE(leu) CASE(gtu) CASE(geu) CASE(num) CASE(nan)
#undef CASE
      default: break;
    }
  }
  return nullptr;
}

PureFn find_set(const Form& f, Arity n) {
  Cmp c;
  if (!cmp_of(f, c)) return nullptr;
  const Type t = f.op == Op::set ? f.type(1) : f.type(0);
  const bool ftz = f.has(Mod::ftz);
  switch (t) {
    case Type::f32: return ftz ? for_cmp<Flushed>(f, n, c) : for_cmp<float>(f, n, c);
    case Type::f64: return for_cmp<double>(f, n, c);
    case Type::f16: return ftz ? for_cmp<HalfFlushed>(f, n, c) : for_cmp<F16>(f, n, c);
    case Type::bf16: return for_cmp<BF16>(f, n, c);
    case Type::f16x2: return ftz ? for_cmp<HalfFlushed>(f, n, c, true) : for_cmp<F16>(f, n, c, true);
    case Type::bf16x2: return for_cmp<BF16>(f, n, c, true);
    default: return for_integer(t, [&]<class T>() { return for_cmp<T>(f, n, c); });
  }
}

template <class T> T select(T a, T b, bool c) { return c ? a : b; }
template <class T> T select_sign(T a, T b, int32_t c) { return c >= 0 ? a : b; }
template <class T, bool Ftz> T select_float(T a, T b, float c) { return c >= 0 || (Ftz && !(bits_of(c) & 0x7f800000)) ? a : b; }

template <class F>
PureFn by_width(Type t, F f) {
  switch (isa::bits_of(t)) {
    case 16: return f.template operator()<uint16_t>();
    case 32: return f.template operator()<uint32_t>();
    case 64: return f.template operator()<uint64_t>();
    default: return nullptr;
  }
}
PureFn find_slct(const Form& f) {
  const bool ftz = f.has(Mod::ftz);
  return by_width(f.type(0), [&]<class T>() -> PureFn {
    if (f.type(1) == Type::s32) return warp<&select_sign<T>>;
    return ftz ? warp<&select_float<T, true>> : warp<&select_float<T, false>>;
  });
}

template <class B, B Infinity, B Hidden, Mod Kind>
bool tests(B bits) {
  const B mag = bits & ~(B(1) << (8 * sizeof(B) - 1));
  switch (Kind) {
    case Mod::finite: return mag < Infinity;
    case Mod::infinite: return mag == Infinity;
    case Mod::number: return mag <= Infinity;
    case Mod::notanumber: return mag > Infinity;
    case Mod::normal: return mag == 0 || (mag >= Hidden && mag < Infinity);
    default: return mag != 0 && mag < Hidden;
  }
}
template <class B, B Infinity, B Hidden>
PureFn find_testp(const Form& f) {
  if (f.has(Mod::finite)) return warp<&tests<B, Infinity, Hidden, Mod::finite>>;
  if (f.has(Mod::infinite)) return warp<&tests<B, Infinity, Hidden, Mod::infinite>>;
  if (f.has(Mod::number)) return warp<&tests<B, Infinity, Hidden, Mod::number>>;
  if (f.has(Mod::notanumber)) return warp<&tests<B, Infinity, Hidden, Mod::notanumber>>;
  if (f.has(Mod::normal)) return warp<&tests<B, Infinity, Hidden, Mod::normal>>;
  if (f.has(Mod::subnormal)) return warp<&tests<B, Infinity, Hidden, Mod::subnormal>>;
  return nullptr;
}
template <class B> B copysign(B a, B b) {
  constexpr B sign = B(1) << (8 * sizeof(B) - 1);
  return (a & sign) | (b & ~sign);
}

}  // namespace

PureFn find_compare(const Form& f, Arity n) {
  const bool wide = isa::bits_of(f.type()) == 64;
  switch (f.op) {
    case Op::set: case Op::setp: return find_set(f, n);
    case Op::selp: return by_width(f.type(), []<class T>() -> PureFn { return warp<&select<T>>; });
    case Op::slct: return find_slct(f);
    case Op::testp:
      return wide ? find_testp<uint64_t, 0x7ff0000000000000ull, 1ull << 52>(f) : find_testp<uint32_t, 0x7f800000u, 1u << 23>(f);
    case Op::copysign: return wide ? warp<&copysign<uint64_t>> : warp<&copysign<uint32_t>>;
    default: return nullptr;
  }
}

}  // namespace orrery::sem
