// Launches of a few microseconds, and rows that begin between sectors, predicted: what they take is what an H200 took (the small_ and streams_
// cases of calib/raw/h200-2026-11-27-{small,streams}.jsonl). Accesses are timed as machine code only: without ptxas
// that test is skipped.
#include <fmt/format.h>

#include "timing_kernel.h"

namespace orrery::timing {
namespace {

enum Caches { kCold, kWarm };

Prediction taken(TestMachine& m, const std::string& body, const std::vector<uint64_t>& parameters, uint32_t blocks, uint32_t threads, Caches caches) {
  const TestKernel k(body, parameters, {blocks}, {threads});
  PredictOptions options;
  options.warm = caches == kWarm;
  return m.predicted(k, options);
}
/// The place of a thread's word in %d2, from %d1 on.
std::string own_word(uint32_t threads) {
  return fmt::format("mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmad.lo.u32 %r1, %r2, {}, %r1;\nld.param.u64 %d1, [p0];\nmad.wide.u32 %d2, %r1, 4, %d1;\n", threads);
}

TEST(SmallLaunches, NothingTakesAsLongHoweverWideItsBlocksAre) {
  struct Case {
    uint32_t blocks, threads;
    double cycles;
  };
  for (const auto& [blocks, threads, cycles] : {Case{1, 32, 2834}, {1, 256, 2802}, {1, 1024, 2838}, {132, 32, 2981}, {132, 256, 2946}, {132, 1024, 2972}, {1056, 256, 4074}, {2112, 32, 5366}}) {
    TestMachine m;
    EXPECT_NEAR(taken(m, "ret;", {}, blocks, threads, kWarm).cycles, cycles, .03 * cycles) << blocks << " of " << threads;
  }
}

TEST(SmallLaunches, WhoTouchedMemoryEndsLaterAndOnAllSmsLaterStill) {
  struct Case {
    const char* body;
    Caches caches;
    uint32_t blocks;
    double cycles;
  };
  const char* const store = "st.global.b32 [%d2], %r1;\nret;";
  const char* const load = "ld.global.b32 %r3, [%d2];\nsetp.eq.b32 %p1, %r3, 7;\n@%p1 st.global.b32 [%d1], %r3;\nret;";
  for (const auto& [body, caches, blocks, cycles] : {Case{store, kWarm, 132, 3454}, {store, kWarm, 1056, 4586}, {store, kCold, 132, 3820}, {load, kWarm, 1, 3306}, {load, kWarm, 132, 3744}, {load, kWarm, 1056, 4850}, {load, kCold, 132, 5008}, {load, kCold, 1056, 5531}}) {
    TestMachine m;
    const Prediction p = taken(m, own_word(256) + body, {m.allocate(1 << 22)}, blocks, 256, caches);
    if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
    EXPECT_NEAR(p.cycles, cycles, .06 * cycles) << body << blocks;
  }
}

/// Sectors that SMs asked L2 for, for each 32 bytes, of 1,024 rows of so many words that 512 threads each go through.
double sectors_of(const std::string& access, uint32_t words) {
  TestMachine m;
  const std::string body = fmt::format(
      "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %ctaid.x;\nmul.lo.u32 %r2, %r2, {0};\nld.param.u64 %d1, [p0];\nmad.wide.u32 %d1, %r2, 4, %d1;\n"
      "AGAIN:\nmad.wide.u32 %d2, %r1, 4, %d1;\n{1}\nadd.u32 %r1, %r1, 512;\nsetp.lt.u32 %p1, %r1, {0};\n@%p1 bra AGAIN;\n"
      "setp.eq.b32 %p2, %r3, 7;\n@%p2 st.global.b32 [%d1], %r3;\nret;",
      words, access);
  const Prediction p = taken(m, body, {m.allocate(uint64_t{1024} * words * 4 + 4096)}, 1024, 512, kCold);
  return p.l2_tex_sectors / (1024.0 * words / 8);
}

TEST(RowsBetweenSectors, AreReadOnceAndWrittenInParts) {
  const std::string load = "ld.global.b32 %r3, [%d2];", store = "st.global.b32 [%d2], %r1;\nmov.u32 %r3, 0;";
  EXPECT_NEAR(sectors_of(load, 16384), 1, .02);
  EXPECT_NEAR(sectors_of(load, 16417), 1.001, .02);   // of two warps that share a sector the second finds it in L1
  EXPECT_NEAR(sectors_of(store, 16384), 1, .02);
  EXPECT_NEAR(sectors_of(store, 16417), 1.16, .1);  // each warp's first and last sector is written by two, some of which join
}

}  // namespace
}  // namespace orrery::timing
