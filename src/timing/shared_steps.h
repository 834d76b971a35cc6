// timing/shared_steps.h: the machine instructions of traced warps, made once for all warps that did the same.
//
// How a warp is led through machine code depends on which events it has, not on their addresses: warps of equal events share
// their steps, within a block and from block to block.
// Not here: how steps are made (join.h).
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "timing/join.h"

namespace orrery::timing {

using Steps = std::shared_ptr<const std::vector<Step>>;

class SharedSteps {
 public:
  /// What `warp` issues; adds to `statistics` as if it had been made for it alone. `warp` must outlive this.
  Steps of(const Join& join, const TracedWarp& warp, JoinStatistics& statistics);

 private:
  struct Known {
    const TracedWarp* warp;
    Steps steps;
    JoinStatistics statistics;
  };
  std::unordered_multimap<uint64_t, Known> known_;  // by hash of the events
};

}  // namespace orrery::timing
