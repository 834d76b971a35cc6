// sem/wmma.cc: wmma.load, wmma.store and wmma.mma.
//
// PTX leaves the fragments of wmma opaque; these are the ones that an H200 has. A factor is either tall (16-row blocks
// of mma's A) or flat (8-column groups of mma's B):
//
//   A tall, B flat, C in 16x8 blocks; m8n8 shapes have one 8-row block
//   m8n32k16 is m32n8k16 transposed: A flat, B tall, C transposed
//   f16 factors have 8 registers always: where fewer are needed they repeat
//
// Source: recorded H200 results of wmma.load for every shape and type.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "sem/dense_tile.h"
#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/smallfloat.h"
#include "sem/tensor.h"
#include "sem/warp_tile.h"

namespace orrery::sem {
namespace {

enum class Role : uint8_t { a, b, c };

struct Matrix {
  Role role = Role::a;
  int m = 16, n = 16, k = 16;
  int bits = 16;       // of an element
  int register_bits = 32;
  bool transposed = false;  // the m8n32 shapes
  bool column_major = false;
  int per() const { return register_bits / bits; }
  int rows() const { return role == Role::b ? k : m; }
  int columns() const { return role == Role::a ? k : n; }
  int distinct() const { return rows() * columns() * bits / register_bits / 32; }
};

Place tall(int rows, int k, int per, int lane, int r, int e) {
  if (rows == 8) return place_a(8, per, lane, r, e);
  const int block = 16 * k / per / 32;
  Place p = place_a(16, per, lane, r % block, e);
  p.row += 16 * (r / block);
  return p;
}
Place flat(int k, int per, int lane, int r, int e) {
  const int group = 8 * k / per / 32;
  Place p = place_b(per, lane, r % group, e);
  p.col += 8 * (r / group);
  return p;
}
// C as m x n with m >= n: 16x8 blocks, down first (m32n8), or across (m16n16).
Place accumulator(int m, int n, int bits, int lane, int r, int e) {
  if (m == 8) return bits == 16 ? place_c16(lane, r, e) : place_c(lane, r);
  const int block = bits == 16 ? 2 : 4;
  Place p = bits == 16 ? place_c16(lane, r % block, e) : place_c(lane, r % block);
  if (n == 8) p.row += 16 * (r / block);
  else p.col += 8 * (r / block);
  return p;
}

// Row and column of element e of register r.
Place place(const Matrix& x, int lane, int r, int e) {
  const int per = x.per();
  r %= std::max(1, x.distinct());
  auto swapped = [](Place p) { return Place{p.col, p.row}; };
  switch (x.role) {
    case Role::a: return x.transposed ? swapped(flat(x.k, per, lane, r, e)) : tall(x.m, x.k, per, lane, r, e);
    case Role::b: return x.transposed ? swapped(tall(x.n, x.k, per, lane, r, e)) : flat(x.k, per, lane, r, e);
    default: return x.transposed ? swapped(accumulator(x.n, x.m, x.bits, lane, r, e)) : accumulator(x.m, x.n, x.bits, lane, r, e);
  }
}

Matrix matrix(const Form& f, Role role, int bits) {
  Matrix x;
  x.role = role;
  x.m = f.shape.m, x.n = f.shape.n, x.k = f.shape.k;
  x.transposed = x.m == 8 && x.n == 32;
  x.bits = bits;
  x.register_bits = bits == 64 ? 64 : 32;
  return x;
}
// The matrix of wmma.load or wmma.store.
Matrix moved(const Form& f) {
  const Role role = f.op == Op::wmma_store || f.has(Mod::c) ? Role::c : f.has(Mod::b) ? Role::b : Role::a;
  Matrix x = matrix(f, role, isa::bits_of(f.type()));
  x.column_major = f.has(Mod::col) || f.has(Mod::col_a);
  return x;
}
int register_count(const Form& f, const Matrix& x) {
  return f.type() == Type::f16 && x.role != Role::c ? 8 : x.distinct();
}

}  // namespace

uint64_t wmma_extent(const Form& f, uint32_t stride) {
  const Matrix x = moved(f);
  const uint64_t lines = x.column_major ? x.columns() : x.rows(), length = x.column_major ? x.rows() : x.columns();
  return ((lines - 1) * stride + length) * x.bits / 8;
}

namespace {

/// Where the bytes of a fragment lie in its matrix: runs of a register's bytes that are neighbours in memory.
struct Run {
  uint16_t line, at;  // row or column of the matrix, and bytes from its start
  uint8_t reg, lane, byte, bytes;
};
struct Layout {
  Form form;
  int register_bytes = 4;
  std::vector<Run> runs;
};

Layout make_layout(const Form& f) {
  const Matrix x = moved(f);
  Layout l{f, x.register_bits / 8, {}};
  const int step = x.bits < 8 ? x.per() : 1;
  for (int r = 0; r < register_count(f, x); r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < x.per(); e += step) {
        const Place p = place(x, lane, r, e);
        const int line = x.column_major ? p.col : p.row, at = x.column_major ? p.row : p.col;
        const Run run{uint16_t(line), uint16_t(at * x.bits / 8), uint8_t(r), uint8_t(lane), uint8_t(e * x.bits / 8), uint8_t(std::max(1, step * x.bits / 8))};
        Run* last = l.runs.empty() ? nullptr : &l.runs.back();
        const bool goes_on = e && last->line == run.line && last->at + last->bytes == run.at && last->byte + last->bytes == run.byte;
        if (goes_on) last->bytes = uint8_t(last->bytes + run.bytes);
        else l.runs.push_back(run);
      }
  return l;
}

const Layout& layout_of(const Form& f) {
  thread_local std::vector<std::unique_ptr<Layout>> known;
  for (const auto& l : known)
    if (l->form == f) return *l;
  return *known.emplace_back(std::make_unique<Layout>(make_layout(f)));
}

inline void copy_run(void* to, const void* from, int bytes) {
  switch (bytes) {
    case 4: std::memcpy(to, from, 4); break;
    case 2: std::memcpy(to, from, 2); break;
    case 8: std::memcpy(to, from, 8); break;
    default: std::memcpy(to, from, size_t(bytes));
  }
}

}  // namespace

void run_wmma_load(const Form& f, void* const* d, const uint8_t* base, uint32_t stride) {
  const Layout& l = layout_of(f);
  const uint64_t pitch = uint64_t{stride} * uint64_t(moved(f).bits) / 8;
  for (const Run& r : l.runs) copy_run(static_cast<uint8_t*>(d[r.reg]) + r.lane * l.register_bytes + r.byte, base + r.line * pitch + r.at, r.bytes);
}

void run_wmma_store(const Form& f, const void* const* s, uint8_t* base, uint32_t stride) {
  const Layout& l = layout_of(f);
  const uint64_t pitch = uint64_t{stride} * uint64_t(moved(f).bits) / 8;
  for (const Run& r : l.runs) copy_run(base + r.line * pitch + r.at, static_cast<const uint8_t*>(s[r.reg]) + r.lane * l.register_bytes + r.byte, r.bytes);
}

namespace {

struct Factors {
  Element a = Element::f16, b = Element::f16;
  bool d_half = false, c_half = false;
};
Factors factors(const Form& f) {
  Factors x;
  if (f.n_types == 4) element_of(f.type(1), x.a), element_of(f.type(2), x.b);
  x.d_half = f.type(0) == Type::f16;
  x.c_half = f.type(f.n_types - 1) == Type::f16;
  return x;
}
// The assembler makes the tf32 shape of two products of 4.
SumRule wmma_rule(TensorCore core, const Factors& t, bool half) {
  SumRule rule = sum_rule(core, t.a, t.b, half, false);
  if (t.a == Element::tf32) rule.block = 4;
  return rule;
}
int stored_bits(Element e) { return e == Element::b1 ? 32 : element_bits(e); }

// Visits every element of the distinct registers: body(register, lane, element, row, column).
template <class F>
void each_element(const Matrix& x, F body) {
  for (int r = 0; r < x.distinct(); r++)
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < x.per(); e++) {
        const Place p = place(x, lane, r, e);
        body(r, lane, e, p.row, p.col);
      }
}
void gather(const Matrix& x, const void* const* s, uint32_t* out) {
  const int columns = x.columns(), bits = x.bits;
  each_element(x, [&](int r, int lane, int e, int row, int col) {
    const uint32_t v = get<uint32_t>(s[r], lane);
    out[row * columns + col] = bits == 32 ? v : v >> (bits * e) & ((1u << bits) - 1);
  });
}

void run_f64(const Form& f, void* const* d, const void* const* s) {
  double a[8 * 4], b[4 * 8], c[8 * 8];
  const Matrix ma = matrix(f, Role::a, 64), mb = matrix(f, Role::b, 64), mc = matrix(f, Role::c, 64);
  each_element(ma, [&](int, int lane, int, int row, int col) { a[row * 4 + col] = get<double>(s[0], lane); });
  each_element(mb, [&](int, int lane, int, int row, int col) { b[row * 8 + col] = get<double>(s[1], lane); });
  each_element(mc, [&](int r, int lane, int, int row, int col) { c[row * 8 + col] = get<double>(s[2 + r], lane); });
  multiply_f64(f, a, b, c, 8, 8, 4);
  each_element(mc, [&](int r, int lane, int, int row, int col) { put(d[r], lane, c[row * 8 + col]); });
}

/// The flat factor's columns, at 32 bytes.
struct FlatColumns final : RowSource {
  alignas(64) uint8_t bytes[16 * kTileRowBytes] = {};
  int columns;
  FlatColumns(const void* const* s, int n, int registers) : columns(n) {
    for (int r = 0; r < n / 8 * registers; r++)
      for (int i = 0; i < 8; i++)
        std::memcpy(bytes + (r / registers * 8 + i) * kTileRowBytes + r % registers * 16, static_cast<const uint8_t*>(s[r]) + 16 * i, 16);
  }
  void copy(uint8_t* to) override { std::memcpy(to, bytes, size_t(columns) * kTileRowBytes); }
  bool same(const uint8_t* copied) override { return std::memcmp(copied, bytes, size_t(columns) * kTileRowBytes) == 0; }
};

/// Products whose 16-row blocks are tiles of mma side by side: 16 bytes of k of 8 rows or columns are a register.
void run_tiles(const Form& f, const Factors& t, void* const* d, const void* const* a, const void* const* b, const void* const* c, const Numerics& x) {
  const bool transposed = f.shape.m == 8, integer = t.a == Element::s8 || t.a == Element::u8, half = t.d_half && t.c_half;  // mixed widths are summed in f32 and converted at the end
  const int rows = transposed ? f.shape.n : f.shape.m, columns = transposed ? f.shape.m : f.shape.n, k_bytes = f.shape.k * element_bits(t.a) / 8;
  if (transposed) std::swap(a, b);
  FlatColumns flat(b, columns, k_bytes / 16);
  DenseTile tile{transposed ? t.b : t.a, transposed ? t.a : t.b, integer ? SumRule{} : wmma_rule(x.core, t, half), x.fast, f.has(Mod::satfinite)};
  tile.n = columns, tile.k = f.shape.k, tile.b_rows = &flat;
  const WarpTileCode& code = warp_tile();
  alignas(64) uint32_t sums[8][32];
  void* place[8];
  for (int r = 0; r < 8; r++) place[r] = sums[r];
  const int c_count = columns / 8 * (t.c_half ? 2 : 4), d_count = columns / 8 * (t.d_half ? 2 : 4);
  for (int block = 0; block < rows / 16; block++) {
    alignas(64) uint8_t raw[16 * kTileRowBytes] = {};
    const void* const* from = a + block * k_bytes / 8;
    for (int r = 0; r < k_bytes / 8; r++)
      for (int i = 0; i < 8; i++) std::memcpy(raw + (i + r % 2 * 8) * kTileRowBytes + r / 2 * 16, static_cast<const uint8_t*>(from[r]) + 16 * i, 16);
    const void* const* before = c + block * c_count;
    if (t.c_half && !half) code.load_halves(before, columns, place);
    else
      for (int r = 0; r < c_count; r++) std::memcpy(sums[r], before[r], sizeof sums[r]);
    tile.raw_a = raw;
    multiply_tile(tile, place);
    void* const* after = d + block * d_count;
    if (t.d_half && !half) code.store_halves(after, columns, const_cast<const void* const*>(place));
    else
      for (int r = 0; r < d_count; r++) std::memcpy(after[r], sums[r], sizeof sums[r]);
  }
}

}  // namespace

void run_wmma_mma(const Form& f, void* const* d, const void* const* s, const Numerics& x) {
  const Factors t = factors(f);
  if (t.a == Element::f64) return run_f64(f, d, s);
  Matrix ma = matrix(f, Role::a, stored_bits(t.a)), mb = matrix(f, Role::b, stored_bits(t.b));
  if (t.a == Element::b1) ma.k = mb.k = f.shape.k / 32;
  const Matrix mc = matrix(f, Role::c, t.c_half ? 16 : 32), md = matrix(f, Role::c, t.d_half ? 16 : 32);
  const int ra = t.a == Element::f16 ? 8 : ma.distinct(), rb = t.b == Element::f16 ? 8 : mb.distinct();
  if (can_tile(t.a, t.b)) return run_tiles(f, t, d, s, s + ra, s + ra + rb, x);
  uint32_t a[32 * 16], b[16 * 32], c[32 * 32];
  gather(ma, s, a);
  gather(mb, s + ra, b);
  gather(mc, s + ra + rb, c);
  if (t.a == Element::b1) multiply_bits(f.has(Mod::xor_), a, b, c, md.m, md.n, ma.k);
  else multiply_integer(t.a, t.b, f.has(Mod::satfinite), a, b, c, md.m, md.n, ma.k);
  uint32_t out[8][32] = {};
  each_element(md, [&](int r, int lane, int e, int row, int col) { out[r][lane] |= c[row * md.n + col] << (t.d_half ? 16 * e : 0); });
  for (int r = 0; r < md.distinct(); r++) std::memcpy(d[r], out[r], sizeof out[r]);
}

}  // namespace orrery::sem
