// sem/video.cc: the video instructions: vadd .. vset on one selected part, and their 2- and 4-lane forms.
//
// Operands: s = a, b, c (null where the form has none), then one word each, shared by all lanes, with the selectors
// of d, a and b as video_selector() codes them. Part selection extends by the operand's type; the sum is made in 64
// bits, saturated to the part that d selects, and then merged into c or combined with it.
// Source: PTX ISA manual, "Video Instructions".
#include <algorithm>

#include "sem/families.h"

namespace orrery::sem {
namespace {

// A selector's code: its digits as nibbles in the low 16 bits, their number from bit 20, bit 16 set for bytes. 0: none.
constexpr uint32_t kBytes = 1u << 16;
int width_of(uint32_t selector) { return selector == 0 ? 32 : selector & kBytes ? 8 : 16; }
int shift_of(uint32_t selector) { return selector == 0 ? 0 : width_of(selector) * int(selector & 15); }

int64_t extend(uint64_t v, int bits, bool sign) {
  v &= (1ull << bits) - 1;
  return sign && v >> (bits - 1) & 1 ? int64_t(v) - (int64_t(1) << bits) : int64_t(v);
}
int64_t part(uint32_t v, Type t, uint32_t selector) {
  return extend(v >> shift_of(selector), width_of(selector), isa::is_signed(t));
}
int64_t clamp_to(int64_t v, int bits, bool sign) {
  const int64_t lo = sign ? -(int64_t(1) << (bits - 1)) : 0, hi = (int64_t(1) << (bits - sign)) - 1;
  return v < lo ? lo : v > hi ? hi : v;
}

bool compare(const Form& f, int64_t a, int64_t b) {
  if (f.has(Mod::eq)) return a == b;
  if (f.has(Mod::ne)) return a != b;
  if (f.has(Mod::lt)) return a < b;
  if (f.has(Mod::le)) return a <= b;
  if (f.has(Mod::gt)) return a > b;
  return a >= b;
}
int64_t shift(const Form& f, int64_t a, int64_t b) {
  const uint32_t n = f.has(Mod::wrap) ? uint32_t(b) & 31 : uint32_t(std::min<int64_t>(uint32_t(b), 32));
  return f.op == Op::vshl ? int64_t(uint64_t(a) << n) : a >> n;
}
int64_t combine(const Form& f, int64_t a, int64_t b) {
  switch (f.op) {
    case Op::vadd: case Op::vadd2: case Op::vadd4: return a + b;
    case Op::vsub: case Op::vsub2: case Op::vsub4: return a - b;
    case Op::vabsdiff: case Op::vabsdiff2: case Op::vabsdiff4: return a > b ? a - b : b - a;
    case Op::vmin: case Op::vmin2: case Op::vmin4: return std::min(a, b);
    case Op::vmax: case Op::vmax2: case Op::vmax4: return std::max(a, b);
    case Op::vavrg2: case Op::vavrg4: return (a + b + (a + b >= 0)) >> 1;
    case Op::vset: case Op::vset2: case Op::vset4: return compare(f, a, b);
    default: return shift(f, a, b);
  }
}

// The types of d, a and b: vset names only a and b.
Type dest_type(const Form& f, bool set) { return set ? Type::u32 : f.type(0); }

uint32_t merge(uint32_t selector, int64_t v, uint32_t c) {
  const int width = width_of(selector), at = shift_of(selector);
  const uint32_t field = ((1u << width) - 1) << at;
  return (c & ~field) | (uint32_t(v) << at & field);
}
// The second operation as the machine does it: with an unsigned destination the unwrapped value compares unsigned (so a
// negative one is large); with a signed one, and for vset, values compare signed.
int64_t second(const Form& f, int64_t v, uint32_t c, bool sign) {
  if (f.has(Mod::add)) return int64_t(uint32_t(v) + c);
  if (!f.has(Mod::min) && !f.has(Mod::max)) return v;
  const bool never_negative = f.op == Op::vabsdiff || f.op == Op::vmax;
  const int64_t y = sign ? int64_t(int32_t(c)) : int64_t(c), x = sign && !(never_negative && v > 0) ? int64_t(int32_t(v)) : v;
  const bool less = sign ? x < y : uint64_t(x) < uint64_t(y);
  return less == f.has(Mod::min) ? x : y;
}

void run_scalar(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  const bool set = f.op == Op::vset;
  const Type td = dest_type(f, set), ta = f.type(set ? 0 : 1), tb = f.type(set ? 1 : 2);
  const uint32_t sd = get<uint32_t>(s[3], 0), sa = get<uint32_t>(s[4], 0), sb = get<uint32_t>(s[5], 0);
  const void *pa = s[0], *pb = s[1], *pc = s[2];
  if (!d[0]) return;
  for_lanes(mask, [&](int i) {
    const uint32_t c = pc ? get<uint32_t>(pc, i) : 0;
    int64_t v;
    if (f.op == Op::vmad) {
      v = part(get<uint32_t>(pa, i), ta, sa) * part(get<uint32_t>(pb, i), tb, sb);
      const bool sign = isa::is_signed(ta) || isa::is_signed(tb);
      v += (sign ? int64_t(int32_t(c)) : int64_t(c)) + f.has(Mod::po);
    } else {
      v = combine(f, part(get<uint32_t>(pa, i), ta, sa), part(get<uint32_t>(pb, i), tb, sb));
    }
    // u32 + s32 saturates below only: above 2^32 the machine wraps
    if (f.has(Mod::sat) && !sd && td == Type::u32 && ta == Type::u32 && tb == Type::s32 && v > int64_t(UINT32_MAX)) v = uint32_t(v);
    if (f.has(Mod::sat)) v = clamp_to(v, width_of(sd), isa::is_signed(td));
    put(d[0], i, sd ? merge(sd, v, c) : f.op == Op::vmad ? uint32_t(v) : uint32_t(second(f, v, c, set || isa::is_signed(td))));
  });
}

uint32_t selector_or(uint32_t code, uint32_t otherwise) { return code ? code & 0xffff : otherwise; }
// A lane mask such as .h1 or .b320: bit per digit; none: all lanes.
uint32_t lane_mask(uint32_t code, int lanes) {
  if (!code) return (1u << lanes) - 1;
  uint32_t mask = 0;
  for (uint32_t k = 0; k < code >> 20; k++) mask |= 1u << (code >> (4 * k) & 15);
  return mask;
}

template <int Lanes>
void run_lanes(const Form& f, void* const* d, const void* const* s, uint32_t mask) {
  constexpr int width = 32 / Lanes;
  const bool set = f.op == Op::vset2 || f.op == Op::vset4;
  const Type td = dest_type(f, set), ta = f.type(set ? 0 : 1), tb = f.type(set ? 1 : 2);
  const uint32_t live = lane_mask(get<uint32_t>(s[3], 0), Lanes);
  const uint32_t sa = selector_or(get<uint32_t>(s[4], 0), Lanes == 2 ? 0x10 : 0x3210);
  const uint32_t sb = selector_or(get<uint32_t>(s[5], 0), Lanes == 2 ? 0x32 : 0x7654);
  const void *pa = s[0], *pb = s[1], *pc = s[2];
  if (!d[0]) return;
  for_lanes(mask, [&](int i) {
    const uint64_t both = uint64_t(get<uint32_t>(pb, i)) << 32 | get<uint32_t>(pa, i);
    const uint32_t c = pc ? get<uint32_t>(pc, i) : 0;
    uint32_t merged = c, sum = c;
    for (int k = 0; k < Lanes; k++) {
      if (!(live >> k & 1)) continue;
      const int64_t a = extend(both >> (width * (sa >> (4 * k) & 15)), width, isa::is_signed(ta));
      const int64_t b = extend(both >> (width * (sb >> (4 * k) & 15)), width, isa::is_signed(tb));
      int64_t v = combine(f, a, b);
      if (f.has(Mod::sat)) v = clamp_to(v, width, isa::is_signed(td));
      const uint32_t field = ((1u << width) - 1) << (width * k);
      merged = (merged & ~field) | (uint32_t(v) << (width * k) & field);
      sum += uint32_t(v);
    }
    put(d[0], i, f.has(Mod::add) ? sum : merged);
  });
}

}  // namespace

uint32_t video_selector(std::string_view text) {
  if (text.size() < 2 || (text[0] != 'b' && text[0] != 'h')) return 0;
  uint32_t digits = 0;
  for (char c : text.substr(1)) digits = digits << 4 | uint32_t(c - '0');
  return (text[0] == 'b' ? kBytes : 0) | digits | uint32_t(text.size() - 1) << 20;
}

PureFn find_video(const Form& f) {
  switch (f.op) {
    case Op::vadd: case Op::vsub: case Op::vabsdiff: case Op::vmin: case Op::vmax: case Op::vshl: case Op::vshr:
    case Op::vmad: case Op::vset:
      return &run_scalar;
    case Op::vadd2: case Op::vsub2: case Op::vavrg2: case Op::vabsdiff2: case Op::vmin2: case Op::vmax2: case Op::vset2:
      return &run_lanes<2>;
    case Op::vadd4: case Op::vsub4: case Op::vavrg4: case Op::vabsdiff4: case Op::vmin4: case Op::vmax4: case Op::vset4:
      return &run_lanes<4>;
    default: return nullptr;
  }
}

}  // namespace orrery::sem
