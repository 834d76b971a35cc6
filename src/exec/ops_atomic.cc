// exec/ops_atomic.cc: atom and red on global, shared and generic addresses.
//
// Every scope and order is treated as sequentially consistent. f32 additions on global memory flush subnormals, as
// the manual says of atom.add.f32; on shared memory they do not. Source: PTX ISA manual, atom and red.
#include <bit>
#include <cmath>

#include "exec/stepper.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;
using isa::Space;
using isa::Type;

namespace {

float flush(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

float half_to_float(uint16_t h) { return float(std::bit_cast<_Float16>(h)); }
uint16_t float_to_half(float f) { return std::bit_cast<uint16_t>(_Float16(f)); }
float bf16_to_float(uint16_t h) { return std::bit_cast<float>(uint32_t(h) << 16); }
uint16_t float_to_bf16(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::isnan(f)) return 0x7FFF;
  u += 0x7FFF + (u >> 16 & 1);
  return uint16_t(u >> 16);
}

/// One 16-bit float operation. The sum of two f16 or bf16 values in f32 rounds once: double rounding cannot occur
/// because f32 has more than twice the precision plus two.
template <class To, class From>
uint16_t narrow(const isa::Form& f, uint16_t a, uint16_t b, To to, From from) {
  const float x = to(a), y = to(b);
  if (f.has(Mod::min)) return std::isnan(x) ? b : std::isnan(y) ? a : (x < y || (x == y && std::signbit(x))) ? a : b;
  if (f.has(Mod::max)) return std::isnan(x) ? b : std::isnan(y) ? a : (x > y || (x == y && !std::signbit(x))) ? a : b;
  return std::isnan(x + y) ? uint16_t(0x7FFF) : from(x + y);
}

uint64_t lanes16(const isa::Form& f, uint64_t a, uint64_t b, int n, bool bf) {
  uint64_t out = 0;
  for (int i = 0; i < n; i++) {
    const uint16_t x = uint16_t(a >> (16 * i)), y = uint16_t(b >> (16 * i));
    const uint16_t r = bf ? narrow(f, x, y, bf16_to_float, float_to_bf16) : narrow(f, x, y, half_to_float, float_to_half);
    out |= uint64_t(r) << (16 * i);
  }
  return out;
}

uint64_t apply_float(const isa::Form& f, Type t, uint64_t old, uint64_t b, bool ftz) {
  switch (t) {
    case Type::f32: {
      float x = std::bit_cast<float>(uint32_t(old)), y = std::bit_cast<float>(uint32_t(b));
      if (ftz) x = flush(x), y = flush(y);
      float r = x + y;
      if (std::isnan(r)) return 0x7FFFFFFF;
      return std::bit_cast<uint32_t>(ftz ? flush(r) : r);
    }
    case Type::f64: {
      const double r = std::bit_cast<double>(old) + std::bit_cast<double>(b);
      return std::isnan(r) ? 0x7FF8000000000000ull : std::bit_cast<uint64_t>(r);
    }
    case Type::f16: return lanes16(f, old, b, 1, false);
    case Type::bf16: return lanes16(f, old, b, 1, true);
    case Type::f16x2: return lanes16(f, old, b, 2, false);
    default: return lanes16(f, old, b, 2, true);
  }
}

uint64_t apply_integer(const isa::Form& f, Type t, uint64_t old, uint64_t b) {
  const int bits = isa::bits_of(t), shift = 64 - bits;
  const bool sign = isa::is_signed(t);
  auto extend = [&](uint64_t v) { return sign ? int64_t(v << shift) >> shift : int64_t(v << shift >> shift); };
  auto less = [&](uint64_t x, uint64_t y) { return sign ? extend(x) < extend(y) : (x << shift) < (y << shift); };
  if (f.has(Mod::add)) return old + b;
  if (f.has(Mod::and_)) return old & b;
  if (f.has(Mod::or_)) return old | b;
  if (f.has(Mod::xor_)) return old ^ b;
  if (f.has(Mod::exch)) return b;
  if (f.has(Mod::min)) return less(b, old) ? b : old;
  if (f.has(Mod::max)) return less(old, b) ? b : old;
  if (f.has(Mod::inc)) return uint32_t(old) >= uint32_t(b) ? 0 : old + 1;
  return uint32_t(old) == 0 || uint32_t(old) > uint32_t(b) ? b : old - 1;  // dec
}

uint64_t apply(const isa::Form& f, Type t, uint64_t old, uint64_t b, uint64_t c, bool ftz) {
  if (f.has(Mod::cas)) {
    const int shift = 64 - isa::bits_of(t);
    return (old << shift) == (b << shift) ? c : old;
  }
  const bool floating = isa::is_float(t) || isa::class_of(t) == isa::TypeClass::packed;
  return floating && !f.has(Mod::exch) ? apply_float(f, t, old, b, ftz) : apply_integer(f, t, old, b);
}

template <class T>
uint64_t update(std::byte* p, const isa::Form& f, Type t, uint64_t b, uint64_t c, bool ftz) {
  T* q = reinterpret_cast<T*>(p);
  T old = __atomic_load_n(q, __ATOMIC_RELAXED);
  for (;;) {
    const T now = T(apply(f, t, old, b, c, ftz));
    if (__atomic_compare_exchange_n(q, &old, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
  }
}

/// 128-bit exchange and compare-and-swap under one lock: x86-64 without cx16 has no such instruction.
std::pair<uint64_t, uint64_t> update128(std::byte* p, const isa::Form& f, const uint64_t* b, const uint64_t* c) {
  static std::atomic_flag lock = ATOMIC_FLAG_INIT;
  while (lock.test_and_set(std::memory_order_acquire)) {}
  uint64_t old[2];
  std::memcpy(old, p, 16);
  if (!f.has(Mod::cas) || (old[0] == b[0] && old[1] == b[1])) std::memcpy(p, f.has(Mod::cas) ? c : b, 16);
  lock.clear(std::memory_order_release);
  return {old[0], old[1]};
}

bool on_shared(const Stepper& s, const isa::Form& f, uint64_t address) {
  const Space space = f.n_spaces ? f.space() : Space::none;
  if (space == Space::shared || space == Space::shared_cta || space == Space::shared_cluster) return true;
  return space == Space::none && address - reinterpret_cast<uint64_t>(s.cta.shared) < s.cta.shared_bytes;
}

Next op_atomic(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const Type t = f.types[f.n_types - 1];
  const AddressRef& a = s.code->addresses[d.address];
  const uint32_t bytes = uint32_t(isa::bytes_of(t));
  const int width = std::max<int>(1, f.vec), n_dst = d.n_dst;
  for (uint32_t m = s.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const uint64_t address = s.address(a, lane);
    std::byte* p = translate(s, f.n_spaces ? f.space() : Space::none, address, bytes * uint32_t(width), bytes * uint32_t(width), lane, true);
    if (!p) return Next::fault;
    const bool ftz = t == Type::f32 && !on_shared(s, f, address);
    for (int i = 0; i < width; i++, p += bytes) {
      const Ref& rb = s.ref(d, n_dst + i);
      uint64_t old = 0, high = 0;
      if (bytes == 16) {
        const uint64_t* vb = static_cast<const uint64_t*>(s.source(rb, 0));
        const uint64_t* vc = f.has(Mod::cas) ? static_cast<const uint64_t*>(s.source(s.ref(d, n_dst + 1), 1)) : vb;
        const uint64_t b[2] = {vb[lane], vb[32 + lane]}, c[2] = {vc[lane], vc[32 + lane]};
        std::tie(old, high) = update128(p, f, b, c);
      } else {
        const uint64_t b = s.value(rb, 0, lane), c = f.has(Mod::cas) ? s.value(s.ref(d, n_dst + 1), 1, lane) : 0;
        old = bytes == 8 ? update<uint64_t>(p, f, t, b, c, ftz) : bytes == 4 ? update<uint32_t>(p, f, t, b, c, ftz) : update<uint16_t>(p, f, t, b, c, ftz);
      }
      if (i >= n_dst) continue;
      const Ref& r = s.ref(d, i);
      if (r.kind == RefKind::sink) continue;
      std::byte* to = s.frame + r.offset;
      if (r.bits == 32) reinterpret_cast<uint32_t*>(to)[lane] = uint32_t(old);
      else reinterpret_cast<uint64_t*>(to)[lane] = old;
      if (r.bits == 128) reinterpret_cast<uint64_t*>(to)[32 + lane] = high;
    }
  }
  return Next::next;
}

}  // namespace

Handler find_atomic_handler(const isa::Form& form) {
  return form.op == Op::atom || form.op == Op::red ? op_atomic : nullptr;
}

}  // namespace orrery::exec
