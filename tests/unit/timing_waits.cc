// Blocks and lanes that wait: what stays of their tries in a trace, grids whose blocks wait for each other. That a chain takes a time a
// block and a grid that meets one a barrier follows from what an H200 measured (calib/steps/waits.cu); here only that it grows with both.
#include <gmock/gmock.h>

#include "../error_of.h"
#include "timing/spin_loops.h"
#include "timing/trace_waits.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

Event event(What what, uint32_t pc, uint32_t mask, uint32_t object = 0, uint16_t phase = 0) {
  Event e;
  e.what = what, e.pc = pc, e.mask = mask, e.object = object, e.extra = phase;
  return e;
}
std::vector<uint32_t> pcs(const std::vector<Event>& events) {
  std::vector<uint32_t> out;
  for (const Event& e : events) out.push_back(e.pc);
  return out;
}
using testing::ElementsAre;

TEST(Waits, OtherLanesGoOnWhileSomePoll) {
  Tries tries;
  std::vector<Event> events = {event(What::enter, 10, 1)};
  const Event poll = event(What::mbarrier_wait, 10, 1, 64, 1);
  poll_failed(events, tries, poll);
  events.push_back(event(What::enter, 20, ~1u)), events.push_back(event(What::cluster_arrive, 21, ~1u));
  const size_t length = events.size();
  events.push_back(event(What::enter, 10, 1));
  poll_again(events, tries, poll, length);
  EXPECT_THAT(pcs(events), ElementsAre(20, 21, 10)) << "what the other lanes did stays, the first try goes";
}

TEST(Waits, ALookForAnotherPhaseIsNoSecondTry) {
  Tries tries;
  std::vector<Event> events = {event(What::enter, 10, ~0u)};
  poll_failed(events, tries, event(What::mbarrier_wait, 10, ~0u, 64, 1));
  events.push_back(event(What::global_load, 15, ~0u));  // work before it looks again
  poll_again(events, tries, event(What::mbarrier_wait, 10, ~0u, 64, 0), events.size());
  EXPECT_THAT(pcs(events), ElementsAre(10, 15));
}

TEST(Waits, OnlyTheLastLookOfALoopStays) {
  Tries tries;
  std::vector<Event> events;
  const Event look = event(What::global_load, 5, 1);
  for (int i = 0; i < 3; i++) {
    const size_t length = events.size();
    events.push_back(event(What::enter, 4, 1));
    look_again(events, tries, look, length);
    events.push_back(look);
  }
  EXPECT_THAT(pcs(events), ElementsAre(4, 5));
  events.push_back(event(What::global_store, 9, 1));  // the next look waits for something else
  look_again(events, tries, look, events.size());
  events.push_back(look);
  EXPECT_THAT(pcs(events), ElementsAre(4, 5, 9, 5));
}

TEST(Waits, LanesThatComeApartMeetAtABarrier) {
  std::vector<Event> events = {event(What::enter, 30, ~1u), event(What::barrier, 31, ~1u), event(What::global_store, 12, 1), event(What::enter, 30, 1), event(What::barrier, 31, 1),
                               event(What::enter, 30, ~0u), event(What::barrier, 31, ~0u)};
  meet_at_barriers(events);
  EXPECT_THAT(pcs(events), ElementsAre(12, 30, 31, 30, 31)) << "the second time all come together";
}

const std::string kMeet =
    "ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u64 %d3, 0;\n"
    "ROUND: add.u64 %d3, %d3, 1; mul.lo.u64 %d4, %d3, 4; cvt.u32.u64 %r4, %d4;\n"
    "atom.global.add.release.gpu.u32 %r1, [%d1], 1;\n"
    "LOOK: ld.global.acquire.gpu.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r4; @%p1 bra LOOK;\n"
    "setp.lt.u64 %p2, %d3, %d2; @%p2 bra ROUND; ret;";

Prediction met(uint64_t rounds) {
  TestMachine m;
  TestKernel k(kMeet, {m.allocate(64), rounds}, {4});
  k.launch.cooperative = true;
  return m.predicted(k);
}

TEST(Waits, GridsThatMeetAreTimed) {
  const Prediction once = met(1), often = met(9);
  EXPECT_GT(once.microseconds, 0);
  EXPECT_GT(often.microseconds, once.microseconds + 8 * .4) << "a barrier of a grid takes 0.96 us on an H200 of 132 blocks";
  EXPECT_THAT(once.notes, testing::Contains(testing::HasSubstr("whole grid")));
}

TEST(Waits, GridsThatMeetVeryOftenAreNotCalledHung) {
  const Prediction p = met(2000);
  EXPECT_GT(p.microseconds, 2000 * .4);
}

/// Half of the blocks work in the first of two rounds, the others in the second: those that wait come to the second round with those that worked.
TEST(Waits, GridsMeetWhenTheLastBlockHasCome) {
  TestMachine m;
  const auto cycles = [&](bool meets) {
    const std::string look = meets ? "atom.global.add.release.gpu.u32 %r1, [%d1], 1;\nLOOK: ld.global.acquire.gpu.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r4; @%p1 bra LOOK;\n" : "";
    TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r5, %ctaid.x; popc.b32 %r5, %r5; and.b32 %r5, %r5, 1; mov.u32 %r3, 0; mov.u32 %r4, 0; mov.u32 %r8, %nctaid.x; mov.u32 %r7, %clock;\n"
                 "ROUND: add.u32 %r4, %r4, %r8; setp.ne.u32 %p2, %r5, %r3; @%p2 bra MEET; mov.u32 %r6, 0;\n"
                 "WORK: mad.lo.u32 %r7, %r7, %r7, %r6; mad.lo.u32 %r7, %r7, %r7, %r7; add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 5000; @%p3 bra WORK;\n"
                 "MEET: " + look + "add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 2; @%p4 bra ROUND; st.global.u32 [%d1+64], %r7; ret;",
                 {m.allocate(256)}, {64}, {1});
    k.launch.cooperative = meets;
    return m.predicted(k).cycles;
  };
  const double together = cycles(true), apart = cycles(false);
  EXPECT_GT(apart, 5000 * 2 * 4);
  EXPECT_NEAR(together / apart, 2, 0.2) << "both rounds take as long as the work in them";
}

TEST(Waits, CooperativeLaunchesThatDoNotMeetAreTimedAsOthers) {
  TestMachine m;
  TestKernel k("mov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 400; @%p1 bra L;\nld.param.u64 %d1, [p0]; st.global.u32 [%d1], %r1; ret;", {m.allocate(64)}, {132});
  const Prediction plain = m.predicted(k);
  k.launch.cooperative = true;
  EXPECT_EQ(m.predicted(k).microseconds, plain.microseconds);
}

/// Each block adds one to a word and waits until others have: blocks traced one after the other would wait for ever, and on a GPU that holds not all of them do.
TEST(Waits, BlocksThatWaitForLaterOnesAreTracedSideBySide) {
  const auto gathered = [](TestMachine& m, uint32_t blocks) {
    TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r3, %nctaid.x; atom.global.add.release.gpu.u32 %r1, [%d1], 1;\n"
                 "LOOK: ld.global.acquire.gpu.u32 %r2, [%d1]; setp.lt.u32 %p1, %r2, %r3; @%p1 bra LOOK; ret;", {m.allocate(64)}, {blocks}, {32});
    k.launch.dynamic_shared = 200 << 10;  // a block for each SM
    return m.predicted(k);
  };
  TestMachine m;
  const Prediction p = gathered(m, 132);
  EXPECT_GT(p.microseconds, 0);
  EXPECT_THAT(p.notes, testing::Contains(testing::HasSubstr("come after them")));
  EXPECT_THAT(error_of([&] { gathered(m, 133); }), testing::HasSubstr("could not be traced")) << "the last block begins when another has ended, which waits for it";
}

/// The same where the word must be their number: what was tried before, one block after the other, has left nothing in it.
TEST(Waits, WhatWasTriedInOrderLeavesNothing) {
  TestMachine m;
  TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r3, %nctaid.x; atom.global.add.release.gpu.u32 %r1, [%d1], 1;\n"
               "LOOK: ld.global.acquire.gpu.u32 %r2, [%d1]; setp.ne.u32 %p1, %r2, %r3; @%p1 bra LOOK; ret;", {m.allocate(64)}, {100}, {1});
  EXPECT_THAT(m.predicted(k).notes, testing::Contains(testing::HasSubstr("come after them")));
}

/// Block b waits for word b - 1 and writes word b.
const std::string kChain =
    "ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;\n"
    "setp.eq.u32 %p1, %r1, 0; @%p1 bra TELL;\n"
    "LOOK: ld.global.acquire.gpu.u32 %r2, [%d3+-4]; setp.eq.u32 %p2, %r2, 0; @%p2 bra LOOK;\n"
    "TELL: st.global.release.gpu.u32 [%d3], 1; ret;";

TEST(Waits, ChainsOfBlocksTakeATimeABlock) {
  TestMachine m;
  const uint64_t words = m.allocate(4096);
  std::memset(reinterpret_cast<void*>(words), 0, 4096);
  const Prediction p = m.predicted(TestKernel(kChain, {words}, {256}));
  EXPECT_GT(p.microseconds, 256 * .3) << "an H200 hands a word on in 0.54 us";
  EXPECT_LT(p.microseconds, 256 * .8);
}

TEST(Waits, LoopsThatStoreOrOnlyReadAreNoWaits) {
  const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r3, 0;\nL: ld.global.u32 %r2, [%d1]; add.u32 %r3, %r3, %r2; setp.lt.u32 %p1, %r3, 9; @%p1 bra L;\n"
                     "M: ld.volatile.global.u32 %r2, [%d1]; st.global.u32 [%d1+4], %r2; setp.lt.u32 %p1, %r2, 9; @%p1 bra M; ret;",
                     {0});
  EXPECT_TRUE(polls_of(*k.launch.kernel->entry->program).empty());
  const TestKernel sum("ld.param.u64 %d1, [p0]; mov.u32 %r3, 0; mov.u32 %r4, 0;\nL: ld.volatile.global.u32 %r2, [%d1]; add.u32 %r3, %r3, %r2; add.u64 %d1, %d1, 4; "
                       "add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 9; @%p1 bra L; st.global.u32 [%d1], %r3; ret;",
                       {0});
  EXPECT_TRUE(polls_of(*sum.launch.kernel->entry->program).empty()) << "what it finds is added up, however often that is";
  EXPECT_EQ(polls_of(*TestKernel(kChain, {0}).launch.kernel->entry->program).size(), 1u);
}

/// Each block counts itself; the last that comes turns a loop 5,000 times, with two products of four cycles in each turn.
TEST(Waits, TheBlockThatComesLastDoesWhatIsLeft) {
  TestMachine m;
  const uint64_t counter = m.allocate(4096);
  const auto predicted = [&](uint64_t turns) {
    std::memset(reinterpret_cast<void*>(counter), 0, 64);
    return m.predicted(TestKernel(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; cvt.u32.u64 %r7, %d2; mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r8, %nctaid.x; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra B;
      atom.global.add.u32 %r3, [%d1], 1; st.shared.u32 [%r2], %r3;
      B: bar.sync 0; ld.shared.u32 %r4, [%r2]; setp.ne.u32 %p2, %r4, %r8; @%p2 bra E; mov.u32 %r5, 0; mov.u32 %r6, %clock;
      C: mad.lo.u32 %r6, %r6, %r6, %r5; mad.lo.u32 %r6, %r6, %r6, %r6; add.u32 %r5, %r5, 1; setp.lt.u32 %p3, %r5, %r7; @%p3 bra C;
      st.global.u32 [%d1+64], %r6;
      E: ret;)",
                                  {counter, turns}, {2000}, {64}, ".shared .align 4 .b32 s;"));
  };
  const Prediction none = predicted(1), some = predicted(5000);
  EXPECT_GT(some.cycles - none.cycles, 5000 * 2 * 4);
  EXPECT_LT(some.cycles - none.cycles, 5000 * 2 * 4 * 3) << "and a branch";
}

/// Copies of 16 bytes a lane that arrive at an mbarrier, which the warp then waits for, eight times one after the other.
Prediction of_copies_that_arrive(const std::string& arrive) {
  TestMachine m;
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 16; add.s64 %d1, %d1, %d2; mov.u32 %r2, room; mad.lo.u32 %r2, %r1, 16, %r2; mov.u32 %r3, barrier; mov.u32 %r4, 0;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra A; mbarrier.init.shared.b64 [%r3], 32;
    A: bar.sync 0;
    B: .pragma "nounroll"; cp.async.cg.shared.global [%r2], [%d1], 16;
    )" + arrive + R"(
    and.b32 %r5, %r4, 1;
    W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], %r5; @!%p2 bra W;
    ld.shared.u32 %r6, [%r2]; add.s64 %d1, %d1, 1048576; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 8; @%p3 bra B;
    st.global.u32 [%d1+-1048576], %r6; ret;)",
                     {m.allocate(16 << 20)}, {1}, {32}, ".shared .align 16 .b8 room[512]; .shared .align 8 .b64 barrier;");
  return m.predicted(k);
}

TEST(TimingWaits, CopiesArriveWhenTheyAreThere) {
  // An arrival that is not among those that the mbarrier expects is added before and taken back.
  for (const char* arrive : {"cp.async.mbarrier.arrive.noinc.shared.b64 [%r3];", "cp.async.mbarrier.arrive.shared.b64 [%r3]; mbarrier.arrive.shared.b64 %d5, [%r3];"}) {
    const Prediction p = of_copies_that_arrive(arrive);
    EXPECT_THAT(p.notes, ::testing::Not(::testing::Contains(::testing::HasSubstr("for ever")))) << arrive;
    EXPECT_GT(p.cycles, 8 * 690) << arrive << ": each copy is waited for, out of memory (latency.dram: 699.8 cycles)";
    EXPECT_LT(p.cycles, 8 * 1300) << arrive;
  }
}

// calib/raw/h200-2026-11-28-calls.jsonl, call_leaf/1: a call of two instructions and its return take 73 cycles with what lies between (39.7 us for 1,024).
TEST(TimingWaits, CallsAndReturnsTakeTheirTime) {
  TestMachine m;
  const auto cycles = [&](int turns) {
    const std::string call = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %f1; call (y), leaf, (x); ld.param.b32 %f1, [y]; }\n";
    const TestKernel k("ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; ld.global.f32 %f1, [%d1]; mov.u32 %r2, 0;\nA: .pragma \"nounroll\";\n" + call +
                           "add.f32 %f1, %f1, 0f3F800000;\n" + call + "mul.f32 %f1, %f1, %f1;\n" + call + "add.f32 %f1, %f1, 0fC0000000;\n" + call +
                           "add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, " + std::to_string(turns) + "; @%p1 bra A; st.global.f32 [%d1], %f1; ret;",
                       {m.allocate(4096)}, {1}, {32},
                       ".func (.param .b32 r) leaf (.param .b32 a) { .reg .f32 %f<3>; ld.param.f32 %f1, [a]; fma.rn.f32 %f2, %f1, 0f3F8147AE, 0f3F000000; st.param.f32 [r], %f2; ret; }");
    const Prediction p = m.predicted(k);
    return p.method == "machine code" ? p.cycles : 0;
  };
  const double few = cycles(64), many = cycles(128);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((many - few) / (64 * 4), 73, 9);
}

}  // namespace
}  // namespace orrery::timing
