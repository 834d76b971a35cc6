// jit/refusal.h: which kernels stay with the interpreter.
//
// Compiled code keeps the lanes of a warp together; what it cannot yet do as the hardware does is refused here, by rule
// and as a whole kernel, so that a result never depends on which engine ran.
#pragma once
#include "lower/program.h"

namespace orrery::jit {

/// The reason why `program` is not compiled, one sentence; empty when it is.
const char* reason_to_interpret(const lower::Program& program);

}  // namespace orrery::jit
