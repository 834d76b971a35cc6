// Whose turn it is: warps of the block that began first go before those of later ones, by what an H200 takes for short blocks that divide before
// they load (calib/raw/h200-2026-11-28-fields.jsonl: divided_copy4/16777216, 73.8 us). Where the youngest go first, those that only have to store
// and end wait for the divisions of new ones: 84.4 us. With ptxas only.
#include "timing_kernel.h"

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

}  // namespace
}  // namespace orrery::timing
