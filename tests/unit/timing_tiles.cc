// Products by blocks that go through several tiles, and rings of copies whose consumers release what they have read to a cluster, predicted. Counts follow from
// the program, times are those of calib/raw/h200-2026-11-29-copy-fences.jsonl. Without ptxas there is no machine code to go through: skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kMachineCode[] = "machine code";

/// Sums of a warpgroup are cleared ahead of each tile's loop: by moves that all stem from one of PTX, as copies of an unrolled loop's turns do. Each tile's
/// products are issued.
TEST(TimingTiles, WhatClearsSumsIsNoUnrolledLoop) {
  TestMachine m;
  const uint64_t out = m.allocate(1 << 17);
  const auto executed = [&](uint32_t tiles, uint32_t steps) {
    std::string clear = "mov.f32 %s0, 0f00000000;\n", sums = "%s0", stores;
    for (int i = 1; i < 128; i++) clear += fmt::format("mov.f32 %s{}, %s0;\n", i), sums += fmt::format(",%s{}", i);
    for (int i = 0; i < 128; i++) stores += fmt::format("st.global.f32 [%d2+{}], %s{};\n", i * 512, i);
    const std::string products = fmt::format("wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {{{}}}, %d3, %d3, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n", sums);
    const TestKernel k(".reg .f32 %s<128>; ld.param.u64 %d1, [p0]; ld.param.u32 %r8, [p1]; ld.param.u32 %r9, [p2]; mov.u32 %r1, %tid.x; mad.wide.u32 %d2, %r1, 4, %d1; mov.u64 %d3, 0x4000004000000000; mov.u32 %r2, 0;\n"
                       "TILE: .pragma \"nounroll\";\n" + clear + "setp.eq.u32 %p3, %r9, 0; @%p3 bra END;\n" + clear + "mov.u32 %r3, 0;\nSTEP: .pragma \"nounroll\";\n" + products + "setp.gt.u32 %p4, %r1, 1; @%p4 bra NONE; st.global.u32 [%d2+65536], %r3;\nNONE:\n" + products +
                           "add.u32 %r3, %r3, 2; setp.lt.u32 %p1, %r3, %r9; @%p1 bra STEP;\nEND:\n" + stores + "add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, %r8; @%p2 bra TILE; ret;",
                       {out, tiles, steps}, {1}, {128});
    const Prediction p = m.predicted(k);
    for (const std::string& note : p.notes) EXPECT_EQ(note.find("could not be led"), std::string::npos) << note;
    return p.method == kMachineCode ? p.instructions : 0;
  };
  const double one = executed(1, 4);
  if (one == 0) GTEST_SKIP() << "no ptxas";
  const double turn = (executed(1, 8) - one) / 2, tile = executed(2, 4) - one;
  EXPECT_GT(turn, 4 * 8) << "a warp's two products with what is around them";
  EXPECT_NEAR(executed(4, 8) - executed(3, 8), tile + 2 * turn, 4 * 4);
  EXPECT_NEAR(executed(5, 16), one + 4 * tile + 30 * turn, 0.01 * (one + 4 * tile + 30 * turn));
}

}  // namespace
}  // namespace orrery::timing
