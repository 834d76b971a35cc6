// sem/mufu_lanes_v4.cc: mufu_lanes.inc for AVX-512: sixteen lanes, sets of them in mask registers, tables by permutations.
#include <immintrin.h>

#include "sem/mufu.h"
#include "sem/mufu_lanes.h"

namespace orrery::sem {
namespace {

using V = __m512i;
using M = __mmask16;
constexpr int kLanes = 16;

inline V word(uint32_t v) { return _mm512_set1_epi32(int(v)); }
inline V wide(uint64_t v) { return _mm512_set1_epi64(int64_t(v)); }
template <int N> V left(V v) { return _mm512_slli_epi32(v, N); }
template <int N> V right(V v) { return _mm512_srli_epi32(v, N); }
template <int N> V left_wide(V v) { return _mm512_slli_epi64(v, N); }
template <int N> V right_wide(V v) { return _mm512_srli_epi64(v, N); }
template <int N> V right_signed_wide(V v) { return _mm512_srai_epi64(v, N); }
inline V right_by(V v, V by) { return _mm512_srlv_epi32(v, by); }
inline V halve(V v) { return _mm512_srai_epi32(v, 1); }
inline V add(V a, V b) { return _mm512_add_epi32(a, b); }
inline V subtract(V a, V b) { return _mm512_sub_epi32(a, b); }
inline V square_16(V v) { return _mm512_mullo_epi16(v, v); }
/// Signed products of the low words of 64-bit words.
inline V times(V a, V b) { return _mm512_mul_epi32(a, b); }
inline V even_and_odd(V even, V odd) { return _mm512_mask_blend_epi32(0xaaaa, even, odd); }

inline M is_zero(V v) { return _mm512_testn_epi32_mask(v, v); }
template <int N> M has_bit(V v) { return _mm512_test_epi32_mask(v, word(1u << N)); }
template <uint32_t N> M below(V v) { return _mm512_cmplt_epu32_mask(v, word(N)); }
inline M without(M a, M b) { return M(a & ~b); }
inline V choose(M m, V yes, V no) { return _mm512_mask_mov_epi32(no, m, yes); }
inline V add_where(M m, V a, V b) { return _mm512_mask_add_epi32(a, m, a, b); }
inline V where_not_zero_wide(V v, V then) { return _mm512_maskz_mov_epi64(_mm512_test_epi64_mask(v, v), then); }

inline M below_float(V v, float n) { return _mm512_cmp_ps_mask(_mm512_castsi512_ps(v), _mm512_set1_ps(n), _CMP_LT_OQ); }
inline V cut_float(V v, float times) { return _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(v), _mm512_set1_ps(times))); }
inline V times_float(V a, V b) { return _mm512_castps_si512(_mm512_mul_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b))); }
inline V to_doubles(V magnitude) { return _mm512_castpd_si512(_mm512_cvtepi64_pd(magnitude)); }
inline __m256i turns_of_half(__m256i half) {
  const __m512d exact = _mm512_mul_pd(_mm512_cvtps_pd(_mm256_castsi256_ps(half)), _mm512_set1_pd(double(__builtin_bit_cast(float, 0x3e22f983))));
  return _mm256_castps_si256(_mm512_cvtpd_ps(_mm512_castsi512_pd(_mm512_castpd_si512(exact) & wide(~uint64_t(0x1fffffff)))));
}
/// f32 over 2 pi as f32, cut toward zero.
inline V turns_of(V v) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(turns_of_half(_mm512_castsi512_si256(v))), turns_of_half(_mm512_extracti64x4_epi64(v, 1)), 1);
}

/// Two permutations look up for 32 rows, without a gather.
template <int N>
inline V look_up(const uint32_t (&column)[N], V row) {
  const auto of_32 = [&](int first) { return _mm512_permutex2var_epi32(_mm512_load_si512(column + first), row, _mm512_load_si512(column + first + 16)); };
  const M upper = has_bit<5>(row);
  const V low = choose(upper, of_32(32), of_32(0));
  if constexpr (N == 64) return low;
  else return choose(has_bit<6>(row), choose(upper, of_32(96), of_32(64)), low);
}

inline M lanes_of(uint32_t bits) { return M(bits); }
inline uint32_t bits_of(M m) { return m; }
inline V load(const uint32_t* from) { return _mm512_loadu_si512(from); }
inline void store(uint32_t* to, M m, V v) { _mm512_mask_storeu_epi32(to, m, v); }

}  // namespace
}  // namespace orrery::sem

#include "sem/mufu_lanes.inc"

namespace orrery::sem {
const MufuLanes& mufu_lanes_v4() { return kFunctions; }
}  // namespace orrery::sem
