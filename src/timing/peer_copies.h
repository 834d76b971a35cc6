// timing/peer_copies.h: which bulk copies the blocks of a cluster make alike, and what one of them copies into the others.
//
// Of a cluster one block is simulated. A copy that all its blocks make, each of its part, comes in from the peers as it goes out; one that
// a single block makes for all must not. Here that is found out from the traces of all blocks of a cluster.
// Not here: how copies are timed (sm_copies.cc).
#pragma once
#include <span>

#include "timing/trace.h"

namespace orrery::timing {

/// Says in bulk loads which ranks make them alike (Event::mask), and gives blocks what others alone copy into them (TracedBlock::from_peers):
/// at the barrier that expects it. `blocks`: whole clusters of `size`, one after the other, by rank.
void find_peer_copies(std::span<TracedBlock> blocks, uint64_t size);

}  // namespace orrery::timing
