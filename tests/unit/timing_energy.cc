// Energy by the clock, and by how much data change.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "timing/data_change.h"
#include "timing/energy.h"

namespace orrery::timing {
namespace {

TEST(Energy, ClockKeepsToTheLimit) {
  // A millisecond at 2 GHz: 1,000 W of the chip, 100 W of memory.
  const Spent spent{1, .1, 2e6, 2e9};
  EXPECT_DOUBLE_EQ(spent.watts(2e9, 2), 1100);
  EXPECT_DOUBLE_EQ(spent.watts(1e9, 2), 175);  // an eighth of the chip's, half of memory's
  EXPECT_EQ(spent.clock_within(2000, 1.8e9, 2), 1.8e9);
  const double clock = spent.clock_within(560, 2e9, 2);
  EXPECT_NEAR(spent.watts(clock, 2), 560, 1e-3);
  EXPECT_GT(clock, 1.5e9);
}

TEST(DataChange, SameIsNothingRandomIsAll) {
  DataChange changes;
  std::array<uint32_t, 32> zeros{}, random{}, addresses{};
  uint32_t seed = 1;
  for (int turn = 0; turn < 4; turn++) {
    for (uint32_t i = 0; i < 32; i++) random[i] = seed = seed * 1664525u + 1013904223u, random[i] ^= random[i] >> 16, addresses[i] = 0x1000u + 4 * i + 128u * uint32_t(turn);
    changes.note(1, 0, zeros.data(), 32, 32, ~0u, true, false);
    changes.note(2, 0, random.data(), 32, 32, ~0u, false, false);
    changes.note(3, 0, addresses.data(), 32, 32, ~0u, false, false);
  }
  EXPECT_EQ(changes.of(1), 0);
  EXPECT_EQ(changes.of(2), 1);
  EXPECT_GT(changes.of(3), 0);
  EXPECT_LT(changes.of(3), .3);
  EXPECT_LT(changes.of(4), 0);
  EXPECT_EQ(changes.of_moved(), 0);
}

TEST(DataChange, LanesThatDifferChangeByTurns) {
  // A warp's own operands stay, but another warp's come between.
  DataChange changes;
  std::array<uint32_t, 32> apart{};
  for (uint32_t i = 0; i < 32; i++) apart[i] = (i * 2654435761u) ^ (i * 2654435761u >> 15);
  for (int turn = 0; turn < 4; turn++) changes.note(1, 0, apart.data(), 32, 32, ~0u, true, true);
  EXPECT_EQ(changes.of(1), 1);
  EXPECT_EQ(changes.of_moved(), 1);  // nothing is loaded: what it stores
}

}  // namespace
}  // namespace orrery::timing
