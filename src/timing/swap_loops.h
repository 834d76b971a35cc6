// timing/swap_loops.h: loops that compare and swap one word until they succeed, as a program makes atomic operations that the GPU does not have.
//
// How often they try depends on who else wants the word meanwhile: blocks that are traced one after the other always find what they
// expect. Not here: how such blocks are traced side by side (contention.h).
#pragma once
#include <set>

#include "lower/program.h"

namespace orrery::timing {

/// The compare-and-swap instructions on global memory that a loop makes again and again on the same address.
std::set<uint32_t> swap_loops_of(const lower::Program& program);

}  // namespace orrery::timing
