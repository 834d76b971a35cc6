// Blocks that add up what they have one after the other, each when a word says that the one before it has (a product whose sums are split over blocks), predicted.
// What a block more takes is what an H200 took: calib/raw/h200-2026-11-29-serial.jsonl. Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kMachineCode[] = "machine code";
constexpr int kWords = 16;

/// `parts` blocks for each of 8 tiles, each of which adds 16 words a thread to those of its tile when `wait` has let it through (r6: which part it is).
Prediction of_parts(uint32_t parts, const std::string& wait) {
  TestMachine m;
  const uint64_t words = m.allocate(8 * 128), sums = m.allocate(8 * kWords * 1024), out = m.allocate(8 * kWords * 1024);
  std::memset(reinterpret_cast<void*>(words), 0, 8 * 128);
  std::string adds;
  for (int k = 0; k < kWords; k++)
    adds += fmt::format("mov.f32 %f2, 0f00000000; @%p3 ld.global.cg.f32 %f2, [%d2+{0}]; add.f32 %f3, %f2, %f1; @%p4 st.global.cg.f32 [%d2+{0}], %f3; @!%p4 st.global.f32 [%d3+{0}], %f3;\n", k * 1024);
  const TestKernel k(
      "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; mov.u32 %r1, %tid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mov.u32 %r7, %nctaid.y; sub.u32 %r7, %r7, 1;\n"
      "mul.wide.u32 %d4, %r5, 128; add.s64 %d1, %d1, %d4; mad.lo.u32 %r8, %r5, 4096, %r1; mul.wide.u32 %d5, %r8, 4; add.s64 %d2, %d2, %d5; add.s64 %d3, %d3, %d5; cvt.rn.f32.u32 %f1, %r1;\n"
      "setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p3, %r6, 0; setp.ne.u32 %p4, %r6, %r7; @%p1 bra MET;\n" + wait + "\nMET: bar.sync 0;\n" + adds +
          "membar.gl; bar.sync 0; @%p1 bra OUT; @!%p4 bra LAST; red.global.add.u32 [%d1], 1; bra OUT; LAST: mov.u32 %r9, 0; st.global.u32 [%d1], %r9; OUT: ret;",
      {words, sums, out}, {8, parts}, {256});
  return m.predicted(k);
}

constexpr char kAddsNothing[] = "LOOK: atom.global.add.u32 %r10, [%d1], 0; setp.ne.u32 %p2, %r10, %r6; @%p2 bra LOOK;";

TEST(TimingSerial, EachPartWaitsForTheOneBefore) {
  const Prediction few = of_parts(8, kAddsNothing), many = of_parts(16, kAddsNothing);
  if (few.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((many.microseconds - few.microseconds) / 8, (57.344 - 29.664) / 8, 0.2 * (57.344 - 29.664) / 8);  // serial_8/8, 16
  const std::string loads = "LOOK: ld.volatile.global.u32 %r10, [%d1]; setp.ne.u32 %p2, %r10, %r6; @%p2 bra LOOK;";
  EXPECT_NEAR(of_parts(16, loads).microseconds / many.microseconds, 1, 0.05) << "serial_load_33/4, serial_33/4: 25.2 us both";
}

TEST(TimingSerial, ALoopThatIsNotSeenToWaitIsToldOf) {
  const std::string stores = "LOOK: atom.global.add.u32 %r10, [%d1], 0; st.global.u32 [%d1+64], %r10; setp.ne.u32 %p2, %r10, %r6; @%p2 bra LOOK;";
  EXPECT_THAT(of_parts(4, stores).notes, testing::Contains(testing::HasSubstr("a block that is run alone does not end")));
}

}  // namespace
}  // namespace orrery::timing
