// timing/spin_loops.h: loops in which a block waits for what another one writes.
//
// Such a loop is short, loads past L1 (or adds nothing to a word, which tells it), goes on or not by what it finds, and stores nothing. How often it turns is no matter of the program:
// traces keep the last look. Not here: how long the wait is (relay.h).
#pragma once
#include <cstdint>
#include <set>

#include "lower/program.h"

namespace orrery::timing {

/// The loads of such loops, by instruction.
std::set<uint32_t> polls_of(const lower::Program& program);

/// Is there any loop, however long and whatever it stores, that goes on or not by what it finds past L1?
bool may_poll(const lower::Program& program);

}  // namespace orrery::timing
