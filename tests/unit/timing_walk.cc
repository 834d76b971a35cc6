// A warp's way through machine code, by what an H200 takes for it: calib/raw/h200-2026-11-22-turns.jsonl and
// h200-2026-11-26-parts.jsonl. With ptxas only: what it does to the code is what is tested.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr char kMachineCode[] = "machine code";

/// A loop without an access of memory is gone through as often as the trace says, between the two readings of the clock.
TEST(TimingWalk, LoopsOfFencesTakeWhatTheyTake) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto cycles_of = [&](uint64_t rounds) {
    std::string fences;
    for (int i = 0; i < 8; i++) fences += "fence.proxy.async.shared::cta;\n";
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u32 %r7, [p1]; mov.u32 %r1, %tid.x; setp.gt.s32 %p1, %r1, 8191; @%p1 bra B; mov.u32 %r2, %ntid.x;
      A: add.s32 %r1, %r1, %r2; setp.lt.s32 %p2, %r1, 8192; @%p2 bra A;
      B: bar.sync 0; mov.u64 %d5, %clock64; setp.lt.s32 %p3, %r7, 1; @%p3 bra D; mov.u32 %r3, 0;
      C: .pragma "nounroll";
      )" + fences + R"(
      add.s32 %r3, %r3, 1; setp.lt.s32 %p4, %r3, %r7; @%p4 bra C;
      D: mov.u64 %d6, %clock64; mov.u32 %r9, %tid.x; sub.s64 %d7, %d6, %d5; st.global.u64 [%d1+1024], %d7; shr.u32 %r10, %r9, 5; and.b32 %r11, %r9, 31; mad.lo.s32 %r12, %r11, %r10, %r7; mul.wide.u32 %d2, %r9, 4; add.s64 %d2, %d1, %d2;
      st.global.u32 [%d2], %r12; ret;)",
                       {out, rounds});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode && !p.clocks.empty() ? p.clocks[0] : 0;
  };
  const double few = cycles_of(8);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((cycles_of(40) - few) / (32 * 8), 12.6, 3) << "cycles a fence [turns.fence_alone.warps1]";
}

/// An mbarrier's address is in a register that all lanes share: lanes that make one each go through a loop (a ring of 18 of a product on an H200: 61 cycles a
/// turn, kernels/NOTES.md, "what a launch does before it begins"; alone they would take four).
TEST(TimingWalk, LanesMakeTheirBarriersByTurns) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto cycles_of = [&](int lanes) {
    const TestKernel k(R"(
      .shared .align 8 .b8 room[256];
      ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, room; shl.b32 %r3, %r1, 3; add.u32 %r4, %r2, %r3; mov.u64 %d5, %clock64;
      setp.ge.u32 %p1, %r1, )" + std::to_string(lanes) + R"(; @%p1 bra B;
      mbarrier.init.shared::cta.b64 [%r4], 1; fence.mbarrier_init.release.cluster;
      B: bar.sync 0; mov.u64 %d6, %clock64; sub.s64 %d7, %d6, %d5; st.global.u64 [%d1], %d7; ret;)",
                       {out}, {1}, {128});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.cycles : 0;
  };
  const double few = cycles_of(4);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((cycles_of(16) - few) / 12, 61, 25);
}

/// A loop that clears an array is stores in a row in machine code: its 45 turns are one way through them, and what comes after is found.
TEST(TimingWalk, ALoopOfWhichOnlyStoresAreLeftIsGoneThroughAtOnce) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const TestKernel k(R"(
    .local .align 8 .b8 room[192];
    ld.param.u64 %d1, [p0]; mov.u64 %d2, room; mov.u32 %r1, 0; mov.u32 %r5, 0; mov.u32 %r6, %tid.x;
    A: mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3; st.local.u32 [%d4], %r5; add.u32 %r1, %r1, 1; setp.ne.u32 %p1, %r1, 45; @%p1 bra A;
    mul.wide.u32 %d3, %r6, 4; add.s64 %d4, %d2, %d3; st.local.u32 [%d4], %r6; mov.u32 %r7, 0; mov.u32 %r8, 0;
    B: .pragma "nounroll"; and.b32 %r9, %r7, 31; mul.wide.u32 %d5, %r9, 4; add.s64 %d6, %d2, %d5; ld.local.u32 %r10, [%d6]; add.u32 %r8, %r8, %r10; add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r6; @%p2 bra B;
    mul.wide.u32 %d7, %r6, 4; add.s64 %d8, %d1, %d7; st.global.u32 [%d8], %r8; ret;)",
                     {out}, {1}, {32});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  for (const std::string& note : p.notes) EXPECT_EQ(note.find("could not be led"), std::string::npos) << note;
  EXPECT_GT(p.instructions, 31 * 5) << "the loop after it, of as many turns as the last lane takes";
}

/// ptxas tests ahead of a loop whether four turns at once are left, and has two turns and one beside it for the rest; in a loop around them, too.
TEST(TimingWalk, UnrolledLoopsGoOnAsLongAsTurnsAreLeft) {
  TestMachine m;
  const uint64_t from = m.allocate(1 << 20), out = m.allocate(4096);
  const std::string row = R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r9, [p2]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.f32 %f1, 0f00000000;
    mul.lo.s32 %r3, %r2, %r9; mul.wide.s32 %d3, %r3, 4; add.s64 %d4, %d1, %d3;)";
  const std::string end = R"( mul.wide.u32 %d7, %r1, 4; add.s64 %d8, %d2, %d7; st.global.f32 [%d8], %f1; ret;)";
  const std::string turn = R"(mul.wide.s32 %d5, %r4, 4; add.s64 %d6, %d4, %d5; ld.global.nc.f32 %f2, [%d6]; add.f32 %f1, %f1, %f2; add.s32 %r4, %r4, 32; setp.lt.s32 %p2, %r4, %r9; @%p2 bra A;)";
  const auto predicted = [&](const std::string& body, uint64_t words) {
    const Prediction p = m.predicted(TestKernel(row + body + end, {from, out, words}, {1}, {32}));
    if (p.method == kMachineCode)
      for (const std::string& note : p.notes) EXPECT_EQ(note.find("could not be led"), std::string::npos) << note;
    return p.method == kMachineCode ? p.instructions : 0;
  };
  const std::string alone = "setp.ge.s32 %p1, %r1, %r9; mov.u32 %r4, %r1; @%p1 bra B; A: " + turn + " B:";
  const std::string around = "mov.u32 %r8, 0; C: add.s32 %r8, %r8, 1; setp.ge.s32 %p1, %r1, %r9; mov.u32 %r4, %r1; @%p1 bra B; A: " + turn +
                             " B: bar.sync 0; setp.lt.s32 %p3, %r8, 2; @%p3 bra C;";
  for (const int rows : {1, 2}) {
    const std::string& body = rows == 1 ? alone : around;
    const double few = predicted(body, 768), many = predicted(body, 768 + 32 * 64);
    if (few == 0) GTEST_SKIP() << "no ptxas";
    const double a_turn = (many - few) / (64 * rows);
    EXPECT_GT(a_turn, 2) << "load and addition";
    EXPECT_LT(a_turn, 8.5) << "and what the loop takes: no test for the rest at every turn";
  }
}

/// Atomic operations, four a turn, in a loop that ptxas unrolls four times over: one turn goes by the tests for sixteen and eight operations to a loop of its own.
TEST(TimingWalk, OneTurnOfALoopThatIsUnrolledOnceMore) {
  TestMachine m;
  const TestKernel k(R"(
    ld.param.u64 %d2, [p0]; ld.param.u32 %r8, [p1]; cvta.to.global.u64 %d1, %d2; mov.u32 %r9, %ntid.x; mov.u32 %r10, %ctaid.x; mov.u32 %r11, %tid.x;
    mad.lo.s32 %r1, %r10, %r9, %r11; setp.lt.s32 %p1, %r8, 1; @%p1 bra F;
    add.s32 %r12, %r8, -1; and.b32 %r19, %r8, 3; setp.lt.u32 %p2, %r12, 3; @%p2 bra D;
    sub.s32 %r18, %r8, %r19;
    C: atom.global.exch.b32 %r13, [%d1], %r1; atom.global.exch.b32 %r14, [%d1], %r1; atom.global.exch.b32 %r15, [%d1], %r1; atom.global.exch.b32 %r16, [%d1], %r1;
    add.s32 %r18, %r18, -4; setp.ne.s32 %p3, %r18, 0; @%p3 bra C;
    D: setp.eq.s32 %p4, %r19, 0; @%p4 bra F;
    E: .pragma "nounroll"; atom.global.exch.b32 %r17, [%d1], %r1; add.s32 %r19, %r19, -1; setp.ne.s32 %p5, %r19, 0; @%p5 bra E;
    F: ret;)",
                     {m.allocate(256), 4}, {1}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.instructions, 264, 16) << "of an H200 [plain.one_word_exchange/1]";
}

/// Lanes make 8 to 20 turns, four at a time in PTX and eight in machine code: those that leave early do their last turns behind the loop, while others went on in it.
TEST(TimingWalk, LanesThatLeaveAnUnrolledLoopEarly) {
  TestMachine m;
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u32 %r15, [p1]; ld.param.u32 %r16, [p2]; mov.u32 %r17, %ntid.x; mov.u32 %r18, %ctaid.x; mov.u32 %r19, %tid.x;
    mad.lo.s32 %r1, %r18, %r17, %r19; and.b32 %r20, %r1, 31; shr.s32 %r21, %r1, 31; shr.u32 %r22, %r21, 27; add.s32 %r23, %r1, %r22; shr.s32 %r24, %r23, 5;
    mul.lo.s32 %r25, %r24, 5; mad.lo.s32 %r26, %r20, 7, %r25; rem.s32 %r27, %r26, %r16; add.s32 %r2, %r27, %r15; setp.lt.s32 %p1, %r2, 1; mov.f32 %f24, 0f00000000; @%p1 bra G;
    add.s32 %r29, %r2, -1; and.b32 %r38, %r2, 3; setp.lt.u32 %p2, %r29, 3; mov.f32 %f24, 0f00000000; mov.u32 %r36, 0; @%p2 bra D;
    sub.s32 %r35, %r2, %r38; mov.f32 %f24, 0f00000000; mov.u32 %r36, 0;
    C: cvt.rn.f32.s32 %f12, %r36; fma.rn.f32 %f13, %f24, 0f3FC00000, %f12; add.s32 %r31, %r36, 1; cvt.rn.f32.s32 %f14, %r31; fma.rn.f32 %f15, %f13, 0f3FC00000, %f14;
    add.s32 %r32, %r36, 2; cvt.rn.f32.s32 %f16, %r32; fma.rn.f32 %f17, %f15, 0f3FC00000, %f16; add.s32 %r33, %r36, 3; cvt.rn.f32.s32 %f18, %r33; fma.rn.f32 %f24, %f17, 0f3FC00000, %f18;
    add.s32 %r36, %r36, 4; add.s32 %r35, %r35, -4; setp.ne.s32 %p3, %r35, 0; @%p3 bra C;
    D: setp.eq.s32 %p4, %r38, 0; @%p4 bra G;
    E: .pragma "nounroll"; cvt.rn.f32.s32 %f19, %r36; fma.rn.f32 %f24, %f24, 0f3FC00000, %f19; add.s32 %r36, %r36, 1; add.s32 %r38, %r38, -1; setp.ne.s32 %p5, %r38, 0; @%p5 bra E;
    G: cvta.to.global.u64 %d2, %d1; mul.wide.s32 %d3, %r1, 4; add.s64 %d4, %d2, %d3; st.global.f32 [%d4], %f24; ret;)",
                     {m.allocate(1 << 19), 8, 13}, {512}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.instructions / 790528, 1, 0.04) << "of an H200 [uneven.turns_none/13]";
}

/// The largest of some words of shared memory, four a turn, which become one load of 16 bytes; ptxas has four turns at once, two, and one. The block of four holds
/// nothing but such loads and comparisons.
TEST(TimingWalk, TurnsOfWideLoadsAreCounted) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto instructions = [&](uint64_t words) {
    const TestKernel k(R"(
      .shared .align 16 .b8 room[4096];
      ld.param.u64 %d1, [p0]; ld.param.u32 %r6, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r5, room; shl.b32 %r2, %r1, 2; add.u32 %r2, %r5, %r2; cvt.rn.f32.u32 %f1, %r1; st.shared.f32 [%r2], %f1; bar.sync 0;
      mov.u32 %r7, %r6; mov.u32 %r8, %r5; mov.f32 %f29, 0f00000000;
      A: ld.shared.f32 %f2, [%r8]; max.f32 %f3, %f29, %f2; ld.shared.f32 %f4, [%r8+4]; max.f32 %f5, %f3, %f4; ld.shared.f32 %f6, [%r8+8]; max.f32 %f7, %f5, %f6;
      ld.shared.f32 %f8, [%r8+12]; max.f32 %f29, %f7, %f8; add.s32 %r8, %r8, 16; add.s32 %r7, %r7, -4; setp.ne.s32 %p1, %r7, 0; @%p1 bra A;
      mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; st.global.f32 [%d2], %f29; ret;)",
                       {out, words}, {1}, {32});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.instructions : 0;
  };
  const double two = instructions(8);
  if (two == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_LT(two, instructions(16)) << "two turns, and four";
  EXPECT_LT(instructions(16), instructions(32));
  EXPECT_NEAR(instructions(16 * 40) - instructions(16 * 20), 20 * (4 * 5 + 4), 20 * 3) << "a load and four comparisons a turn, and what a round of four takes";
}

/// A loop of four turns that ptxas unrolls in the loop around it, where loads of several turns become one of 16 bytes: not a sign of fewer copies. A row of
/// eight words times eight rows of eight: 64 products a turn, 16 and 8 loads, and what the loop takes.
TEST(TimingWalk, LoadsOfSeveralTurnsThatBecomeOneSayNothingOfCopies) {
  TestMachine m;
  const uint64_t out = m.allocate(1 << 16);
  std::string turn;
  for (int k = 0; k < 2; k++) {
    turn += "ld.shared.f32 %f20, [%r5+" + std::to_string(256 * k - 256) + "];\n";
    for (int row = 0; row < 8; row++)
      turn += "ld.shared.f32 %f21, [%r4+" + std::to_string(32 * row + 4 * k - 128) + "]; fma.rn.f32 %f" + std::to_string(row) + ", %f20, %f21, %f" + std::to_string(row) + ";\n";
  }
  std::string clear, sum;
  for (int row = 0; row < 8; row++) {
    clear += "mov.f32 %f" + std::to_string(row) + ", 0f00000000;\n";
    if (row > 0) sum += "add.f32 %f0, %f0, %f" + std::to_string(row) + ";\n";
  }
  const auto instructions = [&](uint64_t rounds) {
    const TestKernel k(R"(
      .shared .align 16 .b8 a[2048]; .shared .align 16 .b8 b[2048];
      ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r10, a; mov.u32 %r11, b;
      shr.u32 %r12, %r1, 6; shl.b32 %r12, %r12, 8; add.s32 %r12, %r12, %r10; add.s32 %r12, %r12, 128; and.b32 %r13, %r1, 63; shl.b32 %r13, %r13, 2; add.s32 %r13, %r13, %r11;
      add.s32 %r13, %r13, 256; add.s32 %r14, %r10, %r2; add.s32 %r15, %r11, %r2; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; mov.u32 %r3, 0;)" + clear + R"(
      setp.eq.s32 %p3, %r9, 0; @%p3 bra C;
      A: ld.global.f32 %f22, [%d3]; st.shared.f32 [%r14], %f22; ld.global.f32 %f23, [%d3+2048]; st.shared.f32 [%r15], %f23; bar.sync 0;
      mov.u32 %r4, %r12; mov.u32 %r5, %r13; mov.u32 %r6, 256;
      B: )" + turn + R"( add.s32 %r5, %r5, 512; add.s32 %r4, %r4, 8; add.s32 %r6, %r6, 512; setp.ne.s32 %p1, %r6, 2304; @%p1 bra B;
      bar.sync 0; add.s64 %d3, %d3, 32; add.s32 %r3, %r3, 8; setp.lt.u32 %p2, %r3, %r9; @%p2 bra A;
      C: )" + sum + " add.s64 %d4, %d1, %d2; st.global.f32 [%d4], %f0; ret;",
                       {out, rounds * 8}, {1}, {512});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.instructions : 0;
  };
  const double few = instructions(8);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  const double a_round = (instructions(24) - few) / (16 * 16);
  EXPECT_GT(a_round, 64 + 24);
  EXPECT_LT(a_round, 64 + 24 + 40) << "warp instructions of a turn of the loop around";
}

/// A loop over the grid that each thread goes round once: a branch behind the turn that is left over becomes an exit, and the loop of four turns at once
/// behind it is not gone through. 68 instructions a warp on an H200 (ncu, a loop of a public collection that writes a table), 96 with that loop.
TEST(TimingWalk, WarpsLeaveWhereABranchBecameAnExit) {
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{132} * 1024 * 8);
  const TestKernel k(R"(
    ld.param.u64 %d20, [p0]; ld.param.u64 %d1, [p1]; mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r4, %r2, %r1, %r3; cvt.u64.u32 %d9, %r4;
    setp.ge.u64 %p1, %d9, %d20; @%p1 bra L10;
    mov.u32 %r5, %nctaid.x; mul.lo.s32 %r6, %r5, %r1; cvt.u64.u32 %d3, %r6; not.b64 %d22, %d9; add.s64 %d4, %d22, %d20; and.b64 %d23, %d4, -4294967296; setp.eq.s64 %p2, %d23, 0; @%p2 bra L3;
    div.u64 %d5, %d4, %d3; bra.uni L4;
    L3: cvt.u32.u64 %r7, %d3; cvt.u32.u64 %r8, %d4; div.u32 %r9, %r8, %r7; cvt.u64.u32 %d5, %r9;
    L4: add.s64 %d24, %d5, 1; and.b64 %d8, %d24, 3; setp.eq.s64 %p3, %d8, 0; @%p3 bra L7;
    shl.b64 %d25, %d9, 3; add.s64 %d6, %d1, %d25; shl.b64 %d10, %d3, 3;
    L6: .pragma "nounroll"; st.global.u64 [%d6], %d9; add.s64 %d9, %d9, %d3; add.s64 %d6, %d6, %d10; add.s64 %d8, %d8, -1; setp.ne.s64 %p4, %d8, 0; @%p4 bra L6;
    L7: setp.lt.u64 %p5, %d5, 3; @%p5 bra L10;
    shl.b64 %d28, %d3, 3;
    L9: shl.b64 %d26, %d9, 3; add.s64 %d27, %d1, %d26; st.global.u64 [%d27], %d9; add.s64 %d29, %d27, %d28; add.s64 %d30, %d9, %d3; st.global.u64 [%d29], %d30; add.s64 %d31, %d30, %d3;
    add.s64 %d11, %d29, %d28; st.global.u64 [%d11], %d31; add.s64 %d12, %d31, %d3; add.s64 %d13, %d11, %d28; st.global.u64 [%d13], %d12; add.s64 %d9, %d12, %d3; setp.lt.u64 %p6, %d9, %d20; @%p6 bra L9;
    L10: ret;)",
                     {uint64_t{132} * 1024, out}, {132}, {1024});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.instructions / (132 * 32), 68, 5);
}

/// A loop of two blocks of PTX, which begins in the second: ptxas makes one block of it that holds five turns of both. The least and the largest of a
/// polynomial at 63 places, each by four products and sums, a conversion, two comparisons and two choices at least.
TEST(TimingWalk, UnrolledLoopsOfTwoBlocksUseTurnsOfBoth) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto place = [](const std::string& at) {
    return "cvt.rn.f32.s32 %f1, " + at + R"(; mul.f32 %f2, %f1, 0f3B000000; mul.f32 %f3, %f20, %f2; mul.f32 %f4, %f2, %f3; sub.f32 %f5, %f22, %f4; fma.rn.f32 %f6, %f2, %f2, %f21;
      fma.rn.f32 %f7, %f2, %f2, %f6; fma.rn.f32 %f8, %f7, 0fC0800000, %f5; setp.lt.f32 %p1, %f8, %f30; selp.f32 %f30, %f8, %f30, %p1; setp.gt.f32 %p2, %f8, %f31; selp.f32 %f31, %f8, %f31, %p2;)";
  };
  const Prediction p = m.predicted(TestKernel(R"(
    ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x; cvt.rn.f32.s32 %f20, %r1; mul.f32 %f21, %f20, %f20; mov.f32 %f22, 0f3F800000; mov.f32 %f30, %f20; mov.f32 %f31, %f20;
    add.s32 %r41, %r9, -508; mov.u32 %r40, -511; bra.uni B;
    A: )" + place("%r41") + R"( add.s32 %r41, %r41, 4; add.s32 %r40, %r40, 4;
    B: add.s32 %r22, %r9, %r40; )" + place("%r22") + "add.s32 %r23, %r41, -2; " + place("%r23") + "add.s32 %r24, %r41, -1; " + place("%r24") + R"(
    setp.eq.s32 %p7, %r40, -451; @%p7 bra C; bra.uni A;
    C: mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2; st.global.f32 [%d3], %f30; st.global.f32 [%d3+2048], %f31; ret;)",
                                              {out}, {1}, {32}));
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  constexpr double kPlaces = 16 * 3 + 15;
  EXPECT_GT(p.instructions, kPlaces * 9);
  EXPECT_LT(p.instructions, kPlaces * 14 + 60);
}

/// Neighbouring words of an array that ptxas stores at once are lines of their own.
TEST(TimingWalk, WordsStoredTogetherInLocalMemoryAreLinesEach) {
  TestMachine m;
  constexpr int kWords = 64;
  const uint64_t out = m.allocate(4096);
  std::string stores;
  for (int i = 0; i < kWords; i++) stores += "st.local.u32 [%d2+" + std::to_string(4 * i) + "], %r" + std::to_string(1 + i % 2) + ";\n";
  const TestKernel k(R"(
    .local .align 16 .b8 room[256];
    ld.param.u64 %d1, [p0]; ld.param.u32 %r2, [p1]; mov.u32 %r1, %tid.x; mov.u64 %d2, room;
    )" + stores + R"(
    add.u32 %r3, %r1, %r2; and.b32 %r3, %r3, 63; mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %d2, %d3; ld.local.u32 %r4, [%d4];
    mul.wide.u32 %d5, %r1, 4; add.s64 %d6, %d1, %d5; st.global.u32 [%d6], %r4; ret;)",
                     {out, 7}, {1}, {32});
  const Prediction p = m.predicted(k);
  if (p.method != kMachineCode) GTEST_SKIP() << "no ptxas";
  EXPECT_LT(p.instructions, kWords) << "several words at once";
  EXPECT_NEAR(p.l2_tex_sectors, 4 * kWords + 4, 4);
}

/// Lanes that add the same constant to one word are counted, and one of them adds for all (count_one_silent/1056 of calib/steps/contended.cu).
TEST(TimingWalk, LanesThatCountAreOneAddition) {
  TestMachine m;
  const uint64_t counter = m.allocate(4096);
  const auto cycles_of = [&](uint32_t blocks, const char* count) {
    std::string body = "ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, 0;\n";
    for (int i = 0; i < 8; i++) body += count;
    const Prediction p = m.predicted(TestKernel(body + "setp.ne.u32 %p1, %r1, -1; @%p1 ret; st.global.u32 [%d2+256], %r1; ret;", {counter}, {blocks}, {256}));
    return p.method == kMachineCode ? p.cycles : 0;
  };
  const char* const silent = "red.global.add.u32 [%d2], 1;\n";
  const char* const answered = "atom.global.add.u32 %r2, [%d2], 1; add.u32 %r1, %r1, %r2;\n";
  const double cycles = cycles_of(1056, silent);
  if (cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(cycles, 101'120, 15'000);
  EXPECT_NEAR(cycles_of(1056, answered), 102'666, 15'000);
}

/// Of a load of four words two are used: ptxas makes two loads of it, which are one access.
TEST(TimingWalk, PartsOfASplitLoadDoNotRunAhead) {
  TestMachine m;
  constexpr uint64_t kTurns = 96;
  const uint64_t from = m.allocate(kTurns * 512), out = m.allocate(128);
  const auto cycles_of = [&](uint64_t turns) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u32 %r7, [p2]; mov.u32 %r1, %tid.x; mul.wide.u32 %d3, %r1, 16; add.s64 %d1, %d1, %d3;
      mov.f32 %f9, 0f00000000; mov.u32 %r3, 0;
      A: .pragma "nounroll";
      ld.global.cg.v4.f32 {%f1, %f2, %f3, %f4}, [%d1]; add.f32 %f5, %f1, %f4; add.f32 %f9, %f9, %f5; add.s64 %d1, %d1, 512;
      add.s32 %r3, %r3, 1; setp.lt.s32 %p4, %r3, %r7; @%p4 bra A;
      mul.wide.u32 %d3, %r1, 4; add.s64 %d2, %d2, %d3; st.global.f32 [%d2], %f9; ret;)",
                       {from, out, turns});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.cycles : 0;
  };
  const double few = cycles_of(kTurns / 3);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((cycles_of(kTurns) - few) / (kTurns * 2 / 3), 770, 90) << "cycles a turn [flight_16x1/32]";
}

/// Operands of a bulk copy are in registers that all lanes share: ptxas makes a loop of eight instructions of it, which goes round once for each lane
/// (a product by cp.async.bulk of 16 bytes a lane on an H200: 516,096 of each for 16,128 of what surrounds them).
TEST(TimingWalk, LanesMakeTheirBulkCopiesByTurns) {
  TestMachine m;
  const uint64_t from = m.allocate(4096);
  const auto instructions_of = [&](uint64_t lanes) {
    const TestKernel k(R"(
      .shared .align 128 .b8 room[512]; .shared .align 8 .b64 bar;
      ld.param.u64 %d1, [p0]; ld.param.u32 %r7, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, room; mov.u32 %r3, bar; mul.lo.u32 %r4, %r7, 16;
      setp.ne.u32 %p1, %r1, 0; @%p1 bra A;
      mbarrier.init.shared.b64 [%r3], 1; mbarrier.arrive.expect_tx.shared::cta.b64 %d9, [%r3], %r4;
      A: bar.sync 0; setp.ge.u32 %p2, %r1, %r7; @%p2 bra B;
      mul.lo.u32 %r5, %r1, 16; add.u32 %r6, %r2, %r5; cvt.u64.u32 %d2, %r5; add.s64 %d3, %d1, %d2;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%d3], 16, [%r3];
      B: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r3], 0; @!%p3 bra B; ret;)",
                       {from, lanes});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.instructions : 0;
  };
  const double few = instructions_of(8);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(instructions_of(32) - few, 24 * 8, 8);
}

/// 300 words at once are more than 255 registers hold: ptxas keeps some on the stack. Stores go through to L2, four sectors a word of a warp.
TEST(TimingWalk, WhatPtxasSpillsIsWrittenToL2) {
  TestMachine m;
  const uint64_t from = m.allocate(300 * 128), out = m.allocate(128);
  const auto sectors_of = [&](int words) {
    std::string loads, sums;
    for (int i = 0; i < words; i++) {
      loads += "ld.volatile.global.f32 %v" + std::to_string(i) + ", [%d3+" + std::to_string(i * 128) + "];\n";
      sums += "fma.rn.f32 %f9, %f9, %f8, %v" + std::to_string(i) + ";\n";
    }
    const TestKernel k(".shared .align 4 .b32 factor;\n.reg .f32 %v<300>;\nld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mul.wide.u32 %d4, %r1, 4; add.s64 %d3, %d1, %d4;\n" + loads +
                           "bar.sync 0; mov.f32 %f9, 0f00000000; ld.volatile.shared.f32 %f8, [factor];\n" + sums + "add.s64 %d2, %d2, %d4; st.global.f32 [%d2], %f9; ret;",
                       {from, out});
    const Prediction p = m.predicted(k);
    return p.method == kMachineCode ? p.l2_tex_sectors : 0;
  };
  const double held = sectors_of(200);
  if (held == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(held, 4 * 201, 4) << "nothing is spilt";
  const double spilt = (sectors_of(300) - 4 * 301) / 4;
  EXPECT_GE(spilt, 300 - 255);
  EXPECT_LE(spilt, 150);
}

/// A function that two calls of each turn of a loop run, and one that calls it in a loop of its own: on an H200 as often as it says (each call executes
/// the function's code once).
TEST(TimingWalk, BlocksThatCallGoOnWhereTheyWere) {
  const std::string functions = R"(
.func (.param .b32 r) mixed (.param .b32 a) { .reg .b32 %r<5>; ld.param.b32 %r1, [a]; mul.lo.u32 %r2, %r1, 2654435761; shr.u32 %r3, %r2, 15; xor.b32 %r4, %r2, %r3; st.param.b32 [r], %r4; ret; }
.func (.param .b32 r) rounds (.param .b32 a) { .reg .b32 %r<9>; .reg .pred %p<2>; ld.param.b32 %r1, [a]; mov.u32 %r2, 0;
L: .pragma "nounroll";
{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), mixed, (x); ld.param.b32 %r1, [y]; } xor.b32 %r1, %r1, %r2;
{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), mixed, (x); ld.param.b32 %r1, [y]; }
add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 6; @%p1 bra L; st.param.b32 [r], %r1; ret; }
)";
  TestMachine m;
  const auto instructions = [&](int turns) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1]; mov.u32 %r2, 0;
      A: .pragma "nounroll";
      { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), rounds, (x); ld.param.b32 %r1, [y]; } add.u32 %r1, %r1, 3;
      { .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), mixed, (x); ld.param.b32 %r1, [y]; }
      add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, )" + std::to_string(turns) + R"(; @%p1 bra A; st.global.u32 [%d1], %r1; ret;)",
                       {m.allocate(256)}, {1}, {32}, functions);
    const Prediction p = m.predicted(k);
    return p.method == "machine code" ? p.instructions : 0;
  };
  const double one = instructions(1), two = instructions(2), ten = instructions(10);
  if (one == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((ten - one) / (two - one), 9, 0.01) << "each turn is as long as another";
  EXPECT_GT(two - one, 13 * 4) << "13 calls of four instructions and what they return with";
  EXPECT_LT(two - one, 13 * 20);
}

/// A switch of which ptxas makes a jump by a table: each turn goes through the case that it names, whose length is known.
TEST(TimingWalk, JumpsByATableLeadWhereTheTraceGoes) {
  constexpr int kTurns = 20;
  std::string cases, names;
  for (int c = 0; c < 8; c++) {
    std::string products;
    for (int i = 0; i < 16 * (c + 1); i++) products += fmt::format("fma.rn.f32 %f1, %f1, %f{}, %f3;\n", c % 2 ? 2 : 4);
    cases += fmt::format("CASE{}: {} mul.f32 %f1, %f1, 0f3F{:02X}0000; bra.uni NEXT;\n", c, products, 0x10 + c);
    names += fmt::format("{}CASE{}", c ? ", " : "", c);
  }
  TestMachine m;
  const auto instructions = [&](uint64_t first, uint64_t step, uint64_t apart = 0) {
    const TestKernel k(fmt::format(R"(
      ld.param.u64 %d1, [p0]; ld.param.u32 %r1, [p1]; ld.param.u32 %r2, [p2]; ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d1+4]; ld.global.f32 %f3, [%d1+8]; ld.global.f32 %f4, [%d1+12];
      mov.u32 %r3, %tid.x; ld.param.u32 %r5, [p3]; mad.lo.u32 %r1, %r3, %r5, %r1; mov.u32 %r3, 0;
      A: .pragma "nounroll";
      and.b32 %r4, %r1, 7;
      TABLE: .branchtargets {};
      brx.idx %r4, TABLE;
      {}
      NEXT: add.u32 %r1, %r1, %r2; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, {}; @%p1 bra A; st.global.f32 [%d1], %f1; ret;)",
                                   names, cases, kTurns),
                       {m.allocate(256), first, step, apart}, {1}, {32});
    const Prediction p = m.predicted(k);
    EXPECT_THAT(p.notes, testing::Each(testing::Not(testing::AnyOf(testing::HasSubstr("could not be led"), testing::HasSubstr("refuses")))));
    return p.method == "machine code" ? p.instructions : 0;
  };
  const double shortest = instructions(0, 0), longest = instructions(7, 0), by_turns = instructions(0, 1), by_lanes = instructions(0, 1, 1);
  if (shortest == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(longest - shortest, kTurns * 16 * 7, kTurns) << "of each case what it says";
  EXPECT_NEAR(by_turns - shortest, 16.0 * (2 * 28 + 6), kTurns) << "cases 0 to 7 twice, then 0 to 3";
  EXPECT_NEAR(by_lanes - shortest, kTurns * 16.0 * 35, 8.0 * 8 * kTurns) << "all eight cases in each turn, a few instructions around each";
}

}  // namespace
}  // namespace orrery::timing
