// sem/dense_tile.cc: see dense_tile.h. Chooses the sum, keeps arranged B, and does the outputs that tiles leave out.
#include "sem/dense_tile.h"

#include <cstring>
#include <vector>

#include "sem/factors.h"
#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/warp_tile.h"

namespace orrery::sem {
namespace {

constexpr int kRows = 16;

FactorFormat factor_format(Element e, bool as_half) {
  if (e == Element::s8 || e == Element::u8) return {e, 1, 0};
  const int smallest = as_half ? format_of(Element::f16).smallest() : format_of(e).smallest();
  return {e, element_bits(e) / 8, smallest};
}

/// Arranged B of the tiles that came last.
class Panels {
 public:
  struct Key {
    uint64_t guess;
    Element type;
    bool exponents, by_k, ordered, pairs;
    int smallest, n, k;
    bool operator==(const Key&) const = default;
  };
  struct Slot {
    Key key;
    uint64_t chain = 0;  // that used it last
    uint8_t raw[kTileColumns * kTileRowBytes];
    Panel panel;
  };
  /// What find() gives stays until the next chain begins.
  void begin_chain() { chain_++; }
  const Slot& find(const TileWork& w, const DenseTile& t, uint64_t guess) {
    const Key key{guess, t.b, w.sum == TileSum::exact, w.b_by_k, w.order != nullptr, w.pairs, w.b.smallest, w.n, w.k};
    for (Slot* s : slots_)
      if (s && s->key == key && t.b_rows->same(s->raw)) return s->chain = chain_, *s;
    while (slots_[next_ % kSlots] && slots_[next_ % kSlots]->chain == chain_) next_++;
    Slot*& s = slots_[next_++ % kSlots];
    if (!s) s = new Slot;
    s->key = key;
    s->chain = chain_;
    t.b_rows->copy(s->raw);
    warp_tile().arrange(w, s->raw, s->panel);
    return *s;
  }

 private:
  static constexpr size_t kSlots = 32;  // what a warp multiplies before the next warp does, and another warpgroup some stages behind
  static_assert(kSlots > kMaxChain);
  Slot* slots_[kSlots] = {};  // kept as long as the thread
  size_t next_ = 0;
  uint64_t chain_ = 0;
};
thread_local Panels g_panels;

/// Scratch of f32 fragments for f16 accumulators, and what a tile could not do.
struct Scratch {
  alignas(64) uint32_t fragment[kTileColumns / 2][32];
  void* place[kTileColumns / 2];
  TilePlace left[kRows * kTileColumns];
  Scratch() {
    for (int r = 0; r < kTileColumns / 2; r++) place[r] = fragment[r];
  }
};
thread_local Scratch* g_scratch = nullptr;
Scratch& scratch() {
  if (!g_scratch) g_scratch = new Scratch;  // one per thread, kept
  return *g_scratch;
}

uint32_t element(const uint8_t* row, int x, int bytes) {
  uint32_t v = 0;
  std::memcpy(&v, row + x * bytes, size_t(bytes));
  return v;
}
uint32_t flip_of(Element e) { return e == Element::tf32 ? 1u << 31 : e == Element::e4m3 || e == Element::e5m2 ? 0x80 : 0x8000; }

/// The accumulator of an output in its register.
struct Accumulator {
  uint32_t* word;
  int shift;
  uint32_t mask;
  Accumulator(bool half, void* const* d, TilePlace p) {
    const int lane = p.row % 8 * 4 + p.column % 8 / 2, low = p.row / 8;
    word = static_cast<uint32_t*>(d[half ? p.column / 8 * 2 + low : p.column / 8 * 4 + low * 2 + p.column % 2]) + lane;
    shift = half ? p.column % 2 * 16 : 0;
    mask = half ? 0xffff : ~0u;
  }
  uint32_t get() const { return *word >> shift & mask; }
  void set(uint32_t v) const { *word = (*word & ~(mask << shift)) | v << shift; }
};

/// Outputs one by one. `c` are their accumulators before.
void multiply_left(const DenseTile& t, const FactorFormat& fa, const FactorFormat& fb, const uint8_t* raw_b, int count, const TilePlace* left, uint32_t* c) {
  for (int i = 0; i < count; i++) {
    uint32_t a[kTileSteps], b[kTileSteps];
    const int row = left[i].row, column = left[i].column;
    for (int x = 0; x < t.k; x++) {
      a[x] = element(t.raw_a + row * kTileRowBytes, x, fa.bytes) ^ (t.negate ? flip_of(t.a) : 0);
      b[x] = t.b_by_k ? element(raw_b + x * t.n * 2, column, 2) : element(raw_b + column * kTileRowBytes, x, fb.bytes);
    }
    multiply(t.rule, t.a, t.b, a, b, &c[i], 1, 1, t.k);
  }
}

/// C, nearest even, to sums that began at zero.
void add_late(bool half, const uint32_t* c, void* const* d) {
  for (int r = 0; r < (half ? 2 : 4); r++)
    for (int lane = 0; lane < 32; lane++) {
      uint32_t& to = static_cast<uint32_t*>(d[r])[lane];
      const uint32_t from = c[r * 32 + lane];
      if (half) {
        const auto add = [](uint32_t x, uint32_t y) { return uint32_t(narrow<F16>(double(F16{uint16_t(x)}.f32()) + F16{uint16_t(y)}.f32()).bits); };
        to = add(to & 0xffff, from & 0xffff) | add(to >> 16, from >> 16) << 16;
      } else {
        to = bits_of(canonical(f32_of(to) + f32_of(from)));
      }
    }
}

/// Sums in the hardware's way; C may have to come last.
void multiply_exact(const DenseTile& t, const TileWork& work, const Panels::Slot& b, void* const* d) {
  const bool half = t.rule.half_result;
  Scratch& s = scratch();
  uint32_t late[4 * 32];
  if (t.rule.late_c)
    for (int r = 0; r < (half ? 2 : 4); r++) std::memcpy(late + 32 * r, d[r], 128);
  const auto before = [&](TilePlace p) {
    if (!t.keep) return 0u;
    void* was[4] = {late, late + 32, late + 64, late + 96};
    return Accumulator(half, t.rule.late_c ? was : d, p).get();
  };
  const WarpTileCode& code = warp_tile();
  int left;
  std::vector<uint32_t> c;
  const auto collect = [&](int n) {
    for (int i = 0; i < n; i++) c.push_back(before(s.left[i]));
  };
  if (half) {
    if (work.keep) code.load_halves(const_cast<const void* const*>(d), t.n, s.place);
    left = code.add(work, t.raw_a, b.panel, s.place, s.left);
    collect(left);
    code.store_halves(d, t.n, const_cast<const void* const*>(s.place));
  } else {
    left = code.add(work, t.raw_a, b.panel, d, s.left);
    collect(left);
  }
  if (t.rule.late_c && t.keep) add_late(half, late, d);
  if (!left) return;
  multiply_left(t, work.a, work.b, b.raw, left, s.left, c.data());
  for (int i = 0; i < left; i++) Accumulator(half, d, s.left[i]).set(c[size_t(i)]);
}

/// Plain multiply-adds; f16 accumulators are rounded once, at the end.
void multiply_plain(const DenseTile& t, const TileWork& work, const Panel& panel, void* const* d) {
  const WarpTileCode& code = warp_tile();
  if (work.sum != TileSum::fast || !t.rule.half_result) {
    code.add(work, t.raw_a, panel, d, nullptr);
    return;
  }
  Scratch& s = scratch();
  if (t.keep) code.load_halves(const_cast<const void* const*>(d), t.n, s.place);
  code.add(work, t.raw_a, panel, s.place, nullptr);
  code.store_halves(d, t.n, const_cast<const void* const*>(s.place));
}

}  // namespace

bool can_tile(Element a, Element b) {
  const auto known = [](Element e) {
    return e == Element::f16 || e == Element::bf16 || e == Element::tf32 || e == Element::e4m3 || e == Element::e5m2 || e == Element::s8 || e == Element::u8;
  };
  return known(a) && known(b);
}

namespace {

/// `place`: room for the order of k.
TileWork work_of(const DenseTile& t, uint8_t place[kTileSteps]) {
  const bool integer = t.a == Element::s8 || t.a == Element::u8;
  const bool mixed = t.rule.late_c && t.a != t.b;  // fp8 factors of two formats are multiplied as f16 values
  TileWork w;
  w.sum = integer ? (t.satfinite ? TileSum::saturate : TileSum::wrap) : t.fast ? TileSum::fast : TileSum::exact;
  w.rule = t.rule;
  w.a = factor_format(t.a, mixed), w.b = factor_format(t.b, mixed);
  w.n = t.n, w.k = t.k;
  w.b_by_k = t.b_by_k, w.negate = t.negate;
  const auto is_bf16 = [](Element e) { return e == Element::bf16 || e == Element::e4m3 || e == Element::e5m2; };  // or exactly one
  w.pairs = w.sum == TileSum::fast && warp_tile().pairs && is_bf16(t.a) && is_bf16(t.b);
  if (t.rule.interleaved && w.sum == TileSum::exact) {
    for (int x = 0; x < t.k; x++) place[x] = uint8_t(x / 4 * 2 + x % 2 + (x % 4 >= 2 ? t.k / 2 : 0));
    w.order = place;
  }
  return w;
}

}  // namespace

void multiply_chain(const DenseTile& tile, std::span<const TileStep> steps, int warps, const uint8_t* const* raw_a, void* const* const* d) {
  uint8_t place[kTileSteps];
  TileWork w = work_of(tile, place);
  const Panels::Slot* b[kMaxChain];
  const Panel* panels[kMaxChain];
  g_panels.begin_chain();
  for (size_t i = 0; i < steps.size(); i++) {
    tile.b_rows->go_to(int(i));
    b[i] = &g_panels.find(w, tile, steps[i].key);
    panels[i] = &b[i]->panel;
  }
  DenseTile t = tile;
  for (int warp = 0; warp < warps; warp++) {
    if (w.sum == TileSum::fast && !t.rule.half_result) {
      const uint8_t* rows[kMaxChain];
      for (size_t i = 0; i < steps.size(); i++) rows[i] = raw_a[i * size_t(warps) + size_t(warp)];
      w.keep = steps[0].keep;
      warp_tile().add_chain(w, int(steps.size()), rows, panels, d[warp]);
      continue;
    }
    for (size_t i = 0; i < steps.size(); i++) {
      t.raw_a = raw_a[i * size_t(warps) + size_t(warp)];
      t.keep = steps[i].keep;
      w.keep = t.keep && !(w.sum == TileSum::exact && t.rule.late_c);
      if (w.sum == TileSum::exact) multiply_exact(t, w, *b[i], d[warp]);
      else multiply_plain(t, w, *panels[i], d[warp]);
    }
  }
}

void multiply_tile(const DenseTile& t, void* const* d) {
  const TileStep step{t.key, t.keep};
  multiply_chain(t, {&step, 1}, 1, &t.raw_a, &d);
}

}  // namespace orrery::sem
