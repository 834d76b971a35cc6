// Vector clocks: who knows what after releases and acquires, by the definition of happens-before.
#include "sanitize/clocks.h"

#include <gtest/gtest.h>

namespace orrery::sanitize {
namespace {

constexpr uint32_t kAll = ~0u;

WarpClock warp(uint32_t block, uint16_t first) {
  WarpClock w;
  w.block = block;
  w.first_thread = first;
  return w;
}

TEST(Clocks, ReleaseCoversThePastAndNotTheFuture) {
  WarpClock w = warp(5, 32);
  const uint32_t before = w.clock;
  const KnowledgePtr k = release(w, kAll, kAll);
  EXPECT_TRUE(k->knows(5, 32, before));
  EXPECT_TRUE(k->knows(5, 63, before));
  EXPECT_FALSE(k->knows(5, 32, w.clock)) << "what the warp does after the release";
  EXPECT_FALSE(k->knows(5, 31, 1)) << "another warp";
  EXPECT_FALSE(k->knows(4, 32, 1)) << "another block";
}

TEST(Clocks, OneLaneReleasesItsOwnPastOnly) {
  WarpClock w = warp(1, 0);
  const KnowledgePtr k = release(w, 1u << 3, kAll);
  EXPECT_TRUE(k->knows(1, 3, 1));
  EXPECT_FALSE(k->knows(1, 4, 1));
}

TEST(Clocks, AcquireIsTransitive) {
  WarpClock a = warp(1, 0), b = warp(1, 32), c = warp(2, 0);
  const KnowledgePtr from_a = release(a, kAll, kAll);
  acquire(b, kAll, kAll, from_a);
  const KnowledgePtr from_b = release(b, 1, kAll);
  acquire(c, kAll, kAll, from_b);
  EXPECT_TRUE(c.of(7)->knows(1, 31, 1)) << "a, through b";
  EXPECT_TRUE(c.of(7)->knows(1, 32, 1)) << "lane 0 of b";
  EXPECT_FALSE(c.of(7)->knows(1, 33, 1)) << "lane 1 of b did not release";
}

TEST(Clocks, AcquireByOneLaneLeavesTheOthersAlone) {
  WarpClock a = warp(1, 0), b = warp(1, 32);
  acquire(b, 1u << 5, kAll, release(a, kAll, kAll));
  EXPECT_TRUE(b.of(5)->knows(1, 0, 1));
  EXPECT_EQ(b.of(6), nullptr);
  const KnowledgePtr k = release(b, kAll, kAll);
  EXPECT_TRUE(k->knows(1, 0, 1)) << "a release of all lanes carries what each knew";
}

TEST(Clocks, JoinKeepsTheGreaterOfBoth) {
  WarpClock a = warp(1, 0), b = warp(2, 0);
  const KnowledgePtr first = release(a, kAll, kAll), second = release(a, kAll, kAll), other = release(b, kAll, kAll);
  const KnowledgePtr sum = join(join(first, other), second);
  EXPECT_TRUE(sum->knows(1, 0, 2));
  EXPECT_TRUE(sum->knows(2, 31, 1));
  EXPECT_EQ(join(second, first), second) << "nothing new: the same object";
  EXPECT_EQ(join(nullptr, first), first);
}

}  // namespace
}  // namespace orrery::sanitize
