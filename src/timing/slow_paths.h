// timing/slow_paths.h: quotients and roots. ptxas makes each of them some instructions for ordinary operands and a test that calls a function
// for others (zero, denormal, infinite, tiny, huge); a quotient of 64-bit integers is such a function always.
//
// The tests are those of ptxas 13.0 for sm_90, and what a call takes was counted on an H200 (calib/quotients.cu,
// calib/raw/h200-2026-11-27-quotients.jsonl). Not here: the functions themselves, which are in the machine code (join.h).
#pragma once
#include <cstdint>

#include "ptx/module.h"

namespace orrery::timing {

enum class SlowPath : uint8_t { none, div_f32, rcp_f32, sqrt_f32, div_f64, rcp_f64, sqrt_f64 };

/// Which test an instruction makes of its operands; none: no function is ever called.
SlowPath slow_path_of(const ptx::Instr& in);

/// Machine instructions that a call adds for these operands (bits; `b`: a quotient's denominator); 0: they are ordinary.
uint32_t slow_instructions(SlowPath path, uint64_t a, uint64_t b);

/// Quotients and remainders of 64-bit integers: the function is called whatever the operands are.
bool always_calls(const ptx::Instr& in);

}  // namespace orrery::timing
