// What the addresses of a warp's lanes come to, by the counters of an H200: wavefronts of shared loads of 8 bytes a lane for sixteen
// patterns (l1tex__data_pipe_lsu_wavefronts_mem_shared, calib/raw/h200-2026-11-24-banks.jsonl: banks8/0 to 15, a load of each warp),
// requests and sectors of copies to padded rows of shared memory (lts__t_requests_srcunit_tex and lts__t_sectors_srcunit_tex,
// calib/raw/h200-2026-11-27-async.jsonl).
#include <gtest/gtest.h>

#include <bit>
#include <functional>

#include "timing/lane_addresses.h"

namespace orrery::timing {
namespace {

TEST(TimingBanks, EightBytes) {
  struct Pattern {
    std::function<int(int)> word;  // of 8 bytes, by lane
    uint32_t measured;
  };
  const Pattern patterns[] = {
      {[](int) { return 0; }, 1},
      {[](int lane) { return lane / 16 * 64; }, 2},
      {[](int lane) { return lane % 16; }, 2},
      {[](int lane) { return lane; }, 2},
      {[](int lane) { return lane / 8; }, 1},
      {[](int lane) { return lane / 8 * 64; }, 4},
      {[](int lane) { return lane / 2; }, 1},
      {[](int lane) { return lane % 8; }, 2},
      {[](int lane) { return lane / 4; }, 1},
      {[](int lane) { return lane % 2 * 16 + lane / 16; }, 2},
      {[](int lane) { return lane % 16 * 2; }, 4},
      {[](int lane) { return lane / 16; }, 1},
      {[](int lane) { return lane % 4 * 64; }, 8},
      {[](int lane) { return lane % 16 * 33; }, 2},
      {[](int lane) { return lane / 16 * 16 + lane % 4; }, 2},
      {[](int lane) { return lane * 2; }, 4},
  };
  for (size_t p = 0; p < std::size(patterns); p++) {
    uint64_t address[32];
    for (int lane = 0; lane < 32; lane++) address[lane] = 1024 + uint64_t(patterns[p].word(lane)) * 8;
    EXPECT_EQ(wavefronts(address, ~0u, 8), patterns[p].measured) << "pattern " << p;
  }
}

TEST(TimingBanks, CopiesPastL1) {
  struct Tile {
    uint64_t row, pitch;  // bytes in memory (rows 1,024 apart), and in shared memory
    double sectors, requests;  // measured, of each 32 bytes
  };
  const Tile tiles[] = {{64, 64, 1.001, .500},   {64, 80, 1.251, .813},   {64, 96, 1.001, .625},  {64, 128, 1.001, .500},  {128, 128, 1, .250},
                        {128, 144, 1.5, .656}, {128, 160, 1, .438}, {128, 192, 1, .375}, {256, 256, 1, .250}, {256, 272, 1.5, .656}};
  for (const Tile& t : tiles) {
    const uint64_t pieces = t.row / 16;
    double sectors = 0, requests = 0;
    for (uint64_t warp = 0; warp < pieces; warp++) {
      uint64_t source[32], target[32];
      for (uint64_t lane = 0; lane < 32; lane++) {
        const uint64_t i = warp * 32 + lane;
        source[lane] = 1 << 20 | (i / pieces * 1024 + i % pieces * 16), target[lane] = 1024 + i / pieces * t.pitch + i % pieces * 16;
      }
      std::vector<uint64_t> asked;
      const uint32_t n = coalesce_copies(source, target, ~0u, asked);
      EXPECT_EQ(n, asked.size());
      for (size_t i = 0; i < asked.size(); i++) {
        if (i > 0 && asked[i] == asked[i - 1]) continue;  // looked up once
        requests++, sectors += std::popcount(asked[i] & 15);
      }
    }
    EXPECT_NEAR(sectors / double(t.row), t.sectors, .002) << t.row << " bytes, " << t.pitch << " apart";
    EXPECT_NEAR(requests / double(t.row), t.requests, .002) << t.row << " bytes, " << t.pitch << " apart";
  }
}

// calib/raw/h200-2026-11-28-async-places.jsonl: requests of a warp whose lanes copy 16 bytes each (pairs of round and halves_whole are looked up
// once), and sectors that come back, by where lanes' pieces lie.
TEST(TimingBanks, CopiesPastL1ByPlace) {
  struct Places {
    const char* name;
    uint64_t (*from)(uint64_t), (*to)(uint64_t);
    double requests, back;
  };
  const auto rows = [](uint64_t l) { return l / 8 * 1024 + l % 8 * 16; };
  const auto side_by_side = [](uint64_t l) { return l * 16; };
  const Places places[] = {
      {"async_apart/32", side_by_side, [](uint64_t l) { return l * 32; }, 32.00, 32.00},
      {"async_apart2/64", side_by_side, [](uint64_t l) { return l / 2 * 64 + l % 2 * 16; }, 16.00, 16.00},
      {"async_apart2/96", side_by_side, [](uint64_t l) { return l / 2 * 96 + l % 2 * 16; }, 12.00, 16.00},
      {"async_apart8/144", side_by_side, [](uint64_t l) { return l / 8 * 144 + l % 8 * 16; }, 10.00, 24.00},
      {"async_matrices/128", rows, [](uint64_t l) { return l % 8 * 128 + l / 8 * 16; }, 32.00, 32.00},
      {"async_exchanged/1", rows, [](uint64_t l) { return l / 8 * 128 + (l % 8 ^ 1) * 16; }, 4.00, 16.00},
      {"async_exchanged_some/1", rows, [](uint64_t l) { return l / 8 * 128 + (l % 8 ^ l / 2 % 2) * 16; }, 8.00, 16.00},
      {"async_exchanged_some/2", rows, [](uint64_t l) { return l / 8 * 128 + (l % 8 ^ l / 4 % 2 * 2) * 16; }, 8.00, 16.00},
      {"async_exchanged_some/4", rows, [](uint64_t l) { return l / 8 * 128 + (l % 8 ^ l / 2 % 2 * 4) * 16; }, 4.00, 16.00},
      {"async_round/1", rows, [](uint64_t l) { return l / 8 * 128 + (l % 8 + 1) % 8 * 16; }, 8.00, 32.00},
      {"async_halves/512", side_by_side, [](uint64_t l) { return l % 2 * 512 + l / 2 * 16; }, 32.00, 32.00},
      {"async_halves_whole/1024", side_by_side, [](uint64_t l) { return l % 2 * 1024 + l / 2 * 32; }, 8.00, 32.00},
  };
  for (const Places& p : places) {
    uint64_t source[32], target[32];
    for (uint64_t lane = 0; lane < 32; lane++) source[lane] = 1 << 20 | p.from(lane), target[lane] = 1024 + p.to(lane);
    std::vector<uint64_t> asked;
    coalesce_copies(source, target, ~0u, asked);
    double back = 0;
    for (uint64_t a : asked) back += std::popcount(a & 15);
    EXPECT_EQ(double(asked.size()), p.requests) << p.name;
    EXPECT_EQ(back, p.back) << p.name;
  }
}

}  // namespace
}  // namespace orrery::timing
