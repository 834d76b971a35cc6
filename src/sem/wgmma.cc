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
// 64 B, one for 32 B. The base offset is subtracted from bits 7-9 before that.
//
// D: register r of lane l is row l / 4 + 8 ((r / 2) % 2), column 8 (r / 4) + 2 (l % 4) + r % 2 (f16: pairs).
// Source: PTX ISA manual, "Asynchronous Warpgroup Level Matrix Shared Memory Layout"; recorded H200 results.
#include <immintrin.h>

#include <cstring>

#include "sem/dense_tile.h"
#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/tensor.h"
#include "sem/warp_tile.h"

namespace orrery::sem {
namespace {

constexpr int kMaxN = 256, kMaxK = 64, kMaxRow = 64;  // kMaxRow: bytes of k
constexpr int kWarps = 4;

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
  Window(uint64_t desc, const WgmmaOperands& o)
      : shared_(o.shared), bytes_(o.shared_bytes), visited_(o.visited), start_(uint32_t(desc & 0x3fff) << 4), leading_(uint32_t(desc >> 16 & 0x3fff) << 4),
        stride_(uint32_t(desc >> 32 & 0x3fff) << 4), base_(uint32_t(desc >> 49 & 7)), mode_(int(desc >> 62)) {}

  /// Rows first .. first + rows - 1 of a K-major operand, `bytes` bytes of k each, as they lie.
  void rows(int first, int rows, int bytes, uint8_t* out) {
    if (bytes == 32 && regular(first, rows)) return inner_rows(first, rows, [&](size_t at, size_t to) { std::memcpy(out + to, shared_ + at, 16); });
    for (int i = 0; i < rows; i++)
      for (int k = 0; k < bytes; k += 16, out += 16) unit(start_ + along_k(first + i, k, 1), out);
  }
  /// Whether rows 0 .. rows - 1 of 32 bytes are what rows() copied before. Only when regular().
  bool same_rows(int rows, const uint8_t* copied) const {
    __m128i different = _mm_setzero_si128();
    inner_rows(0, rows, [&](size_t at, size_t to) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(shared_ + at)), y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(copied + to));
      different = _mm_or_si128(different, _mm_xor_si128(x, y));
    });
    return _mm_testz_si128(different, different);
  }
  /// Whether 32 bytes of k of these rows are inside, with room for the swizzle, and every eight rows are swizzled alike.
  bool regular(int first, int rows) const {
    const uint64_t last = uint64_t(start_) + uint64_t(first + rows - 1) / 8 * stride_ + 7 * 128 + (mode_ ? 32 : 16 + leading_) + 128;
    return !visited_ && first % 8 == 0 && last <= bytes_ && (mode_ == 0 || stride_ % 1024 == 0);
  }
  /// The 16-bit elements [first, first + count) along m or n of an MN-major operand for each of `depth` k.
  void lines(int first, int count, int depth, uint8_t* out) {
    for (int k = 0; k < depth; k++)
      for (int i = 0; i < count; i += 8, out += 16) unit(start_ + along_mn(first + i, k, 2), out);
  }
  bool outside() const { return outside_; }

 private:
  /// f(address, place in the copy) for every 16 bytes of rows of 32 bytes.
  template <class F>
  void inner_rows(int first, int rows, F f) const {
    const uint32_t pitch = mode_ ? width() : 16, next = mode_ ? 16 : leading_, start = start_ + uint32_t(first / 8) * stride_;
    size_t offset[16];
    for (uint32_t j = 0; j < 8; j++) {
      offset[2 * j] = swizzled(start + j * pitch);
      offset[2 * j + 1] = swizzled(start + j * pitch + next);
    }
    size_t at = 0;
    for (size_t to = 0; to < size_t(rows) * 32; to += 256, at += stride_)
#pragma GCC unroll 16
      for (size_t j = 0; j < 16; j++) f(at + offset[j], to + 16 * j);
  }
  /// The 16 bytes at an address before the swizzle, zero beyond shared memory.
  void unit(uint32_t address, uint8_t* out) {
    const uint32_t at = swizzled(address);
    if (visited_) visited_->push_back(at);
    if (at + 16 > bytes_) {
      outside_ = true;
      std::memset(out, 0, 16);
    } else {
      std::memcpy(out, shared_ + at, 16);
    }
  }
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
    return at ^ ((at / 128 - base_) & mask) << 4;
  }

  const uint8_t* shared_;
  uint32_t bytes_;
  std::vector<uint32_t>* visited_;
  uint32_t start_, leading_, stride_, base_;
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

/// What a warp's instruction works on, first as it lies in memory, then element by element.
struct Tile {
  alignas(64) uint8_t raw_a[16 * kMaxRow], raw_b[kMaxN * kMaxRow];
  alignas(64) uint8_t chain_a[kMaxChain * kWarps][16 * kTileRowBytes];
  alignas(64) uint32_t a[16 * kMaxK], b[kMaxK * kMaxN], c[16 * kMaxN];
};
thread_local Tile* g_tile = nullptr;
Tile& tile() {
  if (!g_tile) g_tile = new Tile;  // one per thread, kept
  return *g_tile;
}

int bytes_per(Element e) { return e == Element::b1 ? 4 : element_bits(e) / 8; }

/// A's rows: the registers of a fragment hold, for each of 8 rows, 16 bytes of k.
void read_raw_a(const WgmmaOperands& o, int bytes, uint8_t* raw, bool& outside) {
  if (o.a) {
    for (int r = 0; r < bytes / 8; r++)
      for (int row = 0; row < 8; row++)
        std::memcpy(raw + (row + 8 * (r % 2)) * bytes + r / 2 * 16, static_cast<const uint8_t*>(o.a[r]) + 16 * row, 16);
    return;
  }
  Window w(o.a_desc, o);
  if (!o.trans_a) {
    w.rows(16 * o.warp, 16, bytes, raw);
  } else {
    uint16_t line[kMaxK / 2 * 16], *row = reinterpret_cast<uint16_t*>(raw);
    w.lines(16 * o.warp, 16, bytes / 2, reinterpret_cast<uint8_t*>(line));
    for (int i = 0; i < 16; i++)
      for (int k = 0; k < bytes / 2; k++) row[i * bytes / 2 + k] = line[k * 16 + i];
  }
  outside |= w.outside();
}
void read_raw_b(const WgmmaOperands& o, int n, int bytes, Tile& t, bool& outside) {
  Window w(o.b_desc, o);
  if (o.trans_b) w.lines(0, n, bytes / 2, t.raw_b);
  else w.rows(0, n, bytes, t.raw_b);
  outside |= w.outside();
}

/// B of dense products, 32 bytes of k each: that of operands[step * warps].
class WindowRows final : public RowSource {
 public:
  WindowRows(std::span<const WgmmaOperands> o, int warps, int n, Tile& t, bool& outside)
      : operands_(o), warps_(size_t(warps)), n_(n), tile_(t), outside_(outside), window_(o[0].b_desc, o[0]) {}
  void go_to(int i) override {
    const WgmmaOperands& o = operands_[size_t(i) * warps_];
    window_ = Window(o.b_desc, o);
    regular_ = !o.trans_b && window_.regular(0, n_);
    if (!regular_) read_raw_b(o, n_, kTileRowBytes, tile_, outside_);
  }
  void copy(uint8_t* to) override {
    if (regular_) window_.rows(0, n_, kTileRowBytes, to);
    else std::memcpy(to, tile_.raw_b, size_t(n_) * kTileRowBytes);
  }
  bool same(const uint8_t* copied) override {
    return regular_ ? window_.same_rows(n_, copied) : std::memcmp(copied, tile_.raw_b, size_t(n_) * kTileRowBytes) == 0;
  }

 private:
  std::span<const WgmmaOperands> operands_;
  size_t warps_;
  int n_;
  Tile& tile_;
  bool& outside_;
  Window window_;
  bool regular_ = false;
};

void widen_operands(const Shape& x, bool trans_b, int stored, int k, Tile& t) {
  const WarpTileCode& code = warp_tile();
  const int size = bytes_per(x.a);
  code.widen(t.raw_a, 16, stored * size, size, t.a);
  if (trans_b) code.widen(t.raw_b, k, x.n * 2, 2, t.b);
  else code.widen_transposed(t.raw_b, x.n, k * size, size, t.b);
}

// D's place of register r (half: element e of it).
Place place_d(bool half, int lane, int r, int e) {
  if (half) return {lane / 4 + 8 * (r % 2), 8 * (r / 2) + lane % 4 * 2 + e};
  return {lane / 4 + 8 * (r / 2 % 2), 8 * (r / 4) + lane % 4 * 2 + r % 2};
}
void read_c(const Shape& x, void* const* d, bool keep, uint32_t* c) {
  if (!keep) {
    std::memset(c, 0, size_t(16) * x.n * 4);
    return;
  }
  if (!x.half) {
    warp_tile().load_fragments(const_cast<const void* const*>(d), x.n, c);
    return;
  }
  for (int r = 0; r < x.n / (x.half ? 4 : 2); r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < (x.half ? 2 : 1); e++) {
        const Place p = place_d(x.half, lane, r, e);
        const uint32_t v = get<uint32_t>(d[r], lane);
        c[p.row * x.n + p.col] = x.half ? v >> (16 * e) & 0xffff : v;
      }
}
void write_d(const Shape& x, void* const* d, const uint32_t* c) {
  if (!x.half) {
    warp_tile().store_fragments(d, x.n, c);
    return;
  }
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

namespace {

/// k of an instruction and how many of them A stores, in elements of the tile (b1: words).
struct Depth {
  int k, stored, size;
};
Depth depth_of(const Shape& x) {
  const int k = x.a == Element::b1 ? x.k / 32 : x.k;
  return {k, x.sparse ? k / 2 : k, bytes_per(x.a)};
}
bool tiles(const Shape& x) { return !x.sparse && can_tile(x.a, x.b); }

/// Whether a chain can go on from `p` to `o`.
bool alike(const WgmmaOperands& p, const WgmmaOperands& o) {
  return p.trans_b == o.trans_b && p.scale_a * p.scale_b == o.scale_a * o.scale_b && o.keep;
}

/// At most kMaxChain steps that are alike.
bool run_tiles(const Form& f, const Shape& x, void* const* const* d, int warps, std::span<const WgmmaOperands> o, const Numerics& numerics) {
  Tile& t = tile();
  bool outside = false;
  const uint8_t* raw_a[kMaxChain * kWarps];
  TileStep steps[kMaxChain];
  const size_t n = o.size() / size_t(warps);
  for (size_t i = 0; i < o.size(); i++) {
    read_raw_a(o[i], kTileRowBytes, t.chain_a[i], outside);
    raw_a[i] = t.chain_a[i];
  }
  for (size_t i = 0; i < n; i++) steps[i] = {o[i * size_t(warps)].b_desc, o[i * size_t(warps)].keep};
  const bool integer = x.a == Element::s8 || x.a == Element::u8;
  DenseTile dense{x.a, x.b, integer ? SumRule{} : sum_rule(numerics.core, x.a, x.b, x.half, true), numerics.fast, f.has(Mod::satfinite)};
  WindowRows rows(o, warps, x.n, t, outside);
  dense.n = x.n, dense.k = x.k, dense.b_by_k = o[0].trans_b, dense.negate = o[0].scale_a * o[0].scale_b < 0, dense.b_rows = &rows;
  multiply_chain(dense, {steps, n}, warps, raw_a, d);
  return !outside;
}

}  // namespace

bool run_wgmma_chain(const Form& f, void* const* const* d, int warps, std::span<const WgmmaOperands> o, const Numerics& numerics) {
  Shape x;
  if (!shape_of(f, x)) return false;
  const size_t step = size_t(warps);
  bool ok = true;
  if (!tiles(x)) {
    for (size_t i = 0; i < o.size(); i++) ok &= run_wgmma(f, d[i % step], o[i], numerics);
    return ok;
  }
  for (size_t first = 0; first < o.size();) {
    size_t end = first + step;
    while (end < o.size() && end - first < kMaxChain * step && alike(o[first], o[end])) end += step;
    ok &= run_tiles(f, x, d, warps, o.subspan(first, end - first), numerics);
    first = end;
  }
  return ok;
}

void visit_wgmma(const Form& f, const WgmmaOperands& o) {
  Shape x;
  if (!shape_of(f, x)) return;
  const Depth depth = depth_of(x);
  bool outside = false;
  read_raw_a(o, depth.stored * depth.size, tile().raw_a, outside);
  read_raw_b(o, x.n, depth.k * depth.size, tile(), outside);
}

bool run_wgmma(const Form& f, void* const* d, const WgmmaOperands& o, const Numerics& numerics) {
  Shape x;
  if (!shape_of(f, x)) return false;
  if (tiles(x)) return run_tiles(f, x, &d, 1, {&o, 1}, numerics);
  Tile& t = tile();
  bool outside = false;
  const auto [k, stored, size] = depth_of(x);
  read_raw_a(o, stored * size, t.raw_a, outside);
  read_raw_b(o, x.n, k * size, t, outside);
  widen_operands(x, o.trans_b, stored, k, t);
  read_c(x, d, o.keep, t.c);
  if (o.scale_a * o.scale_b < 0)
    for (int i = 0; i < 16 * stored; i++) t.a[i] ^= sign_of(x.a);
  if (x.sparse) multiply_sparse(f, x.a, x.b, x.half, x.n, k, t.a, o.metadata, o.selector, t.b, t.c, numerics, true);
  else multiply_bits(false, t.a, t.b, t.c, 16, x.n, k);
  write_d(x, d, t.c);
  return !outside;
}

}  // namespace orrery::sem
