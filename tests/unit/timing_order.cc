// Whose turn it is: warps of the block that began first go before those of later ones, by what an H200 takes for short blocks that divide before
// they load (calib/raw/h200-2026-11-28-fields.jsonl: divided_copy4/16777216, 73.8 us). Where the youngest go first, those that only have to store
// and end wait for the divisions of new ones: 84.4 us. Warps of one block go by turns (calib/raw/h200-2026-11-28-pace.jsonl). All go round in turn where
// a loop lets others go first just before it branches (calib/raw/h200-2026-11-29-yields.jsonl). With ptxas only.
#include "timing_kernel.h"

#include <algorithm>

namespace orrery::timing {
namespace {

TEST(TimingOrder, BlocksThatBeganFirstEndFirst) {
  constexpr uint32_t kWords = 1 << 24;
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{kWords} * 4), out = m.allocate(uint64_t{kWords} * 4);
  std::string divisions;
  for (int k = 0; k < 4; k++)
    divisions += "add.u32 %r4, %r3, " + std::to_string(k) + "; div.u32 %r5, %r2, %r4; mul.lo.u32 %r6, %r5, %r4; sub.u32 %r7, %r2, %r6; add.u32 %r8, %r8, %r7; mov.u32 %r2, %r5;\n";
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r3, [p2];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1; mov.u32 %r2, %r1; mov.u32 %r8, 0;
    )" + divisions + R"(
    setp.eq.u32 %p1, %r8, -1; selp.u32 %r9, 1, 0, %p1; sub.u32 %r9, %r1, %r9;
    mul.wide.u32 %d3, %r9, 4; add.s64 %d3, %d1, %d3; ld.global.u32 %r10, [%d3];
    mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d2, %d4; st.global.u32 [%d4], %r10;
    ret;)",
                     {in, out, 7}, {kWords / 256}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.microseconds, 73.8, 0.08 * 73.8);
}

/// Warps of a block that load what L1 holds, words one after the other, and add up: 32 of them end between 597 and 627 thousand cycles after the first began.
TEST(TimingOrder, WarpsOfABlockThatLoadEndTogether) {
  TestMachine m;
  const uint64_t in = m.allocate(1 << 16), out = m.allocate(uint64_t{132} * 1024 * 4);
  std::string loads, sums;
  for (int i = 0; i < 8; i++) {
    const std::string n = std::to_string(i), to = std::to_string(20 + i);
    loads += "add.u32 %r5, %r4, " + n + "; and.b32 %r5, %r5, 63; shl.b32 %r5, %r5, 7; cvt.u64.u32 %d5, %r5; add.s64 %d6, %d3, %d5; ld.global.ca.f32 %f" + to + ", [%d6];\n";
    sums += "add.f32 %f" + std::to_string(i % 4) + ", %f" + std::to_string(i % 4) + ", %f" + to + ";\n";
  }
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r9, [p2]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; mul.wide.u32 %d3, %r2, 4; add.s64 %d3, %d1, %d3;
    mov.f32 %f0, 0f00000000; mov.f32 %f1, 0f00000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.u32 %r4, 0; bar.sync 0; mov.u64 %d8, %clock64;
    A: )" + loads + sums + R"( add.u32 %r4, %r4, 8; setp.lt.u32 %p1, %r4, %r9; @%p1 bra A;
    mov.u64 %d9, %clock64; sub.s64 %d9, %d9, %d8; add.f32 %f0, %f0, %f1; add.f32 %f0, %f0, %f2; add.f32 %f0, %f0, %f3;
    mov.u32 %r6, %ctaid.x; mad.lo.u32 %r6, %r6, 1024, %r1; cvt.rn.f32.s64 %f4, %d9; setp.lt.f32 %p2, %f4, 0f00000000; selp.f32 %f0, %f4, %f0, %p2; mul.wide.u32 %d7, %r6, 4; add.s64 %d7, %d2, %d7; st.global.f32 [%d7], %f0; ret;)",
                     {in, out, 256 * 8}, {132}, {1024});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  ASSERT_EQ(p.clocks.size(), 32u);
  const auto [first, last] = std::minmax_element(p.clocks.begin(), p.clocks.end());
  EXPECT_GT(*first, 0.9 * *last);
}

/// Two blocks of 256 threads on an SM add up, `sums` products a turn: cycles a turn that the first takes. ptxas makes a short loop's last product wait for
/// the test behind it, and let others go first; in a longer one nothing waits.
double turn_of_first(uint32_t sums) {
  constexpr uint32_t kTurns = 512;
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{264} * 256 * 4);
  std::string products, all;
  for (uint32_t i = 0; i < sums; i++) products += "fma.rn.f32 %f" + std::to_string(i % 8) + ", %f" + std::to_string(i % 8) + ", %f8, %f9;\n";
  for (int i = 1; i < 8; i++) all += "add.f32 %f0, %f0, %f" + std::to_string(i) + ";\n";
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; cvt.rn.f32.u32 %f8, %r1; mov.u32 %r2, %ctaid.x; cvt.rn.f32.u32 %f9, %r2;
    mov.f32 %f0, %f8; mov.f32 %f1, %f9; mov.f32 %f2, %f8; mov.f32 %f3, %f9; mov.f32 %f4, %f8; mov.f32 %f5, %f9; mov.f32 %f6, %f8; mov.f32 %f7, %f9;
    mov.u32 %r4, 0; bar.sync 0; mov.u64 %d8, %clock64;
    A: .pragma "nounroll";
    )" + products + R"( add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, %r9; @%p1 bra A;
    mov.u64 %d9, %clock64; sub.s64 %d9, %d9, %d8; cvt.rn.f32.s64 %f10, %d9; )" + all + R"( setp.lt.f32 %p2, %f10, 0f00000000; selp.f32 %f0, %f10, %f0, %p2;
    mad.lo.u32 %r6, %r2, 256, %r1; mul.wide.u32 %d7, %r6, 4; add.s64 %d7, %d1, %d7; st.global.f32 [%d7], %f0; ret;)",
                     {out, kTurns}, {264}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code" || p.clocks.empty()) return 0;
  return *std::max_element(p.clocks.begin(), p.clocks.end()) / kTurns;
}

/// orig of the raw file, 8 warps and two blocks: loop8 50.1 cycles a turn of either block, loop32 70.5 of the first and 140 of the second.
TEST(TimingOrder, BlocksGoRoundInTurnWhereALoopLetsOthersGoFirst) {
  const double turns = turn_of_first(8), first = turn_of_first(32);
  if (turns == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(turns, 50.1, 5);
  EXPECT_NEAR(first, 70.5, 3);
}

/// Four blocks of an SM that read the same 4 KB in each of 64 steps and work on them in such a loop: three find it in L1, though that holds a quarter of what
/// they go over [locked_held4/528 of calib/raw/h200-2026-11-29-locked.jsonl: 4.36 of 17.3 million sectors come to the SMs; where the first block goes first they
/// part, and 0.78 do].
TEST(TimingOrder, BlocksThatReadTheSameStayTogether) {
  TestMachine m;
  const uint64_t in = m.allocate(64 << 12), out = m.allocate(uint64_t{528} * 256 * 4);
  std::string products;
  for (int i = 0; i < 8; i++) products += "fma.rn.f32 %f" + std::to_string(i) + ", %f" + std::to_string(i) + ", %f8, %f9;\n";
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %d3, %r1, 16; add.s64 %d1, %d1, %d3;
    shl.b32 %r3, %r1, 4; mov.u32 %r5, room; add.u32 %r5, %r5, %r3; mov.u32 %r6, 0;
    mov.f32 %f0, 0f3F800000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0; mov.f32 %f4, %f0; mov.f32 %f5, %f0; mov.f32 %f6, %f0; mov.f32 %f7, %f0;
    B: .pragma "nounroll";
    ld.global.v4.f32 {%f10, %f11, %f12, %f13}, [%d1]; st.shared.v4.f32 [%r5], {%f10, %f11, %f12, %f13}; bar.sync 0; ld.shared.v2.f32 {%f8, %f9}, [%r5]; mov.u32 %r4, 0;
    A: .pragma "nounroll";
    )" + products + R"( add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 100; @%p1 bra A;
    bar.sync 0; add.s64 %d1, %d1, 4096; add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 64; @%p2 bra B;
    add.f32 %f0, %f0, %f1; add.f32 %f2, %f2, %f3; add.f32 %f4, %f4, %f5; add.f32 %f6, %f6, %f7; add.f32 %f0, %f0, %f2; add.f32 %f4, %f4, %f6; add.f32 %f0, %f0, %f4;
    mad.lo.u32 %r7, %r2, 256, %r1; mul.wide.u32 %d4, %r7, 4; add.s64 %d4, %d2, %d4; st.global.f32 [%d4], %f0; ret;)",
                     {in, out}, {528}, {256}, ".shared .align 16 .b8 room[48000];");
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l1_hit_rate, 0.75, 0.03);
}

/// A product of matrices of 1,024 rows in which each thread adds up one sum: blocks of 32 rows begin side by side, and most of those that begin later are the
/// first to read their columns. One of a public collection takes 366.6 us on an H200 and asks L2 for 6.73 million sectors (580.159.04, ncu, caches flushed).
TEST(TimingOrder, TheSmThatStandsForAllReadsWhatIsNewAsMostDo) {
  constexpr uint64_t kSide = 1024;
  TestMachine m;
  const uint64_t a = m.allocate(kSide * kSide * 4), b = m.allocate(kSide * kSide * 4), c = m.allocate(kSide * kSide * 4);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; ld.param.u32 %r9, [p3]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; shr.u32 %r3, %r1, 5;
    mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y; mad.lo.s32 %r6, %r5, 32, %r2; mad.lo.s32 %r7, %r4, 32, %r3; mul.lo.s32 %r10, %r7, %r9; mul.wide.s32 %d4, %r10, 4;
    mul.wide.s32 %d5, %r6, 4; add.s64 %d10, %d2, %d5; mul.wide.s32 %d9, %r9, 4; mov.f32 %f1, 0f00000000; mov.u32 %r8, %r9; mov.u64 %d11, %d1;
    A: add.s64 %d12, %d11, %d4; ld.global.f32 %f2, [%d10]; ld.global.f32 %f3, [%d12]; fma.rn.f32 %f4, %f3, %f2, %f1;
    add.s64 %d13, %d10, %d9; ld.global.f32 %f5, [%d13]; ld.global.f32 %f6, [%d12+4]; fma.rn.f32 %f7, %f6, %f5, %f4;
    add.s64 %d14, %d13, %d9; ld.global.f32 %f8, [%d14]; ld.global.f32 %f9, [%d12+8]; fma.rn.f32 %f10, %f9, %f8, %f7;
    add.s64 %d15, %d14, %d9; add.s64 %d10, %d15, %d9; ld.global.f32 %f11, [%d15]; ld.global.f32 %f12, [%d12+12]; fma.rn.f32 %f1, %f12, %f11, %f10;
    add.s64 %d11, %d11, 16; add.s32 %r8, %r8, -4; setp.ne.s32 %p1, %r8, 0; @%p1 bra A;
    add.s32 %r11, %r10, %r6; mul.wide.s32 %d16, %r11, 4; add.s64 %d16, %d3, %d16; ld.global.f32 %f13, [%d16]; fma.rn.f32 %f1, %f13, 0f40400000, %f1; st.global.f32 [%d16], %f1; ret;)",
                     {a, b, c, kSide}, {kSide / 32, kSide / 32}, {1024});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.microseconds, 366.6, 0.17 * 366.6);
  EXPECT_NEAR(p.l2_sectors, 6.73e6, 0.15 * 6.73e6);
}

}  // namespace
}  // namespace orrery::timing
