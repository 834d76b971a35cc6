// sem/factors.h: tensor-core factors taken apart: value and exponent of each element.
//
// A factor's exponent is that of its format, not renormalised: a subnormal has the format's smallest exponent, zero has
// kNoExponent, so that it never decides the largest exponent of a block.
#pragma once
#include <cstdint>

#include "sem/numerics.h"
#include "sem/smallfloat.h"

namespace orrery::sem {

constexpr int16_t kNoExponent = -8192;

struct Format {
  int exponent_bits, mantissa_bits, shift;  // shift: stored low bits that are not part of the value
  bool has_infinity;
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int smallest() const { return 1 - bias(); }
};
constexpr Format format_of(Element e) {
  switch (e) {
    case Element::f16: return {5, 10, 0, true};
    case Element::bf16: return {8, 7, 0, true};
    case Element::tf32: return {8, 10, 13, true};
    case Element::e4m3: return {4, 3, 0, false};
    case Element::e5m2: return {5, 2, 0, true};
    default: return {8, 23, 0, true};
  }
}

/// A number as sign, significand and exponent: value = (-1)^negative * significand * 2^(exponent - mantissa_bits).
struct Parts {
  uint32_t significand = 0;
  int16_t exponent = kNoExponent;
  bool negative = false, infinite = false, nan = false;
};
inline Parts take_apart(uint32_t bits, Format f) {
  bits >>= f.shift;
  const uint32_t man = bits & ((1u << f.mantissa_bits) - 1), top = (1u << f.exponent_bits) - 1;
  const uint32_t x = bits >> f.mantissa_bits & top;
  Parts p;
  p.negative = bits >> (f.exponent_bits + f.mantissa_bits) & 1;
  if (x == top && f.has_infinity) {
    p.nan = man != 0;
    p.infinite = man == 0;
  } else if (x == top && man == (1u << f.mantissa_bits) - 1) {
    p.nan = true;
  } else if (x) {
    p.significand = man | 1u << f.mantissa_bits;
    p.exponent = int16_t(int(x) - f.bias());
  } else if (man) {
    p.significand = man;
    p.exponent = int16_t(f.smallest());
  }
  return p;
}

}  // namespace orrery::sem
