// exec/observed.h: what compiled code of an observed kernel needs to know.
//
// Compiled code leaves observed instructions to execute() (exec/native.h), whose handler reports them; everything else
// runs as in a kernel that nobody observes. Where an observer does not want to hear of accesses that stay inside what it
// has found right before, it says so per instruction (SiteRange), and compiled code looks there first.
#pragma once
#include <cstdint>
#include <vector>

#include "lower/program.h"

namespace orrery::exec {

/// By instruction: 1 where a kernel made with `observe` (make_kernel) reports it.
std::vector<uint8_t> observed_instructions(const lower::Program& program, unsigned observe);

}  // namespace orrery::exec
