// sem/probe.h: products whose results differ between tensor cores: what calib/tensor-core/probe.cc runs on a GPU and
// `orrery identify` computes for every machine it knows. Header only, so that the probe needs nothing but this file.
//
// Each form is one instruction, multiplied several times. Test 0 is a ladder: output (i, j) holds a large product, the same
// taken away, and one ladder_step() powers of two below: what is left tells how many fraction bits a sum keeps. Test 1 moves the
// cancelling pair along k, away from a small last product, which survives when it lies in a later block. The others are
// random: ordinary values, wide exponents, cancelling pairs, subnormal ones.
//
// Results as text: a line "orrery-probe 1", "device NAME" (for people; nothing is concluded from it), then for each form
// "NAME unsupported" or one line "NAME TEST WORDS": D row by row, 8 hexadecimal digits an element.
#pragma once
#include <cstdint>
#include <vector>

namespace orrery::sem::probe {

enum class Factor : uint8_t { f16, bf16, tf32, e4m3 };

struct Format {
  int exponent_bits, mantissa_bits, shift;  // shift: low bits of the element that are not used
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Format format_of(Factor f) {
  switch (f) {
    case Factor::f16: return {5, 10, 0};
    case Factor::bf16: return {8, 7, 0};
    case Factor::tf32: return {8, 10, 13};
    default: return {4, 3, 0};
  }
}

enum class Kind : uint8_t { wmma, mma, wgmma };

struct Form {
  const char* name;
  Kind kind;
  Factor factor;
  int m, n, k, tests;
};
constexpr Form kForms[] = {
    {"wmma.f16", Kind::wmma, Factor::f16, 16, 16, 16, 8},    {"mma.bf16", Kind::mma, Factor::bf16, 16, 8, 16, 8},
    {"mma.tf32", Kind::mma, Factor::tf32, 16, 8, 8, 8},      {"mma.e4m3", Kind::mma, Factor::e4m3, 16, 8, 32, 8},
    {"wgmma.f16", Kind::wgmma, Factor::f16, 64, 8, 16, 4},   {"wgmma.e4m3", Kind::wgmma, Factor::e4m3, 64, 8, 32, 4},
};

struct Inputs {
  std::vector<uint32_t> a, b, c;  // m x k, k x n: elements; m x n: f32 bits; row-major
};

class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15ull) {}
  uint32_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return uint32_t(z >> 32);
  }
  int range(int lo, int hi) { return lo + int(next() % uint32_t(hi - lo + 1)); }

 private:
  uint64_t state_;
};

/// The element +-significand / 2^mantissa_bits * 2^exponent, subnormal where it must be, largest where it is too large.
inline uint32_t element(Format f, bool negative, uint32_t fraction, int exponent) {
  const uint32_t ones = (1u << f.mantissa_bits) - 1;
  int x = exponent + f.bias();
  const int top = (1 << f.exponent_bits) - 2;
  uint32_t man = fraction & ones;
  if (x > top) x = top;
  if (x <= 0) {
    const int drop = 1 - x;
    man = drop > f.mantissa_bits ? 0 : (man | 1u << f.mantissa_bits) >> drop;
    x = 0;
  }
  return (uint32_t(negative) << (f.exponent_bits + f.mantissa_bits) | uint32_t(x) << f.mantissa_bits | man) << f.shift;
}
inline uint32_t power(Factor f, bool negative, int exponent) { return element(format_of(f), negative, 0, exponent); }

/// How many powers of two the small product of output (i, j) of the ladder lies below the large one.
inline int ladder_step(const Form& f, int i, int j) {
  const Format format = format_of(f.factor);
  const int top = (1 << format.exponent_bits) - 2 - format.bias();  // where element() stops
  const auto exponent = [&](int e) { return e < top ? e : top; };
  return 2 * exponent(8) - exponent(7 - i % 16) - exponent(8 - 16 * (j % 2));
}
inline Inputs ladder(const Form& f) {
  Inputs x{std::vector<uint32_t>(size_t(f.m * f.k)), std::vector<uint32_t>(size_t(f.k * f.n)), std::vector<uint32_t>(size_t(f.m * f.n))};
  for (int i = 0; i < f.m; i++) {
    x.a[size_t(i * f.k)] = power(f.factor, false, 8);
    x.a[size_t(i * f.k + 1)] = power(f.factor, true, 8);
    x.a[size_t(i * f.k + 2)] = power(f.factor, false, 7 - i % 16);
  }
  for (int j = 0; j < f.n; j++) {
    x.b[size_t(j)] = x.b[size_t(f.n + j)] = power(f.factor, false, 8);
    x.b[size_t(2 * f.n + j)] = power(f.factor, false, 8 - 16 * (j % 2));
  }
  return x;
}
/// The last product is 2^-30 of the first; row i takes the first away again at k = 1 + i % (k - 2).
inline Inputs moving_pair(const Form& f) {
  Inputs x{std::vector<uint32_t>(size_t(f.m * f.k)), std::vector<uint32_t>(size_t(f.k * f.n)), std::vector<uint32_t>(size_t(f.m * f.n))};
  for (int i = 0; i < f.m; i++) {
    x.a[size_t(i * f.k)] = power(f.factor, false, 8);
    x.a[size_t(i * f.k + 1 + i % (f.k - 2))] = power(f.factor, true, 8);
    x.a[size_t(i * f.k + f.k - 1)] = power(f.factor, false, -6);
  }
  for (int k = 0; k < f.k; k++)
    for (int j = 0; j < f.n; j++) x.b[size_t(k * f.n + j)] = power(f.factor, false, k == f.k - 1 ? -8 : 8);
  return x;
}
inline Inputs random_inputs(const Form& f, int test) {
  Generator r{uint64_t(test) * 1000 + uint64_t(f.factor) * 10 + uint64_t(f.kind)};
  const Format format = format_of(f.factor);
  const int regime = test % 4, width = regime == 1 ? 6 : 2, centre = regime == 3 ? 1 - format.bias() : 0;
  Inputs x;
  const auto any = [&] { return element(format, r.next() & 1, r.next(), (format.bias() > 20 ? 0 : centre) + r.range(-width, width)); };
  for (int i = 0; i < f.m * f.k; i++) x.a.push_back(any());
  for (int i = 0; i < f.k * f.n; i++) x.b.push_back(any());
  if (regime == 2)
    for (int i = 0; i < f.m; i++)
      for (int k = 1; k < f.k; k += 2) x.a[size_t(i * f.k + k)] = x.a[size_t(i * f.k + k - 1)] ^ power(f.factor, true, -1000) ^ uint32_t(r.next() % 4 == 0) << format.shift;
  for (int i = 0; i < f.m * f.n; i++) x.c.push_back(test % 3 == 0 ? 0 : (r.next() & 0x807fffffu) | uint32_t(127 + r.range(-8, 8)) << 23);
  return x;
}
inline Inputs inputs(const Form& f, int test) { return test == 0 ? ladder(f) : test == 1 ? moving_pair(f) : random_inputs(f, test); }

}  // namespace orrery::sem::probe
