// sem/integer_products.cc: integer and single-bit matrix products, dense and with chosen rows (fragment.h).
#include <bit>

#include "sem/fragment.h"

namespace orrery::sem {

namespace {
int value_of(Element t, uint32_t v) {
  switch (t) {
    case Element::s8: return int8_t(v);
    case Element::u8: return uint8_t(v);
    case Element::s4: return int32_t(v << 28) >> 28;
    default: return v & 15;
  }
}
}  // namespace

void multiply_integer(Element a_type, Element b_type, bool satfinite, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int k, ChosenRows chosen) {
  constexpr int kMost = 256;  // rows of b, columns of it
  static thread_local int32_t factor[kMost * kMost];
  const int rows = chosen.row ? chosen.count : k;
  for (int x = 0; x < rows * n; x++) factor[x] = value_of(b_type, b[x]);
  for (int i = 0; i < m; i++) {
    int32_t sum[kMost] = {};  // of 256 products at most, below 2^31: only C can overflow
    for (int x = 0; x < k; x++) {
      const int32_t v = value_of(a_type, a[i * k + x]), *with = factor + (chosen.row ? chosen.row[i * k + x] : x) * n;
      for (int j = 0; j < n; j++) sum[j] += v * with[j];
    }
    for (int j = 0; j < n; j++) {
      const int64_t d = int64_t{int32_t(cd[i * n + j])} + sum[j];
      cd[i * n + j] = uint32_t(!satfinite ? d : d > INT32_MAX ? INT32_MAX : d < INT32_MIN ? INT32_MIN : d);
    }
  }
}
void multiply_bits(bool exclusive, const uint32_t* a, const uint32_t* b, uint32_t* cd, int m, int n, int words) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++)
      for (int x = 0; x < words; x++) {
        const uint32_t u = a[i * words + x], v = b[x * n + j];
        cd[i * n + j] += uint32_t(std::popcount(exclusive ? u ^ v : u & v));
      }
}

}  // namespace orrery::sem
