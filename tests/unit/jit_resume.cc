// Warps that the interpreter began and that go on in compiled code, in the middle of a loop.
#include "jit_run.h"

namespace orrery {
namespace {

/// The code becomes ready when the blocks have begun. What goes on in compiled code stays there: it is not given back at every
/// iteration.
void resumes(const std::string& body, bool does = true, exec::Dim3 grid = {2}, exec::Dim3 block = {64}) {
  setenv("ORRERY_CACHE", "off", 1);
  constexpr int kAfterTheStart = 3;
  const Outcome a = run(body, grid, block, 150, true, "", kAfterTheStart), b = run(body, grid, block, 150, false);
  EXPECT_EQ(a.fault, b.fault);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.resumed > 0, does);
  EXPECT_LT(a.resumed, 1000u);
}

TEST(JitResume, OneLoop) {
  resumes(kStart + "mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                   "L: mad.lo.u32 %r6, %r6, 1664525, %r5; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 60000; @%p1 bra L;\n"
                   "add.u32 %r6, %r6, %r2; st.global.u32 [%d1], %r6; ret;");
}

TEST(JitResume, AShortLoopIsNot) {
  resumes(kStart + "mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                   "L: mad.lo.u32 %r6, %r6, 1664525, %r5; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 100; @%p1 bra L;\n"
                   "st.global.u32 [%d1], %r6; ret;", false);
}

TEST(JitResume, InnerLoopsOfDifferentLengths) {
  resumes(kStart + "mov.u32 %r5, 0; mov.u32 %r6, 1; and.b32 %r7, %r2, 7;\n"
                   "O: mov.u32 %r8, 0;\n"
                   "I: mad.lo.u32 %r6, %r6, 1664525, %r8; add.u32 %r8, %r8, 1; setp.le.u32 %p1, %r8, %r7; @%p1 bra I;\n"
                   "add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 20000; @%p2 bra O; st.global.u32 [%d1], %r6; ret;");
}

/// Lanes that do not take the branch wait behind the loop: where there are some, compiled code goes on there.
TEST(JitResume, ALoopThatSomeLanesSkip) {
  const std::string loop =
      "mov.u32 %r5, 0; mov.u32 %r6, 1; @%p3 bra E;\n"
      "L: mad.lo.u32 %r6, %r6, 1664525, %r5; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 60000; @%p1 bra L;\n"
      "E: bar.warp.sync 0xffffffff; add.u32 %r6, %r6, %r2; st.global.u32 [%d1], %r6; ret;";
  resumes(kStart + "setp.gt.u32 %p3, %r1, %r3;\n" + loop);  // block 0 takes it as a whole
  resumes(kStart + "and.b32 %r4, %r1, 1; setp.eq.u32 %p3, %r4, 1;\n" + loop);
}

TEST(JitResume, LanesThatHaveLeft) {
  resumes(kStart + "and.b32 %r4, %r1, 3; setp.eq.u32 %p3, %r4, 1; @%p3 ret; mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                   "L: mad.lo.u32 %r6, %r6, 1664525, %r5; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 60000; @%p1 bra L;\n"
                   "st.global.u32 [%d1], %r6; ret;");
}

/// Lanes that skip the loop have left the kernel before the others come to its end.
TEST(JitResume, LanesThatLeaveBehindTheLoop) {
  resumes(kStart + "and.b32 %r4, %r1, 3; setp.eq.u32 %p3, %r4, 1; mov.u32 %r5, 0; mov.u32 %r6, 1; @%p3 bra E;\n"
                   "L: mad.lo.u32 %r6, %r6, 1664525, %r5; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 1200000; @%p1 bra L;\n"
                   "E: st.global.u32 [%d1], %r6; ret;", true, {1}, {32});
}

/// Loops that are short between barriers: the code is taken up there, and no other is asked for.
TEST(JitResume, BarriersBetweenShortLoops) {
  setenv("ORRERY_CACHE", "off", 1);
  const std::string body = kStart + "mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                           "O: mov.u32 %r8, 0;\n"
                           "I: mad.lo.u32 %r6, %r6, 1664525, %r8; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 30; @%p1 bra I;\n"
                           "bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 300; @%p2 bra O; st.global.u32 [%d1], %r6; ret;";
  const Outcome a = run(body, {1}, {64}, 150, true, "", 2), b = run(body, {1}, {64}, 150, false);
  EXPECT_EQ(a.memory, b.memory);
  EXPECT_EQ(a.native_blocks, 1u);
  EXPECT_EQ(a.resumed, 0u);
}

/// The warps meet in the loop, too: compiled code is left and entered there.
TEST(JitResume, ABarrierInTheLoop) {
  resumes(kStart + "mov.u32 %r5, 0; mov.u32 %r6, 1;\n"
                   "O: mov.u32 %r8, 0;\n"
                   "I: mad.lo.u32 %r6, %r6, 1664525, %r8; add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, 90000; @%p1 bra I;\n"
                   "bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra O; st.global.u32 [%d1], %r6; ret;");
}

}  // namespace
}  // namespace orrery
