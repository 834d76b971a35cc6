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

/// Blocks that have nothing to do come behind those that have: 4,096 blocks that copy and 12,288 more [blocked_4_shared_idle/4096 and blocked_4_shared/4096 of
/// calib/raw/h200-2026-11-29-joined.jsonl: 15.8 and 9.7 us].
TEST(SmallLaunches, IdleBlocksComeBehindThoseThatWaited) {
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{4096} * 4096), out = m.allocate(uint64_t{4096} * 4096);
  const auto cycles = [&](uint32_t blocks) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r2, %ctaid.x; setp.ge.u32 %p1, %r2, 4096; @%p1 bra E; mov.u32 %r1, %tid.x;
      mad.lo.u32 %r1, %r2, 256, %r1; mul.wide.u32 %d3, %r1, 16; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;
      ld.global.v4.u32 {%r3, %r4, %r5, %r6}, [%d1]; st.global.v4.u32 [%d2], {%r3, %r4, %r5, %r6};
    E: ret;)", {in, out}, {blocks}, {256});
    return m.predicted(k).cycles;
  };
  const double idle = cycles(16384), none = cycles(4096);
  EXPECT_NEAR((idle - none) / 1.98e3, 15.808 - 9.696, 0.25 * 6.1);
}

/// Of few blocks that do different work the longest sets the time, wherever it is in the grid [ramp/12 and hill/33 of calib/raw/h200-2026-11-29-kept.jsonl: the
/// longest makes 2,040 and 2,046 turns].
TEST(SmallLaunches, TheLongestOfAFewBlocksSetsTheTime) {
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{33} * 4096 * 256 + 4096), out = m.allocate(4096 * 33);
  const auto microseconds = [&](const std::string& turns, uint32_t blocks) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.f32 %f1, 0f00000000; mov.u64 %d5, 0; mov.u32 %r9, 0;
      )" + turns + R"(
      mul.wide.u32 %d3, %r2, 1048576; add.s64 %d1, %d1, %d3; mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3;
    A: .pragma "nounroll"; add.s64 %d4, %d1, %d5; ld.global.f32 %f2, [%d4]; add.f32 %f1, %f1, %f2; mul.f32 %f3, %f1, 0f00000000; cvt.rzi.s64.f32 %d5, %f3;
      add.s64 %d1, %d1, 256; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, %r3; @%p1 bra A;
      mad.lo.u32 %r4, %r2, 32, %r1; mul.wide.u32 %d3, %r4, 4; add.s64 %d2, %d2, %d3; st.global.f32 [%d2], %f1; ret;)",
                       {in, out}, {blocks}, {32});
    return m.predicted(k).cycles / 1.98e3;
  };
  EXPECT_NEAR(microseconds("add.u32 %r3, %r2, 1; mul.lo.u32 %r3, %r3, 170;", 12), 742.5, 0.06 * 742.5);
  EXPECT_NEAR(microseconds("shl.b32 %r3, %r2, 1; sub.s32 %r3, %r3, 33; abs.s32 %r3, %r3; sub.s32 %r3, 33, %r3; mul.lo.u32 %r3, %r3, 62;", 33), 733.7, 0.06 * 733.7);
}

}  // namespace
}  // namespace orrery::timing
