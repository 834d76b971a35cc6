// How long warps sleep, wait for the clock and read special registers, and how they order memory for their block, predicted: what an H200 takes for the same
// (calib/raw/h200-2026-11-29-pauses.jsonl, -firsts.jsonl, -special.jsonl).
// Expected values are differences of times measured there, at 1.98 GHz. Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr double kGigahertz = 1.98;

/// Cycles of a round of `what` by blocks of so many threads on each SM, by the difference between two counts of rounds.
double round_of(const std::string& what, uint32_t threads) {
  TestMachine m;
  const uint64_t data = m.allocate(4096), out = m.allocate(132 * 4096);
  const auto cycles = [&](int rounds) {
    const std::string body = fmt::format(
        "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r9, [p2]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3; add.u64 %d2, %d2, %d3; ld.global.f32 %f1, [%d1];\n"
        "mov.u32 %r2, 0;\n.pragma \"nounroll\";\nL: fma.rn.f32 %f1, %f1, %f1, %f1; {} add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {}; @%p1 bra L;\nst.global.f32 [%d2], %f1; ret;",
        what, rounds);
    const Prediction p = m.predicted(TestKernel(body, {data, out, 3000}, exec::Dim3{132}, {threads}));
    return p.method == "machine code" ? p.cycles : 0;
  };
  return (cycles(96) - cycles(32)) / 64;
}

TEST(TimingPauses, WarpsSleepToTheNextPowerOfTwo) {
  if (round_of("nanosleep.u32 0;", 32) == 0) GTEST_SKIP() << "no ptxas";
  const double none = 70;                                                                         // sleep/0: 38 ns less the loop
  EXPECT_NEAR(round_of("nanosleep.u32 1000;", 32), none + 972 * kGigahertz, 0.05 * 972 * kGigahertz);  // (sleep/1000 - sleep/0) / 100
  EXPECT_NEAR(round_of("nanosleep.u32 %r9;", 32), none + 4033 * kGigahertz, 0.05 * 4033 * kGigahertz);  // (sleep/3000 - sleep/0) / 100
}

TEST(TimingPauses, LoopsThatWaitForTheClockTurnMoreSlowlyBesideOthers) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto predicted = [&](uint32_t blocks, uint32_t threads) {
    const TestKernel k("ld.param.u64 %d1, [p0]; mov.u64 %d2, %clock64;\nL: mov.u64 %d3, %clock64; sub.s64 %d4, %d3, %d2; setp.lt.s64 %p1, %d4, 40000; @%p1 bra L;\n"
                       "setp.lt.s64 %p2, %d4, 0; @%p2 st.global.u64 [%d1], %d4; ret;", {out}, exec::Dim3{blocks}, {threads});
    return m.predicted(k);
  };
  const Prediction one = predicted(132, 32), many = predicted(264, 1024);
  if (one.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(one.cycles, 21.952e3 * kGigahertz, 0.08 * 21.952e3 * kGigahertz);   // spin_all/40 (calib/raw/h200-2026-11-29-firsts.jsonl)
  EXPECT_NEAR(many.cycles, 22.24e3 * kGigahertz, 0.1 * 22.24e3 * kGigahertz);     // spin_many/40
  EXPECT_NEAR(double(one.instructions), 811806, 0.05 * 811806);
  EXPECT_NEAR(double(many.instructions), 15022206, 0.05 * 15022206);
}

TEST(TimingPauses, L2IsAskedForMoreWhileALaunchWaits) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto sectors = [&](uint64_t cycles) {
    const TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d5, [p1]; mov.u64 %d2, %clock64;\nL: mov.u64 %d3, %clock64; sub.s64 %d4, %d3, %d2; setp.lt.s64 %p1, %d4, %d5; @%p1 bra L;\n"
                       "setp.lt.s64 %p2, %d4, 0; @%p2 st.global.u64 [%d1], %d4; ret;", {out, cycles}, exec::Dim3{1}, {32});
    return m.predicted(k).l2_sectors;
  };
  const double at_once = sectors(1000);
  EXPECT_NEAR(sectors(200'000) - at_once, 5140 - 3963, 0.1 * (5140 - 3963));      // spin_one/200 and 1, cold
  EXPECT_NEAR(sectors(1'000'000) - at_once, 5116 - 3963, 0.1 * (5116 - 3963));  // spin_one/1000
}

TEST(TimingPauses, SpecialRegistersComeOneAfterTheOther) {
  std::string reads = "mov.u32 %r4, 0;";
  for (int i = 0; i < 16; i++) reads += " mov.u32 %r3, %smid; add.u32 %r4, %r4, %r3;";
  reads += " cvt.rn.f32.u32 %f2, %r4; add.f32 %f1, %f1, %f2;";
  const double half = round_of(reads, 512);
  if (half == 0) GTEST_SKIP() << "no ptxas";
  const double more = (35.104 - 18.688) * 1e3 * kGigahertz / 64;  // special_sm/32 and 16, of 64 rounds
  EXPECT_NEAR(round_of(reads, 1024) - half, more, 0.1 * more);
}

TEST(TimingPauses, BarriersOfMemoryForTheBlockGoOneAfterTheOther) {
  const double one = round_of("membar.cta;", 32);
  if (one == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_LT(one, 30);                                                    // fence_block/1: 10
  EXPECT_NEAR(round_of("membar.cta;", 1024), 141, 0.15 * 141);    // (fence_block/32 - an empty launch) / 200
}

}  // namespace
}  // namespace orrery::timing
