// Tests of the timing layer's parts that have answers of their own: where statements go when PTX is laid out, what
// shared resources grant. Figures come from calib/raw (H200), never from the model.
#include <gtest/gtest.h>

#include "base/error.h"
#include "timing/assemble.h"
#include "timing/chip.h"
#include "timing/cubin.h"

namespace orrery::timing {
namespace {

TEST(Layout, EveryStatementGetsALineOfItsOwn) {
  const Layout l("a;\n{ b; c; // d; e;\n}\n\"f;g\"; h;\n");
  EXPECT_EQ(l.text(), "a;\n{ b;\n c;\n // d; e;\n}\n\"f;g\";\n h;\n");
  EXPECT_EQ(l.line_of(1, 1), 1u);
  EXPECT_EQ(l.line_of(2, 3), 2u);   // b
  EXPECT_EQ(l.line_of(2, 6), 3u);   // c
  EXPECT_EQ(l.line_of(3, 1), 5u);   // }
  EXPECT_EQ(l.line_of(4, 8), 7u);   // h
  EXPECT_EQ(l.line_of(99, 1), 0u);
}

TEST(Cubin, WhatIsNoElfFileIsRefused) {
  const std::vector<std::byte> nothing, noise(200, std::byte{7});
  EXPECT_THROW(read_cubin(nothing), base::Error);
  EXPECT_THROW(read_cubin(noise), base::Error);
  std::vector<std::byte> header(64, std::byte{0xFF});  // an ELF magic and offsets that leave the file
  header[0] = std::byte{0x7F}, header[1] = std::byte{'E'}, header[2] = std::byte{'L'}, header[3] = std::byte{'F'};
  EXPECT_THROW(read_cubin(header), base::Error);
}

TEST(Chip, SecondReadHitsL2) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const double first = chip.read(1000, 0xF, 0, 0), second = chip.read(1000, 0xF, 0, 100000);
  EXPECT_GE(first, f.dram_latency - f.dram_wait);
  EXPECT_LE(first, f.dram_latency + 6 * f.dram_wait);
  EXPECT_NEAR(second - 100000, f.l2_latency, f.l2_spread + 2);
  EXPECT_EQ(chip.counts().dram_read, 128);
}

TEST(Chip, OtherPartitionIsFurther) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  chip.read(1000, 0xF, 0, 0);
  EXPECT_NEAR(chip.read(1000, 0xF, 1, 100000) - 100000, f.l2_far_latency, f.l2_spread + 2);
  EXPECT_NEAR(chip.read(1000, 0xF, 1, 200000) - 200000, f.l2_latency, f.l2_spread + 2);
}

TEST(Chip, MemoryGivesSixtyFourBytes) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  chip.read(1000, 1, 0, 0);
  EXPECT_EQ(chip.counts().dram_read, 64);
}

TEST(Chip, StreamingReadsReachTheMeasuredBandwidth) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const uint64_t lines = 1 << 18;
  double end = 0;
  for (uint64_t l = 0; l < lines; l++) end = std::max(end, chip.read(l, 0xF, uint32_t(l), 0));
  EXPECT_GT(end, chip.dram_free());
  EXPECT_NEAR(double(lines) * 128 / chip.dram_free(), 2336, 100);  // read16/2048: 1 GiB in 460 thousand cycles
}

TEST(Chip, DirtyLinesAreLimited) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  const uint64_t lines = (64u << 20) / 128;
  for (uint64_t l = 0; l < lines; l++) chip.write(l, 0xF, 0, 32);
  EXPECT_NEAR(chip.counts().dram_write, 37.7e6, 1e6);  // write16/64: 64 MiB written, 37.7 MB reach memory
}

}  // namespace
}  // namespace orrery::timing
