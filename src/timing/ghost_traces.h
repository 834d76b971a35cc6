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
#include <utility>
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
  /// Where a block's accesses stand in its trace; made warp by warp, when one is looked for.
  class Places;
  Places& places_of(const TracedBlock& block) const;
  /// The event of warp `warp` of the block with the PTX instruction and ordinal of `e`, whose place is `at`; null when there is none.
  static const Event* find(Places& places, size_t warp, const Event& e, size_t at);

 private:
  const TracedBlocks& traced_;
  std::vector<const TracedBlock*> first_;
  mutable std::unordered_map<const TracedBlock*, std::unique_ptr<Places>> places_;
};

class GhostTraces::Places {
  friend GhostTraces;
  /// Of a warp's events those that touch memory: of each instruction, one after the other.
  struct Accesses {
    std::vector<uint32_t> events;
    std::vector<std::pair<uint32_t, uint32_t>> begins;  // by PTX instruction: where its own begin; at the end one more
  };
  const Accesses& of(size_t warp);
  const TracedBlock& block_;
  std::vector<Accesses> warps_;

 public:
  explicit Places(const TracedBlock& block) : block_(block), warps_(block.warps.size()) {}
};

}  // namespace orrery::timing
