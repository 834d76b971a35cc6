// Tensor maps: the driver's argument checks, and boxes against a plain loop over elements.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "exec/tma.h"

namespace orrery::exec {
namespace {

constexpr uint32_t kU8 = 0, kU16 = 1, kU32 = 2, kF16 = 6, kF32 = 7, kTf32 = 11, k16U4 = 13;

struct Tensor {
  std::vector<uint64_t> dims, strides;
  std::vector<uint32_t> box, steps;
  uint32_t type = kU32, swizzle = 0, interleave = 0, fill = 0;
  uint64_t address = 0;
};

TensorSpec spec_of(const Tensor& t) {
  return {t.type, uint32_t(t.dims.size()), t.address, t.dims.data(), t.strides.data(), t.steps.data(), t.interleave, t.swizzle, 0, t.fill};
}
EncodeStatus encode(TensorMap& m, const Tensor& t) { return encode_tiled(&m, spec_of(t), t.box.data()); }

Tensor plane() { return {{64, 32}, {256}, {32, 8}, {1, 1}}; }

TEST(TensorMap, AcceptsWhatTheDriverAccepts) {
  TensorMap m;
  EXPECT_EQ(encode(m, plane()), EncodeStatus::ok);
  Tensor t = plane();
  t.steps = {0, 3};
  EXPECT_EQ(encode(m, t), EncodeStatus::ok) << "the step along dimension 0 is ignored without interleave";
  t = plane();
  t.dims = {uint64_t{1} << 32, 1};
  EXPECT_EQ(encode(m, t), EncodeStatus::ok);
  t = plane();
  t.type = kF32;
  t.fill = 1;
  EXPECT_EQ(encode(m, t), EncodeStatus::ok);
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  const std::vector<std::function<void(Tensor&)>> wrong = {
      [](Tensor& t) { t.type = k16U4; },                        // needs compute capability 10.0
      [](Tensor& t) { t.type = 99; },
      [](Tensor& t) { t.address = 8; },
      [](Tensor& t) { t.dims[1] = 0; },
      [](Tensor& t) { t.dims[0] = (uint64_t{1} << 32) + 1; },
      [](Tensor& t) { t.strides[0] = 24; },
      [](Tensor& t) { t.strides[0] = uint64_t{1} << 40; },
      [](Tensor& t) { t.box[1] = 0; },
      [](Tensor& t) { t.box[1] = 257; },
      [](Tensor& t) { t.box[0] = 3; },                          // 12 bytes
      [](Tensor& t) { t.steps[1] = 0; },
      [](Tensor& t) { t.steps[1] = 9; },
      [](Tensor& t) { t.swizzle = 2; },                         // 128 bytes do not fit the 64-byte swizzle
      [](Tensor& t) { t.swizzle = 4; },                         // needs compute capability 10.0
      [](Tensor& t) { t.interleave = 1; },                      // needs rank 3
      [](Tensor& t) { t.fill = 1; },                            // NaN in integers
  };
  for (size_t i = 0; i < wrong.size(); i++) {
    Tensor t = plane();
    wrong[i](t);
    TensorMap m;
    EXPECT_EQ(encode(m, t), EncodeStatus::invalid_value) << "case " << i;
  }
}

TEST(TensorMap, Im2colChecksItsCorners) {
  const uint64_t dims[] = {64, 10, 12, 4}, strides[] = {128, 1280, 15360};
  const uint32_t steps[] = {1, 1, 1, 1};
  TensorSpec t{kF16, 4, 0, dims, strides, steps, 0, 3, 0, 0};
  TensorMap m;
  const int low[] = {-1, -1}, high[] = {-1, -1}, far[] = {-129, 0}, beyond[] = {-10, 0};
  EXPECT_EQ(encode_im2col(&m, t, low, high, 64, 128), EncodeStatus::ok);
  EXPECT_EQ(encode_im2col(&m, t, far, high, 64, 128), EncodeStatus::invalid_value);
  EXPECT_EQ(encode_im2col(&m, t, low, beyond, 64, 128), EncodeStatus::ok);
  const int low0[] = {0, 0};
  EXPECT_EQ(encode_im2col(&m, t, low0, beyond, 64, 128), EncodeStatus::invalid_value) << "an empty box";
  EXPECT_EQ(encode_im2col(&m, t, low, high, 128, 128), EncodeStatus::invalid_value) << "wider than the swizzle";
  EXPECT_EQ(encode_im2col(&m, t, low, high, 64, 1025), EncodeStatus::invalid_value);
}

/// Shared address of byte `i` of row `r`, written out for one byte at a time.
uint64_t image_byte(uint64_t base, uint64_t pitch, uint32_t span, uint64_t r, uint64_t i) {
  const uint64_t a = base + r * pitch + i;
  return span ? a ^ ((a >> 7 & (span / 16 - 1)) << 4) : a;
}

class Boxes : public ::testing::TestWithParam<uint32_t> {};

TEST_P(Boxes, LoadAndStoreEqualALoopOverElements) {
  const uint32_t swizzle = GetParam(), span = swizzle ? 16u << swizzle : 0;
  std::mt19937 random(swizzle);
  for (int trial = 0; trial < 200; trial++) {
    const uint32_t bytes = 1u << random() % 3, type = bytes == 1 ? kU8 : bytes == 2 ? kU16 : kU32;
    const int rank = 1 + int(random() % 5);
    Tensor t;
    t.type = type;
    t.swizzle = swizzle;
    uint64_t stride = 1;
    for (int i = 0; i < rank; i++) {
      t.dims.push_back(1 + random() % 9);
      t.steps.push_back(i ? 1 + random() % 3 : 1);
      t.box.push_back(i ? 1 + random() % 4 : 16 / bytes * (1 + random() % std::min(4u, span ? span / 16 : 4)));
    }
    t.dims[0] = 16 / bytes * (1 + random() % 6) - random() % 3;
    stride = (t.dims[0] * bytes + 15) / 16 * 16 + 16 * (random() % 2);
    for (int i = 1; i < rank; i++) t.strides.push_back(stride), stride *= t.dims[i];
    std::vector<uint8_t> tensor(stride + 64);
    for (auto& b : tensor) b = uint8_t(random() % 255 + 1);
    t.address = (reinterpret_cast<uint64_t>(tensor.data()) + 15) / 16 * 16;
    TensorMap m;
    ASSERT_EQ(encode(m, t), EncodeStatus::ok);
    BoxOrigin o;
    for (int i = 0; i < rank; i++) o.at[i] = int(random() % (t.dims[i] + 3)) - 2;
    o.at[0] = (int(random() % 8) - 2) * int(16 / bytes);

    const uint64_t base = 1024 + 128 * (random() % 8), row = t.box[0] * bytes, pitch = std::max<uint64_t>(row, span);
    uint64_t rows = 1;
    std::vector<uint32_t> n(5, 1);
    for (int i = 1; i < rank; i++) n[i] = (t.box[i] + t.steps[i] - 1) / t.steps[i], rows *= n[i];
    std::vector<std::byte> shared(base + rows * pitch + 1024, std::byte{0xAB}), want = shared;
    auto element = [&](uint64_t r, uint64_t x) -> const uint8_t* {
      uint64_t address = t.address + uint64_t(o.at[0] + int64_t(x)) * bytes;
      bool inside = o.at[0] + int64_t(x) >= 0 && o.at[0] + int64_t(x) < int64_t(t.dims[0]);
      for (int i = 1; i < rank; i++) {
        const int64_t c = o.at[i] + int64_t(r % n[i]) * t.steps[i];
        r /= n[i];
        inside &= c >= 0 && c < int64_t(t.dims[i]);
        address += uint64_t(c) * t.strides[i - 1];
      }
      return inside ? reinterpret_cast<const uint8_t*>(address) : nullptr;
    };
    for (uint64_t r = 0; r < rows; r++)
      for (uint64_t i = 0; i < row; i++) {
        const uint8_t* e = element(r, i / bytes);
        want[image_byte(base, pitch, span, r, i)] = std::byte(e ? e[i % bytes] : 0);
      }
    load_box(m, o, shared.data() + base, base);
    ASSERT_EQ(shared, want) << "trial " << trial;
    EXPECT_EQ(box_bytes(m), rows * row);

    if (check_box(m, rank, false, true, o) != BoxError::none) continue;
    std::vector<uint8_t> expected = tensor;
    for (uint64_t r = 0; r < rows; r++)
      for (uint64_t i = 0; i < row; i++)
        if (const uint8_t* e = element(r, i / bytes)) expected[size_t(e - tensor.data()) + i % bytes] = uint8_t(shared[image_byte(base, pitch, span, r, i)]) ^ 0x55;
    for (auto& b : shared) b ^= std::byte{0x55};
    store_box(m, o, shared.data() + base, base);
    for (uint64_t r = 0; r < rows; r++)
      for (uint64_t x = 0; x < t.box[0]; x++)
        if (const uint8_t* e = element(r, x)) {
          for (uint32_t k = 0; k < bytes; k++) ASSERT_EQ(e[k], expected[size_t(e - tensor.data()) + k]) << "trial " << trial;
        }
  }
}
INSTANTIATE_TEST_SUITE_P(Swizzles, Boxes, ::testing::Values(0u, 1u, 2u, 3u));

// Observed on an H200: with rows of 90 floats, elements 90 and 91 of the pitch are overwritten.
TEST(Tma, StoreIsClippedAtSixteenByteSteps) {
  alignas(16) float tensor[96] = {};
  Tensor t{{90, 1}, {384}, {16, 1}, {1, 1}};
  t.type = kF32;
  t.address = reinterpret_cast<uint64_t>(tensor);
  TensorMap m;
  ASSERT_EQ(encode(m, t), EncodeStatus::ok);
  std::vector<float> image(16, 3.f);
  BoxOrigin o;
  o.at[0] = 80;
  store_box(m, o, reinterpret_cast<const std::byte*>(image.data()), 1024);
  for (int i = 0; i < 96; i++) EXPECT_EQ(tensor[i], i >= 80 && i < 92 ? 3.f : 0.f) << i;
}

// Observed on an H200: the first coordinate must be a multiple of 16 bytes; stores start at no negative coordinate.
TEST(Tma, RefusesWhatTheGpuRefuses) {
  TensorMap m;
  Tensor t = plane();
  ASSERT_EQ(encode(m, t), EncodeStatus::ok);
  auto check = [&](int64_t x, int64_t y, bool store) {
    BoxOrigin o;
    o.at[0] = x, o.at[1] = y;
    return check_box(m, 2, false, store, o);
  };
  for (int x : {0, 4, 20, -8, 60}) EXPECT_EQ(check(x, 0, false), BoxError::none) << x;
  for (int x : {1, 2, 3, 6, -5}) EXPECT_EQ(check(x, 0, false), BoxError::misaligned) << x;
  EXPECT_EQ(check(0, -1, true), BoxError::negative);
  EXPECT_EQ(check(-4, 0, true), BoxError::negative);
  EXPECT_EQ(check(0, -1, false), BoxError::none);
  EXPECT_EQ(check_box(TensorMap{}, 2, false, false, {}), BoxError::not_a_map);
}

TEST(Tma, FillsWithNanAndRoundsToTf32) {
  alignas(16) float tensor[8] = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-11f, 1, 1, 1, 1, 1, 1};
  Tensor t{{8}, {}, {8}, {1}};
  t.type = kTf32;
  t.fill = 1;
  t.address = reinterpret_cast<uint64_t>(tensor);
  TensorMap m;
  ASSERT_EQ(encode(m, t), EncodeStatus::ok);
  float image[8];
  BoxOrigin o;
  o.at[0] = -4;
  load_box(m, o, reinterpret_cast<std::byte*>(image), 1024);
  for (int i = 0; i < 4; i++) EXPECT_TRUE(std::isnan(image[i]));
  EXPECT_EQ(image[4], 1.0f) << "a tie goes to even";
  EXPECT_EQ(image[5], 1.0f + 0x1p-10f);
}

// The walk of a convolution: every pixel of the bounding box, then the next image; the offset moves the tap.
TEST(Tma, Im2colWalksTheBoundingBox) {
  constexpr int kC = 8, kW = 5, kH = 4, kN = 2;
  std::vector<uint16_t> tensor(kC * kW * kH * kN + 8);
  uint16_t* data = reinterpret_cast<uint16_t*>((reinterpret_cast<uint64_t>(tensor.data()) + 15) / 16 * 16);
  for (int i = 0; i < kC * kW * kH * kN; i++) data[i] = uint16_t(i + 1);
  const uint64_t dims[] = {kC, kW, kH, kN}, strides[] = {kC * 2, kC * kW * 2, kC * kW * kH * 2};
  const uint32_t steps[] = {1, 1, 1, 1};
  TensorSpec spec{kF16, 4, reinterpret_cast<uint64_t>(data), dims, strides, steps, 0, 0, 0, 0};
  const int low[] = {-1, -1}, high[] = {-1, -1};
  constexpr int kPixels = 30;
  TensorMap m;
  ASSERT_EQ(encode_im2col(&m, spec, low, high, kC, kPixels), EncodeStatus::ok);
  for (int tap_w = 0; tap_w < 3; tap_w++)
    for (int tap_h = 0; tap_h < 3; tap_h++) {
      BoxOrigin o;
      o.at[1] = 1, o.at[2] = 0, o.has_offset = true;
      o.offset[0] = uint32_t(tap_w), o.offset[1] = uint32_t(tap_h);
      ASSERT_EQ(check_box(m, 4, true, false, o), BoxError::none);
      std::vector<uint16_t> image(kPixels * kC, 0xFFFF);
      load_box(m, o, reinterpret_cast<std::byte*>(image.data()), 1024);
      int w = 1, h = 0, n = 0;
      for (int p = 0; p < kPixels; p++) {
        const int x = w + tap_w, y = h + tap_h;
        const bool inside = x >= 0 && x < kW && y >= 0 && y < kH && n < kN;
        for (int c = 0; c < kC; c++)
          ASSERT_EQ(image[p * kC + c], inside ? data[((n * kH + y) * kW + x) * kC + c] : 0) << p << ' ' << tap_w << ' ' << tap_h;
        if (++w > kW - 2) w = -1, h++;
        if (h > kH - 2) h = -1, n++;
      }
    }
}

}  // namespace
}  // namespace orrery::exec
