// exec/call_stack.h: how much local memory the direct calls of a kernel need.
//
// Invariant: the answer is at least the sum of the frames of any chain of direct calls in which no function is twice, and it
// does not depend on the order of functions or calls.
// Not here: calls through pointers and the depth of recursion, which nobody knows before the launch (cudaLimitStackSize).
#pragma once
#include <cstdint>
#include <span>

#include "lower/program.h"

namespace orrery::exec {

/// Bytes of local memory per thread that the deepest chain of direct calls out of `entry` needs beside its own frame.
/// `functions`: by function of the module; null: not reachable. Functions that call each other in a cycle count together,
/// each once.
uint64_t deepest_calls(const lower::Program& entry, std::span<const lower::Program* const> functions);

}  // namespace orrery::exec
