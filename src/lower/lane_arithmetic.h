// lower/lane_arithmetic.h: descriptions of values across the lanes of a warp (Lanes, uniformity.h) under arithmetic: what is known
// of a sum when that much is known of its operands.
//
// Invariant: a result never claims more than holds for every value that the operands' descriptions allow; chunks 0 stands for
// no value yet, and gives no value. Not here: instructions (uniformity.cc).
#pragma once
#include <algorithm>
#include <bit>

#include "lower/uniformity.h"

namespace orrery::lower {

constexpr uint64_t kNoLimit = ~uint64_t{0};
constexpr Lanes kVaries{32, 0, 0, false, 0, kNoLimit};
constexpr uint8_t kMaxAlign = 63;

inline uint8_t align_of(int64_t v) { return v == 0 ? kMaxAlign : uint8_t(std::countr_zero(uint64_t(v))); }
inline int chunk_start(int lane, int chunks) { return lane / (32 / chunks) * (32 / chunks); }

inline bool is_integer(isa::Type t) {
  const isa::TypeClass c = isa::class_of(t);
  return c == isa::TypeClass::bits || c == isa::TypeClass::uint || c == isa::TypeClass::sint;
}

inline int64_t wrap(int64_t v, int bits) {
  if (bits >= 64) return v;
  return int64_t(uint64_t(v) << (64 - bits)) >> (64 - bits);
}

/// Works on the patterns of one kernel, and adds those that results need.
struct LaneArithmetic {
  std::vector<Pattern>& patterns;

  uint16_t intern(const Pattern& p);
  /// Description with pattern `p` (made zero at the first lane of each chunk by the caller).
  Lanes with_pattern(Lanes l, const Pattern& p);
  /// The same values described with more chunks.
  Lanes refine(Lanes l, int chunks);
  /// What holds of a value that is one or the other.
  Lanes join(Lanes a, Lanes b);
  /// A result that is any function of flat values; varies as soon as one operand has a pattern.
  static Lanes flat_meet(Lanes a, Lanes b);
  Lanes sum(Lanes a, Lanes b, int sign, int bits);
  Lanes scaled(Lanes a, Lanes factor, int bits);
  /// A pattern times an unknown: flat again when the pattern is constant within smaller chunks.
  Lanes finer_product(Lanes a, Lanes b);
  Lanes shifted_right(Lanes a, Lanes by, bool is_signed, int bits);
  Lanes converted(const isa::Form& f, Lanes a);
  /// Largest value of the pattern when base + pattern can be read as disjoint bits; false when it cannot.
  bool low_bits(const Lanes& a, int64_t& top) const;
  /// No bit is set in both: a's base is above its pattern and b's, b's base is 0, and the patterns do not meet.
  bool apart(const Lanes& a, const Lanes& b) const;

  template <class F>
  Lanes bitwise(Lanes a, Lanes b, F f, uint8_t align, int bits) {
    if (a.chunks == 0 || b.chunks == 0) return {};
    if (a.flat() && b.flat()) {
      Lanes out{std::max(a.chunks, b.chunks), align, 0, a.constant && b.constant, 0};
      if (out.constant) out.value = wrap(f(a.value, b.value), bits);
      return out;
    }
    if (a.constant && a.flat()) std::swap(a, b);
    int64_t top;
    if (a.varies() || !b.constant || !b.flat() || !low_bits(a, top)) return kVaries;
    const int64_t low = (int64_t{1} << std::min<int>(a.align, 31)) - 1;
    Pattern q;
    for (size_t i = 0; i < 32; i++) q[i] = f(patterns[a.pattern][i], b.value & low);
    // The first lane of a chunk has pattern 0: its low result bits belong to the base.
    const int64_t at0 = f(0, b.value & low);
    for (int64_t& v : q) v -= at0;
    Lanes out{a.chunks, at0 == 0 ? align : std::min(align, align_of(at0)), 0, a.constant, 0};
    if (out.constant) out.value = wrap(f(a.value, b.value), bits);
    return with_pattern(out, q);
  }
};

}  // namespace orrery::lower
