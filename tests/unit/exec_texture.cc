// Sampling against hand-computed values of the programming guide's formulas.
#include "exec/texture.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace orrery::exec {
namespace {

TextureObject row_of(const std::vector<float>& texels) {
  TextureObject t;
  t.data = reinterpret_cast<uint64_t>(texels.data());
  t.width = uint32_t(texels.size());
  return t;
}

float at(const TextureObject& t, float x) { return std::bit_cast<float>(fetch_float(t, 1, &x, 0, 0).v[0]); }

TEST(Texture, PointSamplingTakesFloor) {
  const std::vector<float> texels = {10, 20, 30, 40};
  TextureObject t = row_of(texels);
  EXPECT_EQ(at(t, 0.99f), 10);
  EXPECT_EQ(at(t, 1.0f), 20);
  EXPECT_EQ(at(t, -5.0f), 10);
  EXPECT_EQ(at(t, 99.0f), 40);
}

TEST(Texture, LinearFilteringHas8BitsOfWeight) {
  const std::vector<float> texels = {0, 256};
  TextureObject t = row_of(texels);
  t.linear_filter = true;
  EXPECT_EQ(at(t, 0.5f), 0);
  EXPECT_EQ(at(t, 1.0f), 128);
  EXPECT_EQ(at(t, 0.5f + 1.0f / 256), 1);
  EXPECT_EQ(at(t, 0.5f + 1.3f / 256), 1);  // rounded to a multiple of 1/256
}

TEST(Texture, AddressModes) {
  const std::vector<float> texels = {1, 2, 3, 4};
  TextureObject t = row_of(texels);
  t.normalized_coords = true;
  t.mode[0] = AddressMode::wrap;
  EXPECT_EQ(at(t, 1.25f), 2);
  EXPECT_EQ(at(t, -0.25f), 4);
  t.mode[0] = AddressMode::mirror;
  EXPECT_EQ(at(t, 1.125f), 4);
  EXPECT_EQ(at(t, -0.125f), 1);
  t.mode[0] = AddressMode::border;
  t.border[0] = 9;
  EXPECT_EQ(at(t, 1.125f), 9);
}

TEST(Texture, NormalisedReadsOfIntegers) {
  const uint8_t bytes[4] = {0, 51, 255, 128};
  TextureObject t;
  t.data = reinterpret_cast<uint64_t>(bytes);
  t.width = 4;
  t.channel_bits = 8;
  t.kind = TexelKind::uint;
  EXPECT_EQ(fetch_float(t, 1, std::vector<float>{1.5f}.data(), 0, 0).v[0], 51u);
  t.read_normalized_float = true;
  EXPECT_EQ(at(t, 1.5f), 0.2f);
  t.kind = TexelKind::sint;
  EXPECT_EQ(at(t, 3.5f), -1.0f);  // -128 is clamped
}

TEST(Texture, LinearMemoryBeyondTheEndIsZero) {
  const std::vector<float> texels = {1, 2};
  TextureObject t = row_of(texels);
  t.linear_memory = true;
  const int32_t inside = 1, beyond = 2, before = -1;
  EXPECT_EQ(std::bit_cast<float>(fetch_integer(t, 1, &inside, 0).v[0]), 2);
  EXPECT_EQ(fetch_integer(t, 1, &beyond, 0).v[0], 0u);
  EXPECT_EQ(fetch_integer(t, 1, &before, 0).v[0], 0u);
}

}  // namespace
}  // namespace orrery::exec
