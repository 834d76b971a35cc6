// tests/differential/run.h: one program on the interpreter and on compiled code.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "program.h"

namespace differential {

struct Outcome {
  orrery::exec::FaultKind kind = orrery::exec::FaultKind::none;
  std::string fault;              // kind and message of the fault; empty: none
  std::vector<uint32_t> memory;   // `out`, then `state`
  uint64_t native_blocks = 0;
  std::string problem;            // the program could not be run at all
};

enum class Engine { interpreter, compiled };

Outcome run(const Program& program, Engine engine);

/// What differs between the engines, one paragraph; empty: nothing. `compiled` is counted up when compiled code ran.
std::string difference(const Program& program, int* compiled = nullptr);

/// The smallest program found by leaving out statements for which `fails` still holds.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

}  // namespace differential
