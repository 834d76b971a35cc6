// Wavefronts of shared loads of 8 bytes a lane: what the counter of an H200 says of sixteen patterns of addresses
// (l1tex__data_pipe_lsu_wavefronts_mem_shared, calib/raw/h200-2026-11-24-banks.jsonl: banks8/0 to 15, a load of each warp).
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace orrery::timing
