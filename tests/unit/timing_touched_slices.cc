// Slices of L2 that an SM has touched, against the barriers of memory that an H200 counted for it (calib/raw/h200-2026-11-24-ends.jsonl,
// lts__t_sectors_op_membar of 132 SMs, of each: what there is beside an SM that touched nothing, which is 18.1 in that program).
#include <gtest/gtest.h>

#include "timing/figures.h"
#include "timing/touched_slices.h"

namespace orrery::timing {
namespace {

constexpr double kNothing = 18.1;

const ChipFigures& h200() {
  static const ChipFigures figures = figures_of(load_profile("h200"));
  return figures;
}

/// Sectors of the end of a kernel that touched `bytes` in a row.
double end_of(uint64_t bytes, uint64_t from = 0) {
  TouchedSlices t;
  for (uint64_t line = from / 128; line < (from + bytes + 127) / 128; line++) t.touch(line);
  return TouchedSlices::at_end(h200(), t.touched(), 1);
}

TEST(TouchedSlices, BytesInARowLieInFewSlices) {
  struct {
    uint64_t bytes;
    double measured;  // ends_store
  } const rows[] = {{128, 19.9}, {256, 20.1}, {512, 21.7}, {1024, 22.0}, {2048, 25.3}, {4096, 33.3}, {65536, 188}};
  for (const auto& r : rows) {
    // What the end finds touched already (nine slices of 94) and what the kernel touches fall together by chance.
    const double own = end_of(r.bytes, 1 << 20), together = kNothing + own * (1 - kNothing / 188);
    EXPECT_NEAR(std::min(188.0, together), r.measured, r.bytes == 65536 ? 0 : 1.5) << r.bytes << " bytes";
  }
}

TEST(TouchedSlices, LinesFarApartMeetByChance) {
  TouchedSlices t;
  for (uint64_t i = 0; i < 128; i++) t.touch(mix(mix(i + 1)) >> 30 & 0x1fff);  // words of 1 MB, as in ends_words/128
  const double own = TouchedSlices::at_end(h200(), t.touched(), 1);
  EXPECT_NEAR(kNothing + own * (1 - kNothing / 188), 144.2, 8);
}

TEST(TouchedSlices, AFenceIsSentToWhatIsNewAndTheEndToAll) {
  TouchedSlices t;
  for (uint64_t line = 0; line < 512; line++) t.touch(line);
  EXPECT_DOUBLE_EQ(t.fence(h200(), 0), 188);  // ends_fence/1: 376 with the end
  EXPECT_DOUBLE_EQ(t.fence(h200(), 0), 0);    // ends_fence/8: 376, too
  EXPECT_DOUBLE_EQ(TouchedSlices::at_end(h200(), t.touched(), 1), 188);
}

TEST(TouchedSlices, AnH100SendsEachFenceToAllAndNoneAtTheEnd) {
  // calib/raw/h100-2026-11-24-ends.jsonl, lts__t_sectors_op_membar of 132 SMs, beside the 42,720 of an empty launch.
  const ChipFigures h100 = figures_of(load_profile("h100"));
  TouchedSlices t;
  t.touch(1);
  EXPECT_EQ(132 * t.fence(h100, 1000), 63840 - 42720);  // ends_fence_nothing/1, ends_fence/1
  EXPECT_EQ(t.fence(h100, 1050), 0);                    // ends_fence_warps/4: warps share one
  EXPECT_EQ(132 * (160 + t.fence(h100, 2000)), 84960 - 42720);  // ends_fence/2
  EXPECT_EQ(TouchedSlices::at_end(h100, t.touched(), 1), 0);
}

TEST(TouchedSlices, BlocksThatWereNotSimulatedTouchAsManyMore) {
  // ends_blocks: 132 blocks of 16 KB, one an SM, 75.1 sectors an SM; four an SM 159.0; eight 183.7
  const double one = 75.1 / 188 * 96;
  EXPECT_NEAR(TouchedSlices::at_end(h200(), one, 1), 75.1, 0.1);
  EXPECT_NEAR(TouchedSlices::at_end(h200(), one, 1.0 / 4), 159.0, 8);
  EXPECT_NEAR(TouchedSlices::at_end(h200(), one, 1.0 / 8), 183.7, 3);
}

}  // namespace
}  // namespace orrery::timing
