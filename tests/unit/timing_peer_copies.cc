// Tests of what blocks of a cluster copy into each other, as found in traces.
#include <gtest/gtest.h>

#include "timing/peer_copies.h"

namespace orrery::timing {
namespace {

constexpr uint32_t kBarrier = 64, kAlone = 5, kForAll = 7;

Event copy_of(uint32_t pc, uint32_t ordinal, uint32_t rank, uint16_t targets, TracedBlock& block) {
  Event e;
  e.pc = pc, e.what = What::bulk_load, e.count = 4096, e.ordinal = ordinal, e.object = kBarrier | rank << 24;
  if (targets) e.lanes_bytes = kMulticast, e.extra = targets;
  e.detail = uint32_t(block.runs.size()), e.n_detail = 1;
  block.runs.push_back({uint64_t{pc} << 20 | ordinal << 12, 4096});
  return e;
}

/// Two blocks: each phase, every block copies a part of its own, and one of them, or each half of it, what both want.
std::vector<TracedBlock> cluster(uint32_t phases, bool halves) {
  std::vector<TracedBlock> blocks(2);
  for (uint32_t r = 0; r < 2; r++) {
    TracedBlock& b = blocks[r];
    b.rank = r;
    b.warps.resize(1);
    for (uint32_t p = 0; p < phases; p++) {
      Event expect;
      expect.pc = 3, expect.what = What::mbarrier_expect, expect.count = 8192, expect.object = kBarrier;
      b.warps[0].events.push_back(expect);
      b.warps[0].events.push_back(copy_of(kAlone, p, r, 0, b));
      if (r == 0 || halves) b.warps[0].events.push_back(copy_of(kForAll, p, r, 3, b));
    }
  }
  return blocks;
}

TEST(PeerCopies, OneBlockThatCopiesForAllIsToldFromBlocksThatAllDo) {
  std::vector<TracedBlock> one = cluster(3, false), all = cluster(3, true);
  find_peer_copies(one, 2), find_peer_copies(all, 2);
  for (const Event& e : one[0].warps[0].events)
    if (e.what == What::bulk_load) EXPECT_EQ(e.mask, e.pc == kForAll ? 1u : 3u);
  for (const TracedBlock& b : all)
    for (const Event& e : b.warps[0].events)
      if (e.what == What::bulk_load) EXPECT_EQ(e.mask, 3u);
  EXPECT_TRUE(all[0].from_peers.empty() && all[1].from_peers.empty()) << "halves come in as the own ones go out";
  EXPECT_TRUE(one[0].from_peers.empty()) << "nobody copies for the first";
}

TEST(PeerCopies, EachPhaseOfTheOtherBlockExpectsOne) {
  std::vector<TracedBlock> blocks = cluster(3, false);
  find_peer_copies(blocks, 2);
  ASSERT_EQ(blocks[1].from_peers.size(), 3u);
  uint32_t phase = 0;
  for (const Event& e : blocks[1].warps[0].events) {
    if (e.what != What::mbarrier_expect) continue;
    ASSERT_EQ(e.ordinal, phase + 1);
    const std::vector<PeerCopy>& copies = blocks[1].from_peers[phase];
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies[0].rank, 0u);
    EXPECT_EQ(copies[0].copy.pc, kForAll);
    EXPECT_EQ(blocks[1].runs[copies[0].copy.detail].address, uint64_t{kForAll} << 20 | phase << 12) << "the run is among the block's own";
    phase++;
  }
}

}  // namespace
}  // namespace orrery::timing
