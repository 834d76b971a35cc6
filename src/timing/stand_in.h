// timing/stand_in.h: machine code of our own for kernels that no assembler has seen (there is no ptxas, or it refuses).
//
// Each PTX block becomes one block of machine code: pieces.cc says what its instructions become, stand_in.cc puts them in an
// order by the longest chain of dependences (loads come early, as they do from ptxas, as far as registers allow) and gives them stall
// counts and dependence barriers. Registers are those that are live at once in that order (pressure.h).
#pragma once
#include <vector>

#include "timing/join.h"

namespace orrery::timing {

/// Classes of the machine instructions that `in` becomes, in order; the last gives the result. Nothing for moves.
std::vector<Class> pieces_of(const ptx::Instr& in);

struct StandIn {
  std::vector<MachineInstruction> code;
  std::vector<std::pair<uint32_t, uint32_t>> blocks;  // of each PTX block: its instructions in `code`
  uint32_t registers = 16;
};

/// Code for one program; `tag` is what its instructions' numbers carry (function << 24).
StandIn stand_in_for(const lower::Program& program, uint32_t tag);

}  // namespace orrery::timing
