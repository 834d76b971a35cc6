// sem/smallfloat.h: the floating formats as bits, and one rounding routine for all of them.
//
// f16 and bf16 arithmetic goes through double: sums and products of two such values are exact there or round
// innocuously (53 >= 2p + 2); the fused multiply-add rounds to odd first, so that the second rounding is right.
//
// Canonical NaNs are the GPU's: f32 7fffffff, f16 and bf16 7fff, e4m3 7f, e5m2 7f.
#pragma once
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace orrery::sem {

enum class Round : uint8_t { rn, rz, rm, rp, rna };

constexpr uint32_t kNan32 = 0x7fffffff;
constexpr uint16_t kNan16 = 0x7fff;

inline float f32_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
inline uint64_t bits_of(double v) { return std::bit_cast<uint64_t>(v); }
inline float nan32() { return f32_of(kNan32); }
inline bool is_nan(float v) { return (bits_of(v) & 0x7fffffff) > 0x7f800000; }
inline bool is_nan(double v) { return (bits_of(v) & ~(1ull << 63)) > 0x7ff0000000000000ull; }
inline float canonical(float v) { return v != v ? nan32() : v; }

struct F16 {
  static constexpr int kExponentBits = 5, kMantissaBits = 10;
  uint16_t bits;
  bool is_nan() const { return (bits & 0x7fff) > 0x7c00; }
  float f32() const { return _cvtsh_ss(bits); }
};
struct BF16 {
  static constexpr int kExponentBits = 8, kMantissaBits = 7;
  uint16_t bits;
  bool is_nan() const { return (bits & 0x7fff) > 0x7f80; }
  float f32() const { return f32_of(uint32_t(bits) << 16); }
};

/// sig * 2^exp (sig nonzero) rounded to a format of E exponent and M fraction bits, without sign; overflow gives the
/// format's infinity or, where the mode says so, its largest finite value.
template <int E, int M>
inline uint64_t round_magnitude(bool neg, uint64_t sig, int exp, Round mode) {
  constexpr int emin = 2 - (1 << (E - 1));
  constexpr uint64_t infinity = uint64_t((1 << E) - 1) << M;
  const int top = 63 - std::countl_zero(sig);
  const int e = top + exp > emin ? top + exp : emin;
  const int drop = e - M - exp;
  uint64_t q = 0, rest = 1, half = 2;
  if (drop <= 0) {
    q = sig << -drop;
    rest = 0;
  } else if (drop < 64) {
    q = sig >> drop;
    rest = sig & ((1ull << drop) - 1);
    half = 1ull << (drop - 1);
  }
  bool up = false;
  switch (mode) {
    case Round::rn: up = rest > half || (rest == half && (q & 1)); break;
    case Round::rna: up = rest >= half; break;
    case Round::rz: break;
    case Round::rm: up = neg && rest; break;
    case Round::rp: up = !neg && rest; break;
  }
  const uint64_t bits = (uint64_t(e - emin) << M) + q + up;
  if (bits < infinity && e - emin < (1 << E)) return bits;
  const bool keep_finite = mode == Round::rz || (mode == Round::rm && !neg) || (mode == Round::rp && neg);
  return keep_finite ? infinity - 1 : infinity;
}

/// A double (not NaN) rounded to a format of E and M bits, with its sign.
template <int E, int M>
inline uint64_t encode(double v, Round mode) {
  const uint64_t b = bits_of(v), mag = b & ~(1ull << 63);
  const uint64_t sign = (b >> 63) << (E + M);
  if (mag == 0) return sign;
  if (mag >= 0x7ff0000000000000ull) return sign | uint64_t((1 << E) - 1) << M;
  const int x = int(mag >> 52);
  const uint64_t frac = mag & ((1ull << 52) - 1);
  return sign | round_magnitude<E, M>(b >> 63, x ? frac | 1ull << 52 : frac, (x ? x : 1) - 1075, mode);
}

/// A double rounded to H (F16 or BF16), NaN canonical.
template <class H>
inline H narrow(double v, Round mode = Round::rn) {
  if (is_nan(v)) return {kNan16};
  return {uint16_t(encode<H::kExponentBits, H::kMantissaBits>(v, mode))};
}
template <>
inline F16 narrow<F16>(double v, Round mode) {
  if (is_nan(v)) return {kNan16};
  if (mode == Round::rn && double(float(v)) == v) return {uint16_t(_cvtss_sh(float(v), 0))};
  return {uint16_t(encode<5, 10>(v, mode))};
}

/// p + c rounded to odd: exact, or the neighbour with an odd last bit. p and c are finite.
inline double add_to_odd(double p, double c) {
  const double s = p + c, v = s - p;
  const double error = (p - (s - v)) + (c - v);
  uint64_t b = bits_of(s);
  if (error != 0 && !(b & 1)) b += (error > 0) == (s > 0) ? 1 : -1;
  return std::bit_cast<double>(b);
}

}  // namespace orrery::sem
