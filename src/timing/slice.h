// timing/slice.h: which instructions of a program control and addresses depend on.
#pragma once
#include <vector>

#include "exec/decode.h"

namespace orrery::timing {

/// By instruction: must it run for control flow, synchronisation and addresses to be right? Arithmetic, loads and products whose
/// results nobody needs for that may be left out; so may stores, unless a kept load reads memory that they may have written.
std::vector<bool> address_slice(const exec::DecodedProgram& code);

}  // namespace orrery::timing
