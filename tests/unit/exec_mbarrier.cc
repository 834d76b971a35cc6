// The mbarrier word against the rules of the PTX manual, and where it is kept as recorded on an H200.
#include <gtest/gtest.h>

#include "exec/mbarrier.h"
#include "exec/mbarrier_store.h"

namespace orrery::exec::mbarrier {
namespace {

TEST(Mbarrier, PhaseEndsWithTheLastArrival) {
  uint64_t w = 0;
  init(w, 3);
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
  for (uint32_t count : {0u, 1u << 20}) {  // (an H200's init takes any count)
    init(w, count);
    EXPECT_NE(arrive(w, 1), Outcome::ok);
  }
  init(w, kMaxCount);
  const uint64_t before = w;
  EXPECT_EQ(expect_bytes(w, kMaxBytes + 1), Outcome::bytes_range);
  EXPECT_EQ(complete_bytes(w, kMaxBytes + 1), Outcome::bytes_range);
  EXPECT_EQ(w, before);
  init(w, 2);
  EXPECT_EQ(arrive(w, 3), Outcome::too_many);
  ASSERT_EQ(arrive(w, 0), Outcome::ok);  // (as on an H200)
  EXPECT_EQ(pending(w), 2u);
}

TEST(MbarrierStore, MemorySeesTheWordWhenItIsGivenUp) {
  alignas(16) uint64_t memory[2] = {7, 9};
  MbarrierStore store(reinterpret_cast<const std::byte*>(memory), sizeof memory, 1);
  init(store.open(&memory[0]), 2);
  EXPECT_EQ(memory[0], 7u);
  memory[0] = 1;  // lost
  memory[1] = 3;  // not seen by the unit, which has read both words
  EXPECT_EQ(store.look(&memory[1]), 9u);
  store.give_up(&memory[0]);
  EXPECT_EQ(memory[0], 0x7ffff000001ffffcu);
  EXPECT_EQ(memory[1], 3u);
  EXPECT_EQ(store.peek(&memory[1]), 3u);
}

TEST(MbarrierStore, SixteenLinesAreKept) {
  alignas(16) uint64_t memory[36] = {};
  MbarrierStore store(reinterpret_cast<const std::byte*>(memory), sizeof memory, 1);
  for (int i = 0; i < 32; i += 2) init(store.open(&memory[i]), 1);
  store.look(&memory[0]);
  init(store.open(&memory[32]), 1);
  EXPECT_EQ(memory[0], 0u) << "used last";
  EXPECT_NE(memory[2], 0u) << "made room";
  EXPECT_EQ(memory[4], 0u);
  store.clear();
  EXPECT_EQ(store.peek(&memory[4]), 0u);
}

}  // namespace
}  // namespace orrery::exec::mbarrier
