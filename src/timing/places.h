// timing/places.h: on which SM of which TPC and GPC the blocks of a launch begin.
//
// Seen on an H200 (%smid of every block, calib/steps/drift.cu): groups of SMs (profile: sm.groups) take blocks by turns, one each, those of one TPC
// first, until all blocks have a place or all SMs one. Without clusters, blocks are then numbered group by group, and in a group TPC by TPC: the first
// TPCs have two blocks next to each other, the others one, so that up to 66 blocks have a TPC each. Clusters, even those of one block, keep the
// numbers of their turns: neighbours are in different groups. Blocks beyond the number of SMs follow in the same order.
//
// SMs whose TPC stands alone take blocks more often than others, until they have as many as an SM may: of the first 391 of 1,391 blocks four or five,
// others two or three (calib/placement.cu). Who works longest in the beginning of a grid whose first blocks do most is one of them.
//
// Not here: which SMs end first and take the next block (predict.cc takes them in order).
#pragma once
#include <cstdint>
#include <vector>

#include "timing/figures.h"

namespace orrery::timing {

struct SmPlace {
  uint16_t gpc = 0, tpc = 0;
  bool second = false;  // of its TPC: its block begins later
};

/// Places of the first `blocks` blocks, at most one for each SM, by number of the block; never none. A cluster that no group of
/// SMs holds is given a GPC of its own.
std::vector<SmPlace> places_of(const ChipFigures& f, uint64_t blocks, uint64_t cluster, bool in_turn);

/// The numbers of the first blocks that an SM takes whose TPC stands alone, of a grid of `blocks` of which an SM holds up to `most`; none when the GPU
/// has no such SM or all blocks are placed evenly.
std::vector<uint64_t> blocks_of_lone(const ChipFigures& f, uint64_t blocks, uint64_t most);

}  // namespace orrery::timing
