// What L1 holds, and how much an SM leaves it: a piece of memory that just fits is found again, wherever it begins, by what an H200 asks of L2 (calib/raw/h200-2026-11-22-lines.jsonl:
// again_same/26, of which each SM reads 197 KB eight times: 1,137,990 sectors). What of a line L1 has is not asked for by the other SMs either. And how long a
// fragment of wmma takes from shared memory (calib/raw/h200-2026-11-28-uneven.jsonl: fragments_a_rows).
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "timing/l1.h"
#include "timing/l1_size.h"
#include "timing_kernel.h"

namespace orrery::timing {
namespace {

TEST(TimingL1, WhatFitsIsFoundAgain) {
  constexpr uint32_t kMegabytes = 26, kVectors = kMegabytes << 16;
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{kVectors} * 16), out = m.allocate(uint64_t{264} * 1024 * 4);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 1024, %r1;
    mov.u32 %r3, 0; mov.f32 %f1, 0f00000000;
  again:
    mov.u32 %r4, %r1;
  next:
    mul.wide.u32 %d3, %r4, 16; add.s64 %d3, %d1, %d3;
    ld.global.v4.f32 {%f2, %f3, %f4, %f5}, [%d3]; add.f32 %f1, %f1, %f2;
    add.u32 %r4, %r4, 270336; setp.lt.u32 %p1, %r4, )" + std::to_string(kVectors) + R"(; @%p1 bra next;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 8; @%p2 bra again;
    mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d2, %d4; st.global.f32 [%d4], %f1;
    ret;)",
                     {in, out}, {264}, {1024});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l2_tex_sectors, 1137990, 0.25 * 1137990);
}

/// Of a table that is gone over four times in order L1 has all while it fits, and a part where it is a little larger. Expected: hits of an H200,
/// calib/raw/h200-2026-11-29-carved.jsonl, of carved_4, carved_8 and carved_16, where shared memory has taken 132, 164 and 228 KB (h200-2026-11-29-carves.jsonl).
TEST(TimingL1, WhatDoesNotFitIsFoundInPart) {
  const auto hits = [](uint64_t kib, uint64_t bytes) {
    double found = 0, all = 0;
    for (uint64_t sm = 0; sm < 8; sm++) {
      L1 l1((kib << 10) - kNobodys);
      for (int pass = 0; pass < 4; pass++)
        for (uint64_t i = 0; i < bytes / 128; i++) {
          const L1::Way way = l1.find(sm * bytes / 128 + i);
          found += way.valid() == 15, all++;
          way.valid() = 15;
        }
    }
    return found / all;
  };
  EXPECT_NEAR(hits(124, 98304), 0.75, 0.01);
  EXPECT_NEAR(hits(124, 131072), 0.55, 0.1);
  EXPECT_NEAR(hits(124, 163840), 0.14, 0.05);
  EXPECT_NEAR(hits(124, 196608), 0, 0.05);
  EXPECT_NEAR(hits(92, 98304), 0.54, 0.1);
  EXPECT_NEAR(hits(92, 131072), 0.04, 0.05);
  EXPECT_NEAR(hits(28, 32768), 0.13, 0.1);
}

/// Of 1,536 lines in no order, 128 or 4,096 bytes apart, none is lost when L1 has 224 KB; of 2,048 and 4,096 as many as do not fit. Expected: misses of an SM of an
/// H200, calib/raw/h200-2026-11-29-strides.jsonl, strided1_128 and strided1_4096, of 16,300 looked up.
TEST(TimingL1, LinesAPowerOfTwoApartLieInAllSets) {
  const auto misses = [](uint64_t lines, uint64_t apart) {
    L1 l1((224 << 10) - kNobodys);
    double missed = 0;
    uint32_t h = 1;
    for (int i = 0; i < 16300; i++) {
      h = h * 1664525 + 1013904223;
      const L1::Way way = l1.find((h >> 8) % lines * apart);
      missed += way.valid() == 0;
      way.valid() = 15;
    }
    return missed;
  };
  for (const uint64_t apart : {1, 2, 8, 32}) {
    EXPECT_NEAR(misses(1536, apart), 1536, 2) << apart;
    EXPECT_NEAR(misses(2048, apart), 3670, 0.1 * 3670) << apart;
    EXPECT_NEAR(misses(4096, apart), 9907, 0.05 * 9907) << apart;
  }
}

/// How many cycles L1 takes to look up 32 lines so many apart: the most that one of its banks has. Expected: cycles of an H200 for each load, of which about half a one
/// is something else, calib/raw/h200-2026-11-29-gathers.jsonl.
TEST(TimingL1, LinesOfOneBankAreLookedUpOneByOne) {
  std::ifstream in(ORRERY_SOURCE_DIR "/calib/raw/h200-2026-11-29-gathers.jsonl");
  int compared = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    const std::string name = row.value("case", "");
    if (!name.starts_with("odd_lines_apart/")) continue;
    const uint64_t apart = std::stoull(name.substr(name.find('/') + 1));
    std::array<int, 4> banks{};
    for (uint64_t i = 0; i < 32; i++) banks[bank_of_line(i * apart)]++;
    EXPECT_NEAR(*std::max_element(banks.begin(), banks.end()), row.at("cold_cycles").get<double>() / (528 * 8 * 256 / 132.0) - 0.53, 0.2) << name;
    compared++;
  }
  EXPECT_EQ(compared, 77);
}

/// Lanes that read 32 lines of L1 wait for its banks: eight cycles longer a load where the lines are 33 apart than side by side [apart/128, apart/4224: 8.5 and 16.5].
TEST(TimingL1, LoadsWaitForTheBanksOfTheirLines) {
  TestMachine m;
  const uint64_t in = m.allocate(32 * 33 * 128 + 4096), out = m.allocate(528 * 1024);
  const auto cycles_a_load = [&](uint64_t lines_apart) {
    const TestKernel k(R"(
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; ld.param.u64 %d3, [p2]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; and.b32 %r3, %r1, 31; cvt.u64.u32 %d4, %r3;
      mad.lo.s64 %d1, %d4, %d3, %d1; mov.u32 %r4, 0; mov.u32 %r5, 0;
    A: .pragma "nounroll"; add.u32 %r6, %r4, %r1; and.b32 %r6, %r6, 31; mul.wide.u32 %d5, %r6, 4; add.s64 %d5, %d1, %d5; ld.global.u32 %r7, [%d5];
      add.u32 %r5, %r5, %r7; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 256; @%p1 bra A;
      mad.lo.u32 %r1, %r2, 256, %r1; mul.wide.u32 %d6, %r1, 4; add.s64 %d2, %d2, %d6; st.global.u32 [%d2], %r5; ret;)", {in, out, lines_apart * 128}, {528}, {256});
    return m.predicted(k).cycles / (528 * 8 * 256 / 132.0);
  };
  EXPECT_NEAR(cycles_a_load(33) - cycles_a_load(1), 8, 1);
}

/// Binary searches in 4 MB, whose first steps L1 has and whose last ones it has not: lines that miss take its pipe, too [search/4096: 78.2 us].
TEST(TimingL1, LinesThatMissTakeItsPipe) {
  constexpr uint32_t kWords = 1 << 20, kThreads = 4224 * 256;
  TestMachine m;
  const uint64_t table = m.allocate(4 * kWords), out = m.allocate(4 * kThreads);
  for (uint32_t i = 0; i < kWords; i++) reinterpret_cast<uint32_t*>(table)[i] = i << 12;
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 256, %r1;
    mul.lo.u32 %r3, %r1, 2654435761; shr.u32 %r4, %r3, 15; xor.b32 %r3, %r3, %r4; mul.lo.u32 %r3, %r3, 2246822519; mov.u32 %r5, 0; mov.u32 %r6, 1048576;
  A: .pragma "nounroll"; sub.u32 %r7, %r6, %r5; shr.u32 %r7, %r7, 1; add.u32 %r7, %r5, %r7; mul.wide.u32 %d3, %r7, 4; add.s64 %d3, %d1, %d3; ld.global.u32 %r8, [%d3];
    setp.lt.u32 %p1, %r3, %r8; selp.u32 %r6, %r7, %r6, %p1; selp.u32 %r5, %r5, %r7, %p1; sub.u32 %r9, %r6, %r5; setp.gt.u32 %p2, %r9, 1; @%p2 bra A;
    mul.wide.u32 %d4, %r1, 4; add.s64 %d2, %d2, %d4; st.global.u32 [%d2], %r5; ret;)", {table, out}, {4224}, {256});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.microseconds, 78.2, 8);
}

/// What a launch takes for shared memory, of every one of 520 that an H200 was given.
TEST(TimingL1, SharedMemoryTakesWhatTheDriverGivesIt) {
  std::ifstream in(ORRERY_SOURCE_DIR "/calib/raw/h200-2026-11-29-carves.jsonl");
  int compared = 0;
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("threads")) continue;
    const uint32_t threads = row.at("threads"), full = std::min(2048 / threads, 32u), fit = std::min({row.at("fit_registers").get<uint32_t>(), row.at("fit_warps").get<uint32_t>(), 32u});
    for (const auto& [kib, carved] : row.at("carved").items()) {
      const uint32_t shared = uint32_t(std::stoul(kib)) << 10, held = std::min(fit, (228u << 10) / (shared + 1024));
      EXPECT_EQ(carved_for({held, fit, full, threads}, shared, 1024, 228 << 10) >> 10, carved.get<uint32_t>()) << threads << " threads, " << kib << " KB, " << fit << " fit";
      compared++;
    }
  }
  EXPECT_EQ(compared, 520);
}

/// How large L1 is depends on how many blocks an SM could hold, not on how many it has: of 132 blocks of 128 threads that want 16 KB of shared memory each thirteen
/// would fit, and 28 KB are left. A table of 64 KB is never found again, which with 1 KB of shared memory it always is [carved_16/64, carved_1/64: 0.00, 0.75].
TEST(TimingL1, SharedMemoryOfBlocksThatTheGridDoesNotHaveIsNotL1s) {
  TestMachine m;
  const uint64_t in = m.allocate(132 * 65536), out = m.allocate(132 * 512);
  const auto hits = [&](int shared) {
    const TestKernel k(R"(
      .shared .align 4 .b8 room[)" + std::to_string(shared) + R"(];
      ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r8, room; shl.b32 %r7, %r1, 2; add.u32 %r8, %r8, %r7;
      st.shared.u32 [%r8], %r1; mul.wide.u32 %d3, %r2, 65536; add.s64 %d1, %d1, %d3; mov.u32 %r3, 0; mov.f32 %f1, 0f00000000;
    P: mov.u32 %r4, 0; mul.wide.u32 %d4, %r1, 4; add.s64 %d5, %d1, %d4;
    L: .pragma "nounroll"; ld.global.f32 %f2, [%d5]; add.f32 %f1, %f1, %f2; add.s64 %d5, %d5, 512; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 128; @%p1 bra L;
      add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 4; @%p2 bra P;
      ld.shared.u32 %r9, [%r8]; cvt.rn.f32.u32 %f3, %r9; add.f32 %f1, %f1, %f3; mad.lo.u32 %r6, %r2, 128, %r1; mul.wide.u32 %d6, %r6, 4; add.s64 %d2, %d2, %d6;
      st.global.f32 [%d2], %f1; ret;)", {in, out}, {132}, {128});
    return m.predicted(k).l1_hit_rate;
  };
  EXPECT_NEAR(hits(1024), 0.75, 0.02);
  EXPECT_NEAR(hits(16384), 0, 0.02);
}

TEST(TimingL1, WhatWasStoredIsThere) {  // stored_whole: all of what is loaded then is
  L1 l1(227000);
  for (uint64_t line = 0; line < 512; line++) l1.store(line, 15);
  double found = 0;
  for (uint64_t line = 0; line < 512; line++) found += l1.find(line).valid() == 15;
  EXPECT_GT(found / 512, 0.99);
}

/// Rows of 28 words, of which a warp reads 32 at a time: each begins in the sector in which the one before it ended. Blocks go through pieces of their own, in no
/// order: every sector is asked for once.
TEST(TimingL1, SectorsThatAreThereAreNotAskedForAgain) {
  constexpr uint32_t kBlocks = 256, kRows = 256, kPiece = 28800;
  TestMachine m;
  const uint64_t in = m.allocate(uint64_t{kBlocks} * kPiece), out = m.allocate(kBlocks * 128);
  const TestKernel k(R"(
    ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; brev.b32 %r3, %r2; shr.u32 %r3, %r3, 24;
    mul.wide.u32 %d3, %r3, 28800; add.s64 %d3, %d1, %d3; mul.wide.u32 %d4, %r1, 4; add.s64 %d3, %d3, %d4; mov.u32 %r4, 0; mov.f32 %f1, 0f00000000;
  A: .pragma "nounroll"; ld.global.f32 %f2, [%d3]; add.f32 %f1, %f1, %f2; add.s64 %d3, %d3, 112; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 256; @%p1 bra A;
    mad.lo.u32 %r5, %r2, 32, %r1; mul.wide.u32 %d5, %r5, 4; add.s64 %d5, %d2, %d5; st.global.f32 [%d5], %f1; ret;)",
                     {in, out}, {kBlocks}, {32});
  const Prediction p = m.predicted(k);
  const double sectors = kBlocks * ((kRows - 1) * 112 + 128) / 32.0, stored = kBlocks * 4;
  EXPECT_NEAR(p.l2_tex_sectors / (sectors + stored), 1, 0.03);
}

/// Eight rows of a piece of a fragment that begin at the same bank come one by one, and so do the four pieces of which one instruction loads all.
TEST(TimingL1, FragmentsFromRowsOfTheSameBanks) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto cycles_of = [&](int stride, uint64_t rounds) {
    const TestKernel k(R"(
      .shared .align 128 .b8 room[32768];
      ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r8, room; mov.u32 %r10, )" + std::to_string(stride) + R"(; mov.u32 %r7, 0; mov.u32 %r6, 0;
      A: .pragma "nounroll"; and.b32 %r5, %r7, 3; shl.b32 %r5, %r5, 5; add.u32 %r5, %r8, %r5;
      wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%r20, %r21, %r22, %r23, %r24, %r25, %r26, %r27}, [%r5], %r10;
      xor.b32 %r6, %r6, %r20; xor.b32 %r6, %r6, %r27; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r9; @%p1 bra A;
      mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; st.global.u32 [%d2], %r6; ret;)",
                       {out, rounds}, {1}, {256});
    const Prediction p = m.predicted(k);
    return p.method == "machine code" ? p.cycles : 0;
  };
  const double few = cycles_of(64, 100);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR((cycles_of(64, 300) - few) / (200 * 8), 32.9, 2) << "cycles a fragment [fragments_a_rows/64: 210,488 for 6,400 an SM]";
}

/// Words of one bank come back to a sub-core one in two cycles: to a warp that is alone half as fast as shared memory gives them to four.
TEST(TimingL1, WordsOfOneBankComeBackToAWarpOneByOne) {
  TestMachine m;
  const uint64_t out = m.allocate(4096);
  const auto cycles_of = [&](int stride, uint64_t rounds) {
    const std::string step = std::to_string(4 * stride);
    const TestKernel k(R"(
      .shared .align 128 .b8 room[8192];
      ld.param.u64 %d1, [p0]; ld.param.u32 %r9, [p1]; mov.u32 %r8, room; mov.u32 %r1, %tid.x; mad.lo.u32 %r5, %r1, )" + step + R"(, %r8; mov.u32 %r7, 0; mov.u32 %r6, 0;
      A: .pragma "nounroll"; ld.volatile.shared.u32 %r20, [%r5]; ld.volatile.shared.u32 %r21, [%r5+4]; ld.volatile.shared.u32 %r22, [%r5+8]; ld.volatile.shared.u32 %r23, [%r5+12];
      xor.b32 %r6, %r6, %r20; xor.b32 %r6, %r6, %r21; xor.b32 %r6, %r6, %r22; xor.b32 %r6, %r6, %r23; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, %r9; @%p1 bra A;
      mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d1, %d2; st.global.u32 [%d2], %r6; ret;)",
                       {out, rounds}, {1}, {32});
    const Prediction p = m.predicted(k);
    return p.method == "machine code" ? p.cycles : 0;
  };
  const double few = cycles_of(32, 50);
  if (few == 0) GTEST_SKIP() << "no ptxas";
  const double all = cycles_of(32, 150) - few, eight = cycles_of(8, 150) - cycles_of(8, 50);
  EXPECT_NEAR((all - eight) / (100 * 4 * 24), 2.06, 0.15) << "cycles a word [lane_lines.hit.4bytes.32lines and 8lines.one_bank.4together.1warps, which L1 holds: 81.0 and 31.5 a load]";
}

/// Blocks of one warp read a row of 3 KB twice: the 32 of an SM hold half of its L1, however far their rows lie apart.
TEST(TimingL1, RowsFarApartDoNotShareFewSets) {
  TestMachine m;
  constexpr uint32_t kBlocks = 4096, kRow = 3072;
  const uint64_t in = m.allocate(uint64_t{kBlocks} * kRow), out = m.allocate(kBlocks * 128);
  const std::string pass = R"(mov.u64 %d4, %d3; mov.u32 %r4, 0;
      .pragma "nounroll";
      LABEL: ld.global.f32 %f1, [%d4]; add.f32 %f2, %f2, %f1; add.s64 %d4, %d4, 128; add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, 24; @%p1 bra LABEL;)";
  const auto labelled = [&](const char* name) {
    std::string text = pass;
    for (size_t at; (at = text.find("LABEL")) != text.npos;) text.replace(at, 5, name);
    return text;
  };
  const TestKernel k("ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %d5, %r1, 4; mad.wide.u32 %d3, %r2, 3072, %d1; add.s64 %d3, %d3, %d5;\n" + labelled("A") +
                         "bar.sync 0;\n" + labelled("B") + "mad.wide.u32 %d2, %r2, 128, %d2; add.s64 %d2, %d2, %d5; st.global.f32 [%d2], %f2; ret;",
                     {in, out}, {kBlocks}, {32});
  const Prediction p = m.predicted(k);
  if (p.method != "machine code") GTEST_SKIP() << "no ptxas";
  EXPECT_NEAR(p.l1_hit_rate, 0.5, 0.03);
}

}  // namespace
}  // namespace orrery::timing
