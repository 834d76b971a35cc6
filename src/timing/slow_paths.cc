// timing/slow_paths.cc: see slow_paths.h.
#include "timing/slow_paths.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "isa/form.h"

namespace orrery::timing {

namespace {

using isa::Mod;
using isa::Op;

float float_of(uint64_t bits) { return std::bit_cast<float>(uint32_t(bits)); }
double double_of(uint64_t bits) { return std::bit_cast<double>(bits); }
/// The upper half of a double, taken as a float, as ptxas's tests do: without its sign.
float upper(uint64_t bits) { return float_of(bits >> 32 & 0x7fffffff); }
/// The same half plus what the test adds to it.
float upper(uint64_t bits, uint32_t plus) { return float_of((uint32_t(bits >> 32) + plus) & 0x7fffffff); }

/// FCHK.DIVIDE: are a reciprocal, a product and their corrections not enough? Bounds of the exponents as an H200 has them.
bool fchk(uint32_t a, uint32_t b) {
  const int ea = a >> 23 & 255, eb = b >> 23 & 255;
  return ea <= 24 || ea == 255 || eb <= std::max(1, ea - 127) || eb >= std::min(252, ea + 125);
}

uint32_t div_f32(uint64_t a, uint64_t b) {
  if (!fchk(uint32_t(a), uint32_t(b))) return 0;
  const float x = std::fabs(float_of(a)), y = std::fabs(float_of(b));
  if (std::isnan(x) || std::isnan(y)) return 24;
  if (x == 0 && y == 0) return 27;
  if (std::isinf(x) && std::isinf(y)) return 31;
  if (y == 0 || std::isinf(x)) return 38;
  if (x == 0 || std::isinf(y)) return 34;
  const auto denormal = [](float v) { return v > 0 && std::fpclassify(v) == FP_SUBNORMAL; };
  return 46 + (denormal(x) || denormal(y) ? 23 : 0) + (denormal(x / y) ? 28 : 0);
}

uint32_t div_f64(uint64_t a, uint64_t b) {
  constexpr float kLeastNumerator = 6.5827683646048100446e-37f, kLeastQuotient = 1.469367938527859385e-39f;
  const double x = std::fabs(double_of(a)), y = std::fabs(double_of(b)), quotient = x / y;
  const bool ordinary = !(upper(a) < kLeastNumerator) && std::fabs(0 * upper(b) + upper(std::bit_cast<uint64_t>(quotient))) > kLeastQuotient;
  if (ordinary) return 0;
  if (std::isnan(x)) return 51;
  if (std::isnan(y)) return 54;
  if ((x == 0 && y == 0) || (std::isinf(x) && std::isinf(y))) return 55;
  if (x == 0 || y == 0 || std::isinf(x) || std::isinf(y)) return 63;
  if (quotient == 0 || std::isinf(quotient)) return 64;
  return std::fpclassify(quotient) == FP_SUBNORMAL ? 74 : 58;
}

uint32_t rcp_f32(uint64_t a) {
  if (((uint32_t(a) + 0x1800000) & 0x7f800000) > 0x1ffffff) return 0;
  const int exponent = a >> 23 & 255;
  return exponent == 0 ? 18 : exponent == 255 ? 12 : 41;
}

uint32_t rcp_f64(uint64_t a) {
  constexpr float kLeast = 5.8789094863358348022e-39f;
  if (!(upper(a, 0x300402) < kLeast)) return 0;
  const double x = std::fabs(double_of(a));
  if (std::isnan(x)) return 12;
  if (x == 0 || std::isinf(x) || std::isinf(1 / x)) return 16;
  return std::fpclassify(x) == FP_SUBNORMAL ? 28 : 31;
}

uint32_t sqrt_f32(uint64_t a) {
  if (uint32_t(a) - 0xd000000u <= 0x727fffffu) return 0;
  const float x = float_of(a);
  return x == 0 ? 5 : std::isnan(x) ? 11 : x < 0 ? 8 : 21;
}

uint32_t sqrt_f64(uint64_t a) {
  if (uint32_t(a >> 32) - 0x3500000u < 0x7ca00000u) return 0;
  const double x = double_of(a);
  if (x == 0 || std::isnan(x)) return 14;
  if (x < 0) return 17;
  return std::isinf(x) ? 20 : std::fpclassify(x) == FP_SUBNORMAL ? 35 : 19;
}

}  // namespace

SlowPath slow_path_of(const ptx::Instr& in) {
  const isa::Form& f = in.form;
  if ((f.op != Op::div && f.op != Op::rcp && f.op != Op::sqrt) || f.n_types == 0 || f.has(Mod::approx) || f.has(Mod::full)) return SlowPath::none;
  if (f.type() == isa::Type::f32) return f.op == Op::div ? SlowPath::div_f32 : f.op == Op::rcp ? SlowPath::rcp_f32 : SlowPath::sqrt_f32;
  if (f.type() == isa::Type::f64) return f.op == Op::div ? SlowPath::div_f64 : f.op == Op::rcp ? SlowPath::rcp_f64 : SlowPath::sqrt_f64;
  return SlowPath::none;
}

uint32_t slow_instructions(SlowPath path, uint64_t a, uint64_t b) {
  switch (path) {
    case SlowPath::none: return 0;
    case SlowPath::div_f32: return div_f32(a, b);
    case SlowPath::rcp_f32: return rcp_f32(a);
    case SlowPath::sqrt_f32: return sqrt_f32(a);
    case SlowPath::div_f64: return div_f64(a, b);
    case SlowPath::rcp_f64: return rcp_f64(a);
    case SlowPath::sqrt_f64: return sqrt_f64(a);
  }
  return 0;
}

bool always_calls(const ptx::Instr& in) {
  const isa::Form& f = in.form;
  if (f.op == Op::mma && f.has(isa::Mod::xor_) && f.has(isa::Mod::popc)) return true;  // Hopper counts bits of and only: two products in a function
  return (f.op == Op::div || f.op == Op::rem) && f.n_types > 0 && !isa::is_float(f.type()) && isa::bits_of(f.type()) == 64;
}

}  // namespace orrery::timing
