// exec/reduce.cc: see reduce.h.
#include "exec/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace orrery::exec {

using isa::Mod;
using isa::Type;

namespace {

float widen_f16(uint16_t h) { return float(std::bit_cast<_Float16>(h)); }
uint16_t narrow_f16(float f) { return std::bit_cast<uint16_t>(_Float16(f)); }
float widen_bf16(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }
uint16_t narrow_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  return uint16_t((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}
float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

/// dst[i] = f(dst[i], src[i]) on elements whose bits are held in Bits.
template <class Bits, class F>
void update(std::byte* dst, const std::byte* src, uint64_t bytes, F f) {
  Bits* d = reinterpret_cast<Bits*>(dst);
  const Bits* s = reinterpret_cast<const Bits*>(src);
  for (uint64_t i = 0; i < bytes / sizeof(Bits); i++) {
    Bits old = __atomic_load_n(d + i, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(d + i, &old, Bits(f(old, s[i])), true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
  }
}

template <class T>
bool integers(std::byte* dst, const std::byte* src, uint64_t bytes, ReduceKind kind) {
  using U = std::make_unsigned_t<T>;
  switch (kind) {
    case ReduceKind::add: update<U>(dst, src, bytes, [](U a, U b) { return U(a + b); }); return true;
    case ReduceKind::min: update<U>(dst, src, bytes, [](U a, U b) { return U(std::min(T(a), T(b))); }); return true;
    case ReduceKind::max: update<U>(dst, src, bytes, [](U a, U b) { return U(std::max(T(a), T(b))); }); return true;
    case ReduceKind::inc: update<U>(dst, src, bytes, [](U a, U b) { return a >= b ? U(0) : U(a + 1); }); return true;
    case ReduceKind::dec: update<U>(dst, src, bytes, [](U a, U b) { return a == 0 || a > b ? b : U(a - 1); }); return true;
    case ReduceKind::and_: update<U>(dst, src, bytes, [](U a, U b) { return U(a & b); }); return true;
    case ReduceKind::or_: update<U>(dst, src, bytes, [](U a, U b) { return U(a | b); }); return true;
    case ReduceKind::xor_: update<U>(dst, src, bytes, [](U a, U b) { return U(a ^ b); }); return true;
  }
  return false;
}

/// The sum of two 16-bit floats in f32 rounds once: f32 has more than twice the precision plus two bits.
template <float (*To)(uint16_t), uint16_t (*From)(float)>
bool halves(std::byte* dst, const std::byte* src, uint64_t bytes, ReduceKind kind) {
  auto pick = [](uint16_t a, uint16_t b, bool less) {
    const float x = To(a), y = To(b);
    if (std::isnan(x)) return std::isnan(y) ? uint16_t(0x7FFF) : b;
    if (std::isnan(y)) return a;
    if (x == y) return std::signbit(x) == less ? a : b;
    return (x < y) == less ? a : b;
  };
  if (kind == ReduceKind::add) update<uint16_t>(dst, src, bytes, [](uint16_t a, uint16_t b) {
    const float r = To(a) + To(b);
    return std::isnan(r) ? uint16_t(0x7FFF) : From(r);
  });
  else if (kind == ReduceKind::min) update<uint16_t>(dst, src, bytes, [&](uint16_t a, uint16_t b) { return pick(a, b, true); });
  else if (kind == ReduceKind::max) update<uint16_t>(dst, src, bytes, [&](uint16_t a, uint16_t b) { return pick(a, b, false); });
  else return false;
  return true;
}

bool add_f32(std::byte* dst, const std::byte* src, uint64_t bytes, ReduceKind kind, bool ftz) {
  if (kind != ReduceKind::add) return false;
  update<uint32_t>(dst, src, bytes, [ftz](uint32_t a, uint32_t b) {
    float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    if (ftz) x = flush(x), y = flush(y);
    const float r = ftz ? flush(x + y) : x + y;
    return std::isnan(r) ? 0x7FFFFFFFu : std::bit_cast<uint32_t>(r);
  });
  return true;
}

bool add_f64(std::byte* dst, const std::byte* src, uint64_t bytes, ReduceKind kind) {
  if (kind != ReduceKind::add) return false;
  update<uint64_t>(dst, src, bytes, [](uint64_t a, uint64_t b) {
    const double r = std::bit_cast<double>(a) + std::bit_cast<double>(b);
    return std::isnan(r) ? 0x7FF8000000000000ull : std::bit_cast<uint64_t>(r);
  });
  return true;
}

}  // namespace

ReduceKind reduce_kind(const isa::Form& f) {
  if (f.has(Mod::min)) return ReduceKind::min;
  if (f.has(Mod::max)) return ReduceKind::max;
  if (f.has(Mod::inc)) return ReduceKind::inc;
  if (f.has(Mod::dec)) return ReduceKind::dec;
  if (f.has(Mod::and_)) return ReduceKind::and_;
  if (f.has(Mod::or_)) return ReduceKind::or_;
  if (f.has(Mod::xor_)) return ReduceKind::xor_;
  return ReduceKind::add;
}

bool reduce(std::byte* dst, const std::byte* src, uint64_t bytes, Type type, ReduceKind kind, bool ftz) {
  switch (type) {
    case Type::u8: case Type::b8: return integers<uint8_t>(dst, src, bytes, kind);
    case Type::u16: case Type::b16: return integers<uint16_t>(dst, src, bytes, kind);
    case Type::u32: case Type::b32: return integers<uint32_t>(dst, src, bytes, kind);
    case Type::s32: return integers<int32_t>(dst, src, bytes, kind);
    case Type::u64: case Type::b64: return integers<uint64_t>(dst, src, bytes, kind);
    case Type::s64: return integers<int64_t>(dst, src, bytes, kind);
    case Type::f16: return halves<widen_f16, narrow_f16>(dst, src, bytes, kind);
    case Type::bf16: return halves<widen_bf16, narrow_bf16>(dst, src, bytes, kind);
    case Type::f32: case Type::tf32: return add_f32(dst, src, bytes, kind, ftz);
    case Type::f64: return add_f64(dst, src, bytes, kind);
    default: return false;
  }
}

}  // namespace orrery::exec
