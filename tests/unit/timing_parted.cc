// Loops that ptxas unrolls although lanes part inside of them, windows that turns share, grids of which few blocks store or half hardly differ, predicted: what an
// H200 executes and asks L2 for is in calib/raw/h200-2026-11-29-parted.jsonl (calib/steps/parted.cu). Without ptxas there is no machine code: skipped.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kMachineCode[] = "machine code";

/// An element of a lane's row, `k` behind where it is: its value is the diagonal's or takes part in the sum.
std::string element(int k, const std::string& name) {
  return fmt::format("ld.global.u32 %r10, [%d5+{0}]; setp.eq.s32 %p4, %r10, %r1; ld.global.f32 %f2, [%d6+{0}]; @%p4 bra OWN_{1};\n"
                     "mul.wide.s32 %d7, %r10, 4; add.s64 %d7, %d3, %d7; ld.global.f32 %f3, [%d7]; mul.f32 %f3, %f2, %f3; sub.f32 %f1, %f1, %f3; mov.f32 %f2, %f4;\nOWN_{1}: mov.f32 %f4, %f2;\n",
                     4 * k, name);
}

/// Rows of 8 to 24 elements a lane, one of `every` of 160, which the compiler goes through by fours and ptxas by sixteens, eights and fours. All four of an
/// element's blocks are in each turn of the machine's loop, and what counts turns stands in it once.
TEST(TimingParted, LanesPartInLoopsThatAreUnrolled) {
  constexpr int kRows = 30000;
  const auto executed = [](int every) {
    TestMachine m;
    const uint64_t columns = m.allocate(kRows * 160 * 4), values = m.allocate(kRows * 160 * 4), x = m.allocate(kRows * 4), out = m.allocate(kRows * 4);
    auto* const c = reinterpret_cast<uint32_t*>(columns);
    for (uint32_t i = 0; i < kRows * 160; i++) c[i] = i % 7 == 3 ? i / 160 : (i * 2654435761u >> 7) % kRows;
    const TestKernel k(
        "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; ld.param.u64 %d4, [p3]; ld.param.u32 %r11, [p4]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r2, 128, %r3;\n"
        "setp.ge.s32 %p1, %r1, 30000; @%p1 bra OUT; rem.u32 %r12, %r1, %r11; mov.u32 %r6, 160; setp.eq.u32 %p5, %r12, 0; @%p5 bra LONG;\n"
        "shr.u32 %r4, %r1, 16; xor.b32 %r4, %r4, %r1; mul.lo.u32 %r4, %r4, 0x85ebca6b; shr.u32 %r5, %r4, 13; xor.b32 %r4, %r4, %r5; mul.lo.u32 %r4, %r4, 0xc2b2ae35; shr.u32 %r5, %r4, 16; xor.b32 %r4, %r4, %r5;\n"
        "rem.u32 %r6, %r4, 17; add.u32 %r6, %r6, 8;\nLONG: mul.lo.u32 %r7, %r1, 160; mul.wide.u32 %d5, %r7, 4; add.s64 %d6, %d2, %d5; add.s64 %d5, %d1, %d5; mov.f32 %f1, 0f3F800000; mov.f32 %f4, %f1;\n"
        "and.b32 %r8, %r6, 3; sub.u32 %r9, %r6, %r8; setp.eq.s32 %p2, %r8, 0; @%p2 bra FOURS;\n"
        "ONE: .pragma \"nounroll\";\n" + element(0, "ONE") + "add.s64 %d5, %d5, 4; add.s64 %d6, %d6, 4; add.s32 %r8, %r8, -1; setp.ne.s32 %p3, %r8, 0; @%p3 bra ONE;\n"
        "FOURS: setp.lt.s32 %p2, %r9, 4; @%p2 bra DONE;\nFOUR:\n" + element(0, "0") + element(1, "1") + element(2, "2") + element(3, "3") +
            "add.s64 %d5, %d5, 16; add.s64 %d6, %d6, 16; add.s32 %r9, %r9, -4; setp.gt.s32 %p3, %r9, 0; @%p3 bra FOUR;\n"
            "DONE: add.f32 %f4, %f4, 0f41A00000; div.rn.f32 %f1, %f1, %f4; mul.wide.s32 %d7, %r1, 4; add.s64 %d7, %d4, %d7; st.global.f32 [%d7], %f1; OUT: ret;",
        {columns, values, x, out, uint64_t(every)}, {235}, {128});
    const Prediction p = m.predicted(k);
    for (const std::string& note : p.notes) EXPECT_EQ(note.find("could not be led"), std::string::npos) << note;
    return p.method == kMachineCode ? double(p.instructions) : 0;
  };
  const double of_short = executed(100000);
  if (of_short == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(of_short, 394230, 0.16 * 394230);  // rows_if/100000, of whose text as the compiler writes it ptxas makes somewhat more
  EXPECT_NEAR(executed(97) - of_short, 770283 - 394230, 0.1 * (770283 - 394230));  // rows_if/97
}

/// Windows of a column in shared memory that turns of a loop share: what two turns want is loaded once, so that only what is stored tells how many turns ptxas has
/// put side by side.
TEST(TimingParted, WindowsThatTurnsShareAreLoadedOnce) {
  const auto executed = [](int reach) {
    TestMachine m;
    const uint64_t out = m.allocate(64 * 16 * 2048 * 4);
    std::string sums = "mov.f32 %f1, 0f00000000;\n";
    for (int k = 0; k < reach; k++) sums += fmt::format("ld.shared.f32 %f2, [%r6+{}]; ld.shared.f32 %f3, [weights+{}]; fma.rn.f32 %f1, %f2, %f3, %f1;\n", 128 * k, 4 * k);
    const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; mov.u32 %r4, tile; shl.b32 %r5, %r1, 2; add.u32 %r6, %r4, %r5; st.shared.u32 [%r6], %r1;\n"
                       "mov.u32 %r7, weights; and.b32 %r8, %r5, 63; add.u32 %r7, %r7, %r8; st.shared.u32 [%r7], %r1; bar.sync 0;\n"
                       "mad.lo.u32 %r9, %r3, 131072, %r1; mad.lo.u32 %r9, %r2, 32, %r9; mul.wide.u32 %d2, %r9, 4; add.s64 %d1, %d1, %d2; shr.u32 %r10, %r1, 5;\n"
                       "TURN:\n" + sums + "st.global.f32 [%d1], %f1; add.s64 %d1, %d1, 65536; add.u32 %r6, %r6, 1024; add.u32 %r10, %r10, 8; setp.lt.u32 %p1, %r10, 64; @%p1 bra TURN; ret;",
                       {out}, {64, 16}, {256}, ".shared .align 4 .b8 tile[12000]; .shared .align 4 .b8 weights[128];");
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? double(p.instructions) : 0;
  };
  const double narrow = executed(17);
  if (narrow == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(executed(25) - narrow, 5233664 - 4417536, 0.35 * (5233664 - 4417536));  // window/25, 17
}

/// Only threads at the edges of a cube of 128 x 128 x 128 words write. Blocks inside execute about as much as those, and touch nothing.
TEST(TimingParted, BlocksAtTheEdgesAloneStore) {
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{128} * 128 * 128 * 4);
  std::string sides;
  for (const char* r : {"%r7", "%r8", "%r9"}) sides += fmt::format("setp.eq.u32 %p1, {0}, 0; @%p1 bra EDGE; setp.eq.u32 %p1, {0}, 127; @%p1 bra EDGE;\n", r);
  const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z; mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %tid.z;\n"
                     "mad.lo.u32 %r7, %r1, 8, %r4; mad.lo.u32 %r8, %r2, 8, %r5; mad.lo.u32 %r9, %r3, 4, %r6;\n" + sides +
                         "bra OUT; EDGE: mad.lo.u32 %r10, %r9, 128, %r8; mad.lo.u32 %r10, %r10, 128, %r7; mul.wide.u32 %d2, %r10, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], 1; OUT: ret;",
                     {out}, {16, 16, 32}, {8, 8, 4});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_sectors, 90301, 0.1 * 90301);  // edges/128
}

/// Of blocks that leave and blocks that stay the latter do not quite the same: a kind is not less than a hundredth of the work.
TEST(TimingParted, BlocksThatHardlyDifferAreOfOneKind) {
  const auto executed = [](int staying, std::vector<std::string>& notes) {
    TestMachine m;
    const uint64_t out = m.allocate(2048 * 1024);
    const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; setp.ge.u32 %p1, %r2, " + std::to_string(staying) + "; @%p1 bra OUT;\n"
                       "and.b32 %r4, %r2, 7; setp.eq.u32 %p3, %r4, 3; selp.u32 %r5, 2049, 2048, %p3; cvt.rn.f32.u32 %f1, %r1; mov.u32 %r3, 0;\n"
                       "TURN: .pragma \"nounroll\"; fma.rn.f32 %f1, %f1, %f1, %f1; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r5; @%p2 bra TURN;\n"
                       "mad.lo.u32 %r6, %r2, 256, %r1; mul.wide.u32 %d2, %r6, 4; add.s64 %d1, %d1, %d2; st.global.f32 [%d1], %f1; OUT: ret;",
                       {out}, {2048}, {256});
    const Prediction p = m.predicted(k);
    notes = p.notes;
    return p.method == kMachineCode ? double(p.instructions) : 0;
  };
  std::vector<std::string> notes;
  const double half = executed(1024, notes);
  if (half == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_THAT(notes, testing::Contains(testing::HasSubstr("blocks do 2 kinds of work")));
  EXPECT_NEAR(half / executed(512, notes), 76883080.0 / 38482580, 0.03);  // nearly/50, 25
}

}  // namespace
}  // namespace orrery::timing
