// Barriers of a block, predicted: as an H200 measured them (calib/raw/h200-2026-11-29-by-sm.jsonl, made by calib/by_sm.cu). Machine code decides when a
// warp arrives: without ptxas these tests are skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// Cycles of a round by one block of `warps` warps, of which a turn of a loop has `unrolled`; below zero without ptxas.
double round_of(const std::string& round, uint32_t warps, int unrolled) {
  std::string body;
  for (int i = 0; i < unrolled; i++) body += round;
  double cycles[2];
  for (int i = 0; i < 2; i++) {
    TestMachine m;
    const TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nld.param.u32 %r9, [p1];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %d2, %r1, 4, %d1;\nmov.u32 %r2, 0;\nmov.f32 %f0, 0f3f800000;\nsetp.eq.u32 %p2, %r1, 2000;\nselp.b32 %r3, 1, 0, %p2;\n"
                                   "AGAIN:\n.pragma \"nounroll\";\n{}\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra AGAIN;\nst.global.f32 [%d2], %f0;\nst.global.b32 [%d2+4096], %r3;\nret;",
                                   body),
                       {m.allocate(1 << 20), i ? 96u : 32u}, {1}, {warps * 32});
    PredictOptions options;
    options.warm = true;
    const Prediction p = m.predicted(k, options);
    if (p.method != "machine code") return -1;
    cycles[i] = p.cycles;
  }
  return (cycles[1] - cycles[0]) / (64 * unrolled);
}

struct Measured {
  uint32_t warps;
  double cycles;
};

/// `work` additions behind each barrier, each of which needs the one before it.
void additions_take(int work, double tolerance, std::initializer_list<Measured> measured) {
  std::string round = "bar.sync 0;\n";
  for (int i = 0; i < work; i++) round += "add.f32 %f0, %f0, %f0;\n";
  for (const auto& [warps, cycles] : measured) {
    const double predicted = round_of(round, warps, 4);
    if (predicted < 0) GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(predicted, cycles, tolerance * cycles) << warps << " warps, barrier.work" << work;
  }
}

/// The next phase cannot begin at once: with nothing to do between two barriers that is what a round takes.
TEST(TimingBarriers, ABarrierIsNotOpenAtOnceAgain) { additions_take(0, 0.05, {{4, 22.7}, {8, 30.8}, {16, 46.8}, {32, 78.9}}); }
/// Else warps go on a few cycles after the last has come.
TEST(TimingBarriers, WarpsGoOnWhenTheLastHasCome) {
  additions_take(4, 0.11, {{1, 24.7}, {4, 29.2}, {8, 35.5}, {16, 48.3}});
  additions_take(32, 0.03, {{1, 137.0}, {4, 141.5}, {8, 147.7}});
}

TEST(TimingBarriers, AReductionTakesLonger) {
  for (const auto& [warps, cycles] : {Measured{1, 89.2}, {4, 95.2}, {8, 106.2}, {16, 122.3}, {32, 159.2}}) {
    const double predicted = round_of("setp.ne.b32 %p2, %r3, 0;\nbarrier.cta.red.or.pred.aligned %p3, 0, %p2;\nselp.b32 %r3, 1, 0, %p3;\n", warps, 1);
    if (predicted < 0) GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(predicted, cycles, 0.08 * cycles) << warps << " warps, barrier.red";
  }
}

}  // namespace
}  // namespace orrery::timing
