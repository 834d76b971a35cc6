// Clusters, barriers of memory and the copy engine, predicted: as an H200 measured them (calib/raw/h200-2026-11-29-*.jsonl; the cases and rows are named
// beside each). Machine code decides most of it: without ptxas these tests are skipped.
#include <fmt/format.h>

#include "timing/touched_slices.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

Prediction warm(TestMachine& m, const TestKernel& k) {
  PredictOptions options;
  options.warm = true;
  return m.predicted(k, options);
}
bool no_ptxas(const Prediction& p) { return p.method != "machine code"; }

/// Cycles of a turn of a loop: of `body`, made 96 times and 32 times.
double turn_of(const std::string& before, const std::string& body, uint32_t threads, bool& skip) {
  double cycles[2];
  for (int i = 0; i < 2; i++) {
    TestMachine m;
    const TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nmov.u32 %r1, %tid.x;\nmad.wide.u32 %d2, %r1, 4, %d1;\nmov.u32 %r2, 0;\nld.param.u32 %r9, [p1];\n{}\n"
                                   "AGAIN:\n.pragma \"nounroll\";\n{}\nadd.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra AGAIN;\nst.global.b32 [%d2], %r4;\nst.global.f32 [%d2+4096], %f0;\nret;",
                                   before, body),
                       {m.allocate(1 << 20), i ? 96u : 32u}, {1}, {threads}, ".shared .align 1024 .b8 room[16384];");
    const Prediction p = warm(m, k);
    skip |= no_ptxas(p);
    cycles[i] = p.cycles;
  }
  return (cycles[1] - cycles[0]) / 64;
}

TEST(TimingClusters, ABarrierOfMemoryWaitsForSlicesThatWereTouched) {
  bool skip = false;
  const double idle = turn_of("mov.u32 %r4, 0;\nmov.f32 %f0, 0f00000000;", "fence.acq_rel.gpu;", 32, skip), stored = turn_of("mov.u32 %r4, 0;\nmov.f32 %f0, 0f00000000;", "st.global.b32 [%d2], %r2;\nfence.acq_rel.gpu;", 32, skip),
               loaded = turn_of("mov.u32 %r4, 0;\nmov.f32 %f0, 0f00000000;", "ld.relaxed.gpu.global.b32 %r3, [%d2];\nadd.u32 %r4, %r4, %r3;\nfence.acq_rel.gpu;", 32, skip);
  if (skip) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(idle, 282, 15);            // drains: fence, one warp, nothing stored
  EXPECT_NEAR(stored - idle, 246, 40);  // drains: fence, a line by one warp
  EXPECT_NEAR(loaded - idle, 525, 60);  // fences: load_fence, less the remainder of its address
}

/// Warps of a block that store a line each, fence and meet: those that come long behind the first of them wait for its round to end.
TEST(TimingClusters, ABlockThatHasMetFencesInTwoRounds) {
  bool skip = false;
  const auto round = [&](uint32_t warps) {
    return turn_of("mov.u32 %r4, 0;\nmov.f32 %f0, 0f00000000;", "st.global.b32 [%d2], %r2;\nfence.acq_rel.gpu;\nbar.sync 0;", warps * 32, skip);
  };
  const double four = round(4), eight = round(8), sixteen = round(16), all = round(32);
  if (skip) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(four, 564, 60);      // drains: fence_bar, a line a warp
  EXPECT_NEAR(eight, 688, 100);
  EXPECT_NEAR(sixteen, 1062, 130);
  EXPECT_NEAR(all, 1184, 130);
}

/// An SM stores 32 bytes a cycle.
TEST(TimingClusters, StoresLeaveAnSmAtALineInFourCycles) {
  bool skip = false;
  std::string stores;
  for (int k = 0; k < 16; k++) stores += fmt::format("st.global.b32 [%d3+{}], %r2;\n", 65536 + k * 4096);
  const double round = turn_of("mov.u32 %r4, 0;\nmov.f32 %f0, 0f00000000;\nmov.u64 %d3, %d2;", stores + "add.s64 %d3, %d3, 131072;\nand.b64 %d3, %d3, 0xFFFFFFFFFFF7FFFF;\nbar.sync 0;", 512, skip);
  if (skip) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(round, 1018, 80);  // drains: bar, 16 lines by each of 16 warps
}

/// Rounds in which a block takes a word a thread from the other of its cluster, around barriers of the cluster: with many blocks on an SM loads and barriers of
/// memory lie one after the other.
TEST(TimingClusters, BlocksOfAnSmMeetInStep) {
  struct {
    uint32_t on_sm;
    double round;
  } const of[] = {{1, 702}, {4, 881}, {8, 1140}};  // meet_take4_1_2/1, 4, 8
  for (const auto& [on_sm, round] : of) {
    double cycles[2];
    for (int i = 0; i < 2; i++) {
      TestMachine m;
      TestKernel k(R"(
        ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mov.u32 %r3, room;
        mapa.shared::cluster.u32 %r4, %r3, %r2; shl.b32 %r5, %r1, 2; add.u32 %r4, %r4, %r5; mov.u32 %r6, 0; mov.u32 %r7, 0;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
        AGAIN: .pragma "nounroll";
        ld.volatile.shared::cluster.u32 %r8, [%r4]; add.u32 %r7, %r7, %r8;
        barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
        add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r9; @%p1 bra AGAIN;
        setp.ne.u32 %p2, %r7, 12345; @%p2 bra OUT; st.global.u32 [%d1], %r7; OUT: ret;)",
                   {m.allocate(4096), i ? 48u : 16u}, {132 * on_sm}, {256}, ".shared .align 1024 .b8 room[16384];");
      k.launch.cluster = {2}, k.launch.in_clusters = true, k.launch.dynamic_shared = on_sm == 1 ? 100000 : (220000 / on_sm - 1024) / 1024 * 1024 - 16384;
      const Prediction p = warm(m, k);
      if (no_ptxas(p)) GTEST_SKIP() << "no ptxas";
      cycles[i] = p.cycles;
    }
    EXPECT_NEAR((cycles[1] - cycles[0]) / 32, round, round * 0.12) << on_sm;
  }
}

/// All threads add up a word of each block of their cluster, between two barriers of it.
TEST(TimingClusters, SumsOverClustersOfEightTakeLonger) {
  struct {
    uint32_t cluster, on_sm;
    double round;
  } const of[] = {{2, 1, 987}, {4, 4, 1456}, {8, 1, 1425}, {8, 4, 2420}};  // takes: all, eight warps
  for (const auto& [cluster, on_sm, round] : of) {
    double cycles[2];
    for (int i = 0; i < 2; i++) {
      std::string takes;
      for (uint32_t r = 0; r < cluster; r++) takes += fmt::format("mapa.shared::cluster.u32 %r4, %r3, {}; ld.volatile.shared::cluster.f32 %f{}, [%r4];\n", r, 2 + r);
      for (uint32_t r = 0; r < cluster; r++) takes += fmt::format("add.f32 %f1, %f1, %f{};\n", 2 + r);
      TestMachine m;
      TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r3, room; mov.f32 %f1, 0f00000000; mov.u32 %r6, 0;\n"
                   "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\nAGAIN: .pragma \"nounroll\";\n"
                   "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n" + takes +
                       "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;\n"
                       "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r9; @%p1 bra AGAIN;\nsetp.neu.f32 %p2, %f1, 0f4640E400; @%p2 bra OUT; st.global.f32 [%d1], %f1; OUT: ret;",
                   {m.allocate(4096), i ? 48u : 16u}, {(cluster == 2 ? 132 : 120) * on_sm}, {256}, ".shared .align 128 .b8 room[128];");
      k.launch.cluster = {cluster}, k.launch.in_clusters = true, k.launch.dynamic_shared = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 2048;
      const Prediction p = warm(m, k);
      if (no_ptxas(p)) GTEST_SKIP() << "no ptxas";
      cycles[i] = p.cycles;
    }
    EXPECT_NEAR((cycles[1] - cycles[0]) / 32, round, round * 0.13) << cluster << ", " << on_sm;
  }
}

TEST(TimingClusters, AnSmHoldsEightBlocksOfThem) {
  for (uint32_t cluster : {1u, 2u, 4u}) {
    TestMachine m;
    TestKernel k("ret;", {}, {4224}, {64});
    k.launch.cluster = {cluster}, k.launch.in_clusters = true;
    EXPECT_EQ(warm(m, k).blocks_per_sm, 8u) << cluster;  // cluster_clocks: 64 threads, 32 on an SM: at_once
    k.launch.cluster = {1}, k.launch.in_clusters = false;
    EXPECT_EQ(warm(m, k).blocks_per_sm, 32u);
  }
}

TEST(TimingClusters, RowsFarApartLieInManySlices) {
  struct {
    uint64_t rows, lines;
    double slices;
  } const of[] = {{32, 2, 28.3}, {64, 1, 56.7}, {128, 1, 80.6}};  // cast_parts_256/2, 128/2, 64/2: sectors of barriers of memory, half of those a turn
  for (const auto& [rows, lines, slices] : of) {
    TouchedSlices t;
    for (uint64_t r = 0; r < rows; r++)
      for (uint64_t i = 0; i < lines; i++) t.touch((uint64_t{1} << 20) + r * 32 + i);
    EXPECT_NEAR(t.touched(), slices, .15 * slices) << rows;
  }
}

/// What the copy engine moves: 264 blocks that each make `copy` of 512 bytes twice, %d3 being the place in memory, 512 + `more` bytes from one to the next.
Prediction copied(TestMachine& m, const std::string& copy, uint32_t more) {
  const TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nmov.u32 %r1, %ctaid.x;\nmad.wide.u32 %d3, %r1, {}, %d1;\nmov.u32 %r2, room;\n"
                                 "fence.proxy.async.shared::cta;\n{}\nadd.u64 %d3, %d3, {};\n{}\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;",
                                 2 * (512 + more), copy, 512 + more, copy),
                     {m.allocate(1 << 20)}, {264}, {1}, ".shared .align 128 .b8 room[512];");
  return m.predicted(k);
}
const char* const kStore = "cp.async.bulk.global.shared::cta.bulk_group [%d3], [%r2], 512;";
const char* const kAdd = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%d3], [%r2], 512;";

TEST(TimingCopies, RowsThatBeginBetweenSectorsLeaveByPiecesOf128Bytes) {
  TestMachine m;
  const Prediction even = copied(m, kStore, 0), odd = copied(m, kStore, 16);
  if (no_ptxas(even)) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(even.l2_tex_sectors / 528, 16, .5);  // row_store/512
  EXPECT_NEAR(odd.l2_tex_sectors / 528, 18, .5);   // row_store_odd/512: 20 of each other row
}

TEST(TimingCopies, WhatIsAddedIsReadFromMemory) {
  TestMachine m;
  const Prediction stored = copied(m, kStore, 0), added = copied(m, kAdd, 0);
  if (no_ptxas(stored)) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(added.l2_tex_sectors, stored.l2_tex_sectors, .01 * stored.l2_tex_sectors);  // row_add/512, row_store/512: 540,672
  EXPECT_LT(stored.dram_read, 10000);
  EXPECT_NEAR(added.dram_read, 528 * 512, 0.1 * 528 * 512);  // 17.3 MB of 17.3
}

TEST(TimingCopies, NeighboursThatCopyHalvesOfALineAskForBoth) {
  TestMachine m;
  const TestKernel k(
      "ld.param.u64 %d1, [p0];\nmov.u32 %r1, %ctaid.x;\nbrev.b32 %r1, %r1;\nshr.u32 %r1, %r1, 20;\nmad.wide.u32 %d3, %r1, 64, %d1;\nmov.u32 %r2, room;\nmov.u32 %r3, bar;\n"
      "mbarrier.init.shared.b64 [%r3], 1;\nfence.mbarrier_init.release.cluster;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r3], 64;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d3], 64, [%r3];\n"
      "W:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;\n@!%p1 bra W;\nret;",
      {m.allocate(4096 * 64)}, {4096}, {1}, ".shared .align 128 .b8 room[64];\n.shared .align 8 .b64 bar;");
  const Prediction p = m.predicted(k);
  if (no_ptxas(p)) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.dram_read, 4096 * 64, .05 * 4096 * 64);  // box_copy/16: all of 16.8 MB
}

/// Both blocks of a cluster copy the tile that it wants, in bulk: each sector is asked for once. Tiles go by clusters, not by blocks.
TEST(TimingCopies, BlocksOfAClusterThatCopyTheSameAskOnce) {
  TestMachine m;
  TestKernel k(
      "ld.param.u64 %d1, [p0];\nmov.u32 %r1, %ctaid.x;\nshr.u32 %r1, %r1, 1;\nmad.wide.u32 %d3, %r1, 16384, %d1;\nmov.u32 %r2, room;\nmov.u32 %r3, bar;\nmov.u32 %r5, 0;\nmov.u32 %r6, %tid.x;\nsetp.ne.u32 %p3, %r6, 0;\n"
      "@%p3 bra AGAIN;\nmbarrier.init.shared.b64 [%r3], 1;\nfence.mbarrier_init.release.cluster;\nAGAIN:\n.pragma \"nounroll\";\nbarrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
      "@%p3 bra NONE;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16384;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d3], 16384, [%r3];\nNONE:\n"
      "and.b32 %r4, %r5, 1;\nW:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r3], %r4;\n@!%p1 bra W;\n"
      "add.s64 %d3, %d3, 1081344;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 8;\n@%p2 bra AGAIN;\nret;",
      {m.allocate(66 * 8 * 16384)}, {132}, {32}, ".shared .align 128 .b8 room[16384];\n.shared .align 8 .b64 bar;");
  k.launch.cluster = {2}, k.launch.in_clusters = true, k.launch.dynamic_shared = 120000;
  const Prediction p = m.predicted(k);
  if (no_ptxas(p)) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_tex_sectors, 66 * 8 * 512, .06 * 66 * 8 * 512);  // cast_each_bulk/2: 528,128 sectors of 16 MB
}

TEST(TimingWaitsForMbarriers, WhoWaitsLongLooksAgain) {
  bool skip = false;
  /// What two warps execute, of which one makes so many dependent products, then arrives, and the other waits.
  const auto executed = [&](uint64_t products) {
    TestMachine m;
    const TestKernel k("ld.param.u32 %r9, [p0];\nmov.u32 %r1, %tid.x;\nmov.u32 %r3, bar;\nmbarrier.init.shared.b64 [%r3], 1;\nbar.sync 0;\nsetp.gt.u32 %p2, %r1, 31;\n@%p2 bra W;\nmov.u32 %r2, 0;\nmov.f32 %f1, 0f3f800000;\n"
                       "AGAIN:\n.pragma \"nounroll\";\nfma.rn.f32 %f1, %f1, %f1, %f1;\nfma.rn.f32 %f1, %f1, %f1, %f1;\nadd.u32 %r2, %r2, 2;\nsetp.lt.u32 %p1, %r2, %r9;\n@%p1 bra AGAIN;\n"
                       "setp.eq.f32 %p3, %f1, 0f40000000;\n@%p3 bra END;\nsetp.ne.u32 %p3, %r1, 0;\n@%p3 bra END;\nmbarrier.arrive.shared.b64 _, [%r3];\nbra END;\n"
                       "W:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;\n@!%p1 bra W;\nEND:\nret;",
                       {products}, {1}, {64}, ".shared .align 8 .b64 bar;");
    const Prediction p = warm(m, k);
    skip |= no_ptxas(p);
    return p.instructions;
  };
  const double few = executed(256), more = executed(512), turn = (more - few) / 128;  // waits of 1,000 and 2,500 cycles: one look
  const double looks = (executed(8192) - few - turn * (8192 - 256) / 2) / 3;
  if (skip) GTEST_SKIP() << "no ptxas";
  EXPECT_GE(looks, 5);  // poll_try_1/16384: eight in 70,000 cycles, and the turns here take 10 to 30
  EXPECT_LE(looks, 16);
}

/// Of two blocks of 32 warps more wait than a sub-core keeps asleep.
TEST(TimingWaitsForMbarriers, WhoWaitsBesideManyLooksAgain) {
  const auto executed = [&](uint32_t blocks) {
    TestMachine m;
    const TestKernel k("mov.u32 %r1, %tid.x;\nmov.u32 %r3, bar;\nmbarrier.init.shared.b64 [%r3], 1;\nbar.sync 0;\nsetp.gt.u32 %p2, %r1, 31;\n@%p2 bra W;\nmov.u32 %r2, 0;\nmov.f32 %f1, 0f3f800000;\n"
                       "AGAIN:\n.pragma \"nounroll\";\nfma.rn.f32 %f1, %f1, %f1, %f1;\nfma.rn.f32 %f1, %f1, %f1, %f1;\nadd.u32 %r2, %r2, 2;\nsetp.lt.u32 %p1, %r2, 512;\n@%p1 bra AGAIN;\n"
                       "setp.eq.f32 %p3, %f1, 0f40000000;\n@%p3 bra END;\nsetp.ne.u32 %p3, %r1, 0;\n@%p3 bra END;\nmbarrier.arrive.shared.b64 _, [%r3];\nbra END;\n"
                       "W:\nmbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;\n@!%p1 bra W;\nEND:\nret;",
                       {}, {blocks}, {1024}, ".shared .align 8 .b64 bar;");
    const Prediction p = warm(m, k);
    return no_ptxas(p) ? 0 : p.instructions;
  };
  const double one = executed(132);
  if (one == 0) GTEST_SKIP() << "no ptxas";
  const double looks = (executed(264) - 2 * one) / (264 * 31) / 3;
  EXPECT_GT(looks, 0.5);  // crowd, four blocks of 15: 2.8 more in 1,930 cycles; here 2,500, less of them beside others
  EXPECT_LT(looks, 4);
}

/// A barrier of memory waits for bulk copies that another warp has made; of those that it lies ahead of for what is asked for until it would end.
TEST(TimingCopies, BarriersOfMemoryWaitForThem) {
  const auto fence = [&](uint32_t copies, uint32_t bytes, const std::string& pause) {
    TestMachine m;
    std::string makes;
    for (uint32_t i = 0; i < copies; i++)
      makes += fmt::format("add.u32 %r4, %r2, {0};\nadd.u64 %d3, %d1, {0};\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d3], {1}, [%r3];\n", i * bytes, bytes);
    TestKernel k(fmt::format("ld.param.u64 %d1, [p0];\nld.param.u64 %d8, [p1];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, room;\nmov.u32 %r3, bar;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra READY;\nmbarrier.init.shared.b64 [%r3], 1;\nREADY:\nbar.sync 0;\n"
                             "setp.gt.u32 %p2, %r1, 31;\n@%p2 bra FENCE;\n@%p1 bra END;\nmbarrier.arrive.expect_tx.shared.b64 _, [%r3], {};\n{}W:\nmbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n@!%p3 bra W;\nbra END;\n"
                             "FENCE:\nmov.f32 %f1, 0f3f800000;\n{}setp.eq.f32 %p4, %f1, 0f40000000;\n@%p4 bra END;\nmov.u64 %d5, %clock64;\nfence.acq_rel.gpu;\nmov.u64 %d6, %clock64;\nsub.s64 %d7, %d6, %d5;\nst.global.u64 [%d8], %d7;\nEND:\nret;",
                             copies * bytes, makes, pause),
                 {m.allocate(1 << 20), m.allocate(4096)}, {1}, {64}, ".extern .shared .align 128 .b8 room[];\n.shared .align 8 .b64 bar;");
    k.launch.dynamic_shared = 200000;
    const Prediction p = warm(m, k);
    return no_ptxas(p) || p.clocks.size() < 2 ? 0 : p.clocks[1];
  };
  std::string pause;
  for (int i = 0; i < 40; i++) pause += "fma.rn.f32 %f1, %f1, %f1, %f1;\n";  // copies are issued by then
  const double none = fence(0, 16384, pause);
  if (none == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(none, 290, 30);                        // shot, no copies: 306
  EXPECT_NEAR(fence(1, 16384, pause), 650, 70);    // later 200 to 400: 654
  EXPECT_NEAR(fence(4, 16384, pause), 780, 110);    // later 200: 847, 400: 725
  EXPECT_NEAR(fence(4, 49152, pause), 1400, 250);    // 1,355: it does not wait for all of it
}

TEST(TimingProducts, NarrowOnesEndSooner) {
  bool skip = false;
  const auto rounds = [&](int n, const char* sums) {
    return turn_of("mov.u32 %r4, 0;\nmov.u64 %d3, 0x4000004000000000;\n", fmt::format("wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n{}k16.f32.f16.f16 {{{}}}, %d3, %d3, 1, 1, 1, 0, 0;\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;", n, sums), 128, skip);
  };
  std::string wide = "%f0";
  for (int i = 1; i < 32; i++) wide += ",%f" + std::to_string(i);
  const double more = rounds(64, wide.c_str()) - rounds(8, "%f0,%f1,%f2,%f3");
  if (skip) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(more, 28.1, 3);  // wgmma.m64n64k16.f32.f16.latency, m64n8k16: 106.9 and 78.8
}

}  // namespace
/// Blocks of a pair store to each other (st.async), wait until the mbarrier has been told of all, and meet: a round takes what a trip to the other block and a barrier
/// of the cluster do [latency.dsmem.2ctas.peer1: 190 cycles; barrier.cluster: 354 with the loop], and the mbarrier's part; what it takes on an H200 was not measured by itself.
TEST(TimingClusters, WhatPeersStoreAsynchronouslyIsWaitedFor) {
  TestMachine m;
  const uint64_t out = m.allocate(132 * 512);
  const auto predicted = [&](uint64_t rounds) {
    TestKernel k(R"(
      .shared .align 16 .b8 room[2048]; .shared .align 8 .b64 bar;
      ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %cluster_ctarank; xor.b32 %r2, %r2, 1; mov.u32 %r3, room; mov.u32 %r4, bar; shl.b32 %r5, %r1, 4; add.u32 %r3, %r3, %r5;
      setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared::cta.b64 [%r4], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      mapa.shared::cluster.u32 %r6, %r3, %r2; mapa.shared::cluster.u32 %r7, %r4, %r2; mov.u32 %r8, 0; mov.u32 %r10, %r1;
    A: .pragma "nounroll"; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 2048;
      st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r6], {%r10, %r10, %r10, %r10}, [%r7]; and.b32 %r11, %r8, 1;
    W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], %r11; @!%p2 bra W;
      ld.shared.u32 %r12, [%r3]; add.u32 %r10, %r10, %r12; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r9; @%p3 bra A;
      mov.u32 %r13, %ctaid.x; mad.lo.u32 %r13, %r13, 128, %r1; mul.wide.u32 %d2, %r13, 4; add.s64 %d1, %d1, %d2; st.global.u32 [%d1], %r10; ret;)",
                 {out, rounds}, {132}, {128});
    k.launch.cluster = {2}, k.launch.in_clusters = true;
    return m.predicted(k);
  };
  const Prediction many = predicted(96), few = predicted(32);
  if (no_ptxas(many)) GTEST_SKIP() << "no ptxas";
  for (const std::string& note : many.notes) EXPECT_EQ(note.find("for ever"), std::string::npos) << note;
  const double round = (many.cycles - few.cycles) / 64;
  EXPECT_GT(round, 190 + 300);
  EXPECT_LT(round, 2 * (190 + 354));
}

}  // namespace orrery::timing
