// The lines of machine code that an SM holds, against what an H200 took for code in straight lines and loops.
#include <gtest/gtest.h>

#include "timing/code_fetch.h"

namespace orrery::timing {
namespace {

constexpr FetchCosts kWarm{10.3, 10.05, 43, 17.6};  // gpus/h200.toml
constexpr int kLine = 8;                          // instructions

CodeFetch code_of(int instructions) { return CodeFetch(std::vector<bool>(size_t(instructions / kLine), true), kWarm); }

/// Executes instructions `from` to before `to`, one a cycle and each when it is there; returns when the last has been issued.
double execute(CodeFetch& code, int from, int to, double now) {
  for (int i = from; i < to; i++) now = std::max(now, code.arrives(uint32_t(i), now)) + 1;
  return now;
}

/// Cycles an instruction takes in each of four turns of a loop.
std::array<double, 4> turns(int instructions) {
  CodeFetch code = code_of(instructions);
  std::array<double, 4> cycles;
  double now = 0;
  for (double& c : cycles) {
    const double begin = now;
    now = execute(code, 0, instructions, now);
    c = (now - begin) / instructions;
  }
  return cycles;
}

TEST(CodeFetch, ALoopThatFitsIsFetchedOnce) {  // turns.fetch.n1024.warps1: 1.001
  const auto t = turns(1024);
  EXPECT_NEAR(t[0], 10.05 / kLine, 0.02);
  EXPECT_NEAR(t[1], 1.001, 0.01);
  EXPECT_NEAR(t[3], 1.001, 0.01);
}

TEST(CodeFetch, ALoopThatIsTwiceTooLargeComesAgainInEveryTurn) {  // turns.fetch.n4096.warps1: 2.200, 2.204, 2.204, 2.204
  for (const double t : turns(4096)) EXPECT_NEAR(t, 2.2, 0.03);
}

TEST(CodeFetch, LinesThatNobodyExecutesTakeNoRoom) {  // jumps31: 28 cycles a jump, over code that is never held
  std::vector<bool> every_ninth(512);
  for (size_t i = 0; i < every_ninth.size(); i += 9) every_ninth[i] = true;
  CodeFetch code(every_ninth, kWarm);
  const double one = code.arrives(0, 0), next = code.arrives(9 * kLine, one);
  EXPECT_NEAR(next - one, kWarm.jump, 1e-9);
  EXPECT_NEAR(code.arrives(10 * kLine, next) - next, kWarm.line, 1e-9);
}

TEST(CodeFetch, ALoopThatIsALittleTooLargeComesAgainInPart) {  // turns.fetch.n2048.warps1: 1.167, with the loop around the instructions
  const auto t = turns(2048 + 4 * kLine);
  EXPECT_GT(t[1], 1.08);
  EXPECT_LT(t[1], 1.25);
}

TEST(CodeFetch, WhatLiesFurtherInThanALaunchBringsNearTakesLonger) {  // far_code_8_8192/132 and far_code_8_6144/132: 43.2 cycles a line
  constexpr int kNear = 4096;
  CodeFetch code = code_of(2 * kNear);
  const double near = execute(code, 0, kNear, 0), half = execute(code, kNear, kNear + kNear / 2, near), end = execute(code, kNear + kNear / 2, 2 * kNear, half);
  EXPECT_NEAR((end - half) / (kNear / 2 / kLine), 43, 0.5);
}

TEST(CodeFetch, ALineThatWasGivenUpIsNotThereBeforeThat) {
  CodeFetch code = code_of(4096);
  const double first = execute(code, 0, kLine, 0);
  const double later = execute(code, kLine, 4096, first);
  EXPECT_GT(code.arrives(0, later), later);
  // The line before it is still held, and was there long ago.
  CodeFetch set = code_of(4096);
  double now = execute(set, 0, 2 * kLine, 0);
  for (int way = 1; way <= 9; way++) {  // lines that give up line 1 alone
    now = execute(set, 0, 1, now);
    now = execute(set, (32 * way + 1) * kLine, (32 * way + 1) * kLine + 1, now) + 100;
  }
  EXPECT_LE(set.arrives(0, now), now);
  EXPECT_GT(set.arrives(kLine, now), now);
}

TEST(CodeFetch, LinesComeAheadOfCodeThatWaits) {  // dependent instructions hide it: straight2048
  CodeFetch code = code_of(1024);
  double now = 0;
  for (int i = 0; i < 1024; i++) {
    const double there = code.arrives(uint32_t(i), now);
    if (i >= 2 * kLine) {
      EXPECT_LE(there, now) << i;
    }
    now = std::max(now, there) + 4;
  }
}

}  // namespace
}  // namespace orrery::timing
