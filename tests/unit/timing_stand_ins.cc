// Which blocks stand for those that are not traced: expected bytes and shares follow from the kernels' own indices.
#include <gmock/gmock.h>

#include "timing/grid_shape.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

TEST(StandIns, EdgesTellBlocksApart) {
  const GridShape grid{3, 2, 1};
  EXPECT_EQ(grid.edges_of(0) & 15, 0b0101u) << "first in x and y";
  EXPECT_EQ(grid.edges_of(1) & 15, 0b0100u) << "inside in x";
  EXPECT_EQ(grid.edges_of(5) & 15, 0b1010u) << "last in both";
  EXPECT_EQ(grid.edges_of(0) >> 4, 0b11u) << "z has one place";
}

TEST(StandIns, OneThatFitsIsTakenWhereThereIsOne) {
  const auto at = [](uint64_t n) { return n; };
  for (uint64_t block = 0; block < 64; block++) {
    EXPECT_EQ(stand_in(block, 2, at, 1, [](uint64_t n) { return int(n == 1); }), stand_in(block, 2, at, 1, [](uint64_t n) { return int(n == 1); })) << "always the same";
    EXPECT_LT(stand_in(block, 5, at, 1, [](uint64_t) { return 0; }), 5u) << "where none fits, any";
  }
  size_t fitting = 0;
  for (uint64_t block = 0; block < 64; block++) fitting += stand_in(block, 4, at, 1, [](uint64_t n) { return int(n == 2); }) == 2;
  EXPECT_GT(fitting, 50u) << "one in four fits, of eight draws one in ten finds none";
}

/// Rows of 400 doubles, each read by a block of 256 threads and one of which 144 have something to do.
constexpr char kRows[] = R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
setp.ge.u32 %p1, %r3, 400; @%p1 bra L;
mov.u32 %r4, %ctaid.y; mad.lo.u32 %r5, %r4, 400, %r3; mul.wide.u32 %d2, %r5, 8; add.s64 %d3, %d1, %d2;
ld.global.f64 %g1, [%d3]; setp.eq.f64 %p2, %g1, 0d3FF4000000000000; @%p2 st.global.f64 [%d1], %g1;
L: ret;)";

TEST(StandIns, TwoBlocksToARowReadEachWordOnce) {
  constexpr uint64_t kRowsRead = 20'000;
  TestMachine m;
  const TestKernel k(kRows, {m.allocate(kRowsRead * 3200)}, {2, uint32_t(kRowsRead)}, {256});
  PredictOptions options;
  options.trace_budget = 100'000;  // of 2.4 million
  EXPECT_NEAR(m.predicted(k, options).dram_read, double(kRowsRead) * 3200, double(kRowsRead) * 3200 * 0.02);
}

/// What `rounds` passes over an array ask L2 for, past L1, by blocks of which the last eighth makes three turns and the others four.
constexpr char kRounds[] = R"(
ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1; mov.u32 %r4, 0; mov.u32 %r5, 0;
A: .pragma "nounroll"; mul.wide.u32 %d3, %r3, 16;
B: .pragma "nounroll"; setp.ge.u64 %p1, %d3, %d2; @%p1 bra C;
add.s64 %d4, %d1, %d3; ld.global.cg.u32 %r6, [%d4]; or.b32 %r5, %r5, %r6; add.s64 %d3, %d3, 1081344; bra B;
C: add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 64; @%p2 bra A;
setp.eq.u32 %p3, %r5, 7; @%p3 st.global.u32 [%d1], %r5; ret;)";

TEST(StandIns, BlocksThatMakeATurnLessAreAKindOfTheirOwn) {
  constexpr uint64_t kBytes = (3 * 264 + 231) * 4096;
  TestMachine m;
  PredictOptions options;
  options.trace_budget = 400'000;  // of 5 million
  const Prediction p = m.predicted(TestKernel(kRounds, {m.allocate(kBytes), kBytes}, {264}, {256}), options);
  EXPECT_NEAR(p.l2_tex_sectors, 64.0 * kBytes / 32, 0.035 * 64 * kBytes / 32);
  EXPECT_THAT(p.notes, ::testing::Contains(::testing::HasSubstr("2 kinds of work")));
}

/// Each block goes over and over a line for each of its first 32 turns, of which it makes up to 127: in no order. Each sector is asked for once.
constexpr char kManyTurnsOrFew[] = R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.lo.u32 %r3, %r2, 0x9E3779B1; shr.u32 %r8, %r3, 25; setp.eq.u32 %p1, %r8, 0; @%p1 bra L;
brev.b32 %r3, %r2; shr.u32 %r3, %r3, 22; mul.wide.u32 %d2, %r3, 4096; add.s64 %d2, %d1, %d2; mul.wide.u32 %d3, %r1, 4; add.s64 %d2, %d2, %d3; mov.u32 %r4, 0; mov.u32 %r5, 0;
A: .pragma "nounroll"; and.b32 %r6, %r4, 31; mul.wide.u32 %d4, %r6, 128; add.s64 %d4, %d2, %d4; ld.global.u32 %r7, [%d4]; or.b32 %r5, %r5, %r7;
add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, %r8; @%p2 bra A;
setp.eq.u32 %p3, %r5, 7; @%p3 st.global.u32 [%d1], %r5;
L: ret;)";

TEST(StandIns, BlocksOfOtherSmsFindInL1WhatTheyHaveRead) {
  constexpr uint32_t kBlocks = 1024;
  TestMachine m;
  const Prediction p = m.predicted(TestKernel(kManyTurnsOrFew, {m.allocate(kBlocks * 4096)}, {kBlocks}, {32}));
  double sectors = 0;
  for (uint32_t block = 0; block < kBlocks; block++) sectors += 4.0 * std::min(32u, block * 0x9E3779B1 >> 25);
  EXPECT_NEAR(p.l2_tex_sectors / sectors, 1, 0.15);
}

/// Rows of 512 words, two blocks to each: of row n of every 512 the first n words are not read.
constexpr char kMasked[] = R"(
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1;
and.b32 %r4, %r3, 511; shr.u32 %r5, %r3, 9; and.b32 %r5, %r5, 511; setp.lt.u32 %p1, %r4, %r5; @%p1 bra L;
mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d1, %d2;
ld.global.u32 %r6, [%d3]; setp.eq.u32 %p2, %r6, 7; @%p2 st.global.u32 [%d1], %r6;
L: ret;)";

TEST(StandIns, HalvesOfTheGridDoNotAllLieAlikeInItsRows) {
  constexpr uint64_t kBlocks = 65'536;
  TestMachine m;
  const Prediction p = m.predicted(TestKernel(kMasked, {m.allocate(kBlocks * 1024)}, {uint32_t(kBlocks)}, {256}));
  EXPECT_NEAR(p.dram_read / double(kBlocks * 1024), 0.5, 0.1) << "blocks at halves and quarters of the grid are in rows of which all is read";
}

/// A loop by blocks on one side of the diagonal; `leaves`: "setp" of what leaves at once.
std::string triangle(const std::string& leaves) {
  return "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; " + leaves + R"( @%p1 bra L;
ld.param.u64 %d1, [p0]; mov.u32 %r3, 0; mov.f32 %f1, 0f3F800000;
K: fma.rn.f32 %f1, %f1, %f1, %f1; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 2000; @%p2 bra K;
st.global.f32 [%d1], %f1;
L: ret;)";
}

TEST(StandIns, BlocksThatLeaveAtOnceAreCountedByManyThatAreLookedAt) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  PredictOptions options;
  options.trace_budget = 1'000'000;  // some 15 blocks of 64 thousand instructions
  const auto instructions = [&](const std::string& leaves) { return m.predicted(TestKernel(triangle(leaves), {out}, {8, 8, 96}, {256}), options).instructions; };
  const double all = instructions("setp.gt.u32 %p1, %r2, 99;"), half = instructions("setp.gt.u32 %p1, %r2, %r1;");
  EXPECT_NEAR(half / all, 36.0 / 64, 0.08) << "256 blocks tell a share within 3% two times of three";
}

/// The first and the last plane of a grid leave at once; a block of the planes between stands for them by what blocks all over them do, not by what the one in
/// the corner does, of which rows and columns leave, too.
TEST(StandIns, BlocksInCornersAreNotLikeMost) {
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{256} * 256 * 16 * 4), out = m.allocate(uint64_t{256} * 256 * 16 * 4);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;
    mad.lo.u32 %r1, %r3, 32, %r1; mad.lo.u32 %r2, %r4, 8, %r2;
    setp.lt.u32 %p1, %r1, 1; @%p1 ret; setp.gt.u32 %p1, %r1, 254; @%p1 ret; setp.lt.u32 %p1, %r2, 1; @%p1 ret; setp.gt.u32 %p1, %r2, 254; @%p1 ret;
    setp.lt.u32 %p1, %r5, 1; @%p1 ret; setp.gt.u32 %p1, %r5, 14; @%p1 ret;
    mad.lo.u32 %r6, %r5, 256, %r2; mad.lo.u32 %r6, %r6, 256, %r1; mul.wide.u32 %d3, %r6, 4; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
    ld.global.f32 %f1, [%d4]; ld.global.f32 %f2, [%d4+-4]; ld.global.f32 %f3, [%d4+4]; ld.global.f32 %f4, [%d4+-1024]; ld.global.f32 %f5, [%d4+1024];
    ld.global.f32 %f6, [%d4+-262144]; ld.global.f32 %f7, [%d4+262144];
    add.f32 %f1, %f1, %f2; add.f32 %f1, %f1, %f3; add.f32 %f1, %f1, %f4; add.f32 %f1, %f1, %f5; add.f32 %f1, %f1, %f6; add.f32 %f1, %f1, %f7; st.global.f32 [%d5], %f1; ret;)",
                     {in, out}, {8, 32, 16}, {32, 8});
  PredictOptions few;
  few.trace_budget = 60'000, few.slope_budget = 60'000;
  const Prediction all = m.predicted(k), some = m.predicted(k, few);
  EXPECT_THAT(some.notes, testing::Contains(testing::HasSubstr("kinds of work")));
  EXPECT_NEAR(some.instructions / all.instructions, 1, 0.02) << "by " << all.instructions << " of all blocks";
}

}  // namespace
}  // namespace orrery::timing
