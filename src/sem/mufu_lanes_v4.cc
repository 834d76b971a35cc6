// sem/mufu_lanes_v4.cc: see mufu_lanes.h. Sixteen lanes are a vector of 32-bit words; what needs more bits is done in two
// vectors of eight. Comments say what differs from mufu.cc, which has the arithmetic itself.
#include "sem/mufu_lanes.h"

#include <immintrin.h>

namespace orrery::sem {
namespace {

using V = __m512i;
using M = __mmask16;

struct Row {
  int64_t c0;
  int32_t c1, c2;
};
#include "sem/mufu_tables.inc"

inline V word(uint32_t v) { return _mm512_set1_epi32(int(v)); }
inline V wide(uint64_t v) { return _mm512_set1_epi64(int64_t(v)); }
struct Wide {
  V lo, hi;
};
inline Wide widen(V v) { return {_mm512_cvtepu32_epi64(_mm512_castsi512_si256(v)), _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(v, 1))}; }
inline V narrow(V lo, V hi) { return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(lo)), _mm512_cvtepi64_epi32(hi), 1); }

V square(V x) {
  V sum = _mm512_setzero_si512();
#pragma GCC unroll 17
  for (int i = 0; i < 17; i++)
    sum = _mm512_mask_add_epi32(sum, _mm512_test_epi32_mask(x, word(1u << i)), sum, _mm512_srli_epi32(x, unsigned(18 - i)));
  return _mm512_srli_epi32(sum, 1);
}

inline V interpolate8(const Row* table, V row, V x, V squared) {
  const V at = _mm512_slli_epi64(row, 1);  // a row is two 64-bit words: c0, and c1 with c2 above it
  const V c0 = _mm512_i64gather_epi64(at, table, 8), c12 = _mm512_i64gather_epi64(_mm512_add_epi64(at, wide(1)), table, 8);
  const V linear = _mm512_mul_epi32(c12, x), quadratic = _mm512_mul_epi32(_mm512_srli_epi64(c12, 32), squared);
  return _mm512_add_epi64(c0, _mm512_add_epi64(linear, quadratic));
}
inline Wide interpolate(const Row* table, V row, V x, V squared) {
  const Wide r = widen(row), w = widen(x), s = widen(squared);
  return {interpolate8(table, r.lo, w.lo, s.lo), interpolate8(table, r.hi, w.hi, s.hi)};
}
template <int Shift>
inline V significand(const Row* table, V row, V x, V squared) {
  const Wide sum = interpolate(table, row, x, squared);
  return narrow(_mm512_srli_epi64(sum.lo, Shift), _mm512_srli_epi64(sum.hi, Shift));
}

/// sign (in its place), biased exponent of a significand with its leading bit at 23, and the significand: it may have one
/// bit more. `done` loses lanes whose result is not a normal number.
inline V assemble(V sign, V biased, V sig, M& done) {
  const V more = _mm512_srli_epi32(sig, 24);
  sig = _mm512_srlv_epi32(sig, more);
  biased = _mm512_add_epi32(biased, more);
  done &= _mm512_cmplt_epu32_mask(_mm512_sub_epi32(biased, word(1)), word(254)) & _mm512_test_epi32_mask(sig, word(1u << 23));
  return _mm512_or_si512(sign, _mm512_or_si512(_mm512_slli_epi32(biased, 23), _mm512_and_si512(sig, word(0x7fffff))));
}

/// f32 bits of magnitudes below 2^52 times 2^exponent, cut to 24 bits, with signs; a zero keeps its sign.
inline V cut8(V magnitude, int exponent) {
  const V d = _mm512_castpd_si512(_mm512_cvtepi64_pd(magnitude));
  const V biased = _mm512_add_epi64(_mm512_srli_epi64(d, 52), wide(uint64_t(int64_t(exponent - 1023 + 127))));
  const V bits = _mm512_or_si512(_mm512_slli_epi64(biased, 23), _mm512_and_si512(_mm512_srli_epi64(d, 29), wide(0x7fffff)));
  return _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(magnitude, magnitude), bits);
}

inline V exponent_of(V bits) { return _mm512_and_si512(_mm512_srli_epi32(bits, 23), word(0xff)); }
inline M is_normal(V bits) { return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(exponent_of(bits), word(1)), word(254)); }
inline M is_positive_normal(V bits) { return _mm512_cmplt_epu32_mask(_mm512_sub_epi32(_mm512_srli_epi32(bits, 23), word(1)), word(254)); }
inline V fraction_of(V bits) { return _mm512_and_si512(bits, word(0x7fffff)); }
inline V sign_of(V bits) { return _mm512_and_si512(bits, word(0x80000000)); }

V rcp(V in, M& done) {
  done &= is_normal(in);
  const V fraction = fraction_of(in), x = _mm512_and_si512(fraction, word(0xffff));
  const V sig = significand<15>(k_rcp, _mm512_srli_epi32(fraction, 16), x, square(_mm512_slli_epi32(x, 1)));
  return assemble(sign_of(in), _mm512_sub_epi32(word(253), exponent_of(in)), sig, done);
}

/// The argument of both roots: the fraction with the parity of the exponent above it, and half the exponent.
struct Radicand {
  V fraction, x, row, half;
};
Radicand radicand(V in) {
  const V exponent = _mm512_sub_epi32(exponent_of(in), word(127)), odd = _mm512_and_si512(exponent, word(1));
  const V fraction = _mm512_or_si512(fraction_of(in), _mm512_slli_epi32(odd, 23));
  return {fraction, _mm512_and_si512(fraction, word(0x1ffff)), _mm512_srli_epi32(fraction, 17),
          _mm512_srai_epi32(_mm512_sub_epi32(exponent, odd), 1)};
}

V rsqrt(V in, M& done) {
  done &= is_positive_normal(in);
  const Radicand r = radicand(in);
  const V sig = significand<16>(k_rsqrt, r.row, r.x, _mm512_slli_epi32(square(r.x), 2));
  const V result = assemble(_mm512_setzero_si512(), _mm512_sub_epi32(word(126), r.half), sig, done);
  return _mm512_mask_slli_epi32(result, _mm512_testn_epi32_mask(r.fraction, r.fraction), _mm512_sub_epi32(word(127), r.half), 23);  // a power of 4
}

V sqrt(V in, M& done) {
  done &= is_positive_normal(in);
  const Radicand r = radicand(in);
  const V sig = significand<17>(k_sqrt, r.row, r.x, _mm512_slli_epi32(square(r.x), 1));
  const V biased = _mm512_add_epi32(word(127), r.half), result = assemble(_mm512_setzero_si512(), biased, sig, done);
  return _mm512_mask_slli_epi32(result, _mm512_testn_epi32_mask(r.fraction, r.fraction), biased, 23);
}

V ex2(V in, M& done) {
  const __m512 size = _mm512_castsi512_ps(_mm512_and_si512(in, word(0x7fffffff)));
  done &= _mm512_cmp_ps_mask(size, _mm512_set1_ps(126.0f), _CMP_LT_OQ);
  const V fixed = _mm512_cvttps_epi32(_mm512_mul_ps(size, _mm512_set1_ps(0x1p23f)));  // exact but for the cut
  V fraction = fraction_of(fixed), whole = _mm512_srli_epi32(fixed, 23);
  const M negative = _mm512_movepi32_mask(in), broken = _mm512_test_epi32_mask(fraction, fraction);
  whole = _mm512_mask_sub_epi32(whole, negative, _mm512_setzero_si512(), whole);
  whole = _mm512_mask_sub_epi32(whole, negative & broken, whole, word(1));
  fraction = _mm512_mask_xor_epi32(fraction, negative & broken, fraction, word(0x7fffff));
  const V low = _mm512_and_si512(fraction, word(0x1ffff));
  const V sig = significand<15>(k_ex2, _mm512_srli_epi32(fraction, 17), low, square(low));
  return assemble(_mm512_setzero_si512(), _mm512_add_epi32(word(127), whole), sig, done);
}

inline V lg2_8(V sum, V exponent) {  // sum: the fraction; exponent: signed
  sum = _mm512_add_epi64(_mm512_srai_epi64(sum, 2), _mm512_slli_epi64(exponent, 36));
  const V negative = _mm512_srai_epi64(sum, 63);
  const V bits = cut8(_mm512_xor_si512(sum, negative), -36);
  return _mm512_or_si512(bits, _mm512_and_si512(negative, wide(0x80000000)));
}
V lg2(V in, M& done) {
  done &= is_positive_normal(in) & _mm512_cmpneq_epi32_mask(in, word(0x3f800000));  // (1 has a row of its own)
  const V fraction = fraction_of(in), x = _mm512_and_si512(fraction, word(0x1ffff));
  const Wide sum = interpolate(k_lg2, _mm512_srli_epi32(fraction, 17), x, _mm512_slli_epi32(square(x), 1));
  const V exponent = _mm512_sub_epi32(exponent_of(in), word(127));
  return narrow(lg2_8(sum.lo, _mm512_cvtepi32_epi64(_mm512_castsi512_si256(exponent))),
                lg2_8(sum.hi, _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(exponent, 1))));
}

/// a / 2 pi as f32, cut toward zero.
inline __m256 turns8(__m256 a) {
  const __m512d exact = _mm512_mul_pd(_mm512_cvtps_pd(a), _mm512_set1_pd(double(__builtin_bit_cast(float, 0x3e22f983))));
  return _mm512_cvtpd_ps(_mm512_castsi512_pd(_mm512_and_si512(_mm512_castpd_si512(exact), wide(~uint64_t(0x1fffffff)))));
}
template <bool Cosine>
V sine(V in, M& done) {
  const __m512 a = _mm512_castsi512_ps(in), size = _mm512_castsi512_ps(_mm512_and_si512(in, word(0x7fffffff)));
  done &= _mm512_cmp_ps_mask(size, _mm512_set1_ps(190.0f), _CMP_LT_OQ) & _mm512_cmp_ps_mask(size, _mm512_set1_ps(0x1p-100f), _CMP_GT_OQ);
  const V turns = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_castps_si256(turns8(_mm512_castps512_ps256(a)))),
                                     _mm256_castps_si256(turns8(_mm512_extractf32x8_ps(a, 1))), 1);
  const V fixed = _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(_mm512_and_si512(turns, word(0x7fffffff))), _mm512_set1_ps(0x1p25f)));
  const V quarter = _mm512_add_epi32(_mm512_srli_epi32(fixed, 23), word(Cosine));
  V fraction = fraction_of(fixed);
  fraction = _mm512_mask_xor_epi32(fraction, _mm512_test_epi32_mask(quarter, word(1)), fraction, word(0x7fffff));
  V sign = _mm512_and_si512(_mm512_slli_epi32(quarter, 30), word(0x80000000));
  if (!Cosine) sign = _mm512_xor_si512(sign, sign_of(turns));
  const V x = _mm512_and_si512(fraction, word(0x1ffff));
  const Wide sum = interpolate(k_sin, _mm512_srli_epi32(fraction, 17), x, square(x));
  return _mm512_or_si512(sign, narrow(cut8(sum.lo, -37), cut8(sum.hi, -37)));
}

template <V (*F)(V, M&)>
uint32_t over(const uint32_t* in, uint32_t* out, uint32_t mask) {
  uint32_t all = 0;
  for (int h = 0; h < 2; h++) {
    M done = M(mask >> (16 * h));
    const V result = F(_mm512_loadu_si512(in + 16 * h), done);
    _mm512_mask_storeu_epi32(out + 16 * h, done, result);
    all |= uint32_t(done) << (16 * h);
  }
  return all;
}

uint32_t div(const uint32_t* a, const uint32_t* b, uint32_t* out, uint32_t mask) {
  uint32_t all = 0;
  for (int h = 0; h < 2; h++) {
    const V over = _mm512_loadu_si512(a + 16 * h), under = _mm512_loadu_si512(b + 16 * h);
    M done = M(mask >> (16 * h)) & is_normal(over) & _mm512_cmplt_epu32_mask(exponent_of(under), word(252));  // (greater ones are scaled by some forms)
    const V result = _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(over), _mm512_castsi512_ps(rcp(under, done))));
    // Products next to the least normal number are left: flushing depends on what they were before rounding.
    done &= _mm512_cmplt_epu32_mask(_mm512_sub_epi32(exponent_of(result), word(2)), word(253));
    _mm512_mask_storeu_epi32(out + 16 * h, done, result);
    all |= uint32_t(done) << (16 * h);
  }
  return all;
}

}  // namespace

const MufuLanes& mufu_lanes_v4() {
  static constexpr MufuLanes kFunctions{over<rcp>, over<sqrt>, over<rsqrt>, over<ex2>, over<lg2>, over<sine<false>>, over<sine<true>>, div};
  return kFunctions;
}

}  // namespace orrery::sem
