// Kernels that read the clock, predicted: what they would read is what an H200 read in the same place
// (calib/raw), to within 3%. These are the figures on which products, copies and clusters rest; `orrery
// dissect` compares all of them (docs/dissect.md). Expected values are measurements, never the model's.
// Without ptxas there is no machine code to time: skipped.
#include <fmt/format.h>

#include <optional>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

constexpr int kRounds = 64;
constexpr double kWithin = 0.03;
const char* const kRoom = ".shared .align 1024 .b8 room[32768];\n.shared .align 8 .b64 bar;";

/// What warp 0 would read for a round of `work`: cycles between two readings of the clock around rounds of
/// it, a loop of kRounds or eight in a row. `before` runs first; `kept` (a register of 32 bits) is what the
/// work was for.
struct Measured {
  std::string before, work, kept = "%r1";
  uint32_t threads = 32, cluster = 1;
  bool in_a_row = false;
};
std::optional<double> cycles_of(const Measured& what) {
  TestMachine m;
  const uint64_t memory = m.allocate(1 << 16);
  constexpr int kInARow = 8;
  std::string rounds;
  if (what.in_a_row)
    for (int i = 0; i < kInARow; i++) rounds += what.work + "\n";
  else
    rounds = "AGAIN:\n" + what.work +
             fmt::format("\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, {};\n@%p1 bra AGAIN;\n", kRounds);
  TestKernel k(what.before + "\nmov.u32 %r1, 0;\nmov.u64 %d1, %clock64;\n" + rounds +
                   "mov.u64 %d2, %clock64;\nsub.u64 %d3, %d2, %d1;\nld.param.u64 %d4, [p0];\nst.global.u64 "
                   "[%d4], %d3;\nst.global.b32 [%d4+8], " +
                   what.kept + ";\nret;",
               {memory}, {what.cluster}, {what.threads}, kRoom);
  k.launch.cluster = {what.cluster};
  k.launch.in_clusters = what.cluster > 1;
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  if (p.method != "machine code" || p.clocks.empty()) return std::nullopt;
  return p.clocks[0] / (what.in_a_row ? kInARow : kRounds);
}

#define EXPECT_MEASURED(measured, ...)                          \
  do {                                                          \
    const std::optional<double> found = cycles_of(__VA_ARGS__); \
    if (!found) GTEST_SKIP() << "no ptxas";                     \
    EXPECT_NEAR(*found, measured, kWithin*(measured));          \
  } while (0)

std::string batch(int products) {
  std::string sums, all;
  for (int i = 0; i < 64; i++) sums += fmt::format("{}%c{}", i ? ", " : "", i);
  for (int i = 0; i < products; i++)
    all += "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" + sums + "}, %d5, %d5, 1, 1, 1, 0, 0;\n";
  return "wgmma.fence.sync.aligned;\n" + all +
         "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;";
}

TEST(RoundTrip, BatchesOfProductsAreWaitedForToTheirEnd) {
  std::string begin =
      ".reg .f32 %c<64>;\nmov.u32 %r2, room;\nshr.u32 %r2, %r2, 4;\ncvt.u64.u32 %d5, %r2;\nor.b64 %d5, %d5, "
      "0x4000004000000000;\n";
  for (int i = 0; i < 64; i++) begin += fmt::format("mov.f32 %c{}, 0f00000000;\n", i);
  EXPECT_MEASURED(187.0, Measured{begin, batch(2), "%c63", 128, 1, true});  // wgmma.batch.2.wait0.1groups
  EXPECT_MEASURED(315.0, Measured{begin, batch(4), "%c63", 128, 1, true});
  EXPECT_MEASURED(571.0, Measured{begin, batch(8), "%c63", 128, 1, true});
}

TEST(RoundTrip, ABarrierOfAClusterAndItsFence) {
  std::string four;  // unrolled, as the loop of the microbenchmark
  for (int i = 0; i < 4; i++) four += "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n";
  EXPECT_MEASURED(4 * 353.9, Measured{"", four, "%r1", 128, 4});  // barrier.cluster.4ctas
}

TEST(RoundTrip, LoadsFromAnotherBlockByTheSizeOfTheCluster) {
  const std::string begin =  // every block keeps the address of its own room there
      "mov.u32 %r2, room;\nmov.u32 %r3, %cluster_ctarank;\nmapa.shared::cluster.u32 %r5, %r2, "
      "%r3;\nst.shared.u32 [%r2], %r5;\n"
      "xor.b32 %r3, %r3, 1;\nmapa.shared::cluster.u32 %r4, %r2, "
      "%r3;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;";
  std::string chase;
  for (int i = 0; i < 32; i++) chase += "ld.shared::cluster.u32 %r4, [%r4];\n";
  const auto two = cycles_of({begin, chase, "%r4", 32, 2}), four = cycles_of({begin, chase, "%r4", 32, 4});
  if (!two || !four) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(*two / 32, 190.3, 0.05 * 190.3);  // latency.dsmem.2ctas.peer1; the loop is not its
  EXPECT_NEAR((*four - *two) / 32, 210.3 - 190.3, kWithin * 190.3);  // latency.dsmem.4ctas.peer1
}

TEST(RoundTrip, ASmallBulkCopyFromL2) {
  const std::string begin =
      "mov.u32 %r2, room;\nmov.u32 %r3, bar;\nld.param.u64 %d5, [p0];\nmbarrier.init.shared::cta.b64 [%r3], "
      "1;\n"
      "fence.mbarrier_init.release.cluster;";
  const std::string copy =
      "and.b32 %r5, %r1, 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d5], 128, [%r3];\n"
      "POLL:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r5;\n@!%p2 bra POLL;";
  EXPECT_MEASURED(299.7, Measured{begin, copy, "%r1", 1});  // tma.bulk.latency.l2.128B
}

}  // namespace
}  // namespace orrery::timing
