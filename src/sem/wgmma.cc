// sem/wgmma.cc: one warp's share of wgmma.mma_async: 16 rows of D.
//
// A matrix descriptor holds, in units of 16 bytes, the start address (bits 0-13), the leading offset (16-29) and the
// stride (32-45); bits 49-51 a base offset; bits 62-63 the swizzle: 0 none, 1 128 B, 2 64 B, 3 32 B. With L and S for
// the offsets, T elements in 16 bytes and W bytes of swizzle, element (i, k) of a K-major operand lies at
//
//   no swizzle   (i / 8) S + (i % 8) 16 + (k / T) L + (k % T) size
//   swizzle      (i / 8) S + (i % 8) W + k size
//
// and element (i, k) of an MN-major one (i along m or n) at
//
//   no swizzle   (i / T) S + (i % T) size + (k % 8) 16 + (k / 8) L
//   swizzle      (i / (W / size)) L + (i % (W / size)) size + (k % 8) W + (k / 8) S
//
// A swizzle exchanges 16-byte units: address bits 4.. take the exclusive or of bits 7..: three bits for 128 B, two for
// 64 B, one for 32 B. The base offset is added to bits 7-9 before that.
//
// D: register r of lane l is row l / 4 + 8 ((r / 2) % 2), column 8 (r / 4) + 2 (l % 4) + r % 2 (f16: pairs).
// Source: PTX ISA manual, "Asynchronous Warpgroup Level Matrix Shared Memory Layout"; recorded H200 results.
#include <cstring>

#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/tensor.h"

namespace orrery::sem {
namespace {

constexpr int kMaxN = 256, kMaxK = 64;

struct Shape {
  Element a = Element::f16, b = Element::f16;
  int n = 8, k = 16;
  bool half = false, sparse = false;
};
bool shape_of(const Form& f, Shape& x) {
  if (f.op != Op::wgmma_mma_async && f.op != Op::wgmma_mma_async_sp) return false;
  x.n = f.shape.n, x.k = f.shape.k;
  x.half = f.type(0) == Type::f16;
  x.sparse = f.op == Op::wgmma_mma_async_sp;
  return f.n_types == 3 && element_of(f.type(1), x.a) && element_of(f.type(2), x.b) && f.shape.m == 64 && x.n <= kMaxN;
}

// Reads of shared memory through a descriptor.
class Window {
 public:
  Window(uint64_t desc, const uint8_t* shared, uint32_t bytes)
      : shared_(shared), bytes_(bytes), start_(uint32_t(desc & 0x3fff) << 4), leading_(uint32_t(desc >> 16 & 0x3fff) << 4),
        stride_(uint32_t(desc >> 32 & 0x3fff) << 4), base_(uint32_t(desc >> 49 & 7)), mode_(int(desc >> 62)) {}

  /// Element (i, k) of `size` bytes, zero beyond shared memory.
  uint32_t element(bool mn_major, int i, int k, int size) {
    const uint32_t at = swizzled(start_ + (mn_major ? along_mn(i, k, size) : along_k(i, k, size)));
    if (at + uint32_t(size) > bytes_) {
      outside_ = true;
      return 0;
    }
    uint32_t v = 0;
    std::memcpy(&v, shared_ + at, size_t(size));
    return v;
  }
  bool outside() const { return outside_; }

 private:
  uint32_t width() const { return mode_ == 1 ? 128 : mode_ == 2 ? 64 : 32; }
  uint32_t along_k(int i, int k, int size) const {
    const uint32_t bytes = uint32_t(k * size);
    if (mode_ == 0) return uint32_t(i / 8) * stride_ + uint32_t(i % 8) * 16 + bytes / 16 * leading_ + bytes % 16;
    return uint32_t(i / 8) * stride_ + uint32_t(i % 8) * width() + bytes;
  }
  uint32_t along_mn(int i, int k, int size) const {
    const uint32_t bytes = uint32_t(i * size);
    if (mode_ == 0) return bytes / 16 * stride_ + bytes % 16 + uint32_t(k % 8) * 16 + uint32_t(k / 8) * leading_;
    return bytes / width() * leading_ + bytes % width() + uint32_t(k % 8) * width() + uint32_t(k / 8) * stride_;
  }
  uint32_t swizzled(uint32_t at) const {
    if (mode_ == 0) return at;
    const uint32_t mask = width() / 16 - 1;
    return at ^ ((at / 128 + base_) & mask) << 4;
  }

  const uint8_t* shared_;
  uint32_t bytes_, start_, leading_, stride_, base_;
  int mode_;
  bool outside_ = false;
};

// -1 as a scale flips the signs of a floating factor.
uint32_t sign_of(Element e) {
  switch (e) {
    case Element::tf32: return 1u << 31;
    case Element::e4m3: case Element::e5m2: return 0x80;
    default: return 0x8000;
  }
}

struct Tile {
  uint32_t a[16 * kMaxK], b[kMaxK * kMaxN], c[16 * kMaxN];
};
thread_local Tile* g_tile = nullptr;
Tile& tile() {
  if (!g_tile) g_tile = new Tile;  // one per thread, kept
  return *g_tile;
}

int bytes_per(Element e) { return e == Element::b1 ? 4 : element_bits(e) / 8; }

void read_a(const Shape& x, const WgmmaOperands& o, int k, Tile& t, bool& outside) {
  const int size = bytes_per(x.a), per = 4 / size;
  if (o.a) {
    const int bits = 8 * size, regs = 16 * k * size / 4 / 32;
    for (int r = 0; r < regs; r++)
      for (int lane = 0; lane < 32; lane++)
        for (int e = 0; e < per; e++) {
          const Place p = place_a(16, per, lane, r, e);
          const uint32_t v = get<uint32_t>(o.a[r], lane);
          t.a[p.row * k + p.col] = bits == 32 ? v : v >> (bits * e) & ((1u << bits) - 1);
        }
  } else {
    Window w(o.a_desc, o.shared, o.shared_bytes);
    for (int i = 0; i < 16; i++)
      for (int c = 0; c < k; c++) t.a[i * k + c] = w.element(o.trans_a, 16 * o.warp + i, c, size);
    outside |= w.outside();
  }
}
void read_b(const Shape& x, const WgmmaOperands& o, int k, Tile& t, bool& outside) {
  Window w(o.b_desc, o.shared, o.shared_bytes);
  const int size = bytes_per(x.b);
  for (int j = 0; j < x.n; j++)
    for (int c = 0; c < k; c++) t.b[c * x.n + j] = w.element(o.trans_b, j, c, size);
  outside |= w.outside();
}

// D's place of register r (half: element e of it).
Place place_d(bool half, int lane, int r, int e) {
  if (half) return {lane / 4 + 8 * (r % 2), 8 * (r / 2) + lane % 4 * 2 + e};
  return {lane / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + lane % 4 * 2 + r % 2};
}
void read_c(const Shape& x, void* const* d, bool keep, uint32_t* c) {
  std::memset(c, 0, size_t(16) * x.n * 4);
  if (!keep) return;
  for (int r = 0; r < x.n / (x.half ? 4 : 2); r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < (x.half ? 2 : 1); e++) {
        const Place p = place_d(x.half, lane, r, e);
        const uint32_t v = get<uint32_t>(d[r], lane);
        c[p.row * x.n + p.col] = x.half ? v >> (16 * e) & 0xffff : v;
      }
}
void write_d(const Shape& x, void* const* d, const uint32_t* c) {
  for (int r = 0; r < x.n / (x.half ? 4 : 2); r++)
    for (int lane = 0; lane < 32; lane++) {
      uint32_t v = 0;
      for (int e = 0; e < (x.half ? 2 : 1); e++) {
        const Place p = place_d(x.half, lane, r, e);
        v |= c[p.row * x.n + p.col] << (16 * e);
      }
      put(d[r], lane, v);
    }
}

}  // namespace

bool can_wgmma(const Form& f) {
  Shape x;
  return shape_of(f, x);
}

bool run_wgmma(const Form& f, void* const* d, const WgmmaOperands& o, const Numerics& numerics) {
  Shape x;
  if (!shape_of(f, x)) return false;
  Tile& t = tile();
  bool outside = false;
  const int k = x.a == Element::b1 ? x.k / 32 : x.k, stored = x.sparse ? k / 2 : k;
  read_a(x, o, stored, t, outside);
  read_b(x, o, k, t, outside);
  read_c(x, d, o.keep, t.c);
  if (o.scale_a * o.scale_b < 0)
    for (int i = 0; i < 16 * stored; i++) t.a[i] ^= sign_of(x.a);
  const bool integer = x.a == Element::s8 || x.a == Element::u8;
  if (x.sparse) multiply_sparse(f, x.a, x.b, x.half, x.n, k, t.a, o.metadata, o.selector, t.b, t.c, numerics, true);
  else if (integer) multiply_integer(x.a, x.b, f.has(Mod::satfinite), t.a, t.b, t.c, 16, x.n, k);
  else if (x.a == Element::b1) multiply_bits(false, t.a, t.b, t.c, 16, x.n, k);
  else if (numerics.fast) multiply_fast(x.a, x.b, x.half, t.a, t.b, t.c, 16, x.n, k);
  else multiply(sum_rule(numerics.core, x.a, x.b, x.half, true), x.a, x.b, t.a, t.b, t.c, 16, x.n, k);
  write_d(x, d, t.c);
  return !outside;
}

}  // namespace orrery::sem
