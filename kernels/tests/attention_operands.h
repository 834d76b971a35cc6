// Operands of the attention tests, and products of them.
#pragma once
#include <algorithm>
#include <vector>

#include "check.h"

namespace check {

/// Fills an operand with values below 1.5; they are drawn one by one, as records of results are of these, and converted on all cores.
inline void fill(std::vector<unsigned char>& x, DType t, Random& random) {
  std::vector<double> drawn(x.size() / orrery::kernels::size_of(t));
  for (double& v : drawn) v = 1.5 * random.symmetric();
  constexpr int64_t kPiece = 4096;
  parallel((int64_t(drawn.size()) + kPiece - 1) / kPiece, [&](int64_t piece) {
    for (int64_t i = piece * kPiece; i < std::min<int64_t>(drawn.size(), (piece + 1) * kPiece); i++) from_double(x.data(), i, t, drawn[i]);
  });
}

/// Values of an operand; each is one of float, too.
inline std::vector<float> values(const std::vector<unsigned char>& x, DType t) {
  std::vector<float> v(x.size() / orrery::kernels::size_of(t));
  constexpr int64_t kPiece = 4096;
  parallel((int64_t(v.size()) + kPiece - 1) / kPiece, [&](int64_t piece) {
    for (int64_t i = piece * kPiece; i < std::min<int64_t>(v.size(), (piece + 1) * kPiece); i++) v[i] = float(to_double(x.data(), i, t));
  });
  return v;
}
inline double dot(const float* a, const float* b, int64_t n) {  // n: a multiple of 4
  double s[4] = {};
  for (int64_t i = 0; i < n; i += 4)
    for (int j = 0; j < 4; j++) s[j] += double(a[i + j]) * b[i + j];
  return s[0] + s[1] + (s[2] + s[3]);
}

}  // namespace check
