// What L1 holds: a piece of memory that just fits is found again, wherever it begins, by what an H200 asks of L2 (calib/raw/h200-2026-11-22-lines.jsonl:
// again_same/26, of which each SM reads 197 KB eight times: 1,137,990 sectors).
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

TEST(TimingL1, WhatFitsIsFoundAgain) {
  constexpr uint32_t kMegabytes = 26, kVectors = kMegabytes << 16;
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{kVectors} * 16), out = m.allocate(uint64_t{264} * 1024 * 4);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 1024, %r1;
    mov.u32 %r3, 0; mov.f32 %f1, 0f00000000;
  again:
    mov.u32 %r4, %r1;
  next:
    mul.wide.u32 %d3, %r4, 16; add.s64 %d3, %d1, %d3;
    ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%d3]; add.f32 %f1, %f1, %f2;
    add.u32 %r4, %r4, 270336; setp.lt.u32 %p1, %r4, )" + std::to_string(kVectors) + R"(; @%p1 bra next;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 8; @%p2 bra again;
    mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d2, %d4; st.global.f32 [%d4], %f1;
    ret;)",
                     {in, out}, {264}, {1024});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_tex_sectors, 1137990, 0.25 * 1137990);
}

}  // namespace
}  // namespace orrery::timing
