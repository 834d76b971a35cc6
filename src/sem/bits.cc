// sem/bits.cc: logic, shifts, bit counts, bit fields, byte permutation.
//
// Source: PTX ISA manual, "Logic and Shift Instructions", bfe .. bmsk of the integer chapter, prmt, fns.
#include "sem/families.h"

namespace orrery::sem {
namespace {

template <class T> T and_(T a, T b) { return T(a & b); }
template <class T> T or_(T a, T b) { return T(a | b); }
template <class T> T xor_(T a, T b) { return T(a ^ b); }
template <class T> T not_(T a) { return T(~a); }
bool not_pred(bool a) { return !a; }
template <class T> T cnot(T a) { return a == 0; }

template <class T> T shl(T a, uint32_t n) { return n >= 8 * sizeof(T) ? 0 : T(a << n); }
template <class T> T shr(T a, uint32_t n) {
  constexpr uint32_t top = 8 * sizeof(T) - 1;
  if (n > top) return std::is_signed_v<T> ? T(a >> top) : 0;
  return T(a >> n);
}
template <bool Left, bool Wrap> uint32_t shf(uint32_t a, uint32_t b, uint32_t c) {
  const uint32_t n = Wrap ? c & 31 : c > 32 ? 32 : c;
  const uint64_t both = uint64_t(b) << 32 | a;
  return Left ? uint32_t(both << n >> 32) : uint32_t(both >> n);
}

// The sum of the minterms that the table selects, as masks: no branch, so the lanes vectorise.
uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t r = 0;
  for (uint32_t i = 0; i < 8; i++) {
    const uint32_t term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    r |= term & (0u - (table >> i & 1));
  }
  return r;
}
template <bool Or> Two<uint32_t, bool> lop3_pred(uint32_t a, uint32_t b, uint32_t c, uint32_t table, bool q) {
  const uint32_t r = lop3(a, b, c, table);
  return {r, Or ? r != 0 || q : r != 0 && q};
}

template <class T> uint32_t popc(T a) { return uint32_t(std::popcount(a)); }
template <class T> uint32_t clz(T a) { return uint32_t(std::countl_zero(a)); }
template <class T> T brev(T a) {
  uint64_t v = a;
  v = (v >> 1 & 0x5555555555555555ull) | (v & 0x5555555555555555ull) << 1;
  v = (v >> 2 & 0x3333333333333333ull) | (v & 0x3333333333333333ull) << 2;
  v = (v >> 4 & 0x0f0f0f0f0f0f0f0full) | (v & 0x0f0f0f0f0f0f0f0full) << 4;
  v = __builtin_bswap64(v);
  return T(sizeof(T) == 8 ? v : v >> 32);
}
template <class T, bool Shift> uint32_t bfind(T a) {
  using V = std::make_unsigned_t<T>;
  const V v = std::is_signed_v<T> && a < 0 ? V(~a) : V(a);
  if (v == 0) return ~0u;
  const uint32_t zeros = uint32_t(std::countl_zero(v));
  return Shift ? zeros : 8 * sizeof(T) - 1 - zeros;
}
// The position of the n-th set bit at or above (n > 0), at or below (n < 0) base; for n = 0 base itself if set.
uint32_t fns(uint32_t mask, uint32_t base, uint32_t offset) {
  const int32_t n = int32_t(offset);
  if (base > 31) return ~0u;
  if (n == 0) return mask >> base & 1 ? base : ~0u;
  const int step = n < 0 ? -1 : 1;
  int64_t left = n < 0 ? -int64_t(n) : n;
  for (int pos = int(base); pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && --left == 0) return uint32_t(pos);
  return ~0u;
}

// Positions and lengths: the 32-bit forms look at the low 8 bits; the 64-bit ones, which the assembler builds from
// shifts, at the whole word.
template <class T> uint32_t field_operand(uint32_t v) { return sizeof(T) == 4 ? v & 0xff : v < 64 ? v : 64; }
template <class T> T bfe(T a, uint32_t b, uint32_t c) {
  constexpr uint32_t width = 8 * sizeof(T);
  using V = std::make_unsigned_t<T>;
  const uint32_t pos = field_operand<T>(b), len = field_operand<T>(c);
  if (len == 0) return 0;
  const uint32_t sign_at = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
  const V fill = std::is_signed_v<T> && (V(a) >> sign_at & 1) ? V(~V(0)) : 0;
  const V field = pos >= width ? fill : V(V(a) >> pos);
  const uint32_t have = pos >= width ? 0 : len < width - pos ? len : width - pos;
  if (have >= width) return T(field);
  const V keep = V((V(1) << have) - 1);
  return T((field & keep) | (fill & ~keep));
}
template <class T> T bfi(T a, T b, uint32_t c, uint32_t d) {
  constexpr uint32_t width = 8 * sizeof(T);
  const uint32_t pos = field_operand<T>(c), len = field_operand<T>(d);
  if (len == 0 || pos >= width) return b;
  const T ones = len >= width ? T(~T(0)) : T((T(1) << len) - 1);
  const T keep = T(ones << pos);
  return T((b & ~keep) | (T(a << pos) & keep));
}
template <bool Signed, bool Wrap> uint32_t szext(uint32_t a, uint32_t b) {
  const uint32_t n = Wrap ? b & 31 : b > 32 ? 32 : b;
  if (n == 0) return 0;
  if (n == 32) return a;
  const uint32_t low = a & ((1u << n) - 1);
  return Signed && a >> (n - 1) & 1 ? low | ~0u << n : low;
}
template <bool Wrap> uint32_t bmsk(uint32_t a, uint32_t b) {
  const uint32_t from = Wrap ? a & 31 : a, n = Wrap ? b & 31 : b > 32 ? 32 : b;
  if (from > 31 || n == 0) return 0;
  return (n == 32 ? ~0u : (1u << n) - 1) << from;
}

uint32_t byte_of(uint64_t both, uint32_t selector) {
  const uint32_t byte = uint32_t(both >> (8 * (selector & 7))) & 0xff;
  return selector & 8 ? (byte & 0x80 ? 0xff : 0) : byte;
}
uint32_t prmt(uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = uint64_t(b) << 32 | a;
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) r |= byte_of(both, c >> (4 * i) & 15) << (8 * i);
  return r;
}
// The six named modes are tables of selectors, one row per value of the low two bits of c, byte 3 first.
template <int Mode> uint32_t prmt_mode(uint32_t a, uint32_t b, uint32_t c) {
  constexpr uint16_t kSelectors[6][4] = {
      {0x3210, 0x4321, 0x5432, 0x6543},  // f4e
      {0x5670, 0x6701, 0x7012, 0x0123},  // b4e
      {0x0000, 0x1111, 0x2222, 0x3333},  // rc8
      {0x3210, 0x3211, 0x3222, 0x3333},  // ecl
      {0x0000, 0x1110, 0x2210, 0x3210},  // ecr
      {0x1010, 0x3232, 0x1010, 0x3232},  // rc16
  };
  return prmt(a, b, kSelectors[Mode][c & 3]);
}

template <class F>
PureFn for_bits(Type t, F f) {
  switch (isa::bits_of(t)) {
    case 16: return f.template operator()<uint16_t>();
    case 32: return f.template operator()<uint32_t>();
    case 64: return f.template operator()<uint64_t>();
    default: return nullptr;
  }
}

PureFn find_logic(const Form& f) {
  if (f.type() == Type::pred) {
    switch (f.op) {
      case Op::and_: return warp<&and_<bool>>;
      case Op::or_: return warp<&or_<bool>>;
      case Op::xor_: return warp<&xor_<bool>>;
      case Op::not_: return warp<&not_pred>;
      default: return nullptr;
    }
  }
  return for_bits(f.type(), [&]<class T>() -> PureFn {
    switch (f.op) {
      case Op::and_: return warp<&and_<T>>;
      case Op::or_: return warp<&or_<T>>;
      case Op::xor_: return warp<&xor_<T>>;
      case Op::not_: return warp<&not_<T>>;
      default: return warp<&cnot<T>>;
    }
  });
}

PureFn find_shf(const Form& f) {
  const bool wrap = f.has(Mod::wrap);
  if (f.has(Mod::l)) return wrap ? warp<&shf<true, true>> : warp<&shf<true, false>>;
  return wrap ? warp<&shf<false, true>> : warp<&shf<false, false>>;
}

PureFn find_prmt(const Form& f) {
  if (f.has(Mod::f4e)) return warp<&prmt_mode<0>>;
  if (f.has(Mod::b4e)) return warp<&prmt_mode<1>>;
  if (f.has(Mod::rc8)) return warp<&prmt_mode<2>>;
  if (f.has(Mod::ecl)) return warp<&prmt_mode<3>>;
  if (f.has(Mod::ecr)) return warp<&prmt_mode<4>>;
  if (f.has(Mod::rc16)) return warp<&prmt_mode<5>>;
  return warp<&prmt>;
}

PureFn find_extension(const Form& f) {
  const bool wrap = f.has(Mod::wrap);
  if (f.op == Op::bmsk) return wrap ? warp<&bmsk<true>> : warp<&bmsk<false>>;
  if (f.type() == Type::s32) return wrap ? warp<&szext<true, true>> : warp<&szext<true, false>>;
  return wrap ? warp<&szext<false, true>> : warp<&szext<false, false>>;
}

}  // namespace

PureFn find_bits(const Form& f, Arity n) {
  const bool wide = isa::bits_of(f.type()) == 64;
  switch (f.op) {
    case Op::and_: case Op::or_: case Op::xor_: case Op::not_: case Op::cnot: return find_logic(f);
    case Op::lop3:
      if (n.dests < 2 && n.sources != 5) return warp<&lop3>;
      return f.has(Mod::or_) ? warp<&lop3_pred<true>> : warp<&lop3_pred<false>>;
    case Op::shl: return for_bits(f.type(), []<class T>() -> PureFn { return warp<&shl<T>>; });
    case Op::shr: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&shr<T>>; });
    case Op::shf: return find_shf(f);
    case Op::popc: return wide ? warp<&popc<uint64_t>> : warp<&popc<uint32_t>>;
    case Op::clz: return wide ? warp<&clz<uint64_t>> : warp<&clz<uint32_t>>;
    case Op::brev: return wide ? warp<&brev<uint64_t>> : warp<&brev<uint32_t>>;
    case Op::bfind:
      return for_integer(f.type(), [&]<class T>() -> PureFn {
        return f.has(Mod::shiftamt) ? warp<&bfind<T, true>> : warp<&bfind<T, false>>;
      });
    case Op::fns: return warp<&fns>;
    case Op::bfe: return for_integer(f.type(), []<class T>() -> PureFn { return warp<&bfe<T>>; });
    case Op::bfi: return wide ? warp<&bfi<uint64_t>> : warp<&bfi<uint32_t>>;
    case Op::szext: case Op::bmsk: return find_extension(f);
    case Op::prmt: return find_prmt(f);
    default: return nullptr;
  }
}

}  // namespace orrery::sem
