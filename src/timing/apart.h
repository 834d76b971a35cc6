// timing/apart.h: how far other SMs are from the detailed one, as it is kept for a block or a warp.
//
// Not here: what moves them apart and brings them together (sm_apart.cc).
#pragma once
#include <cstdint>
#include <vector>

namespace orrery::timing {

/// Loads of a block that are under way together.
struct Trip {
  bool open = false;
  bool shared = false;               // some of what others load, too
  double began = 0, first_done = 0, last_done = 0;
  double own_done = 0;               // when memory has answered what nobody else loads, from when they began
  uint64_t warps = 0;                // which have loaded, a bit each
  std::vector<float> wakes;          // by SM: when the last has come, from when the detailed block began
};

/// How far the same warps of other SMs are (sm_apart.cc), by SM from the first: a block's, or those of one warp that meets no others.
struct Apart {
  std::vector<float> late;           // cycles behind the detailed one
  std::vector<uint16_t> order;       // the first to ask before the others
  uint32_t turn = 0;                 // of `order`: no other has it
  Trip trip;
  double seen = 0, variance = 0;
  double asked = 0;                  // when its last loads began
  uint64_t issued = 0;               // and what the SM had issued until then
};

}  // namespace orrery::timing
