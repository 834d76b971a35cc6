// timing/ghost_traces.h: what the blocks of ghosts do where blocks differ: each does what its own trace says, or, when it was not
// traced, what that of another block says.
//
// An access of the detailed block stands for the accesses of the ghosts' blocks by the same warp, PTX instruction and turn; one that
// a ghost's block does not make is not made, and what only the ghost's block makes is made when the detailed block ends.
// Not here: kernels whose blocks all do alike (their addresses move by slopes, sm_ghosts.cc).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "timing/trace.h"

namespace orrery::timing {

using TracedBlocks = std::map<uint64_t, std::unique_ptr<TracedBlock>>;  // by number in the grid

class GhostTraces {
 public:
  /// `traced` must outlive this; blocks may be added to it.
  explicit GhostTraces(const TracedBlocks& traced);
  /// The trace of block `index`, else that of one of those that were traced first; never null.
  const TracedBlock& of(uint64_t index) const;
  /// The event of `other` with the PTX instruction and ordinal of `e`, whose place is `at`; null when there is none.
  const Event* find(const TracedWarp& other, const Event& e, size_t at) const;

 private:
  const TracedBlocks& traced_;
  std::vector<const TracedBlock*> first_;
  mutable std::unordered_map<const TracedWarp*, std::vector<uint32_t>> order_;  // of a warp's events that touch memory: by instruction and ordinal
};

}  // namespace orrery::timing
