// Loops that compare and swap until they succeed, by what an H200 takes for them: calib/raw/h200-2026-11-28-contended.jsonl.
#include "timing/swap_loops.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// The first lane of each warp adds one, eight times (swap_to_add_one).
constexpr char kAdd[] = R"(
  ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 31; setp.ne.u32 %p1, %r2, 0; @%p1 bra E; mov.u32 %r3, 0;
  A: ld.volatile.global.u32 %r4, [%d2];
  B: add.u32 %r5, %r4, 1; atom.global.cas.b32 %r6, [%d2], %r4, %r5; setp.ne.u32 %p2, %r6, %r4; mov.u32 %r4, %r6; @%p2 bra B;
  add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 8; @%p3 bra A;
  E: ret;)";

/// The largest of numbers in no order (swap_to_most_any).
constexpr char kMost[] = R"(
  ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1; add.u32 %r3, %r3, 1;
  shr.u32 %r4, %r3, 16; xor.b32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, 0x85ebca6b; shr.u32 %r4, %r3, 13; xor.b32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, 0xc2b2ae35;
  shr.u32 %r4, %r3, 16; xor.b32 %r3, %r3, %r4; ld.volatile.global.u32 %r5, [%d2]; setp.ge.u32 %p1, %r5, %r3; @%p1 bra E;
  A: atom.global.cas.b32 %r6, [%d2], %r5, %r3; setp.eq.u32 %p2, %r6, %r5; @%p2 bra E; mov.u32 %r5, %r6; setp.gt.u32 %p3, %r3, %r6; @%p3 bra A;
  E: ret;)";

/// A table is searched for a free place: another word in each turn.
constexpr char kTable[] = R"(
  ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; add.u32 %r2, %r1, 1;
  A: and.b32 %r3, %r1, 63; mul.wide.u32 %d3, %r3, 4; add.s64 %d4, %d2, %d3; atom.global.cas.b32 %r4, [%d4], 0, %r2; setp.eq.u32 %p1, %r4, 0; @%p1 bra E; add.u32 %r1, %r1, 1; bra A;
  E: ret;)";

TEST(SwapLoops, AreThoseThatWantOneWord) {
  const auto found = [](const char* body) { return swap_loops_of(*TestKernel(body, {0}).launch.kernel->entry->program).size(); };
  EXPECT_EQ(found(kAdd), 1u);
  EXPECT_EQ(found(kMost), 1u);
  EXPECT_EQ(found(kTable), 0u);
  const auto asked = [&](const char* guard) {
    return found((std::string("ld.param.u64 %d5, [p0]; setp.eq.u64 %p2, %d5, 0;\nA: ld.param.u64 %d1, [p0]; ") + guard + "add.u64 %d2, %d1, 64; atom.global.cas.b32 %r4, [%d2], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra A; ret;").c_str());
  };
  EXPECT_EQ(asked(""), 1u) << "an address that is made anew from a parameter";
  EXPECT_EQ(asked("@%p2 "), 0u) << "and one that is made or not";
}

TEST(Contention, WhoComesWhileAnotherChangesAWordTriesAgain) {
  TestMachine m;
  const uint64_t word = m.allocate(4096);
  const auto predicted = [&](uint32_t blocks) {
    std::memset(reinterpret_cast<void*>(word), 0, 4);
    return m.predicted(TestKernel(kAdd, {word}, {blocks}, {32}));
  };
  const Prediction few = predicted(32);
  if (few.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(few.cycles, 136'481, 45'000);
  EXPECT_NEAR(few.instructions, 31'397, 10'000);
  const Prediction many = predicted(132);
  EXPECT_NEAR(many.cycles, 503'679, 100'000);
  EXPECT_NEAR(many.instructions, 426'177, 85'000);
  EXPECT_NEAR(many.l2_tex_sectors, 70'382, 14'000);
  EXPECT_GT(many.high, 1.9 * many.microseconds) << "it is not known who is next";
}

TEST(Contention, ALargestThatRisesQuicklyIsTriedOnce) {
  TestMachine m;
  const uint64_t word = m.allocate(4096);
  std::memset(reinterpret_cast<void*>(word), 0, 4);
  const Prediction p = m.predicted(TestKernel(kMost, {word}, {132}, {256}));
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.cycles, 53'833, 8'000);
  EXPECT_NEAR(p.l2_tex_sectors, 33'720, 5'000);
}

/// A lock that each lane takes in turn within its warp: who has it goes on to give it back although others of its warp want it.
TEST(Contention, LanesThatHaveALockGiveItBack) {
  TestMachine m;
  const uint64_t lock = m.allocate(4096);
  std::memset(reinterpret_cast<void*>(lock), 0, 64);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r9, 0;
    A: setp.ne.u32 %p3, %r9, 0; @%p3 bra E;
    atom.global.cas.b32 %r4, [%d2], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra A;
    ld.volatile.global.u32 %r5, [%d2+32]; add.u32 %r5, %r5, 1; st.volatile.global.u32 [%d2+32], %r5; membar.gl; atom.global.exch.b32 %r6, [%d2], 0; mov.u32 %r9, 1; bra A;
    E: ret;)",
                     {lock}, {4}, {32});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_GT(p.instructions, 4 * 32 * 8) << "each lane of each block has the lock by itself";
}

/// Blocks take the numbers of 64 pieces of work from a counter: whoever is traced first must not find all of it.
TEST(Contention, BlocksShareTheWorkThatACounterGivesOut) {
  TestMachine m;
  const uint64_t counter = m.allocate(4096);
  const auto predicted = [&](uint32_t blocks) {
    std::memset(reinterpret_cast<void*>(counter), 0, 4);
    return m.predicted(TestKernel(R"(
      ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, s;
      A: setp.ne.u32 %p1, %r1, 0; @%p1 bra B; atom.global.add.u32 %r3, [%d2], 1; st.shared.u32 [%r2], %r3;
      B: bar.sync 0; ld.shared.u32 %r4, [%r2]; bar.sync 0; setp.ge.u32 %p2, %r4, 64; @%p2 bra E; mov.u32 %r5, 0;
      C: mad.lo.u32 %r6, %r6, %r6, %r5; mad.lo.u32 %r6, %r6, %r6, %r4; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 2000; @%p3 bra C;
      st.global.u32 [%d2+64], %r6; bra A;
      E: ret;)",
                                  {counter}, {blocks}, {32}, ".shared .align 4 .b32 s;"));
  };
  const Prediction one = predicted(1);
  if (one.method != "machine code") GTEST_SKIP() << "no ptxas";
  const Prediction many = predicted(16);
  EXPECT_NEAR(many.instructions, one.instructions, 0.02 * one.instructions);
  EXPECT_NEAR(many.cycles, one.cycles / 16, 0.1 * one.cycles / 16);
}

/// The same where a warp takes the numbers, from a word whose address it asks for each time, and hands them on through a slot and two barriers of shared memory.
TEST(Contention, BlocksShareTheWorkThatAWarpHandsOn) {
  TestMachine m;
  const uint64_t counter = m.allocate(4096);
  const auto predicted = [&](uint32_t blocks) {
    std::memset(reinterpret_cast<void*>(counter), 0, 4);
    return m.predicted(TestKernel(R"(
      mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r9, 0; setp.ne.u32 %p1, %r1, 0; @%p1 bra A;
      mbarrier.init.shared::cta.b64 [%r2+16], 1; mbarrier.init.shared::cta.b64 [%r2+24], 1;
      A: bar.sync 0; setp.eq.u32 %p1, %r1, 32; @%p1 bra W; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; mov.u32 %r8, 1;
      T: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+24], %r8; @!%p2 bra T; xor.b32 %r8, %r8, 1;
      ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; atom.global.add.u32 %r3, [%d2], 1; st.shared.u32 [%r2], %r3;
      mbarrier.arrive.shared::cta.b64 _, [%r2+16]; setp.lt.u32 %p3, %r3, 64; @%p3 bra T; bra E;
      W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+16], %r9; @!%p2 bra W; xor.b32 %r9, %r9, 1;
      ld.shared.u32 %r4, [%r2]; mbarrier.arrive.shared::cta.b64 _, [%r2+24]; setp.ge.u32 %p2, %r4, 64; @%p2 bra E; mov.u32 %r5, 0;
      C: mad.lo.u32 %r6, %r6, %r6, %r5; mad.lo.u32 %r6, %r6, %r6, %r4; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 2000; @%p3 bra C;
      ld.param.u64 %d3, [p0]; cvta.to.global.u64 %d4, %d3; st.global.u32 [%d4+64], %r6; bra W;
      E: ret;)",
                                  {counter}, {blocks}, {64}, ".shared .align 8 .b8 s[32];"));
  };
  const Prediction one = predicted(1);
  if (one.method != "machine code") GTEST_SKIP() << "no ptxas";
  const double many = predicted(16).cycles;
  EXPECT_GT(many, 0.95 * one.cycles / 16);
  EXPECT_LT(many, 1.55 * one.cycles / 16) << "who takes a number ahead may have one or two more than others";
}

/// One of 300 blocks, none of those that are looked at first, has all the work.
TEST(Contention, ARareBlockThatRunsLongIsFound) {
  TestMachine m;
  const auto predicted = [&](uint32_t blocks, uint64_t working) {
    return m.predicted(TestKernel(R"(
      ld.param.u64 %d1, [p0]; cvt.u32.u64 %r1, %d1; mov.u32 %r2, %ctaid.x; setp.ne.u32 %p1, %r1, %r2; @%p1 bra E; mov.u32 %r5, 0; mov.u32 %r6, %clock;
      C: mad.lo.u32 %r6, %r6, %r6, %r5; mad.lo.u32 %r6, %r6, %r6, %r6; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, 20000; @%p3 bra C;
      ld.param.u64 %d2, [p1]; st.global.u32 [%d2], %r6;
      E: ret;)",
                                  {working, m.allocate(256)}, {blocks}, {32}));
  };
  const Prediction one = predicted(1, 0), rare = predicted(300, 217);
  EXPECT_GT(one.cycles, 20000 * 2 * 4) << "two products of four cycles in each turn";
  EXPECT_NEAR(rare.cycles, one.cycles, 0.02 * one.cycles);
}

/// Exchanges, counts and swaps are each lane's own, also beside operations that a lane does for its warp: what SMs ask for in one_word_each/64
/// (calib/raw/h200-2026-11-28-plain.jsonl: 69,100 sectors; 53,200 where what follows a reduction was taken for one of it).
TEST(Contention, ExchangesBesideReductionsAreEachLanesOwn) {
  TestMachine m;
  const uint64_t words = m.allocate(4096);
  std::memset(reinterpret_cast<void*>(words), 0, 4096);
  const Prediction p = m.predicted(TestKernel(R"(
    ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
    atom.global.add.u32 %r4, [%d2], 10; atom.global.add.u32 %r5, [%d2+4], -10; atom.global.exch.b32 %r6, [%d2+8], %r3; atom.global.max.u32 %r7, [%d2+12], %r3;
    atom.global.min.u32 %r8, [%d2+16], %r3; atom.global.inc.u32 %r9, [%d2+20], 17; atom.global.dec.u32 %r10, [%d2+24], 137; add.s32 %r11, %r3, -1;
    atom.global.cas.b32 %r12, [%d2+28], %r11, %r3; shl.b32 %r13, %r3, 1; add.s32 %r14, %r13, 7; atom.global.and.b32 %r15, [%d2+32], %r14; and.b32 %r16, %r3, 31; mov.u32 %r17, 1;
    shl.b32 %r18, %r17, %r16; atom.global.or.b32 %r19, [%d2+36], %r18; atom.global.xor.b32 %r20, [%d2+40], %r3; ret;)",
                                             {words}, {64}, {256}));
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_tex_sectors, 69100, 0.03 * 69100);
}

/// Words that nobody else wants are as they were seen: nothing is said of others.
/// A million additions to words drawn at random from 256 KiB: doubles take as long as whole numbers (random_add_f64/256 and random_add_u64/256 of
/// calib/raw/h200-2026-11-29-random-adds.jsonl: 13.34 and 13.18 us).
TEST(Contention, SumsOfDoublesToWordsDrawnAtRandomCostWhatOthersDo) {
  TestMachine m;
  const uint64_t table = m.allocate(256 << 10);
  const auto cycles = [&](const std::string& add) {
    return m.predicted(TestKernel("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1; mul.lo.u32 %r1, %r1, 0x9E3779B1; shr.u32 %r3, %r1, 15; xor.b32 %r1, %r1, %r3;\n"
                                  "mul.lo.u32 %r1, %r1, 0x85EBCA77; shr.u32 %r3, %r1, 13; xor.b32 %r1, %r1, %r3; and.b32 %r1, %r1, 32767; mul.wide.u32 %d2, %r1, 8; add.s64 %d1, %d1, %d2;\n" + add + " ret;",
                                  {table}, {4096}, {256}))
        .cycles;
  };
  const double doubles = cycles("mov.f64 %g1, 0d3FF0000000000000; red.global.add.f64 [%d1], %g1;"), whole = cycles("mov.u64 %d3, 1; red.global.add.u64 [%d1], %d3;");
  EXPECT_NEAR(doubles / whole, 13.34 / 13.18, 0.1);
  EXPECT_NEAR(whole, 13.184e3 * 1.98, 0.15 * 13.184e3 * 1.98);
}

/// A million threads change words of 64 KB at random: those that begin together try again and again, and so do blocks that come later.
/// Expected: changed/64 of calib/raw/h200-2026-11-29-insert.jsonl, where a thread that was alone would try once.
TEST(Contention, LaterBlocksTryAgainAsTheFirstDo) {
  TestMachine m;
  const uint64_t words = m.allocate(1 << 16);
  std::memset(reinterpret_cast<void*>(words), 0, 1 << 16);
  const Prediction p = m.predicted(TestKernel(R"(
    ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
    shr.u32 %r4, %r3, 16; xor.b32 %r4, %r4, %r3; mul.lo.u32 %r4, %r4, 0x85ebca6b; shr.u32 %r5, %r4, 13; xor.b32 %r4, %r4, %r5; mul.lo.u32 %r4, %r4, 0xc2b2ae35; shr.u32 %r5, %r4, 16; xor.b32 %r4, %r4, %r5;
    and.b32 %r4, %r4, 16383; mul.wide.u32 %d2, %r4, 4; add.s64 %d1, %d1, %d2; ld.volatile.global.u32 %r6, [%d1];
    A: mad.lo.u32 %r7, %r6, 3, %r3; atom.global.cas.b32 %r8, [%d1], %r6, %r7; setp.ne.u32 %p1, %r8, %r6; mov.u32 %r6, %r8; @%p1 bra A; ret;)",
                                             {words}, {4096}, {256}));
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(double(p.instructions), 3614460, 0.2 * 3614460);
}

/// Halves added in pairs to one word, whose address may be of any space: as many instructions and as much time as of floats [add_half2_one/264, add_float_one/264].
TEST(Contention, PairsOfHalvesAreAddedAsFloatsAre) {
  for (const char* type : {"noftz.f16x2", "noftz.bf16x2"}) {
    TestMachine m;
    const uint64_t word = m.allocate(4096);
    const Prediction p = m.predicted(TestKernel(std::string("ld.param.u64 %d1, [p0]; mov.b32 %r1, 0x3C003C00; red.add.") + type + " [%d1], %r1; ret;", {word}, {264}, {256}));
    if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(p.microseconds, 120.80, 0.05 * 120.80) << type;
    EXPECT_NEAR(double(p.instructions), 12672, 2112) << type;
  }
}

TEST(Contention, WordsOfOnesOwnAreNotCrowded) {
  TestMachine m;
  const uint64_t words = m.allocate(1 << 16);
  std::memset(reinterpret_cast<void*>(words), 0, 1 << 16);
  const Prediction p = m.predicted(TestKernel(R"(
    ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d3, %r3, 32; add.s64 %d2, %d2, %d3;
    ld.global.u32 %r4, [%d2];
    B: add.u32 %r5, %r4, 1; atom.global.cas.b32 %r6, [%d2], %r4, %r5; setp.ne.u32 %p2, %r6, %r4; mov.u32 %r4, %r6; @%p2 bra B; ret;)",
                                             {words}, {32}, {32}));
  for (const std::string& note : p.notes) EXPECT_EQ(note.find("compare and swap"), std::string::npos) << note;
  EXPECT_LT(p.high, 1.9 * p.microseconds);
}

}  // namespace
}  // namespace orrery::timing
