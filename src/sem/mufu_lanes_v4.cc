// sem/mufu_lanes_v4.cc: see mufu_lanes.h. Sixteen lanes are a vector of 32-bit words; what needs more bits is done in two
// vectors of eight, of the lanes with even and with odd numbers. Comments say what differs from mufu.cc, which has the
// arithmetic itself.
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

/// The coefficients of `N` rows, each part in order: what two permutations look up for 32 rows, without a gather.
template <int N>
struct Table {
  alignas(64) uint32_t low[N], high[N], c1[N], c2[N];
  explicit constexpr Table(const Row (&rows)[N]) : low{}, high{}, c1{}, c2{} {
    for (int i = 0; i < N; i++) {
      low[i] = uint32_t(rows[i].c0), high[i] = uint32_t(uint64_t(rows[i].c0) >> 32);
      c1[i] = uint32_t(rows[i].c1), c2[i] = uint32_t(rows[i].c2);
    }
  }
};
constexpr Table<128> kRcp{k_rcp}, kRsqrt{k_rsqrt}, kSqrt{k_sqrt};
constexpr Table<64> kEx2{k_ex2}, kLg2{k_lg2}, kSin{k_sin};

inline V word(uint32_t v) { return _mm512_set1_epi32(int(v)); }
inline V wide(uint64_t v) { return _mm512_set1_epi64(int64_t(v)); }
/// 64-bit values of the lanes with even and with odd numbers.
struct Wide {
  V even, odd;
};
constexpr M kOdd = 0xaaaa;
/// The low words of both, in order.
inline V narrow(V even, V odd) { return _mm512_mask_blend_epi32(kOdd, even, _mm512_slli_epi64(odd, 32)); }
inline V odd_words(V v) { return _mm512_srli_epi64(v, 32); }

/// The bits of x are those of h * 2^9 + l. Partial products within l lose all their bits; those within h lose none; of h with
/// l, twice each, remains what is shifted here.
V square(V x) {
  const V h = _mm512_srli_epi32(x, 9), l = _mm512_and_si512(x, word(0x1ff));
  V sum = _mm512_srli_epi32(_mm512_mullo_epi16(h, h), 1);
#pragma GCC unroll 7
  for (int i = 1; i < 8; i++)
    sum = _mm512_mask_add_epi32(sum, _mm512_test_epi32_mask(h, word(1u << i)), sum, _mm512_srli_epi32(l, unsigned(9 - i)));
  return sum;
}

template <int N>
inline V look_up(const uint32_t (&column)[N], V row) {
  const auto of_32 = [&](int first) { return _mm512_permutex2var_epi32(_mm512_load_si512(column + first), row, _mm512_load_si512(column + first + 16)); };
  const M upper = _mm512_test_epi32_mask(row, word(32));
  const V low = _mm512_mask_mov_epi32(of_32(0), upper, of_32(32));
  if constexpr (N == 64) {
    return low;
  } else {
    return _mm512_mask_mov_epi32(low, _mm512_test_epi32_mask(row, word(64)), _mm512_mask_mov_epi32(of_32(64), upper, of_32(96)));
  }
}

template <int N>
inline Wide interpolate(const Table<N>& t, V row, V x, V squared) {
  const V low = look_up(t.low, row), high = look_up(t.high, row), c1 = look_up(t.c1, row), c2 = look_up(t.c2, row);
  const auto sum = [](V c0, V linear, V quadratic) { return _mm512_add_epi64(c0, _mm512_add_epi64(linear, quadratic)); };
  return {sum(_mm512_mask_blend_epi32(kOdd, low, _mm512_slli_epi64(high, 32)), _mm512_mul_epi32(c1, x), _mm512_mul_epi32(c2, squared)),
          sum(_mm512_mask_blend_epi32(kOdd, odd_words(low), high), _mm512_mul_epi32(odd_words(c1), odd_words(x)),
              _mm512_mul_epi32(odd_words(c2), odd_words(squared)))};
}
template <int Shift, int N>
inline V significand(const Table<N>& table, V row, V x, V squared) {
  const Wide sum = interpolate(table, row, x, squared);
  return narrow(_mm512_srli_epi64(sum.even, Shift), _mm512_srli_epi64(sum.odd, Shift));
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
  const V sig = significand<15>(kRcp, _mm512_srli_epi32(fraction, 16), x, square(_mm512_slli_epi32(x, 1)));
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
  const V sig = significand<16>(kRsqrt, r.row, r.x, _mm512_slli_epi32(square(r.x), 2));
  const V result = assemble(_mm512_setzero_si512(), _mm512_sub_epi32(word(126), r.half), sig, done);
  return _mm512_mask_slli_epi32(result, _mm512_testn_epi32_mask(r.fraction, r.fraction), _mm512_sub_epi32(word(127), r.half), 23);  // a power of 4
}

V sqrt(V in, M& done) {
  done &= is_positive_normal(in);
  const Radicand r = radicand(in);
  const V sig = significand<17>(kSqrt, r.row, r.x, _mm512_slli_epi32(square(r.x), 1));
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
  const V sig = significand<15>(kEx2, _mm512_srli_epi32(fraction, 17), low, square(low));
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
  const Wide sum = interpolate(kLg2, _mm512_srli_epi32(fraction, 17), x, _mm512_slli_epi32(square(x), 1));
  const V exponent = _mm512_sub_epi32(exponent_of(in), word(127));
  return narrow(lg2_8(sum.even, _mm512_srai_epi64(_mm512_slli_epi64(exponent, 32), 32)), lg2_8(sum.odd, _mm512_srai_epi64(exponent, 32)));
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
  const Wide sum = interpolate(kSin, _mm512_srli_epi32(fraction, 17), x, square(x));
  return _mm512_or_si512(sign, narrow(cut8(sum.even, -37), cut8(sum.odd, -37)));
}

template <V (*F)(V, M&)>
uint32_t over(const uint32_t* in, uint32_t* out, uint32_t mask) {
  uint32_t all = 0;
#pragma GCC unroll 2
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
