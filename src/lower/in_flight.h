// lower/in_flight.h: registers that wgmma instructions work on between their issue and the wait for their group.
//
// A wgmma may be carried out at its issue or as late as at the wait_group that ends its group. The registers of D then
// change at another time, which nobody sees as long as no other instruction touches them in between. This is looked for on
// all paths: a register's age is the number of commits since its wgmma, and wait_group N ends what is N commits old.
//
// Registers that share the place of one in flight count as it. Not here: when they are carried out (exec/wgmma_queue.h).
// Source: PTX ISA manual, wgmma.commit_group, wgmma.wait_group.
#pragma once
#include <cstdint>
#include <vector>

#include "lower/program.h"

namespace orrery::lower {

struct InFlight {
  std::vector<uint8_t> accumulator;  // by register: some wgmma's D
  uint32_t wgmmas = 0;               // instructions
  uint32_t touched = UINT32_MAX;     // the first instruction but mov that touches a register in flight
  uint32_t copied = UINT32_MAX;      // the first mov that does, or an instruction that has its place
  bool apart() const { return touched == UINT32_MAX && copied == UINT32_MAX; }
};

InFlight find_in_flight(const Program& program);

}  // namespace orrery::lower
