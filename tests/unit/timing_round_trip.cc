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

/// Was there machine code? A text that ptxas refuses is a mistake here, not a machine without ptxas.
bool is_timed(const Prediction& p) {
  for (const std::string& note : p.notes) EXPECT_EQ(note.find("refuses"), std::string::npos) << note;
  return p.method == "machine code";
}

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
  if (!is_timed(p) || p.clocks.empty()) return std::nullopt;
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

TEST(RoundTrip, AddingToOneWordOfAnotherBlockTakesEachLaneItsTurn) {
  TestMachine m;
  TestKernel k("mov.u32 %r2, room;\nmov.u32 %r3, %cluster_ctarank;\nadd.u32 %r3, %r3, 1;\nand.b32 %r3, %r3, 3;\nmov.u32 %r5, %tid.x;\nshr.u32 %r5, %r5, 5;\n"
               "shl.b32 %r5, %r5, 2;\nadd.u32 %r2, %r2, %r5;\nmapa.shared::cluster.u32 %r4, %r2, %r3;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
               "mov.u32 %r1, 0;\nAGAIN:\nred.shared::cluster.add.u32 [%r4], 1;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 64;\n@%p1 bra AGAIN;\n"
               "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;",
               {}, {120}, {512}, kRoom);
  k.launch.cluster = {4};
  k.launch.in_clusters = true;
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  if (!is_timed(p)) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.cycles, 267247, kWithin * 267247);  // remote_add_one/4
}

/// Cycles of 120 blocks of 256 threads, in clusters of four, that store to the next one's shared memory 64 times: `stores`, then `meet`.
double storing_to_the_next(const std::string& at, const std::string& stores, const std::string& meet) {
  TestMachine m;
  TestKernel k("mov.u32 %r2, room;\nmov.u32 %r3, %cluster_ctarank;\nadd.u32 %r3, %r3, 1;\nand.b32 %r3, %r3, 3;\nmov.u32 %r5, %tid.x;\n" + at +
                   "add.u32 %r2, %r2, %r5;\nmapa.shared::cluster.u32 %r4, %r2, %r3;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
                   "mov.u32 %r1, 0;\nAGAIN:\n" + stores + meet + "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 64;\n@%p1 bra AGAIN;\n"
                   "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\nret;",
               {}, {120}, {256}, ".shared .align 16 .b8 room[8192];");
  k.launch.cluster = {4};
  k.launch.in_clusters = true;
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  return is_timed(p) ? p.cycles : 0;
}

// calib/raw/h200-2026-11-28-peers.jsonl: put16_4/256, put4_8_4/256 and meet_put4_1_4/1.
TEST(RoundTrip, StoresToAnotherBlockTakeTheirSectorsTime) {
  std::string wide, apart;
  for (int i = 0; i < 8; i++) {
    wide += fmt::format("st.shared::cluster.v4.u32 [%r4+{}], {{%r1,%r1,%r1,%r1}};\n", 512 * i);
    apart += fmt::format("st.shared::cluster.u32 [%r4+{}], %r1;\n", 512 * i);
  }
  const double all = storing_to_the_next("shl.b32 %r5, %r5, 4;\n", wide, "");
  if (all == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(all, 131657, 0.05 * 131657);
  EXPECT_NEAR(storing_to_the_next("shl.b32 %r5, %r5, 3;\n", apart, ""), 131308, 0.05 * 131308);  // half of each sector's words
}

TEST(RoundTrip, ABarrierOfAClusterWaitsForStoresToOtherBlocks) {
  const double cycles = storing_to_the_next("shl.b32 %r5, %r5, 2;\n", "st.shared::cluster.u32 [%r4], %r1;\n", "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n");
  if (cycles == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(cycles, 38432, 0.05 * 38432);
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

/// Cycles of a launch of one warp that executes `n` independent instructions once, its code nowhere yet.
std::optional<double> cycles_of_code(int n) {
  TestMachine m;
  const uint64_t memory = m.allocate(4096);
  std::string code = "mov.f32 %f9, 0f3F800000;\nmov.u32 %r1, %tid.x;\n";
  for (int i = 0; i < 8; i++) code += fmt::format("mad.lo.u32 %r1, %r1, %r1, 7;\ncvt.rn.f32.u32 %f{}, %r1;\n", i);  // equal ones would be merged
  for (int i = 0; i < n; i++) code += fmt::format("fma.rn.f32 %f{0}, %f{0}, %f9, %f9;\n", i % 8);
  for (int i = 1; i < 8; i++) code += fmt::format("add.f32 %f0, %f0, %f{};\n", i);
  TestKernel k(code + "ld.param.u64 %d4, [p0];\nst.global.f32 [%d4], %f0;\nret;", {memory});
  const Prediction p = m.predicted(k, {});
  return is_timed(p) ? std::optional(p.cycles) : std::nullopt;
}

TEST(RoundTrip, CodeThatIsExecutedOnceComesLineByLine) {
  const auto some = cycles_of_code(1024), more = cycles_of_code(2048);
  if (!some || !more) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((*more - *some) / 128, 23.6, kWithin * 23.6);  // straight_free2048/32 and 1024/32, cold
}

TEST(RoundTrip, FencesOfTheAsyncProxyAndGroupsOfBulkStores) {
  const auto fence = cycles_of({"", "fence.proxy.async.shared::cta;", "%r1", 32, 1, true});
  if (!fence) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(*fence, 12.64, 1);  // turns.fence_alone.warps1, which has a part of its loop
  EXPECT_MEASURED(20.17, Measured{"", "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 1;", "%r1", 32, 1, true});  // turns.group_wait.warps1
}

TEST(RoundTrip, FencesOfTheAsyncProxyDrainTheStoresBeforeThem) {
  const std::string begin =
      "mov.u32 %r10, %tid.x;\nand.b32 %r11, %r10, 31;\nshr.u32 %r12, %r10, 5;\nand.b32 %r13, %r11, 15;\nshr.u32 %r14, %r11, 4;\nmov.u32 %r15, room;\n"
      "mad.lo.u32 %r15, %r12, 4096, %r15;\nmad.lo.u32 %r15, %r13, 128, %r15;\nand.b32 %r16, %r11, 7;\nxor.b32 %r17, %r14, %r16;\nmad.lo.u32 %r18, %r17, 16, %r15;\n";
  std::string round;  // what a warp stores of a tile: four parts of 16 x 64 halves
  for (int part = 0; part < 4; part++) {
    for (int j = 0; j < 4; j++)
      round += fmt::format("xor.b32 %r20, %r18, {};\nstmatrix.sync.aligned.m8n8.x4.shared.b16 [%r20+{}], {{%r10, %r11, %r12, %r13}};\n", j * 32, part % 2 * 2048);
    round += "fence.proxy.async.shared::cta;\nbar.warp.sync 0xffffffff;\n";
  }
  const auto found = cycles_of({begin, round, "%r1", 256});
  if (!found) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(*found, 1074, .13 * 1074);  // turns.end.fence.warps8.rounds8; 682 when a fence behind stores took what others take
}

TEST(RoundTrip, CopiesThatArriveHoldProductsUp) {
  const auto round = [&](int kilobytes) {
    std::string sums, all;
    for (int i = 0; i < 128; i++) sums += fmt::format("{}%c{}", i ? ", " : "", i);
    for (int i = 0; i < 4; i++) all += "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" + sums + "}, %d5, %d5, 1, 1, 1, 0, 0;\n";
    std::string begin =
        ".reg .f32 %c<128>;\nmov.u32 %r2, room;\nmov.u32 %r3, bar;\nmov.u32 %r6, %tid.x;\nsetp.eq.u32 %p3, %r6, 0;\nld.param.u64 %d6, [p0];\n"
        "shr.u32 %r4, %r2, 4;\ncvt.u64.u32 %d5, %r4;\nor.b64 %d5, %d5, 0x4000004000000000;\n@%p3 mbarrier.init.shared::cta.b64 [%r3], 1;\nbar.sync 0;\n";
    for (int i = 0; i < 128; i++) begin += fmt::format("mov.f32 %c{}, 0f00000000;\n", i);
    std::string copies = fmt::format("@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {};\n", kilobytes << 10);
    for (int i = 0; i < kilobytes; i += 16) copies += "@%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d6], 16384, [%r3];\n";
    return cycles_of({begin, (kilobytes ? copies : "") + "wgmma.fence.sync.aligned;\n" + all + "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;", "%c127", 128});
  };
  const auto alone = round(0), beside = round(48);
  if (!alone || !beside) GTEST_SKIP() << "no ptxas";
  EXPECT_GT(*beside, 1.05 * *alone);  // 40 KB that are read and 48 that are written leave nothing of 128 bytes a cycle [ring_few/5]
  EXPECT_LT(*beside, 1.35 * *alone);
}

/// Cycles of a round of `work`, on eight floats %x0 to %x7, by the second warpgroup while the first multiplies.
std::optional<double> beside_products(const std::string& work) {
  TestMachine m;
  const uint64_t memory = m.allocate(1 << 16);
  constexpr int kFew = 8;
  std::string body =
      ".reg .f32 %x<8>, %c<64>;\nld.param.u64 %d4, [p0];\nmov.u32 %r6, %tid.x;\ncvt.rn.f32.u32 %f1, %r6;\nmov.u32 %r1, 0;\nmov.u32 %r2, room;\n"
      "shr.u32 %r2, %r2, 4;\ncvt.u64.u32 %d5, %r2;\nor.b64 %d5, %d5, 0x4000004000000000;\nsetp.lt.u32 %p2, %r6, 128;\n";
  for (int i = 0; i < 64; i++) body += fmt::format("mov.f32 %c{}, 0f00000000;\n", i);
  for (int i = 0; i < 8; i++) body += fmt::format("add.f32 %x{}, %f1, 0f3f8000{:02x};\n", i, i + 70);
  body += "bar.sync 0;\n@%p2 bra PRODUCTS;\nmov.u64 %d1, %clock64;\nAGAIN:\n" + work +
          fmt::format("add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, {};\n@%p1 bra AGAIN;\nmov.u64 %d2, %clock64;\nsub.u64 %d3, %d2, %d1;\nst.global.u64 [%d4], %d3;\n", kFew);
  for (int i = 0; i < 8; i++) body += fmt::format("add.f32 %f1, %f1, %x{};\n", i);
  body += "st.global.f32 [%d4+8], %f1;\nret;\nPRODUCTS:\n" + batch(16) + "\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 6;\n@%p1 bra PRODUCTS;\nst.global.f32 [%d4+16], %c63;\nret;\n";
  TestKernel k(body, {memory}, {1}, {256}, kRoom);
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  if (!is_timed(p) || p.clocks.size() < 5) return std::nullopt;
  return p.clocks[4] / kFew;
}

TEST(RoundTrip, ProductsHoldUpWhatIsIssuedBesideThem) {
  std::string maxima, specials;
  for (int i = 0; i < 64; i++) {
    maxima += fmt::format("max.f32 %x{0}, %x{0}, %x{1};\n", i % 8, (i + 1) % 8);
    specials += fmt::format("ex2.approx.ftz.f32 %x{0}, %x{0};\n", i % 8);
  }
  const auto max = beside_products(maxima), special = beside_products(specials);
  if (!max || !special) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(*max / 64, 4.375, .05 * 4.375);          // overlap.max.shared.second, in which products are waited for more often; alone 2.2
  EXPECT_NEAR(*special / 64, 10.19, kWithin * 10.19);  // overlap.special.shared.second; alone 8.2
}

// An array of a thread: a word of a warp is four sectors, of which two cross (calib/raw/h200-2026-11-27-local.jsonl: local_8_read_1 to local_32_read_4).
TEST(RoundTrip, StoresToLocalMemoryGoOnToL2) {
  TestMachine m;
  const uint64_t memory = m.allocate(1 << 16);
  constexpr uint32_t kBlocks = 132, kThreads = 128, kTurns = 512;
  TestKernel k(fmt::format(".local .align 4 .b8 own[128];\nmov.u64 %d1, own;\nld.param.u64 %d4, [p0];\nmov.u32 %r1, 0;\nmov.u32 %r5, %tid.x;\n"
                           "AGAIN:\nand.b32 %r2, %r1, 31;\nmul.wide.u32 %d2, %r2, 4;\nadd.u64 %d3, %d1, %d2;\nst.local.b32 [%d3], %r5;\n"
                           "shr.u32 %r3, %r2, 1;\nmul.wide.u32 %d5, %r3, 4;\nadd.u64 %d6, %d1, %d5;\nld.local.b32 %r4, [%d6];\nadd.u32 %r5, %r5, %r4;\n"
                           "add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, {};\n@%p1 bra.uni AGAIN;\nst.global.b32 [%d4], %r5;\nret;", kTurns),
               {memory}, {kBlocks}, {kThreads});
  const Prediction p = m.predicted(k);
  if (!is_timed(p)) GTEST_SKIP() << "no ptxas";
  const double stores = double(kBlocks) * kThreads / 32 * kTurns;
  EXPECT_NEAR(p.l2_tex_sectors, 4 * stores, .03 * 4 * stores);
  EXPECT_NEAR(p.fabric_sectors, 2 * stores, .05 * 2 * stores);
}

/// Cycles of 132 blocks of `threads` threads with `body` as often as `turns` says; %r1: thread, %r2: turn, %d1: memory.
std::optional<double> cycles_of(TestMachine& m, const std::string& before, const std::string& body, int turns, uint32_t threads) {
  TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, 0;\nmov.u32 %r9, 0;\n{}\nAGAIN:\n{}\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, {};\n@%p1 bra.uni AGAIN;\n"
                           "st.global.b32 [%d1], %r9;\nret;", before, body, turns),
               {m.allocate(1 << 20)}, {132}, {threads});
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  if (!is_timed(p)) return std::nullopt;
  return p.cycles;
}

// Loads from the constant bank at an index (calib/raw/h200-2026-11-27-constants.jsonl).
TEST(RoundTrip, ConstantsComeWordByWord) {
  constexpr int kTurns = 200;
  const auto of_words = [&](uint32_t lanes) {
    std::string loads = "and.b32 %r4, %r2, 7;\nmul.wide.u32 %d4, %r4, 4;\nadd.u64 %d5, %d3, %d4;\n";
    for (int i = 0; i < 8; i++) loads += fmt::format("ld.const.b32 %r{0}, [%d5+{1}];\n", 10 + i, i * 128);
    for (int i = 0; i < 8; i++) loads += fmt::format("xor.b32 %r9, %r9, %r{};\n", 10 + i);
    TestMachine m;
    return cycles_of(m, fmt::format("and.b32 %r3, %r1, {};\nmul.wide.u32 %d2, %r3, 4;\nadd.u64 %d3, %d1, %d2;", lanes - 1), loads, kTurns, 256);
  };
  const auto one = of_words(1), all = of_words(32);
  if (!one || !all) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(*all / (kTurns * 8 * 8), 64.2, .05 * 64.2);  // constants_words_32/1: 1,052,677 cycles for 2,048 loads of each of eight warps
  EXPECT_LT(*one / (kTurns * 8 * 8), 3);                   // constants_read/256: 2.5
}

// Stores of 32 lines by one SM's warps and all SMs' (calib/raw/h200-2026-11-27-lane-stores.jsonl).
TEST(RoundTrip, StoresOfManyLinesLeaveOneInTwoCycles) {
  constexpr int kTurns = 64;
  TestMachine m;
  TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d2, %r1, 1024;\nadd.u64 %d3, %d1, %d2;\nmov.u32 %r2, 0;\n"
                           "AGAIN:\nst.global.b32 [%d3], %r2;\nadd.u64 %d3, %d3, 4;\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, {};\n@%p1 bra.uni AGAIN;\nret;", kTurns),
               {m.allocate(256 << 10)}, {1}, {256});
  PredictOptions warm;
  warm.warm = true;
  const Prediction p = m.predicted(k, warm);
  if (!is_timed(p)) GTEST_SKIP() << "no ptxas";
  const double lines = 8 * 32 * kTurns;
  EXPECT_NEAR((p.cycles - 3000) / lines, 2.0, .1);  // lane_stores_4_8_warps/1: 527,364 cycles for 262,144, with a launch of some 3,000
}

}  // namespace
}  // namespace orrery::timing
