// Scripts of blocks: which steps are the same, and which scripts may be followed.
#include <gtest/gtest.h>

#include "sanitize/block_script.h"

namespace orrery::sanitize {
namespace {

Step step(StepKind kind, uint32_t address, uint16_t warp, bool writes, uint32_t lanes = ~0u) {
  return {7, address, lanes, warp, kind, 1, kind == StepKind::block || kind == StepKind::rows ? 4u : 0u, writes};
}
const Step kMeet{0, 0, 0, 0, StepKind::barrier, 0, 0, 0};

TEST(BlockScript, NeedsABarrierBetweenThreads) {
  BlockScript s;
  s.add(step(StepKind::run, 128, 0, true));
  EXPECT_TRUE(s.is_right(1024));
  s.add(step(StepKind::run, 128, 0, false));
  EXPECT_TRUE(s.is_right(1024)) << "every lane reads what it wrote";
  BlockScript wrong = s;
  wrong.add(step(StepKind::run, 132, 0, false));
  EXPECT_FALSE(wrong.is_right(1024)) << "every lane reads what its neighbour wrote";
  s.add(kMeet);
  s.add(step(StepKind::same, 128, 1, false));
  s.add(step(StepKind::block, 128, 2, false));
  s.add(step(StepKind::rows, 128, 3, false));
  EXPECT_TRUE(s.is_right(1024));
  s.add(step(StepKind::run, 128, 3, true));
  EXPECT_FALSE(s.is_right(1024)) << "others read in the same epoch";
}

TEST(BlockScript, LooksAtLanesThatAreOn) {
  BlockScript s;
  s.add(step(StepKind::run, uint32_t(-64), 0, true, 0xFFFF0000));
  EXPECT_TRUE(s.is_right(128)) << "lanes 16 to 31 write bytes 0 to 63";
  s.add(step(StepKind::run, 64, 1, true, 0xFFFF));
  EXPECT_TRUE(s.is_right(128));
  s.add(step(StepKind::run, 64, 1, true));
  EXPECT_FALSE(s.is_right(128)) << "past the end";
  BlockScript same;
  same.add(step(StepKind::same, 0, 0, true, 1));
  EXPECT_TRUE(same.is_right(128));
  BlockScript several;
  several.add(step(StepKind::same, 0, 0, true, 3));
  EXPECT_FALSE(several.is_right(128)) << "two lanes write one word";
}

TEST(BlockScript, ComparesAddressesOfLanes) {
  uint64_t places[32];
  for (uint64_t i = 0; i < 32; i++) places[i] = 4 * (i ^ 1);
  BlockScript s;
  s.add(step(StepKind::any, 0, 0, false, 0xFF), places);
  EXPECT_TRUE(s.is_next(0, step(StepKind::any, 0, 0, false, 0xFF), places));
  EXPECT_FALSE(s.is_next(1, step(StepKind::any, 0, 0, false, 0xFF), places)) << "the end";
  EXPECT_FALSE(s.is_next(0, step(StepKind::any, 0, 0, true, 0xFF), places));
  places[31] = 0;
  EXPECT_TRUE(s.is_next(0, step(StepKind::any, 0, 0, false, 0xFF), places)) << "that lane is off";
  places[7] = 0;
  EXPECT_FALSE(s.is_next(0, step(StepKind::any, 0, 0, false, 0xFF), places));
}

}  // namespace
}  // namespace orrery::sanitize
