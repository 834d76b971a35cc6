// lower/lane_arithmetic.cc: see lane_arithmetic.h.
#include "lower/lane_arithmetic.h"

namespace orrery::lower {

using isa::Form;
using isa::Mod;

uint16_t LaneArithmetic::intern(const Pattern& p) {
  const auto at = std::find(patterns.begin(), patterns.end(), p);
  if (at != patterns.end()) return uint16_t(at - patterns.begin());
  if (patterns.size() >= 60000) return 0xffff;
  patterns.push_back(p);
  return uint16_t(patterns.size() - 1);
}
Lanes LaneArithmetic::with_pattern(Lanes l, const Pattern& p) {
  l.pattern = intern(p);
  if (l.pattern == 0xffff) return kVaries;
  if (l.pattern) l.constant = l.constant && l.chunks == 1;
  return l;
}

Lanes LaneArithmetic::refine(Lanes l, int chunks) {
  if (l.chunks >= chunks || l.chunks == 0) return l;
  if (chunks == 32) return kVaries;
  const Pattern& p = patterns[l.pattern];
  Pattern q;
  uint8_t align = l.align;
  for (int i = 0; i < 32; i++) {
    q[size_t(i)] = p[size_t(i)] - p[size_t(chunk_start(i, chunks))];
    align = std::min(align, align_of(p[size_t(chunk_start(i, chunks))]));
  }
  Lanes out{uint8_t(chunks), align, 0, false, 0};
  return with_pattern(out, q);
}

Lanes LaneArithmetic::join(Lanes a, Lanes b) {
  if (a.chunks == 0) return b;
  if (b.chunks == 0) return a;
  if (a == b) return a;
  if (a.limit != b.limit) a.limit = b.limit = kNoLimit;  // no chains of growing limits around loops
  for (int n : {1, 2, 4}) {
    if (n < a.chunks || n < b.chunks) continue;
    const Lanes x = refine(a, n), y = refine(b, n);
    if (x.chunks != n || y.chunks != n || x.pattern != y.pattern) continue;
    Lanes out{uint8_t(n), std::min(x.align, y.align), x.pattern, false, 0, a.limit};
    if (x.constant && y.constant && x.value == y.value) out.constant = true, out.value = x.value;
    return out;
  }
  return kVaries;
}

Lanes LaneArithmetic::flat_meet(Lanes a, Lanes b) {
  if (a.chunks == 0 || b.chunks == 0) return {};
  if (!a.flat() || !b.flat()) return kVaries;
  return {std::max(a.chunks, b.chunks), 0, 0, false, 0};
}

Lanes LaneArithmetic::sum(Lanes a, Lanes b, int sign, int bits) {
  if (a.chunks == 0 || b.chunks == 0) return {};
  const int n = std::max(a.chunks, b.chunks);
  if (n == 32) return kVaries;
  a = refine(a, n), b = refine(b, n);
  if (a.varies() || b.varies()) return kVaries;
  Pattern q;
  for (size_t i = 0; i < 32; i++)
    q[i] = wrap(patterns[a.pattern][i] + sign * patterns[b.pattern][i], bits);
  Lanes out{uint8_t(n), std::min(a.align, b.align), 0, a.constant && b.constant, 0};
  if (out.constant) out.value = wrap(a.value + sign * b.value, bits);
  return with_pattern(out, q);
}

Lanes LaneArithmetic::scaled(Lanes a, Lanes factor, int bits) {
  if (a.chunks == 0 || factor.chunks == 0) return {};
  if (a.flat() && factor.flat()) {
    Lanes out{std::max(a.chunks, factor.chunks), uint8_t(std::min(a.align + factor.align, int(kMaxAlign))), 0,
              a.constant && factor.constant, 0};
    if (out.constant) out.value = wrap(int64_t(uint64_t(a.value) * uint64_t(factor.value)), bits);
    return out;
  }
  if (a.constant && a.flat()) std::swap(a, factor);
  if (a.varies()) return kVaries;
  if (!factor.constant || !factor.flat()) return finer_product(a, factor);
  Pattern q;
  for (size_t i = 0; i < 32; i++) q[i] = wrap(int64_t(uint64_t(patterns[a.pattern][i]) * uint64_t(factor.value)), bits);
  Lanes out{a.chunks, uint8_t(std::min(a.align + align_of(factor.value), int(kMaxAlign))), 0, a.constant, 0};
  if (out.constant) out.value = wrap(int64_t(uint64_t(a.value) * uint64_t(factor.value)), bits);
  return with_pattern(out, q);
}
Lanes LaneArithmetic::finer_product(Lanes a, Lanes b) {
  for (int n : {2, 4}) {
    const Lanes x = refine(a, n), y = refine(b, n);
    if (x.chunks == n && y.chunks == n && x.flat() && y.flat())
      return {uint8_t(n), uint8_t(std::min(x.align + y.align, int(kMaxAlign))), 0, false, 0};
  }
  return kVaries;
}

bool LaneArithmetic::low_bits(const Lanes& a, int64_t& top) const {
  const Pattern& p = patterns[a.pattern];
  top = *std::max_element(p.begin(), p.end());
  const int64_t least = *std::min_element(p.begin(), p.end());
  return least >= 0 && top < (int64_t{1} << std::min<int>(a.align, 31));
}

bool LaneArithmetic::apart(const Lanes& a, const Lanes& b) const {
  int64_t top;
  if (a.chunks != 1 || b.chunks != 1 || !b.constant || b.value != 0 || !low_bits(a, top)) return false;
  const Pattern &p = patterns[a.pattern], &q = patterns[b.pattern];
  for (size_t i = 0; i < 32; i++)
    if (q[i] < 0 || q[i] >= (int64_t{1} << std::min<int>(a.align, 31)) || (p[i] & q[i])) return false;
  return true;
}

Lanes LaneArithmetic::shifted_right(Lanes a, Lanes by, bool is_signed, int bits) {
  if (a.chunks == 0 || by.chunks == 0) return {};
  if (a.flat() && by.flat()) {
    Lanes out{std::max(a.chunks, by.chunks), 0, 0, false, 0};
    if (by.constant && by.value >= 0 && by.value < bits) {
      out.align = uint8_t(std::max<int64_t>(0, int64_t(a.align) - by.value));
      if (a.constant && a.value >= 0) out.constant = true, out.value = a.value >> by.value;
    }
    return out;
  }
  int64_t top;
  if (a.varies() || !by.constant || !by.flat() || by.value < 0 || by.value >= bits || !low_bits(a, top) || by.value > a.align) return kVaries;
  Pattern q;
  for (size_t i = 0; i < 32; i++) q[i] = patterns[a.pattern][i] >> by.value;
  return with_pattern({a.chunks, uint8_t(a.align - by.value), 0, false, 0}, q);
}

Lanes LaneArithmetic::converted(const Form& f, Lanes a) {
  if (a.chunks == 0 || a.flat()) {
    Lanes out{a.chunks, 0, 0, false, 0};
    if (is_integer(f.type(0)) && is_integer(f.type(1)) && isa::bits_of(f.type(0)) >= isa::bits_of(f.type(1)) && !f.has(Mod::sat)) {
      out.align = a.align;
      if (a.constant && a.value >= 0 && a.value < (int64_t{1} << 31) && isa::bits_of(f.type(1)) >= 32)
        out.constant = true, out.value = a.value;
    }
    return out;
  }
  if (a.varies() || !is_integer(f.type(0)) || !is_integer(f.type(1)) || f.has(Mod::sat)) return kVaries;
  const int to = isa::bits_of(f.type(0)), from = isa::bits_of(f.type(1));
  if (from < 32 || to < 32) return kVaries;
  Pattern q = patterns[a.pattern];
  for (int64_t& v : q) v = wrap(v, std::min(to, from));
  return with_pattern({a.chunks, a.align, 0, false, 0}, q);
}

}  // namespace orrery::lower
