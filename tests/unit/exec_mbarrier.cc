// The mbarrier word against the rules of the PTX manual.
#include <gtest/gtest.h>

#include "exec/mbarrier.h"

namespace orrery::exec::mbarrier {
namespace {

TEST(Mbarrier, PhaseEndsWithTheLastArrival) {
  uint64_t w = 0;
  ASSERT_EQ(init(w, 3), Outcome::ok);
  EXPECT_EQ(phase(w), 0u);
  EXPECT_EQ(arrive(w, 2), Outcome::ok);
  EXPECT_EQ(pending(w), 1u);
  EXPECT_EQ(phase(w), 0u);
  EXPECT_EQ(arrive(w, 1), Outcome::ok);
  EXPECT_EQ(phase(w), 1u);
  EXPECT_EQ(pending(w), 3u) << "the next phase expects the same count";
}

TEST(Mbarrier, BytesHoldThePhaseOpen) {
  uint64_t w = 0;
  init(w, 1);
  ASSERT_EQ(expect_bytes(w, 4096), Outcome::ok);
  ASSERT_EQ(arrive(w, 1), Outcome::ok);
  EXPECT_EQ(phase(w), 0u);
  ASSERT_EQ(complete_bytes(w, 4080), Outcome::ok);
  EXPECT_EQ(phase(w), 0u);
  ASSERT_EQ(complete_bytes(w, 16), Outcome::ok);
  EXPECT_EQ(phase(w), 1u);
  EXPECT_EQ(bytes(w), 0);
}

TEST(Mbarrier, BytesMayArriveBeforeTheyAreExpected) {
  uint64_t w = 0;
  init(w, 1);
  ASSERT_EQ(complete_bytes(w, 128), Outcome::ok);
  EXPECT_EQ(bytes(w), -128);
  ASSERT_EQ(expect_bytes(w, 128), Outcome::ok);
  EXPECT_EQ(phase(w), 0u) << "an arrival is still pending";
  ASSERT_EQ(arrive(w, 1), Outcome::ok);
  EXPECT_EQ(phase(w), 1u);
}

TEST(Mbarrier, DropLowersTheCountOfLaterPhases) {
  uint64_t w = 0;
  init(w, 3);
  ASSERT_EQ(arrive_drop(w, 1), Outcome::ok);
  ASSERT_EQ(arrive(w, 2), Outcome::ok);
  EXPECT_EQ(phase(w), 1u);
  EXPECT_EQ(pending(w), 2u);
}

TEST(Mbarrier, RefusesWhatTheManualForbidsAndKeepsTheWord) {
  uint64_t w = 0;
  EXPECT_EQ(arrive(w, 1), Outcome::not_live);
  EXPECT_EQ(init(w, 0), Outcome::bad_count);
  EXPECT_EQ(init(w, 1 << 20), Outcome::bad_count);
  ASSERT_EQ(init(w, kMaxCount), Outcome::ok);
  const uint64_t before = w;
  EXPECT_EQ(expect_bytes(w, kMaxBytes + 1), Outcome::bytes_range);
  EXPECT_EQ(complete_bytes(w, kMaxBytes + 1), Outcome::bytes_range);
  EXPECT_EQ(w, before);
  init(w, 2);
  EXPECT_EQ(arrive(w, 3), Outcome::too_many);
  ASSERT_EQ(arrive(w, 0), Outcome::ok);  // (as on an H200)
  EXPECT_EQ(pending(w), 2u);
}

}  // namespace
}  // namespace orrery::exec::mbarrier
