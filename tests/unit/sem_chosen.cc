// Sums whose factors of A name their rows of B (sparse A), on both processor levels, against the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sem/block_sum.h"

namespace orrery::sem {
namespace {

struct Case {
  Element type;
  bool half, native;
  int k;           // stored elements of a row
  uint32_t one, noise;  // bits of 1.0, and which bits vary
};

void compare(SumTile tile, const char* level, const Case& x, uint64_t seed) {
  constexpr int kRows = 16, kColumns = 24;
  std::mt19937_64 g(seed);
  const SumRule rule = sum_rule(TensorCore::hopper, x.type, x.type, x.half, x.native);
  const int rows = 2 * x.k;
  std::vector<uint32_t> a(size_t(kRows * x.k)), b(size_t(rows * kColumns)), c(kRows * kColumns);
  for (auto& v : a) v = x.one ^ (uint32_t(g()) & x.noise);
  for (auto& v : b) v = x.one ^ (uint32_t(g()) & x.noise);
  for (auto& v : c) v = x.half ? 0x3c00 ^ (uint32_t(g()) & 0x87ff) : 0x3f800000 ^ (uint32_t(g()) & 0x80ffffff);
  std::vector<uint16_t> row(size_t(kRows * x.k));
  for (int i = 0; i < kRows; i++)
    for (int e = 0; e < x.k; e += 2) {
      const int first = int(g() % 3), second = first + 1 + int(g() % uint64_t(3 - first));
      row[size_t(i * x.k + e)] = uint16_t(2 * e + first), row[size_t(i * x.k + e + 1)] = uint16_t(2 * e + second);
    }
  std::vector<uint8_t> order;
  for (const bool later : {false, true})
    for (int e = 0; e < x.k; e++)
      if (rule.interleaved ? (e % 4 >= 2) == later : !later) order.push_back(uint8_t(e));
  std::vector<uint32_t> want = c;
  const ChosenRows chosen{row.data(), rows};
  multiply_by_definition(rule, x.type, x.type, a.data(), b.data(), want.data(), kRows, kColumns, x.k, nullptr, chosen);
  std::vector<uint8_t> left(kRows * kColumns);
  EXPECT_FALSE(tile(rule, x.type, x.type, order.data(), a.data(), b.data(), c.data(), kRows, kColumns, x.k, chosen, left.data())) << "ordinary numbers";
  for (size_t i = 0; i < c.size(); i++) ASSERT_EQ(c[i], want[i]) << level << ", type " << int(x.type) << ", output " << i;
}

TEST(chosen_rows, sums_are_those_of_the_definition) {
  static const Case kCases[] = {{Element::f16, false, false, 16, 0x3c00, 0x87ff}, {Element::f16, true, false, 8, 0x3c00, 0x87ff}, {Element::bf16, false, false, 16, 0x3f80, 0x80ff},
                                {Element::tf32, false, false, 8, 0x3f800000, 0x80ffffff}, {Element::e4m3, false, true, 32, 0x38, 0x8f}, {Element::e5m2, false, false, 32, 0x3c, 0x87}};
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  for (const Case& x : kCases)
    for (uint64_t seed = 0; seed < 20; seed++) {
      compare(sum_tile_v3, "AVX2", x, seed);
      if (wide) compare(sum_tile_v4, "AVX-512", x, seed);
    }
}

}  // namespace
}  // namespace orrery::sem
