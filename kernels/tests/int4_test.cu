// quantize_int4 and dequantize_int4: bit for bit what their definition gives in f32, for scales of every magnitude and for numbers that are none; words
// that begin anywhere; tensors on both sides of the sizes at which the launch changes. weights_test multiplies by what they leave.
#include <algorithm>
#include <cmath>

#include "check.h"

using namespace orrery::kernels;
using check::Buffer;

namespace {

/// What both leave of a matrix, with words at a multiple of 16 bytes and 4 bytes further on.
struct Left {
  std::vector<uint32_t> words;
  std::vector<uint16_t> scales, again;
  bool operator==(const Left&) const = default;
};
Left left_by(const Buffer& in, DType t, int64_t rows, int64_t cols, size_t offset) {
  Buffer out(rows * cols / 2, offset), scales(rows * cols / 64, offset / 2), back(rows * cols * 2);
  STATUS_OK(quantize_int4(out.data(), scales.data(), in.data(), t, rows, cols, nullptr));
  STATUS_OK(dequantize_int4(back.data(), out.data(), scales.data(), t, rows, cols, nullptr));
  Left left{out.host<uint32_t>(), scales.host<uint16_t>(), back.host<uint16_t>()};
  out.check_guards("quantize_int4"), scales.check_guards("quantize_int4 scales"), back.check_guards("dequantize_int4");
  return left;
}

/// Where in a row's words, and in a word's nibbles, column i is (WeightFormat::kInt4).
int64_t word_of(int64_t i) { return i / 128 * 16 + i / 8 % 4 * 4 + i / 8 % 16 / 4; }
int nibble_of(int64_t i) { return int(i % 8 / 2 + i % 2 * 4); }

/// By the definition: a quotient that is no number becomes -8, and a scale of 0 makes all of a group 0.
Left want_of(const std::vector<uint16_t>& full, DType t) {
  const int64_t groups = int64_t(full.size()) / 128;
  Left want{std::vector<uint32_t>(groups * 16), std::vector<uint16_t>(groups), std::vector<uint16_t>(full.size())};
  check::parallel(groups, [&](int64_t g) {
    const auto x = [&](int64_t i) { return float(check::to_double(full.data(), g * 128 + i, t)); };
    float top = 0;
    for (int64_t i = 0; i < 128; i++)
      if (std::fabs(x(i)) > top) top = std::fabs(x(i));  // not fmax, which makes a NaN of one that signals
    check::from_double(want.scales.data(), g, t, top > 0 ? top / 7.f : 1.f);
    const float scale = float(check::to_double(want.scales.data(), g, t)), inverse = scale > 0 ? 1.f / scale : 0.f;
    for (int64_t i = 0; i < 128; i++) {
      const int q = int(std::nearbyint(std::fmin(7.f, std::fmax(-8.f, x(i) * inverse))));
      want.words[g * 16 + word_of(i)] |= uint32_t(q + 8) << 4 * nibble_of(i);
      check::from_double(want.again.data(), g * 128 + i, t, float(q) * scale);
    }
  });
  return want;
}

void expect_same(const char* what, const Left& got, const Left& want, DType t) {
  for (size_t g = 0; g < want.scales.size(); g++)
    if (got.scales[g] != want.scales[g]) check::fail("%s: type %d, scale %zu is %04x, want %04x", what, int(t), g, got.scales[g], want.scales[g]);
  for (size_t i = 0; i < want.words.size(); i++)
    if (got.words[i] != want.words[i]) check::fail("%s: type %d, word %zu is %08x, want %08x", what, int(t), i, got.words[i], want.words[i]);
  for (size_t i = 0; i < want.again.size(); i++)
    if (got.again[i] != want.again[i] && !(std::isnan(check::to_double(got.again.data(), i, t)) && std::isnan(check::to_double(want.again.data(), i, t))))
      check::fail("%s: type %d, element %zu comes back as %04x, want %04x", what, int(t), i, got.again[i], want.again[i]);
}

/// Groups whose largest magnitudes are every `step`-th of those that there are, and the others' bits at random: any, infinities and NaNs among them, in one
/// group of three; smaller ones; ones of nearly the same size.
std::vector<uint16_t> groups_of_all(int step) {
  check::Random random(step);
  const int64_t groups = 0x8000 / step;
  std::vector<uint16_t> full(groups * 128);
  for (int64_t g = 0; g < groups; g++)
    for (int64_t i = 0; i < 128; i++) {
      const int most = int(g * step), sign = int(random.below(2)) << 15;
      const int any = int(random.below(0x8000)), smaller = int(random.below(most + 1)), near = most - int(random.below(std::min(most, 0x200) + 1));
      full[g * 128 + i] = uint16_t((i == g * 37 % 128 ? most : g % 3 == 0 ? any : g % 3 == 1 ? smaller : near) | sign);
    }
  return full;
}

/// Rows of several groups, the last block not full.
std::vector<uint16_t> matrix(DType t, int64_t rows, int64_t cols) {
  check::Random random(rows + cols);
  std::vector<uint16_t> full(rows * cols);
  for (int64_t i = 0; i < rows * cols; i++) check::from_double(full.data(), i, t, random.spread(4));
  return full;
}

/// A tensor so large that nothing of it is brought to L2 ahead leaves the bits that its halves do, which are not.
void large(DType t) {
  const int64_t cols = 4096, rows = 8456;  // 66 MiB
  check::Random random(rows);
  std::vector<unsigned char> full(rows * cols * 2);
  for (int64_t i = 0; i < rows * cols; i++) check::from_double(full.data(), i, t, random.symmetric());
  const Buffer in(full);
  Buffer out(full.size() / 4), scales(full.size() / 128), back(full.size()), out2(out.bytes()), scales2(scales.bytes()), back2(full.size());
  STATUS_OK(quantize_int4(out.data(), scales.data(), in.data(), t, rows, cols, nullptr));
  STATUS_OK(dequantize_int4(back.data(), out.data(), scales.data(), t, rows, cols, nullptr));
  for (int64_t at : {int64_t(0), rows / 2 * cols}) {
    STATUS_OK(quantize_int4(out2.data() + at / 2, scales2.data() + at / 64, in.data() + at * 2, t, rows / 2, cols, nullptr));
    STATUS_OK(dequantize_int4(back2.data() + at * 2, out2.data() + at / 2, scales2.data() + at / 64, t, rows / 2, cols, nullptr));
  }
  if (out.host<char>() != out2.host<char>() || scales.host<char>() != scales2.host<char>()) check::fail("quantize_int4 of %lld rows", (long long)rows);
  if (back.host<char>() != back2.host<char>()) check::fail("dequantize_int4 of %lld rows", (long long)rows);
  out.check_guards("quantize_int4"), scales.check_guards("quantize_int4 scales"), back.check_guards("dequantize_int4");
}

void refusals() {
  Buffer x(1 << 12), w(1 << 10), s(1 << 6);
  NAMES(quantize_int4(w.data(), s.data(), x.data(), DType::kF16, 2, 100, nullptr), "cols");
  NAMES(quantize_int4(w.data() + 2, s.data(), x.data(), DType::kF16, 2, 128, nullptr), "out");
  NAMES(quantize_int4(w.data(), s.data(), x.data() + 8, DType::kF16, 2, 128, nullptr), "in");
  NAMES(dequantize_int4(x.data(), w.data() + 2, s.data(), DType::kBF16, 2, 128, nullptr), "in");
  NAMES(dequantize_int4(x.data(), w.data(), s.data() + 1, DType::kBF16, 2, 128, nullptr), "scales");
  NAMES(dequantize_int4(x.data(), w.data(), s.data(), DType::kF32, 2, 128, nullptr), "dtype");
}

}  // namespace

int main(int argc, char** argv) {
  const bool small = check::small_mode(argc, argv);
  refusals();
  for (DType t : {DType::kBF16, DType::kF16}) {
    const std::vector<uint16_t> all = groups_of_all(small ? 61 : 1);
    const Buffer in(all);
    const Left want = want_of(all, t);
    for (size_t offset : {0, 4}) expect_same(offset ? "all magnitudes, words elsewhere" : "all magnitudes", left_by(in, t, int64_t(all.size()) / 128, 128, offset), want, t);
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>{1, 128}, {3, 384}, {37, 1152}}) {
      const std::vector<uint16_t> full = matrix(t, rows, cols);
      const Buffer here(full);
      for (size_t offset : {0, 4}) expect_same("a matrix", left_by(here, t, rows, cols, offset), want_of(full, t), t);
    }
    if (!small) large(t);
  }
  std::printf("PASS int4\n");
}
