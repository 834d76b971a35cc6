// Tiles of a warp against the definition of a block sum, output by output, on both processor levels.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "sem/block_sum.h"
#include "sem/dense_tile.h"
#include "sem/factors.h"
#include "sem/fragment.h"
#include "sem/warp_tile.h"

namespace orrery::sem {
namespace {

constexpr int kRows = 16;

/// Elements of ordinary size, with some at the ends of the format, zeros and specials among them.
uint32_t element(Element e, int awkward, std::mt19937& random) {
  const Format f = format_of(e);
  const uint32_t man = random() & ((1u << (f.mantissa_bits + f.shift)) - 1), sign = random() & 1;
  const int top = (1 << f.exponent_bits) - 1;
  int x = f.bias() - 3 + int(random() % 7);
  if (awkward > 0 && random() % 8 == 0) x = int(random() % uint32_t(top));
  if (awkward > 1 && random() % 40 == 0) x = top;
  if (awkward > 0 && random() % 16 == 0) x = 0;
  const uint32_t bits = uint32_t(x) << (f.mantissa_bits + f.shift) | man;
  return random() % 24 == 0 ? 0 : bits | sign << (f.exponent_bits + f.mantissa_bits + f.shift);
}

/// The f32 bits of an f16.
uint32_t widened(uint32_t half) {
  const Parts p = take_apart(half & 0xffff, format_of(Element::f16));
  const uint32_t sign = uint32_t(p.negative) << 31;
  if (p.nan || p.infinite) return sign | 0x7f800000u | (p.nan ? 0x400000u : 0);
  return p.significand ? sign | bits_of(std::ldexp(float(p.significand), p.exponent - 10)) : sign;
}

struct Matrices {
  std::vector<uint32_t> a, b, c;  // 16 x k, k x n, 16 x n
  std::vector<uint8_t> raw_a, raw_b;
};
Matrices matrices(Element ea, Element eb, bool half, int n, int k, int awkward, std::mt19937& random) {
  Matrices m;
  m.raw_a.resize(kRows * kTileRowBytes), m.raw_b.resize(size_t(n) * kTileRowBytes);
  const int bytes = element_bits(ea) / 8;
  for (int i = 0; i < kRows * k; i++) {
    m.a.push_back(element(ea, awkward, random));
    std::memcpy(&m.raw_a[size_t(i / k * kTileRowBytes + i % k * bytes)], &m.a.back(), size_t(bytes));
  }
  for (int i = 0; i < k * n; i++) {
    m.b.push_back(element(eb, awkward, random));
    std::memcpy(&m.raw_b[size_t(i % n * kTileRowBytes + i / n * bytes)], &m.b.back(), size_t(bytes));
  }
  for (int i = 0; i < kRows * n; i++) m.c.push_back(element(half ? Element::f16 : Element::f32, awkward, random));
  return m;
}

struct Fragments {
  std::vector<uint32_t> words;
  std::vector<void*> place;
  explicit Fragments(int n) : words(size_t(n) / 2 * 32) {
    for (int r = 0; r < n / 2; r++) place.push_back(&words[size_t(r) * 32]);
  }
  /// Row and column of a 32-bit fragment, as the PTX manual gives them.
  uint32_t& at(int row, int column) {
    return words[size_t(column / 8 * 4 + row / 8 * 2 + column % 2) * 32 + size_t(row % 8 * 4 + column % 8 / 2)];
  }
};

struct Case {
  Element a, b;
  bool half;
  int k;
};
const Case kCases[] = {{Element::f16, Element::f16, false, 16},   {Element::bf16, Element::bf16, false, 16}, {Element::f16, Element::f16, true, 16},
                       {Element::tf32, Element::tf32, false, 8},  {Element::e4m3, Element::e4m3, false, 32}, {Element::e5m2, Element::e4m3, false, 32},
                       {Element::e4m3, Element::e5m2, true, 32},  {Element::bf16, Element::bf16, false, 8},  {Element::f16, Element::f16, true, 8},
                       {Element::tf32, Element::tf32, false, 4}};
const TensorCore kCores[] = {TensorCore::volta, TensorCore::ampere, TensorCore::ada, TensorCore::hopper};

void compare(const WarpTileCode& code, const char* level) {
  std::mt19937 random(7);
  static Panel panel;
  static TilePlace left[kRows * kTileColumns];
  for (const Case& x : kCases)
    for (const TensorCore core : kCores)
      for (int round = 0; round < 12; round++) {
        const int n = round % 3 == 0 ? 8 : 24;
        TileWork w;
        w.rule = sum_rule(core, x.a, x.b, x.half, true);
        w.n = n, w.k = x.k;
        w.a = {x.a, element_bits(x.a) / 8, format_of(x.a).smallest()}, w.b = {x.b, element_bits(x.b) / 8, format_of(x.b).smallest()};
        const Matrices m = matrices(x.a, x.b, x.half, n, x.k, round % 3, random);
        std::vector<uint32_t> want = m.c;
        multiply_by_definition(w.rule, x.a, x.b, m.a.data(), m.b.data(), want.data(), kRows, n, x.k, nullptr);
        Fragments d(n);
        for (int i = 0; i < kRows; i++)
          for (int j = 0; j < n; j++) d.at(i, j) = x.half ? widened(m.c[size_t(i * n + j)]) : m.c[size_t(i * n + j)];
        code.arrange(w, m.raw_b.data(), panel);
        const int count = code.add(w, m.raw_a.data(), panel, d.place.data(), left);
        std::vector<bool> skipped(size_t(kRows * n));
        for (int i = 0; i < count; i++) skipped[size_t(left[i].row * n + left[i].column)] = true;
        if (round % 3 == 0) {
          EXPECT_LT(count, kRows * n / 2) << "ordinary data should go the quick way";
        }
        for (int i = 0; i < kRows * n; i++) {
          if (skipped[size_t(i)]) continue;
          const uint32_t bits = want[size_t(i)], got = d.at(i / n, i % n);
          ASSERT_EQ(got, x.half ? widened(bits) : bits)
              << level << ": factors " << int(x.a) << " " << int(x.b) << " k " << x.k << " core " << int(core) << " round " << round << " output " << i;
        }
      }
}

TEST(tiles, exact_sums_are_those_of_the_definition) {
  compare(warp_tile_v3(), "AVX2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    compare(warp_tile_v4(), "AVX-512");
}

struct Bytes final : RowSource {
  const std::vector<uint8_t>& bytes;
  explicit Bytes(const std::vector<uint8_t>& b) : bytes(b) {}
  void copy(uint8_t* to) override { std::memcpy(to, bytes.data(), bytes.size()); }
  bool same(const uint8_t* copied) override { return std::memcmp(copied, bytes.data(), bytes.size()) == 0; }
};

/// Whole products, with the outputs that vectors leave out, C added last, and k in the order of fp8.
TEST(tiles, products_are_those_of_the_definition) {
  std::mt19937 random(11);
  const Case cases[] = {{Element::e4m3, Element::e4m3, false, 32}, {Element::e5m2, Element::e5m2, true, 32}, {Element::e4m3, Element::e5m2, false, 16},
                        {Element::bf16, Element::bf16, false, 16}, {Element::f16, Element::f16, true, 16}};
  for (const Case& x : cases)
    for (int round = 0; round < 30; round++) {
      const Matrices m = matrices(x.a, x.b, x.half, 8, x.k, round % 3, random);
      DenseTile tile{x.a, x.b, sum_rule(TensorCore::hopper, x.a, x.b, x.half, false)};
      if (tile.rule.late_c) tile.rule.block = x.k / 2;
      tile.k = x.k;
      Bytes rows(m.raw_b);
      tile.raw_a = m.raw_a.data(), tile.b_rows = &rows;
      std::vector<uint32_t> want = m.c;
      for (int i = 0; i < kRows * 8; i++) {  // output by output, through sums of another layout
        uint32_t b[32];
        for (int k = 0; k < x.k; k++) b[k] = m.b[size_t(k * 8 + i % 8)];
        multiply(tile.rule, x.a, x.b, &m.a[size_t(i / 8 * x.k)], b, &want[size_t(i)], 1, 1, x.k);
      }
      Fragments d(8);
      const auto half_word = [&](int i) { return reinterpret_cast<uint16_t*>(&d.words[size_t(i / 8 / 8) * 32 + size_t(i / 8 % 8 * 4 + i % 8 / 2)]) + i % 2; };
      for (int i = 0; i < kRows * 8; i++) {
        if (x.half) *half_word(i) = uint16_t(m.c[size_t(i)]);
        else d.at(i / 8, i % 8) = m.c[size_t(i)];
      }
      multiply_tile(tile, d.place.data());
      for (int i = 0; i < kRows * 8; i++)
        ASSERT_EQ(x.half ? *half_word(i) : d.at(i / 8, i % 8), want[size_t(i)]) << "factors " << int(x.a) << " " << int(x.b) << " k " << x.k << " round " << round << " output " << i;
    }
}

TEST(tiles, integers_wrap_or_stop_at_the_ends) {
  std::mt19937 random(3);
  for (const bool satfinite : {false, true})
    for (const Element ea : {Element::s8, Element::u8})
      for (const Element eb : {Element::s8, Element::u8}) {
        std::vector<uint8_t> a(kRows * 32), b(8 * 32);
        for (auto& v : a) v = random() % 3 ? uint8_t(random()) : 0x80;
        for (auto& v : b) v = random() % 3 ? uint8_t(random()) : 0x80;
        DenseTile tile{ea, eb, {}, false, satfinite};
        Bytes rows(b);
        tile.k = 32, tile.raw_a = a.data(), tile.b_rows = &rows;
        Fragments d(8);
        for (auto& w : d.words) w = random() % 2 ? random() : 0x7fffff00u + random() % 512;
        const Fragments before = d;
        Fragments c(8);
        c.words = before.words;
        multiply_tile(tile, d.place.data());
        for (int i = 0; i < kRows; i++)
          for (int j = 0; j < 8; j++) {
            int64_t sum = int32_t(c.at(i, j));
            for (int k = 0; k < 32; k++) {
              const uint8_t x = a[size_t(i * 32 + k)], y = b[size_t(j * 32 + k)];
              sum += (ea == Element::s8 ? int8_t(x) : x) * (eb == Element::s8 ? int8_t(y) : y);
            }
            if (satfinite) sum = std::min<int64_t>(std::max<int64_t>(sum, INT32_MIN), INT32_MAX);
            ASSERT_EQ(d.at(i, j), uint32_t(sum)) << satfinite << int(ea) << int(eb);
          }
      }
}

}  // namespace
}  // namespace orrery::sem
