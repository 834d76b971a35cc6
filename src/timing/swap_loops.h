// timing/swap_loops.h: loops whose turns depend on who else wants a word meanwhile: those that compare and swap it until they succeed, as a program
// makes atomic operations that the GPU does not have, and those that take the number of the next piece of work from it.
//
// Blocks that are traced one after the other always find what they expect, and the first takes all the work. Not here: how such blocks are traced side by side (contention.h).
#pragma once
#include <set>

#include "lower/program.h"

namespace orrery::timing {

/// The compare-and-swap instructions on global memory that a loop makes again and again on the same address.
std::set<uint32_t> swap_loops_of(const lower::Program& program);
/// The additions to a word of global memory by whose answer one thread finds the next piece of work for all: the loop hands it on by a barrier
/// (of shared memory, too) or a shuffle.
std::set<uint32_t> work_loops_of(const lower::Program& program);
/// The additions to a word of global memory, in no loop, that answer: by them blocks find out which of them comes last.
std::set<uint32_t> arrivals_of(const lower::Program& program);

}  // namespace orrery::timing
