// Tests of where blocks begin, with answers that an H200 gave: %smid of every block of launches of an empty wait, SMs that ran clusters of up to 16
// blocks together taken as one GPC (2026-11-23, driver 580).
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "timing/places.h"

namespace orrery::timing {
namespace {

ChipFigures h200() { return figures_of(load_profile("h200")); }

std::map<uint16_t, int> blocks_of_tpcs(const std::vector<SmPlace>& places) {
  std::map<uint16_t, int> blocks;
  for (const SmPlace& p : places) blocks[p.tpc]++;
  return blocks;
}

TEST(Places, BlocksHaveATpcEachAsLongAsThereAreSome) {
  const ChipFigures f = h200();
  EXPECT_EQ(blocks_of_tpcs(places_of(f, 16, 1, false)).size(), 12u);   // four TPCs that stand alone have two
  EXPECT_EQ(blocks_of_tpcs(places_of(f, 64, 1, false)).size(), 60u);
  EXPECT_EQ(blocks_of_tpcs(places_of(f, 96, 1, false)).size(), 66u);
  EXPECT_EQ(blocks_of_tpcs(places_of(f, 132, 1, false)).size(), 66u);
}

TEST(Places, NeighboursShareATpcWhereThereAreTwo) {
  const std::vector<SmPlace> all = places_of(h200(), 1000, 1, false);
  ASSERT_EQ(all.size(), 132u);
  for (size_t i = 0; i < all.size(); i += 2) {
    EXPECT_EQ(all[i].tpc, all[i + 1].tpc);
    EXPECT_FALSE(all[i].second);
    EXPECT_TRUE(all[i + 1].second);
  }
}

TEST(Places, ClustersGoToGroupsInTurn) {
  const std::vector<SmPlace> turns = places_of(h200(), 64, 1, true);
  for (size_t i = 0; i < 12; i++) EXPECT_EQ(turns[i].tpc, turns[i + 12].tpc);  // SMs 128 130 124 126 4 6 .. then 129 131 125 127 5 7 ..
  EXPECT_NE(turns[8].gpc, turns[9].gpc);
  const std::vector<SmPlace> pairs = places_of(h200(), 64, 2, true);
  for (size_t i = 0; i < 64; i += 2) EXPECT_EQ(pairs[i].tpc, pairs[i + 1].tpc);
  EXPECT_EQ(blocks_of_tpcs(pairs).size(), 32u);
  for (const SmPlace& p : places_of(h200(), 112, 8, true)) EXPECT_LT(p.gpc, 8);
}

TEST(Places, WhatTheCardSetsApartIsStillOfItsGpc) {
  std::map<uint16_t, int> sms;
  for (const SmPlace& p : places_of(h200(), 132, 1, false)) sms[p.gpc]++;
  EXPECT_EQ(sms.size(), 8u);
  for (const auto& [gpc, n] : sms) EXPECT_TRUE(n == 16 || n == 18) << gpc << ": " << n;
}

TEST(Places, AClusterThatNoGroupHoldsHasAPlaceAllTheSame) {
  ChipFigures f = h200();
  f.groups = {10, 8};
  EXPECT_EQ(places_of(f, 16, 16, true).size(), 16u);
  f.groups.clear();
  EXPECT_EQ(places_of(f, 4, 1, false).size(), 1u);
}

TEST(Places, SmsThatStandAloneTakeBlocksMoreOften) {  // calib/placement.cu: the first SM's of 1,391 and of 1,056 blocks of 256 threads, which stay
  const std::vector<uint64_t> seen = {0, 84, 192, 288, 388, 488, 596, 692}, of_1056 = {0, 80, 180, 280, 386, 484, 584, 684};
  const std::vector<uint64_t> lone = blocks_of_lone(h200(), 1391, 8);
  ASSERT_EQ(lone.size(), seen.size());
  for (size_t k = 0; k < seen.size(); k++) {
    EXPECT_NEAR(double(lone[k]), double(seen[k]), 14);
    EXPECT_NEAR(double(lone[k]), double(of_1056[k]), 14);
  }
  EXPECT_EQ(blocks_of_lone(h200(), 391, 8).size(), 2u);  // 0 80 264: the third comes when all SMs have two
  EXPECT_TRUE(blocks_of_lone(h200(), 263, 8).empty());
  ChipFigures f = h200();
  f.groups = {18, 18};
  EXPECT_TRUE(blocks_of_lone(f, 1391, 8).empty());
}

}  // namespace
}  // namespace orrery::timing
