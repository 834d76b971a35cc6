// tests/differential/generate.h: random programs whose result does not depend on the order of threads.
//
//   straight-line   every form that only computes (forms.h), guarded or not; packing, carries
//   control         if, if-else, counted loops with uniform and per-lane trip counts, break, continue, branch tables, exits
//   memory          own places in global and local memory, read-only input by any address, shared memory across a barrier
//   warp-wide       shfl, vote, match, redux, elect, bar.warp.sync, with all lanes, those of a branch, parts of a warp
//   waiting         protocols.cc: locks, flags, mbarriers, CAS loops, look-back between blocks
//   calls           calls.cc: direct ones and through pointers, recursion, arguments of every shape
//   walks           walks.cc: programs of their own, loops over rows, columns and by a grid's width through `in`
//
// A lane uses a warp-wide instruction in divergent code only with members that a ballot before the branch has found,
// so the result is the same whatever runs together.
#pragma once
#include "program.h"

namespace differential {

/// The program of a seed. Deterministic: the same on every machine.
Program generate(uint64_t seed);

/// A program that only walks through memory: loops of which compiled code changes the order.
Program generate_walks(uint64_t seed);

/// A piece of code in which threads wait for each other; `id` makes its names unique, `place` (0 to 13) its words.
Statement make_protocol(Random& random, int id, int place, const Program& program);

/// A call: `a` and `b` are words that are read, `to` is one that is written where `guard` (empty, or "@%p ") holds.
Statement make_call(Random& random, int id, const std::string& guard, const std::string& a, const std::string& b, const std::string& to);

}  // namespace differential
