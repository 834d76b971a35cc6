// Tests of the figures of a GPU and of L2 and memory, with answers from elsewhere: what an H200 measured (calib/raw),
// never figures of the model.
#include <gtest/gtest.h>

#include "profile/what_if.h"
#include "timing/chip.h"
#include "timing/line_pool.h"

namespace orrery::timing {
namespace {

ChipFigures h200() { return figures_of(load_profile("h200")); }

TEST(Figures, AreTheProfilesOwn) {
  const ChipFigures f = h200();
  EXPECT_EQ(f.borrowed_from, "");
  EXPECT_EQ(f.sms, 132u);
  EXPECT_NEAR(f.dram_bandwidth, 2336, 5);  // read16/2048: 1 GiB in 460 thousand cycles
  EXPECT_NEAR(f.l2_sectors * 32, 4482, 9);  // halves_sweep/1024, 1061, 1501: 830 MB in 185 thousand cycles
}

TEST(Figures, AnotherGpuTakesThemAndSaysSo) {
  const ChipFigures f = figures_of(load_profile("h100-pcie"));
  EXPECT_EQ(f.borrowed_from, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(f.sms, 114u);
  EXPECT_GT(f.dram_bandwidth, 0);
}

TEST(Figures, AreThoseOfTheNearestGpuThatWasMeasured) {
  const auto from = [](const char* gpu) { return figures_of(load_profile(gpu)).borrowed_from; };
  EXPECT_EQ(from("h100"), "");
  EXPECT_EQ(from("h800"), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(from("gh200"), "NVIDIA H200") << "60 MiB of L2, as an H200 has";
  EXPECT_EQ(from("l4"), "NVIDIA H200");
  const ChipFigures pcie = figures_of(load_profile("h100-pcie")), sxm = figures_of(load_profile("h100"));
  EXPECT_NEAR(pcie.l2_sectors, sxm.l2_sectors * 114 / 132, 1e-6);
  EXPECT_EQ(pcie.l2_dirty_bytes, sxm.l2_dirty_bytes) << "the same L2";
  Profile l4 = load_profile("l4");
  set_from_text(l4, "timing.l2_latency=300");
  EXPECT_EQ(figures_of(l4).l2_latency, 300);
  EXPECT_EQ(figures_of(l4).borrowed_from, "NVIDIA H200") << "what the user sets does not make the others its own";
}

TEST(Figures, BorrowedOnesGoWithTheSizeOfTheGpu) {
  const ChipFigures f = figures_of(load_profile("l4")), of_h200 = h200();
  const double size = double(f.sms) / of_h200.sms;
  EXPECT_NEAR(f.l2_sectors, of_h200.l2_sectors * size, 1e-6);
  EXPECT_NEAR(f.l2_write_sectors, of_h200.l2_write_sectors * size, 1e-6);
  EXPECT_LT(f.idle_watts + f.dynamic_watts, 1.2 * 72) << "the board of an L4 has 72 W";
}

TEST(Figures, SizesThatNoGpuHasAreRefused) {
  for (const char* setting : {"sm.count=0", "memory.bandwidth=0", "l2.size=0", "l2.size=200GB", "sm.count=1e9", "clock.max=0"}) {
    Profile p = load_profile("h200");
    set_from_text(p, setting);
    EXPECT_THROW(figures_of(p), ProfileError) << setting;
  }
}

TEST(L2, OfOneSetFindsWhatItHolds) {
  Profile p = load_profile("h200");
  set_from_text(p, "l2.size=1KiB");
  const ChipFigures f = figures_of(p);
  Chip chip(f);
  chip.read(5, 1, 0, 0);
  chip.read(5, 1, 0, 10000);
  EXPECT_EQ(chip.counts().dram_read, 64);
}

TEST(Figures, WhatIfSettingsReachThem) {
  Profile p = load_profile("h200");
  const double before = figures_of(p).dram_bandwidth;
  set_from_text(p, "hbm.bandwidth=9.6TB/s");
  set_from_text(p, "sm.count=144");
  EXPECT_NEAR(figures_of(p).dram_bandwidth, 2 * before, 1);
  EXPECT_EQ(figures_of(p).sms, 144u);
}

TEST(Figures, SettingsThatDoNotFitAreRefused) {
  Profile p = load_profile("h200");
  for (const char* text : {"sm.count", "sm.number=3", "sm.count=many", "memory.bandwidth=3MHz", "sm.count=-1"}) EXPECT_THROW(set_from_text(p, text), ProfileError) << text;
}

TEST(Chip, DataOnTheirWayAreWaitedFor) {
  const ChipFigures f = h200();
  Chip chip(f);
  const double first = chip.read(1000, 0xF, 0, 0), second = chip.read(1000, 0xF, 0, 10);
  EXPECT_GE(second, first);                                        // not an L2 hit of 281 cycles
  EXPECT_NEAR(chip.read(1000, 0xF, 0, 5000) - 5000, 281, 45);      // latency.global.ca.16384KB
}

TEST(Chip, PartsOfSectorsAreCompletedWhenTheyAreMany) {
  const ChipFigures f = h200();
  Chip chip(f);
  for (uint64_t i = 0; i < 262144; i++) chip.write((i * 37) % 65536, 1u << (i / 65536), double(i) / 17, 4);  // 8 MB in words
  EXPECT_NEAR(chip.counts().dram_write, 3.6e6, 1.2e6);             // random_write/8: 3.61 MB reach memory
}

// calib/raw/h200-2026-11-22-contention.jsonl: partial_store_dram/8 writes 10.0 MB less than it reads, partial_store_dram/32 none.
TEST(Chip, WholeLinesThatWereCompletedStayForAWhile) {
  const ChipFigures f = h200();
  const auto left = [&](uint32_t mask) {
    Chip chip(f);
    for (uint64_t line = 0; line < 400'000; line++) chip.write(line, mask, double(line), 8);
    return chip.counts().dram_read - chip.counts().dram_write;
  };
  EXPECT_NEAR(left(15) / 1e6, 10, 1);
  EXPECT_NEAR(left(1) / 1e6, 0, 0.1);
}

TEST(Chip, AddsOfSingleLanesToOneLineGoAtTheMeasuredRate) {
  const ChipFigures f = h200();
  Chip chip(f);
  std::vector<Request> requests;
  for (uint32_t i = 0; i < 135168; i++) requests.push_back({1000, 1, i % 132, 0});
  chip.atomic_all(requests, {.weight = f.atomic_one_line / f.atomic_interval});
  EXPECT_NEAR(chip.atomics_free(), 196.5e3, 8e3);                  // add_words_line/1: 200 thousand cycles with the launch
}

TEST(Chip, AddsAtRandomPlacesGoAtTheMeasuredRates) {
  const ChipFigures f = h200();
  const auto cycles = [&](double weight, double answer, size_t n) {
    Chip chip(f);
    std::vector<Request> requests(n);
    uint64_t at = 1;
    for (Request& r : requests) at = at * 6364136223846793005ull + 1442695040888963407ull, r = {at >> 33 & 65535, 1, uint32_t(at >> 20) % 132, 0};  // 8 MB
    chip.atomic_all(requests, {.weight = weight, .answer = answer});
    return chip.atomics_free();
  };
  constexpr size_t kMany = 4325376;                                  // 132 blocks of 1,024 threads with 32 each
  EXPECT_NEAR(cycles(1, 0, kMany), 82.4e3, 3e3);                        // add_silent/132: 85,013 cycles with the launch, which takes 2,600
  EXPECT_NEAR(cycles(1, 1.335, kMany), 110.0e3, 4e3);                   // add_answered/132: 112,669
  EXPECT_NEAR(cycles(1.511, 0, kMany / 8), 15.6e3, 1e3);                // sector_silent/132: 18,172: whole sectors
}

// calib/raw/h200-2026-11-28-updates.jsonl: dense_f64/32: 33,792 warps add to the same 32 doubles in 629.6 thousand cycles with the launch, to integers
// of that size in 317 thousand.
TEST(Chip, SumsOfDoublesTakeTwoPasses) {
  const ChipFigures f = h200();
  const auto cycles = [&](const AtomicWork& work) {
    Chip chip(f);
    std::vector<Request> requests;
    for (uint32_t i = 0; i < 2 * 33792; i++) requests.push_back({1000 + i % 2, 15, i / 2 % 132, 0});
    chip.atomic_all(requests, work);
    return chip.atomics_free();
  };
  EXPECT_NEAR(cycles({.weight = 1.219}), 314e3, 15e3);
  EXPECT_NEAR(cycles({.floating = true, .weight = 1.219, .passes = 2.08, .turn = 1.33}), 627e3, 15e3);
}

// The same file: update_add/512 and /32, two million words at random places of 512 and 32 MB.
TEST(Chip, AtomicsFetchAndLeaveAsMeasured) {
  const ChipFigures f = h200();
  const auto moved = [&](uint64_t mb) {
    Chip chip(f);
    uint64_t at = 1;
    std::vector<Request> requests(1 << 21);
    for (Request& r : requests) at = at * 6364136223846793005ull + 1442695040888963407ull, r = {(at >> 33) % (mb << 13), 1u << (at >> 30 & 3), uint32_t(at >> 20) % 132, 0};
    chip.atomic_all(requests, {});
    return std::pair{chip.counts().dram_read / 1e6, chip.counts().dram_write / 1e6};
  };
  const auto large = moved(512), small = moved(32);
  EXPECT_NEAR(large.first, 96.2, 2);
  EXPECT_NEAR(large.second, 58.6, 2);
  EXPECT_NEAR(small.first, 31.0, 1.5);
  EXPECT_NEAR(small.second, 22.3, 5);
}

/// What SMs of the other partition have read of a sector is old when it has changed: they fetch it again.
TEST(Chip, SectorsThatChangeCrossAgain) {
  const ChipFigures f = h200();
  const auto crossings = [&](bool changes) {
    Chip chip(f);
    double n = 0;
    for (uint32_t round = 0; round < 4; round++)
      for (uint64_t line = 0; line < 4096; line++) {
        const double before = chip.counts().fabric_sectors;
        chip.read(line, 1, uint32_t(line * 37 % 132), 1e5 * round + double(line));
        n += chip.counts().fabric_sectors - before;
        if (changes) chip.write(line, 1, 1e5 * round + 5e4 + double(line), 4);
      }
    return n;
  };
  EXPECT_NEAR(crossings(false), 2 * 2048, 300);  // half of them, once, with the sector beside
  EXPECT_GT(crossings(true), 4.5 * 2048);    // and nearly each time [update_read_store/4: 0.6 for each load that is followed by a store]
}

// calib/raw/h200-2026-11-28-crossing.jsonl: update_read/32 35.4 thousand cycles warm, update_read_store/32 98.4: 3.2 million sectors cross.
TEST(Chip, WordsThatOthersChangeCrossAtTheMeasuredRate) {
  const ChipFigures f = h200();
  const auto cycles = [&](bool changes) {
    Chip chip(f);
    uint64_t at = 1;
    double begin = 0, end = 0;
    for (int pass = 0; pass < 2; pass++) {
      begin = end;
      for (uint32_t i = 0; i < 1 << 21; i++) {
        at = at * 6364136223846793005ull + 1442695040888963407ull;
        const uint64_t line = at >> 33 & 262143;
        const uint32_t sector = 1u << (at >> 30 & 3);
        end = std::max(end, chip.read(line, sector, uint32_t(at >> 20) % 132, begin) - f.l2_latency);
        if (changes) end = std::max(end, chip.write(line, sector, begin, 4));
      }
    }
    return end - begin;
  };
  const double read = cycles(false), changed = cycles(true);
  EXPECT_LT(read, 35.4e3);
  EXPECT_NEAR(changed, 98.4e3, 25e3);
}

TEST(Chip, AddsToNeighbouringLinesShareUnitsAsMeasured) {
  const ChipFigures f = h200();
  const auto cycles = [&](uint64_t lines, size_t rounds) {  // whole lines, one after the other, all at once
    Chip chip(f);
    std::vector<Request> requests;
    for (size_t r = 0; r < rounds; r++)
      for (uint64_t line = 0; line < lines; line++) requests.push_back({0x4000000 + line, 15, uint32_t(r % 132), 0});
    chip.atomic_all(requests, {.weight = 1.511});
    return chip.atomics_free() / double(rounds);
  };
  // add_at_end/32 to 256, less 4,300 cycles of the launch, for each of 1,056 blocks: 4.6, 8.5, 8.9, 18.2.
  EXPECT_NEAR(cycles(1, 1056), 4.46, 0.2);
  EXPECT_NEAR(cycles(2, 1056), 8.7, 0.5);      // two neighbours have one unit
  EXPECT_NEAR(cycles(4, 1056), 8.7, 0.5);      // four have two
  EXPECT_NEAR(cycles(8, 1056), 17.9, 0.5);
  // What a line takes times the lines of the unit that has most (calib/raw/h200-2026-11-27-units.jsonl: four of 24, eight of 256).
  EXPECT_NEAR(cycles(24, 1056), 17.9, 0.5);
  EXPECT_NEAR(cycles(256, 1056), 35.7, 0.5);
}

TEST(Chip, UpToFourNeighboursAskOnce) {
  const ChipFigures f = h200();
  Chip together(f), apart(f);
  for (uint64_t line = 0; line < 1000; line++)
    for (uint32_t sm = 0; sm < 8; sm++) together.read(line, 0xF, sm, double(line) * 500), apart.read(line, 0xF, sm, double(line) * 20000 + sm * 1536);
  EXPECT_EQ(together.counts().l2_read_sectors, 1000 * 4 * 2);      // feed_alone/8: 8.4 MB asked for of 33.6
  EXPECT_EQ(apart.counts().l2_read_sectors, 1000 * 4 * 8);         // meet_two_load_dram/1536, share_apart/65536: all of them
}

TEST(Chip, RequestsBecomeOneAsLongAsTheFirstWaits) {
  const ChipFigures f = h200();
  const auto left = [&](bool in_l2, uint32_t other, double apart, bool past_l1 = false) {
    Chip chip(f);
    for (uint64_t line = 0; line < 1000; line++) {
      const double now = double(line) * 20000;
      if (in_l2) chip.read(line, 15, 0, now), chip.read(line, 15, 1, now + 5000);
      Request both[] = {{line, 15, 0, now + 10000}, {line, 15, other, now + 10000, FetchSize::half, false, 0, 0, float(apart)}};
      for (Request& r : both) r.past_l1 = past_l1;
      chip.read_all(both);
    }
    return chip.counts().l2_read_sectors / 4000 - (in_l2 ? 2 : 0);
  };
  EXPECT_NEAR(left(true, 1, 48), 1, 0.1);       // meet_two_load/48: 1.00
  EXPECT_NEAR(left(true, 1, 128), 2, 0.1);      // meet_two_load/128: 1.94, of which a few come from memory
  EXPECT_NEAR(left(true, 2, 48), 1, 0.1);       // meet_four_load_l1/48: 1.00 for two TPCs
  EXPECT_NEAR(left(true, 2, 128), 2, 0.1);      // meet_four_load_l1/128: 1.88, of which an eighth come from memory
  EXPECT_NEAR(left(true, 2, 24, true), 2, 0.1);  // meet_four_load/24, past L1: 2.00
  EXPECT_NEAR(left(false, 1, 256), 1, 0.2);     // meet_two_load_dram/256: 1.00
  EXPECT_NEAR(left(false, 1, 1024), 2, 0.15);   // meet_two_load_dram/1024: 1.99
}

TEST(Chip, WhoComesLaterThanMemorysAnswerAsksAgain) {
  const ChipFigures f = h200();
  const auto left = [&](std::initializer_list<float> late) {  // SMs of different TPCs of a GPC
    Chip chip(f);
    for (uint64_t line = 0; line < 1000; line++) {
      std::vector<Request> all;
      for (uint32_t i = 0; float l : late) all.push_back({line, 15, 2 * i++, double(line) * 20000 + 5000, FetchSize::half, false, 0, 0, l});
      chip.read_all(all);
    }
    return chip.counts().l2_read_sectors / 4000;
  };
  EXPECT_NEAR(left({0, 100, 200}), 1, 0.1);
  // Memory was asked by the first of all, not by the one that is looked at first [steps of 64 blocks that lie apart: tiles64/64, 0.89 of the requests are left].
  EXPECT_NEAR(left({0, -1200, 1200}), 3, 0.1);
  EXPECT_NEAR(left({-1200, 0, 20}), 2, 0.1);  // the last two by what L2 has
}

TEST(Chip, WhatAllReadCrossesOnce) {
  const ChipFigures f = h200();
  Chip chip(f);
  for (uint64_t line = 0; line < 20000; line++)
    for (uint32_t sm = 0; sm < 132; sm++) chip.read(line, 15, sm, double(line) * 1000);
  EXPECT_NEAR(chip.counts().fabric_sectors / 80000, 1, 0.03);  // share_apart/0: 262,600 of 262,144
}

TEST(Chip, NeighboursOfOtherClustersAskForThemselves) {
  const ChipFigures f = h200();
  Chip alone(f), clusters(f, 2);  // SMs 8 and 10 run blocks of two clusters, which lie in two GPCs
  for (uint64_t line = 0; line < 100; line++)
    for (uint32_t sm : {8u, 10u}) alone.read(line, 15, sm, 100.0 * double(line)), clusters.read(line, 15, sm, 100.0 * double(line));
  EXPECT_EQ(alone.counts().l2_read_sectors, 100 * 4);
  EXPECT_EQ(clusters.counts().l2_read_sectors, 100 * 4 * 2);       // ring_one_turns: 10.0 million sectors, 4.5 without clusters
}

TEST(Chip, PromotionTo256BytesBringsTheOtherLine) {
  const ChipFigures f = h200();
  Chip chip(f);
  Request promoted{1000, 15, 0, 0, FetchSize::pair};
  chip.read_all({&promoted, 1});
  EXPECT_EQ(chip.counts().dram_read, 256);
  chip.read(1001, 15, 0, 100000);                                  // tma.promotion.256.right: 402 cycles, not 727
  EXPECT_EQ(chip.counts().dram_read, 256);
}

TEST(Chip, WritesToOneSectorGoOneAfterTheOther) {
  const ChipFigures f = h200();
  Chip chip(f);
  double done = 0;
  for (int i = 0; i < 1000; i++) done = chip.write(1000, 1, 0, 4);
  EXPECT_NEAR(done, 2310, 50);                                     // store_one_word: 2.31 cycles for every sector that SMs send
}

TEST(Chip, RequestsForPartsOfSectorsTakeASectorMore) {
  const ChipFigures f = h200();
  Chip four(f), one(f);
  for (uint64_t line = 0; line < 10000; line++) four.write(line, 15, 0, 4), one.write(line, 1, 0, 4);
  EXPECT_NEAR(four.write_free() / 10000, 0.0683, 0.003);           // partial_store/8: 73.8 thousand cycles for 1,081,344 requests
  EXPECT_NEAR(one.write_free() / 10000, 0.0274, 0.002);            // partial_store/32
}

TEST(PageSample, OneOfNeighbouringPagesIsTakenAndTheyFollowEachOther) {
  const ChipFigures f = h200();
  const Chip all(f), chip(f, 1, 8);
  uint64_t last = ~uint64_t{0};
  for (uint64_t first = 0; first < 8 * 16 * 1000; first += 8 * 16) {  // lines of eight pages
    uint32_t pages = 0;
    for (uint64_t line = first; line < first + 8 * 16; line++) {
      EXPECT_TRUE(all.takes(line));
      EXPECT_EQ(all.among_taken(line), line);
      EXPECT_EQ(chip.takes(line), chip.takes(line & ~uint64_t{15}));  // pages are taken whole
      if (!chip.takes(line)) continue;
      pages += line % 16 == 0;
      EXPECT_EQ(chip.among_taken(line), last + 1);
      last = chip.among_taken(line);
    }
    EXPECT_EQ(pages, 1u);
  }
}

TEST(LineSet, HoldsWhatWasPutIn) {
  LineSet set;
  EXPECT_FALSE(set.contains(0));
  for (uint64_t i = 0; i < 10000; i++) EXPECT_TRUE(set.insert(i * i * 977));
  for (uint64_t i = 0; i < 10000; i++) {
    EXPECT_TRUE(set.contains(i * i * 977));
    EXPECT_FALSE(set.contains(i * i * 977 + 1));
    EXPECT_FALSE(set.insert(i * i * 977));
  }
}

TEST(PageSample, StandsForAllOfWhatAStreamCosts) {
  const ChipFigures f = h200();
  Chip all(f), chip(f, 1, 8);
  const uint64_t n = 16 * 65536;
  for (uint64_t line = 0; line < n; line++) {
    const double now = double(line) / 10;
    all.read(line, 15, uint32_t(line / 16 % 132), now), all.write(line + n, 15, now, 32);
    if (chip.takes(line)) chip.read(chip.among_taken(line), 15, uint32_t(line / 16 % 132), now);
    if (chip.takes(line + n)) chip.write(chip.among_taken(line + n), 15, now, 32);
  }
  EXPECT_EQ(all.counts().dram_read, 128.0 * n);
  EXPECT_EQ(chip.counts().dram_read, 128.0 * n);
  EXPECT_NEAR(chip.counts().dram_write, all.counts().dram_write, 0.01 * all.counts().dram_write);
  EXPECT_NEAR(chip.dram_free(), all.dram_free(), 0.03 * all.dram_free());
  EXPECT_LT(chip.page_error(), 0.01);
  EXPECT_EQ(all.page_error(), 0);
}

TEST(PageSample, WhatOnePartCostsMoreShowsAsAnError) {
  const ChipFigures f = h200();
  Chip chip(f, 1, 8);
  for (uint64_t line = 0; line < 16 * 8000; line++)
    if (chip.takes(line)) {
      chip.read(chip.among_taken(line), 15, 0, double(line));
      if (line / 16 % 64 < 8) chip.write(chip.among_taken(line + (1 << 24)), 1, double(line), 4);  // and only there
    }
  EXPECT_GT(chip.page_error(), 0);
}

TEST(Chip, MemoryKeepsItsClock) {
  const ChipFigures f = h200(), slow = f.at_clock(f.clock / 2);
  EXPECT_NEAR(slow.dram_bandwidth, 2 * f.dram_bandwidth, 1e-6);    // bytes a cycle of the SM
  EXPECT_NEAR(slow.l2_latency, f.l2_latency / 2, 1e-6);
  EXPECT_EQ(slow.l1_latency, f.l1_latency);
}

}  // namespace
}  // namespace orrery::timing
