// sem/mma.cc: mma and mma.sp on the registers of one warp.
//
// A form is gathered into matrices, multiplied, and scattered back. Not here: how sparse factors are multiplied
// (sparse.cc), wmma (wmma.cc).
// Source: PTX ISA manual, "Matrix Fragments for mma"; lanes of the sparse metadata from recorded H200 results.
#include <fmt/format.h>
#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "sem/dense_tile.h"
#include "sem/factors.h"
#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/smallfloat.h"
#include "sem/tensor.h"
#include "sem/warp_tile.h"

namespace orrery::sem {

int element_bits(Element e) {
  switch (e) {
    case Element::b1: return 1;
    case Element::s4: case Element::u4: return 4;
    case Element::s8: case Element::u8: case Element::e4m3: case Element::e5m2: return 8;
    case Element::f16: case Element::bf16: return 16;
    case Element::f64: return 64;
    default: return 32;
  }
}

bool element_of(Type t, Element& e) {
  switch (t) {
    case Type::f16: return e = Element::f16, true;
    case Type::bf16: return e = Element::bf16, true;
    case Type::tf32: return e = Element::tf32, true;
    case Type::e4m3: return e = Element::e4m3, true;
    case Type::e5m2: return e = Element::e5m2, true;
    case Type::f64: return e = Element::f64, true;
    case Type::s8: return e = Element::s8, true;
    case Type::u8: return e = Element::u8, true;
    case Type::s4: return e = Element::s4, true;
    case Type::u4: return e = Element::u4, true;
    case Type::b1: return e = Element::b1, true;
    default: return false;
  }
}

namespace {

constexpr int kMaxK = 256;

struct Product {
  Element a = Element::f16, b = Element::f16;
  int m = 16, n = 8, k = 16;
  bool half = false;  // f16 accumulators
};

// The factors' types: f16 forms of wmma name only D and C.
bool product_of(const Form& f, Product& p) {
  p.m = f.shape.m, p.n = f.shape.n, p.k = f.shape.k;
  const bool two = f.n_types == 2;
  if (f.n_types != 4 && !two) return false;
  if (!two && (!element_of(f.type(1), p.a) || !element_of(f.type(2), p.b))) return false;
  p.half = f.type(0) == Type::f16;
  for (Mod m : {Mod::block_scale, Mod::kind_f8f6f4, Mod::kind_mxf4, Mod::kind_mxf4nvf4, Mod::kind_mxf8f6f4})
    if (f.has(m)) return false;
  return p.m && p.n && p.k;
}

uint32_t field(const void* reg, int lane, int e, int bits) {
  const uint32_t v = get<uint32_t>(reg, lane);
  return bits == 32 ? v : v >> (bits * e) & ((1u << bits) - 1);
}

// -- dense mma

// Elements of b1 stay packed: a matrix of 32-bit words.
int packed_bits(Element e) { return e == Element::b1 ? 32 : element_bits(e); }

void gather_a(const Product& p, int k, const void* const* s, int regs, uint32_t* a) {
  const int bits = packed_bits(p.a), per = 32 / bits;
  for (int r = 0; r < regs; r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < per; e++) {
        const Place at = place_a(p.m, per, lane, r, e);
        a[at.row * k + at.col] = field(s[r], lane, e, bits);
      }
}
void gather_b(const Product& p, const void* const* s, int regs, uint32_t* b) {
  const int bits = packed_bits(p.b), per = 32 / bits;
  for (int r = 0; r < regs; r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < per; e++) {
        const Place at = place_b(per, lane, r, e);
        b[at.row * p.n + at.col] = field(s[r], lane, e, bits);
      }
}
template <bool Store>
void move_c(int n, bool source_half, std::conditional_t<Store, void* const*, const void* const*> regs, int count, uint32_t* c) {
  for (int r = 0; r < count; r++)
    for (int lane = 0; lane < 32; lane++) {
      if (source_half) {
        uint32_t v = 0;
        for (int e = 0; e < 2; e++) {
          const Place at = place_c16(lane, r, e);
          if constexpr (Store) v |= (c[at.row * n + at.col] & 0xffff) << (16 * e);
          else c[at.row * n + at.col] = field(regs[r], lane, e, 16);
        }
        if constexpr (Store) put(regs[r], lane, v);
      } else {
        const Place at = place_c(lane, r);
        if constexpr (Store) put(regs[r], lane, c[at.row * n + at.col]);
        else c[at.row * n + at.col] = get<uint32_t>(regs[r], lane);
      }
    }
}

// Hopper makes an fp8 product of two f16 ones, half as long.
SumRule mma_rule(const Product& p, TensorCore core) {
  SumRule rule = sum_rule(core, p.a, p.b, p.half, core == TensorCore::ada);
  if (rule.late_c) rule.block = p.k / 2;
  return rule;
}

void multiply_any(const Form& f, const Product& p, int k, const uint32_t* a, const uint32_t* b, uint32_t* c, const Numerics& x) {
  switch (p.a) {
    case Element::s8: case Element::u8: case Element::s4: case Element::u4:
      return multiply_integer(p.a, p.b, f.has(Mod::satfinite), a, b, c, p.m, p.n, k);
    case Element::b1: return multiply_bits(f.has(Mod::xor_), a, b, c, p.m, p.n, k);
    default:
      if (x.fast) return multiply_fast(p.a, p.b, p.half, a, b, c, p.m, p.n, k);
      return multiply(mma_rule(p, x.core), p.a, p.b, a, b, c, p.m, p.n, k);
  }
}

int registers_of(int elements, int bits) { return elements * bits / 32 / 32; }

/// B of one product: 8 columns at 32 bytes of k.
struct Columns final : RowSource {
  alignas(64) uint8_t bytes[8 * 32] = {};
  void copy(uint8_t* to) override { std::memcpy(to, bytes, sizeof bytes); }
  bool same(const uint8_t* copied) override { return std::memcmp(copied, bytes, sizeof bytes) == 0; }
};

/// A register's 16 bytes of k for each of 8 rows, `pitch` bytes apart.
void copy_rows(const void* reg, uint8_t* to, int pitch) {
  for (int row = 0; row < 8; row++) std::memcpy(to + row * pitch, static_cast<const uint8_t*>(reg) + 16 * row, 16);
}
/// The same for 4-bit elements, a byte each: 32 bytes of k.
void widen_rows(bool is_signed, const void* reg, uint8_t* to, int pitch) {
  const __m128i low = _mm_set1_epi8(15), sign = _mm_set1_epi8(is_signed ? 8 : 0);
  for (int row = 0; row < 8; row++) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(static_cast<const uint8_t*>(reg) + 16 * row));
    const __m128i even = _mm_and_si128(v, low), odd = _mm_and_si128(_mm_srli_epi16(v, 4), low);
    const auto put_half = [&](int at, __m128i x) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to + row * pitch + at), _mm_sub_epi8(_mm_xor_si128(x, sign), sign)); };
    put_half(0, _mm_unpacklo_epi8(even, odd));
    put_half(16, _mm_unpackhi_epi8(even, odd));
  }
}

/// 4-bit factors, 32 of k at a time as bytes; C is added to the exact products at the end.
bool run_nibbles(const Form& f, const Product& p, void* const* d, const void* const* s) {
  if (element_bits(p.a) != 4 || element_bits(p.b) != 4 || p.n != 8 || p.m > 16) return false;
  const int halves = p.m / 8, steps = p.k / 32, rc = 2 * halves;
  alignas(64) uint8_t a[16 * 32] = {};
  alignas(64) uint32_t sum[4][32] = {};
  void* place[4] = {sum[0], sum[1], sum[2], sum[3]};
  Columns b;
  DenseTile tile{p.a == Element::s4 ? Element::s8 : Element::u8, p.b == Element::s4 ? Element::s8 : Element::u8, SumRule{}};
  tile.k = 32, tile.raw_a = a, tile.b_rows = &b;
  for (int i = 0; i < steps; i++) {
    for (int h = 0; h < halves; h++) widen_rows(p.a == Element::s4, s[i * halves + h], a + 8 * 32 * h, 32);
    widen_rows(p.b == Element::s4, s[steps * halves + i], b.bytes, 32);
    tile.keep = i > 0;
    multiply_tile(tile, place);
  }
  for (int r = 0; r < rc; r++)
    for (int lane = 0; lane < 32; lane++) {
      const int64_t v = int64_t{int32_t(get<uint32_t>(s[steps * (halves + 1) + r], lane))} + int32_t(sum[r][lane]);
      put(d[r], lane, uint32_t(!f.has(Mod::satfinite) ? v : v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v));
    }
  return true;
}

/// The m16n8 forms: rows of A and B in 16-byte pieces, as a register's lanes hold them.
bool run_tile(const Form& f, const Product& p, void* const* d, const void* const* s, const Numerics& x) {
  if (p.m != 16 || p.n != 8 || !can_tile(p.a, p.b)) return false;
  const int bits = element_bits(p.a), ra = registers_of(p.m * p.k, bits), rb = registers_of(p.k * p.n, bits), rc = p.half ? 2 : 4;
  Columns b;
  alignas(64) uint8_t a[16 * 32] = {};
  for (int r = 0; r < ra; r++) copy_rows(s[r], a + r % 2 * 8 * 32 + r / 2 * 16, 32);
  for (int r = 0; r < rb; r++) copy_rows(s[ra + r], b.bytes + r * 16, 32);
  alignas(64) uint32_t c[4][32];
  void* place[4] = {c[0], c[1], c[2], c[3]};
  for (int r = 0; r < rc; r++) std::memcpy(c[r], s[ra + rb + r], 128);
  const bool integer = p.a == Element::s8 || p.a == Element::u8;
  DenseTile tile{p.a, p.b, integer ? SumRule{} : mma_rule(p, x.core), x.fast, f.has(Mod::satfinite)};
  tile.k = p.k;
  tile.raw_a = a, tile.b_rows = &b;
  multiply_tile(tile, place);
  for (int r = 0; r < rc; r++) std::memcpy(d[r], c[r], 128);
  return true;
}

// An f16 accumulator form may read f32 C and the reverse (wmma): the sum rule follows D, C is converted exactly or cut.
void run_dense(const Form& f, const Product& p, void* const* d, const void* const* s, const Numerics& x) {
  const int bits = packed_bits(p.a), k = p.a == Element::b1 ? p.k / 32 : p.k;
  const int ra = registers_of(p.m * k, bits), rb = registers_of(k * p.n, packed_bits(p.b)), rc = registers_of(p.m * p.n, p.half ? 16 : 32);
  uint32_t a[16 * kMaxK], b[kMaxK * 8], c[16 * 8];
  gather_a(p, k, s, ra, a);
  gather_b(p, s + ra, rb, b);
  move_c<false>(p.n, p.half, s + ra + rb, rc, c);
  multiply_any(f, p, k, a, b, c, x);
  move_c<true>(p.n, p.half, d, rc, c);
}

// -- f64

void run_f64(const Form& f, const Product& p, void* const* d, const void* const* s) {
  const int ra = p.m * p.k / 32, rb = p.k * p.n / 32, rc = p.m * p.n / 32;
  double a[16 * 16], b[16 * 8], c[16 * 8];
  for (int lane = 0; lane < 32; lane++) {
    for (int r = 0; r < ra; r++) {
      const Place at = place_a(p.m, 1, lane, r, 0);
      a[at.row * p.k + at.col] = get<double>(s[r], lane);
    }
    for (int r = 0; r < rb; r++) {
      const Place at = place_b(1, lane, r, 0);
      b[at.row * p.n + at.col] = get<double>(s[ra + r], lane);
    }
    for (int r = 0; r < rc; r++) {
      const Place at = place_c(lane, r);
      c[at.row * p.n + at.col] = get<double>(s[ra + rb + r], lane);
    }
  }
  multiply_f64(f, a, b, c, p.m, p.n, p.k);
  for (int lane = 0; lane < 32; lane++)
    for (int r = 0; r < rc; r++) {
      const Place at = place_c(lane, r);
      put(d[r], lane, c[at.row * p.n + at.col]);
    }
}

// -- m8n8k4 of Volta: lanes 4q .. 4q+3 and 16+4q .. 16+4q+3 hold the q-th product
//
// Later machines have no such tensor instruction; the assembler makes ordinary arithmetic of it: with f32 results a
// chain of multiply-adds from zero, then C; with f16 results C plus two pairs, rounded to f16 at the end.

uint32_t quad_output(bool d_half, const uint32_t* a, const uint32_t* b, uint32_t c) {
  float x[4], y[4];
  for (int k = 0; k < 4; k++) x[k] = F16{uint16_t(a[k])}.f32(), y[k] = F16{uint16_t(b[8 * k])}.f32();
  if (d_half) {
    const float p = __builtin_fmaf(x[1], y[1], x[0] * y[0]), q = __builtin_fmaf(x[3], y[3], x[2] * y[2]);
    return narrow<F16>((F16{uint16_t(c)}.f32() + p) + q).bits;
  }
  float sum = 0;
  for (int k = 0; k < 4; k++) sum = __builtin_fmaf(x[k], y[k], sum);
  return bits_of(canonical(sum + f32_of(c)));
}

void run_quads(const Form& f, void* const* d, const void* const* s, const Numerics& x) {
  const bool d_half = f.type(0) == Type::f16, c_half = f.type(3) == Type::f16, col_a = f.has(Mod::col_a), col_b = f.has(Mod::col_b);
  const SumRule rule = sum_rule(x.core, Element::f16, Element::f16, d_half, false);
  auto place = [](bool half, int lane, int i) -> Place {
    const int low = lane % 4, high = lane >= 16 ? 4 : 0;
    if (half) return {low + high, i};
    return {(low & 1) + (i & 2) + high, (i & 4) + (low & 2) + (i & 1)};
  };
  for (int q = 0; q < 4; q++) {
    uint32_t a[8 * 4], b[4 * 8], c[8 * 8];
    auto each_lane = [&](auto body) {
      for (int l = 0; l < 8; l++) body(4 * q + l % 4 + (l >= 4 ? 16 : 0));
    };
    each_lane([&](int lane) {
      const int low = lane % 4, high = lane >= 16 ? 4 : 0;
      for (int i = 0; i < 4; i++) {
        const uint32_t u = field(s[i / 2], lane, i % 2, 16), v = field(s[2 + i / 2], lane, i % 2, 16);
        if (col_a) a[(i + high) * 4 + low] = u;
        else a[(low + high) * 4 + i] = u;
        if (col_b) b[i * 8 + low + high] = v;
        else b[low * 8 + i + high] = v;
      }
      for (int i = 0; i < 8; i++) {
        const Place at = place(c_half, lane, i);
        const uint32_t v = c_half ? field(s[4 + i / 2], lane, i % 2, 16) : get<uint32_t>(s[4 + i], lane);
        c[at.row * 8 + at.col] = convert_c(c_half, d_half, v);
      }
    });
    if (x.fast) multiply_fast(Element::f16, Element::f16, d_half, a, b, c, 8, 8, 4);
    else if (x.core <= TensorCore::turing) multiply(rule, Element::f16, Element::f16, a, b, c, 8, 8, 4);
    else
      for (int i = 0; i < 64; i++) c[i] = quad_output(d_half, a + i / 8 * 4, b + i % 8, c[i]);
    each_lane([&](int lane) {
      uint32_t out[8];
      for (int i = 0; i < 8; i++) {
        const Place at = place(d_half, lane, i);
        out[i] = c[at.row * 8 + at.col];
      }
      for (int i = 0; i < (d_half ? 4 : 8); i++) put(d[i], lane, d_half ? out[2 * i] | out[2 * i + 1] << 16 : out[i]);
    });
  }
}

}  // namespace

namespace {

void run_sparse(const Form& f, const Product& p, void* const* d, const void* const* s, const Numerics& x) {
  const int bits = element_bits(p.a), stored_k = p.k / 2;
  const int ra = registers_of(p.m * stored_k, bits), rb = registers_of(p.k * p.n, element_bits(p.b)), rc = registers_of(p.m * p.n, p.half ? 16 : 32);
  uint32_t stored[16 * kMaxK], b[kMaxK * 8], c[16 * 8];
  if (bits >= 8) {
    const int size = bits / 8, a_bytes = stored_k * size, b_bytes = p.k * size;
    uint8_t raw_a[16 * 64], raw_b[8 * 128];
    for (int r = 0; r < ra; r++) copy_rows(s[r], raw_a + r % 2 * 8 * a_bytes + r / 2 * 16, a_bytes);
    for (int r = 0; r < rb; r++) copy_rows(s[ra + r], raw_b + r * 16, b_bytes);
    warp_tile().widen(raw_a, 16, a_bytes, size, stored);
    warp_tile().widen_transposed(raw_b, 8, b_bytes, size, b);
  } else {
    gather_a(p, stored_k, s, ra, stored);
    gather_b(p, s + ra, rb, b);
  }
  move_c<false>(p.n, p.half, s + ra + rb, rc, c);
  const void* metadata = s[ra + rb + rc];
  const int selector = int(get<uint32_t>(s[ra + rb + rc + 1], 0));
  multiply_sparse(f, p.a, p.b, p.half, p.n, p.k, stored, metadata, selector, b, c, x, x.core == TensorCore::ada);
  move_c<true>(p.n, p.half, d, rc, c);
}

}  // namespace

uint32_t convert_c(bool from_half, bool to_half, uint32_t v) {
  if (from_half == to_half) return v;
  if (from_half) return bits_of(F16{uint16_t(v)}.f32());
  return narrow<F16>(f32_of(v)).bits;
}

std::string describe_sum(const Form& f, const Numerics& x) {
  Product p;
  if (x.fast) return "plain f32 multiply-adds";
  if (f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp) {
    if (!element_of(f.type(1), p.a) || !element_of(f.type(2), p.b)) return "";
  } else if (!product_of(f, p)) {
    return "";
  }
  if (p.a == Element::f64) return "fused multiply-adds in order of k";
  if (element_bits(p.a) < 8 || p.a == Element::s8 || p.a == Element::u8) return "exact integers";
  const bool native = f.op == Op::wgmma_mma_async || f.op == Op::wgmma_mma_async_sp || x.core == TensorCore::ada;
  const SumRule r = f.op == Op::mma ? mma_rule(p, x.core) : sum_rule(x.core, p.a, p.b, p.half, native);
  return fmt::format("blocks of {}, {} fraction bits{}", r.block, r.fraction_bits, r.late_c ? ", C added last" : "");
}

bool can_mma(const Form& f) {
  Product p;
  if (f.op != Op::mma && f.op != Op::mma_sp && f.op != Op::wmma_mma) return false;
  return product_of(f, p);
}

void run_mma(const Form& f, void* const* d, const void* const* s, const Numerics& x) {
  Product p;
  if (!product_of(f, p)) return;
  if (f.op == Op::wmma_mma) return run_wmma_mma(f, d, s, x);
  if (f.op == Op::mma_sp) return run_sparse(f, p, d, s, x);
  if (p.a == Element::f64) return run_f64(f, p, d, s);
  if (p.a == Element::f16 && p.k == 4) return run_quads(f, d, s, x);
  if (!run_tile(f, p, d, s, x) && !run_nibbles(f, p, d, s)) run_dense(f, p, d, s, x);
}

}  // namespace orrery::sem
