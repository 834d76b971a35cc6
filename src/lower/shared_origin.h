// lower/shared_origin.h: which variable in shared memory the address of an access comes from.
//
// An access through `low + 4 * i` belongs to `low`, whatever i is: a place beyond the end of `low` is a mistake although
// the block's shared memory goes on there. What a register may hold is one of
//
//   nothing    no value seen yet          number     no address of shared memory
//   variable   that variable's address plus a number          unknown    anything else
//
// and each instruction combines what its operands hold: number + variable is the variable, two variables, or any other
// arithmetic on one, are unknown. Values from shared, local or generic memory, from calls and from atomics are unknown;
// those from global and constant memory and from a kernel's parameters are numbers. One description for each register,
// whichever of its definitions is the latest.
// The same is done for the pointers that a kernel gets as parameters: then the 64-bit parameters take the place of the
// variables, and what is multiplied or shifted is a number.
// Not here: dynamic shared memory, which has no size of its own.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "lower/program.h"

namespace orrery::lower {

/// By instruction: 1 + the number in Program::shared_vars of the variable that the address operand of this access must
/// stay inside; 0 where that is not known.
std::vector<uint32_t> find_shared_origins(const Program& program);

/// The offsets in the parameter buffer of the pointers through which a kernel may write to global memory; nothing when it
/// may write through others, or calls functions.
std::optional<std::vector<uint32_t>> find_written_params(const Program& program);

}  // namespace orrery::lower
