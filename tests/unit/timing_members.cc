// Exchanges within a warp whose lanes name different members, predicted: what an H200 takes for the same (calib/raw/h200-2026-11-29-members.jsonl). Expected
// values are differences of times and instructions measured there, at 1.98 GHz. Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr double kGigahertz = 1.98;
constexpr int kRounds = 64;

struct Taken {
  double cycles = 0, instructions = 0;  // of a round; instructions of a warp
};

/// A round of `what` by `blocks` blocks of so many threads whose warps are made of groups of `lanes`.
Taken round_of(const std::string& what, int lanes, uint32_t blocks, uint32_t threads) {
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{blocks} * threads * 4);
  const std::string body = fmt::format(
      "ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r10, %r1; and.b32 %r2, %r1, 31; sub.u32 %r3, 32, %r9; shr.u32 %r4, 0xffffffff, %r3;\n"
      "sub.u32 %r5, %r9, 1; not.b32 %r5, %r5; and.b32 %r5, %r2, %r5; shl.b32 %r5, %r4, %r5; mov.u32 %r6, 0;\n"
      "L: .pragma \"nounroll\"; {} add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, {}; @%p1 bra L;\n"
      "mov.u32 %r7, %ctaid.x; mad.lo.u32 %r7, %r7, {}, %r10; mul.wide.u32 %d2, %r7, 4; add.u64 %d1, %d1, %d2; st.global.u32 [%d1], %r1; ret;",
      what, kRounds, threads);
  const auto taken = [&](int group) {
    const Prediction p = m.predicted(TestKernel(body, {out, uint64_t(group)}, exec::Dim3{blocks}, {threads}));
    return p.method == "machine code" ? Taken{p.cycles, double(p.instructions) / (blocks * threads / 32.0)} : Taken{};
  };
  const Taken parted = taken(lanes), whole = taken(32);
  return {(parted.cycles - whole.cycles) / kRounds, (parted.instructions - whole.instructions) / kRounds};
}

/// Microseconds of a launch with groups of 32 lanes and of fewer, as a difference of cycles for each round.
constexpr double between(double whole, double parted) { return (parted - whole) * kGigahertz * 1e3 / kRounds; }

TEST(TimingMembers, SetsOfLanesMeetOneAfterTheOther) {
  const std::string meet = "bar.warp.sync %r5; mad.lo.u32 %r1, %r1, 3, 1;";
  const Taken one = round_of(meet, 4, 132, 32);
  if (one.cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(one.cycles, between(3.712, 8.256), 0.05 * between(3.712, 8.256));  // meet_one
  EXPECT_EQ(one.instructions, 0);
  EXPECT_NEAR(round_of(meet, 8, 264, 1024).cycles, between(6.272, 23.904), 0.05 * between(6.272, 23.904));  // meet_all
  const std::string shuffle = "shfl.sync.bfly.b32 %r8, %r1, 1, 31, %r5; add.u32 %r1, %r1, %r8;";
  EXPECT_NEAR(round_of(shuffle, 4, 132, 32).cycles, between(4.48, 9.12), 0.05 * between(4.48, 9.12));  // shuffle_one
}

TEST(TimingMembers, VotesAndSumsAreMadeOnceForEachSet) {
  const std::string ballot = "and.b32 %r8, %r1, 1; setp.eq.u32 %p2, %r8, 1; vote.sync.ballot.b32 %r8, %p2, %r5; add.u32 %r1, %r1, %r8;";
  const Taken vote = round_of(ballot, 8, 132, 32);
  if (vote.cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(vote.cycles, between(4.736, 10.464), 0.05 * between(4.736, 10.464));  // ballot_one
  EXPECT_NEAR(vote.instructions, (163680 - 87648) / 132.0 / kRounds, 0.1);
  const std::string sum = "redux.sync.add.u32 %r8, %r1, %r5; add.u32 %r1, %r1, %r8;";
  EXPECT_NEAR(round_of(sum, 8, 132, 32).cycles, between(5.952, 15.104), 0.05 * between(5.952, 15.104));        // reduce_one
  EXPECT_NEAR(round_of(sum, 16, 264, 1024).cycles, between(10.688, 18.944), 0.08 * between(10.688, 18.944));  // reduce_all
}

}  // namespace
}  // namespace orrery::timing
