// jit/abreast.h: regions of which compiled code runs several warps at once, instruction by instruction.
//
// A tile's sum is a chain of multiply-adds, each waiting for the one before. One warp is two such chains (of 16 lanes), and the
// host, which looks for work among some hundred instructions, sees the chains of one and a half warps: it multiplies less
// than once a cycle where it could twice. The order in which instructions of different warps run between barriers is free,
// so here they run in turns, and what the warps read alike is read once (a 32 x 32 tile: 24 instead of 37 ms).
//
// Only regions of one node from barrier to barrier that touch registers and shared memory: of a page fault it could not be
// told whose it is. Only with AVX-512.
#pragma once
#include "jit/plan.h"
#include "lower/schedule.h"

namespace orrery::jit {

/// A load from or store to shared memory of words, by a register, that nothing else watches.
bool is_shared_access(const ptx::Instr& instr);
/// f32 or f64 arithmetic: some cycles of the host.
bool is_float_arithmetic(const ptx::Instr& instr);

/// True where the region goes from barrier to barrier in one node of plain instructions, and chains of arithmetic fill its time.
bool goes_abreast(const Plan& plan, const lower::Schedule& schedule, uint32_t region);

}  // namespace orrery::jit
