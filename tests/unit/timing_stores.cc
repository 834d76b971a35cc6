// Which stores of a warp leave their SM as one, by what an H200 counts: calib/raw/h200-2026-11-22-lines.jsonl (struct3_3/4194304: 1.06 sectors
// to L2 for each that is filled) and calib/raw/h200-2026-11-22-contention.jsonl (store_parts: none joins). With ptxas only: how far apart
// stores are is known of machine code.
#include "timing/leaving_lines.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

/// Sectors to L2 for each of those in which three words of a structure lie that each of 2^20 threads stores, `between` each and the next; 0
/// without ptxas.
double sectors_a_sector(const std::string& between) {
  constexpr double kThreads = 1 << 20;
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t(kThreads) * 12), in = m.allocate(uint64_t(kThreads) * 4);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d4, [p1];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1;
    mul.wide.u32 %d2, %r1, 12; add.s64 %d2, %d1, %d2; mul.wide.u32 %d3, %r1, 4; add.s64 %d3, %d4, %d3;
    st.global.u32 [%d2], %r1;
    )" + between + R"(
    st.global.u32 [%d2+4], %r1;
    )" + between + R"(
    st.global.u32 [%d2+8], %r1;
    ret;)",
                     {out, in}, {uint32_t(kThreads / 256)}, {256});
  const Prediction p = m.predicted(k);
  return p.method == "machine code" ? p.l2_tex_sectors / (kThreads * 12 / 32) : 0;
}

TEST(TimingStores, OneRightBehindTheOtherJoinAlthoughOtherWarpsStoreBetween) {
  const double sectors = sectors_a_sector("");
  if (sectors == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_GT(sectors, 0.97);
  EXPECT_LT(sectors, 1.1);
}

TEST(TimingStores, BehindWhatIsWaitedForTheyDoNot) {
  const double sectors = sectors_a_sector("ld.volatile.global.u32 %r1, [%d3];");  // 1 of 12 words more is read, from L2 each time
  if (sectors == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_GT(sectors, 3);
}

/// Sectors to L2 for each that `threads` fill by rows of 16 bytes, written piece by piece; 0 without ptxas.
double sectors_of_rows(uint32_t threads, int piece) {
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{threads} * 16);
  std::string stores;
  for (int at = 0; at < 16; at += piece)
    stores += (piece == 2 ? "st.global.u16 [%d2+" : "st.global.u32 [%d2+") + std::to_string(at) + (piece == 2 ? "], %h1;\n" : "], %r1;\n");
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1; cvt.u16.u32 %h1, %r1;
    mul.wide.u32 %d2, %r1, 16; add.s64 %d2, %d1, %d2;
    )" + stores + "ret;",
                     {out}, {threads / 256}, {256});
  const Prediction p = m.predicted(k);
  return p.method == "machine code" ? p.l2_tex_sectors / (threads * 0.5) : 0;
}

// calib/raw/h200-2026-11-28-fields.jsonl: pieces4_4_4/1048576 1.43 sectors for each, pieces2_8_8/1048576 7.22.
TEST(TimingStores, FourInARowJoinEightDoNot) {
  const double four = sectors_of_rows(1 << 20, 4), eight = sectors_of_rows(1 << 20, 2);
  if (four == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(four, 1.43, 0.25 * 1.43);
  EXPECT_NEAR(eight, 7.22, 0.15 * 7.22);
}

// calib/raw/h200-2026-11-28-structs.jsonl: copy_struct5/262144 332,172 sectors, copy_struct9/262144 2,222,585: warps that load as much before they store
// come one by one, and longer rows of stores join.
TEST(TimingStores, WarpsThatHaveLoadedAsMuchJoinLongerRows) {
  const auto sectors = [](int words) {
    constexpr uint32_t kThreads = 1 << 18;
    TestMachine m;
    const uint64_t bytes = uint64_t(kThreads) * uint64_t(words) * 4, out = m.allocate(bytes), in = m.allocate(bytes);
    std::string body = "ld.param.u64 %d1, [p0]; ld.param.u64 %d4, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1; mul.wide.u32 %d3, %r1, " +
                       std::to_string(4 * words) + "; add.s64 %d2, %d1, %d3; add.s64 %d3, %d4, %d3; ld.global.f32 %f1, [%d3]; ld.global.f32 %f2, [%d3+4];\n";
    for (int i = 0; i < words; i++) body += "add.f32 %f" + std::to_string(i + 3) + ", " + (i ? "%f" + std::to_string(i + 2) : "%f1") + ", %f2;\n";
    for (int i = 0; i < words; i++) body += "st.global.f32 [%d2+" + std::to_string(4 * i) + "], %f" + std::to_string(i + 3) + ";\n";
    const Prediction p = m.predicted(TestKernel(body + "ret;", {out, in}, {kThreads / 256}, {256}));
    return p.method == "machine code" ? p.l2_tex_sectors : 0;
  };
  const double five = sectors(5), nine = sectors(9);
  if (five == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(five, 332'172, 33'000);
  EXPECT_NEAR(nine, 2'222'585, 450'000);
}

// calib/raw/h200-2026-11-28-store-rows.jsonl: rows of each lane's own, written word by word, by one warp of an SM and by 32: go_4_8_8/1 137,820 sectors
// for 135,168 that are filled, go_4_12_12/1 all but as many, too, go_4_8_8/32 4,246,496 for 540,672, go_4_4_32/1 (rows 128 bytes apart) as many as are stored.
TEST(TimingStores, RowsOfAWarpThatStoresAloneJoin) {
  const auto sectors = [](uint32_t warps, uint32_t words, uint32_t apart) {
    constexpr uint32_t kRounds = 8;
    TestMachine m;
    const std::string stride = std::to_string(4 * apart), turn = std::to_string(uint64_t{132} * warps * 32 * apart * 4);
    std::string body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, " + std::to_string(32 * warps) + ", %r1; mul.wide.u32 %d2, %r1, " + stride +
                       "; add.s64 %d2, %d1, %d2; mov.u32 %r3, 0; L: .pragma \"nounroll\";\n";
    for (uint32_t i = 0; i < words; i++) body += "st.global.u32 [%d2+" + std::to_string(4 * i) + "], %r3;\n";
    body += "add.s64 %d2, %d2, " + turn + "; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, " + std::to_string(kRounds) + "; @%p1 bra L; ret;";
    const uint64_t bytes = uint64_t{132} * warps * 32 * apart * 4 * kRounds;
    const Prediction p = m.predicted(TestKernel(body, {m.allocate(bytes)}, {132}, {32 * warps}));
    const double filled = double(bytes) / 32 * std::min(1.0, 8.0 * ((words + 7) / 8) / apart);
    return p.method == "machine code" ? p.l2_tex_sectors / filled : 0;
  };
  if (sectors(1, 8, 8) == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(sectors(1, 8, 8), 1, 0.05);
  EXPECT_NEAR(sectors(1, 12, 12), 1, 0.05);
  EXPECT_NEAR(sectors(1, 4, 32), 4, 0.2);
  EXPECT_NEAR(sectors(32, 8, 8), 7.9, 0.5);
}

/// All warps say in one word that something has changed, each time that a load of theirs has come back: their stores do not become one.
TEST(TimingStores, LoadsBetweenStoresKeepThemApart) {
  TestMachine m;
  const uint64_t words = uint64_t{1} << 21, in = m.allocate(words * 4), flag = m.allocate(256);
  for (uint64_t i = 0; i < words; i++) reinterpret_cast<uint32_t*>(in)[i] = uint32_t((i * 2654435761u + 12345) & (words - 1));
  const auto cycles_of = [&](const std::string& store) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 1024, %r1; mul.lo.u32 %r3, %r3, 2654435761; and.b32 %r3, %r3, 2097151; mov.u32 %r4, 0; mov.u32 %r5, 1;
      A: .pragma "nounroll"; mul.wide.u32 %d3, %r3, 4; add.s64 %d3, %d1, %d3; ld.global.u32 %r3, [%d3]; )" + store + R"( add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 32; @%p1 bra A;
      setp.ne.u32 %p2, %r3, 4294967295; @%p2 ret; st.global.u32 [%d2+128], %r3; ret;)",
                       {in, flag}, {132}, {1024});
    return m.predicted(k).cycles;
  };
  EXPECT_GT(cycles_of("st.global.u32 [%d2], %r5;") / cycles_of(""), 3) << "on an H200 6.0 times as long [contention: chase_and_store/32 368,752 cycles, chase_alone/32 61,006]";
}

/// So many warps of each block read a line, add to it and store it again, 512 times: how many of the stores leave their SM.
double left_of_stores(uint32_t warps) {
  TestMachine m;
  const uint64_t out = m.allocate(132 * 128);
  const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; and.b32 %r1, %r1, 31; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 32, %r1; mul.wide.u32 %d2, %r3, 4; add.s64 %d1, %d1, %d2; mov.u32 %r4, 0;
      A: .pragma "nounroll"; ld.volatile.global.f32 %f1, [%d1]; add.f32 %f1, %f1, %f2; st.volatile.global.f32 [%d1], %f1; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 512; @%p1 bra A; ret;)",
                     {out}, {132}, {warps * 32});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") return 0;
  for (const EnergyPart& part : p.energy)
    if (part.what == "sectors written to L2") return part.events / (132.0 * 512 * 4 * warps);
  return -1;
}

TEST(TimingStores, WhatSeveralWarpsStoreAtOnceIsWrittenOnce) {
  if (left_of_stores(1) == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(left_of_stores(1), 1, 0.02);      // calib/raw/h200-2026-11-29-same-stores.jsonl: same_free_reads/1
  EXPECT_NEAR(left_of_stores(2), 0.5, 0.1);     // same_free_reads/2
  EXPECT_NEAR(left_of_stores(4), 0.25, 0.06);   // same_free_reads/4
}

/// Sectors to L2 for each that tiles of 8 x 8 bytes fill, which warps of a block store side by side: two warps a tile, four tiles a sector.
TEST(TimingStores, OfSeveralWarpsJoinWhatFillsTheSameSectors) {
  constexpr uint32_t kWide = 2048, kTall = 512;
  TestMachine m;
  const uint64_t out = m.allocate(uint64_t{kWide} * kTall);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y;
    shr.u32 %r4, %r1, 6; and.b32 %r5, %r1, 7; shr.u32 %r6, %r1, 3; and.b32 %r6, %r6, 7;
    mad.lo.u32 %r4, %r2, 8, %r4; mad.lo.u32 %r5, %r4, 8, %r5; mad.lo.u32 %r6, %r3, 8, %r6; mad.lo.u32 %r6, %r6, 2048, %r5;
    cvt.u64.u32 %d2, %r6; add.s64 %d1, %d1, %d2; st.global.u8 [%d1], %r1; ret;)",
                     {out}, {kWide / 64, kTall / 8}, {512});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_tex_sectors / (kWide * kTall / 32), 1.02, 0.06);  // tiles_8x8_1_load/512 of calib/raw/h200-2026-11-29-joined.jsonl
}

/// Rows of 28 lines that four warps write by turns are there until they are whole, of 36 lines none [rest_4_7_7/4 and rest_4_9_9/4 of
/// calib/raw/h200-2026-11-28-store-rows.jsonl: 0.14 and 0.87 leave]; where nobody stores for 30 cycles all have gone [apart_4_4_4_8_0/1].
TEST(TimingStores, LinesStayAsLongAsTheyHaveAPlace) {
  const auto joins = [](uint64_t lines, double pause) {
    LeavingLines leaving;
    double now = 0;
    int joined = 0;
    for (int piece = 0; piece < 4; piece++, now += pause)
      for (uint64_t line = 0; line < lines; line++, now++) {
        leaving.begin(now, now + 1);
        joined += leaving.find(line) != nullptr;
        leaving.add(line, {now, 15, uint32_t(line % 4)});
      }
    return joined / double(3 * lines);
  };
  EXPECT_EQ(joins(28, 0), 1);
  EXPECT_EQ(joins(36, 0), 0);
  EXPECT_EQ(joins(4, 32), 0);
  EXPECT_EQ(joins(4, 4), 1);
}

}  // namespace
}  // namespace orrery::timing
