// How much memory gives L2 for loads and copies that say so: 64 bytes, the line or two (calib/raw/h200-2026-11-28-hinted.jsonl: columns of 32 bytes
// take 44 us where a load brings its line and 68 where it does not).
#include "timing/chip.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// A word of each line of 128 bytes, or of every other one.
double bytes_for(const std::string& access, uint64_t stride) {
  constexpr uint64_t kWords = 1 << 16;
  TestMachine m;
  const std::string body =
      "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;\n"
      "mul.wide.u32 %d2, %r3, " + std::to_string(stride) + "; add.s64 %d3, %d1, %d2; mov.u32 %r5, s; mad.lo.u32 %r5, %r1, 16, %r5;\n" + access +
      "\ncp.async.wait_all; ld.shared.u32 %r7, [%r5]; or.b32 %r6, %r6, %r7; setp.eq.u32 %p1, %r6, 7; @%p1 st.global.u32 [%d1], %r6; ret;";
  const TestKernel k(body, {m.allocate(kWords * stride)}, {kWords / 256}, {256}, ".shared .align 16 .b8 s[4096];");
  return m.predicted(k).dram_read / double(kWords);
}

TEST(FetchSize, LoadsSayIt) {
  EXPECT_NEAR(bytes_for("ld.global.u32 %r6, [%d3];", 128), 64, 1);
  EXPECT_NEAR(bytes_for("ld.global.L2::64B.u32 %r6, [%d3];", 128), 64, 1);
  EXPECT_NEAR(bytes_for("ld.global.L2::128B.u32 %r6, [%d3];", 128), 128, 1);
  EXPECT_NEAR(bytes_for("ld.global.L2::256B.u32 %r6, [%d3];", 256), 256, 1);
}

TEST(FetchSize, CopiesSayIt) {
  EXPECT_NEAR(bytes_for("mov.u32 %r6, 0; cp.async.cg.shared.global [%r5], [%d3], 16;", 128), 64, 1);
  EXPECT_NEAR(bytes_for("mov.u32 %r6, 0; cp.async.cg.shared.global.L2::128B [%r5], [%d3], 16;", 128), 128, 1);
  EXPECT_NEAR(bytes_for("mov.u32 %r6, 0; cp.async.cg.shared.global.L2::256B [%r5], [%d3], 16;", 256), 256, 1);
}

TEST(FetchSize, WhatComesAlongIsThere) {
  const ChipFigures f = figures_of(load_profile("h200"));
  Chip chip(f);
  Request first{1000, 1, 0, 0, FetchSize::line};
  chip.read_all({&first, 1});
  EXPECT_EQ(chip.counts().dram_read, 128);
  chip.read(1000, 8, 0, 100000);
  EXPECT_EQ(chip.counts().dram_read, 128);
  EXPECT_EQ(chip.counts().l2_read_sectors, 2);
}

}  // namespace
}  // namespace orrery::timing
