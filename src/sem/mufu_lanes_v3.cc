// sem/mufu_lanes_v3.cc: mufu_lanes.inc for AVX2: eight lanes, sets of them as words of ones, tables by gathers; and the choice of
// the level.
#include <immintrin.h>

#include "sem/mufu.h"
#include "sem/mufu_lanes.h"

namespace orrery::sem {
namespace {

using V = __m256i;
using M = __m256i;
constexpr int kLanes = 8;

inline V word(uint32_t v) { return _mm256_set1_epi32(int(v)); }
inline V wide(uint64_t v) { return _mm256_set1_epi64x(int64_t(v)); }
template <int N> V left(V v) { return _mm256_slli_epi32(v, N); }
template <int N> V right(V v) { return _mm256_srli_epi32(v, N); }
template <int N> V left_wide(V v) { return _mm256_slli_epi64(v, N); }
template <int N> V right_wide(V v) { return _mm256_srli_epi64(v, N); }
template <int N> V right_signed_wide(V v) {
  const V sign = wide(uint64_t{1} << (63 - N));
  return (right_wide<N>(v) ^ sign) - sign;
}
inline V right_by(V v, V by) { return _mm256_srlv_epi32(v, by); }
inline V halve(V v) { return _mm256_srai_epi32(v, 1); }
inline V add(V a, V b) { return _mm256_add_epi32(a, b); }
inline V subtract(V a, V b) { return _mm256_sub_epi32(a, b); }
inline V square_16(V v) { return _mm256_mullo_epi16(v, v); }
/// Signed products of the low words of 64-bit words.
inline V times(V a, V b) { return _mm256_mul_epi32(a, b); }
inline V even_and_odd(V even, V odd) { return _mm256_blend_epi32(even, odd, 0xaa); }

inline M is_zero(V v) { return _mm256_cmpeq_epi32(v, _mm256_setzero_si256()); }
template <int N> M has_bit(V v) { return _mm256_srai_epi32(_mm256_slli_epi32(v, 31 - N), 31); }
template <uint32_t N> M below(V v) { return _mm256_cmpeq_epi32(_mm256_min_epu32(v, word(N - 1)), v); }
inline M without(M a, M b) { return _mm256_andnot_si256(b, a); }
inline V choose(M m, V yes, V no) { return _mm256_blendv_epi8(no, yes, m); }
inline V add_where(M m, V a, V b) { return add(a, m & b); }
inline V where_not_zero_wide(V v, V then) { return _mm256_andnot_si256(_mm256_cmpeq_epi64(v, _mm256_setzero_si256()), then); }

inline M below_float(V v, float n) { return _mm256_castps_si256(_mm256_cmp_ps(_mm256_castsi256_ps(v), _mm256_set1_ps(n), _CMP_LT_OQ)); }
inline V cut_float(V v, float times) { return _mm256_cvttps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(v), _mm256_set1_ps(times))); }
inline V times_float(V a, V b) { return _mm256_castps_si256(_mm256_mul_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b))); }
/// Below 2^52: the fraction of 2^52 and as much, of which 2^52 is taken again; exact.
inline V to_doubles(V magnitude) {
  const __m256d base = _mm256_set1_pd(0x1p52);
  return _mm256_castpd_si256(_mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(magnitude), base), base));
}
inline __m128i turns_of_half(__m128i half) {
  const __m256d exact = _mm256_mul_pd(_mm256_cvtps_pd(_mm_castsi128_ps(half)), _mm256_set1_pd(double(__builtin_bit_cast(float, 0x3e22f983))));
  return _mm_castps_si128(_mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_castpd_si256(exact) & wide(~uint64_t(0x1fffffff)))));
}
/// f32 over 2 pi as f32, cut toward zero.
inline V turns_of(V v) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(turns_of_half(_mm256_castsi256_si128(v))), turns_of_half(_mm256_extracti128_si256(v, 1)), 1);
}

/// Rows of lanes that are not asked for may be anything that the arithmetic before gives: never beyond the table.
template <int N>
inline V look_up(const uint32_t (&column)[N], V row) {
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(column), row & word(N - 1), 4);
}

inline M lanes_of(uint32_t bits) {
  const V bit = _mm256_set_epi32(128, 64, 32, 16, 8, 4, 2, 1);
  return _mm256_cmpeq_epi32(word(bits) & bit, bit);
}
inline uint32_t bits_of(M m) { return uint32_t(_mm256_movemask_ps(_mm256_castsi256_ps(m))); }
inline V load(const uint32_t* from) { return _mm256_loadu_si256(reinterpret_cast<const V*>(from)); }
inline void store(uint32_t* to, M m, V v) { _mm256_maskstore_epi32(reinterpret_cast<int*>(to), m, v); }

}  // namespace
}  // namespace orrery::sem

#include "sem/mufu_lanes.inc"

namespace orrery::sem {

const MufuLanes& mufu_lanes_v3() { return kFunctions; }

const MufuLanes& mufu_lanes() {
  static const MufuLanes& chosen = []() -> const MufuLanes& {
    __builtin_cpu_init();
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? mufu_lanes_v4() : kFunctions;
  }();
  return chosen;
}

}  // namespace orrery::sem
