// jit/ahead.h: loads that are worth asking for some iterations early.
//
// The host's prefetchers follow neither the columns of a matrix (every row another page) nor a tile that the warps of a
// block fetch in turn and use for a while. Their lines come from a distant cache, or from memory where others have pushed
// them out; a kernel then has two speeds, by what else the machine does. Where the next iterations' addresses are known,
// compiled code asks for them:
//
//   loops with a barrier (tiles)                   the next iteration's, into the nearest cache (where
//                                                  HostTraits::asks_for_rows, the second)
//   innermost loops, steps of half a page or more  some iterations on, into the second cache: columns of a power of two
//                                                  meet in few sets of the first
//   rows of neighbouring addresses, in loops or    half a page on, into the nearest cache, where the host's prefetchers do
//   from block to block                            not keep up alone (HostTraits::asks_for_rows); elsewhere in rounds that
//                                                  can be foreseen only, into the second (emit_foreseen.cc)
//
// Fetching early never faults and changes no value.
#pragma once
#include <vector>

#include "jit/steps.h"

namespace orrery::jit {

struct Ahead {
  uint8_t iterations = 0;  // 0: nothing is fetched early
  bool near = false;       // into the first cache
  bool row = false;        // of rows of neighbouring addresses: not on every host
  Step step;               // of the address, bytes
};

/// By instruction.
std::vector<Ahead> find_ahead(const lower::Program& program, const lower::Uniformity& uniformity, const std::vector<Loop>& loops);

}  // namespace orrery::jit
