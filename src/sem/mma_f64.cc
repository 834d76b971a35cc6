// sem/mma_f64.cc: products of f64 factors: chains of fused multiply-adds in order of k.
#include <immintrin.h>

#include <bit>

#include "sem/fragment.h"
#include "sem/lanes.h"
#include "sem/smallfloat.h"

namespace orrery::sem {

namespace {
// The NaN that wins is that of b, then c, then a, as in fma.f64.
double fma64(double a, double b, double c) {
  const double r = __builtin_fma(a, b, c);
  if (r == r) return r;
  const double from = b != b ? b : c != c ? c : a != a ? a : r;
  return std::bit_cast<double>(bits_of(from) | 1ull << 51);
}

/// One row by 8 columns; false, and c as it was, when a result is NaN.
bool multiply_row(const double* a, const double* b, double* c, int k) {
  __m256d low = _mm256_loadu_pd(c), high = _mm256_loadu_pd(c + 4);
  for (int x = 0; x < k; x++) {
    const __m256d v = _mm256_set1_pd(a[x]);
    low = _mm256_fmadd_pd(v, _mm256_loadu_pd(b + 8 * x), low);
    high = _mm256_fmadd_pd(v, _mm256_loadu_pd(b + 8 * x + 4), high);
  }
  asm volatile("" : "+x"(low), "+x"(high));  // inside the rounding scope
  if (_mm256_movemask_pd(_mm256_cmp_pd(low, low, _CMP_UNORD_Q)) | _mm256_movemask_pd(_mm256_cmp_pd(high, high, _CMP_UNORD_Q))) return false;
  _mm256_storeu_pd(c, low), _mm256_storeu_pd(c + 4, high);
  return true;
}
}  // namespace

void multiply_f64(const Form& f, const double* a, const double* b, double* c, int m, int n, int k) {
  HostRounding scope(host_rounding(f));
  for (int i = 0; i < m; i++) {
    if (n == 8 && multiply_row(a + i * k, b, c + i * n, k)) continue;
    for (int j = 0; j < n; j++) {
      volatile double start = c[i * n + j];  // keeps the sums inside the rounding scope
      double sum = start;
      for (int x = 0; x < k; x++) sum = fma64(a[i * k + x], b[x * n + j], sum);
      start = sum;
      c[i * n + j] = start;
    }
  }
}

}  // namespace orrery::sem
