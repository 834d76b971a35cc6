// timing/join_texels.cc: which fetch of the PTX a machine instruction of the texture unit is: Join::find_texels.
//
// ptxas gives them the line of what it issues before. They keep their order, so that those of one kind go to the fetches of that kind of their PTX
// block one after the other, again from the first where the block was unrolled.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "timing/join.h"

namespace orrery::timing {

using isa::Op;

namespace {

enum class Fetch { none, texture, integer, gather, load, store, reduction };

Fetch fetch_of(uint16_t opcode) {
  switch (opcode) {
    case 0x160: case 0x161: case 0x16c: case 0x16d: return Fetch::texture;
    case 0x166: case 0x167: return Fetch::integer;
    case 0x163: case 0x164: return Fetch::gather;
    case 0x199: return Fetch::load;
    case 0x19b: case 0x19d: return Fetch::store;
    case 0x19f: return Fetch::reduction;
    default: return Fetch::none;
  }
}

Fetch fetch_of(const isa::Form& f) {
  switch (f.op) {
    case Op::tex: return f.type(f.n_types - 1) == isa::Type::s32 ? Fetch::integer : Fetch::texture;
    case Op::tld4: return Fetch::gather;
    case Op::suld: return Fetch::load;
    case Op::sust: return Fetch::store;
    case Op::sured: return Fetch::reduction;
    default: return Fetch::none;
  }
}

}  // namespace

void Join::find_texels(const exec::Kernel& kernel) {
  std::map<std::pair<uint32_t, uint32_t>, size_t> given;  // by kind and PTX block
  for (MachineInstruction& m : code_) {
    const Fetch kind = fetch_of(m.i.opcode);
    if (kind == Fetch::none || m.pc == UINT32_MAX) continue;
    const uint32_t tag = m.pc & 0xFF000000;
    const exec::DecodedProgram& decoded = tag ? *kernel.functions[(tag >> 24) - 1] : *kernel.entry;
    const lower::Program& p = *decoded.program;
    const auto in_block = [&](uint32_t b, uint32_t from) {
      std::vector<uint32_t> found;
      for (uint32_t i = std::max(from, p.blocks[b].first); i < p.blocks[b].last; i++)
        if (fetch_of(p.code[i].form) == kind) found.push_back(i);
      return found;
    };
    const uint32_t at = m.pc & 0xFFFFFF;
    uint32_t block = p.block_of[at];
    // The line may be the last one of the block before.
    const auto& next = p.blocks[block].successors;
    const bool turns = std::find(next.begin(), next.end(), block) != next.end();
    if (in_block(block, turns ? 0 : at).empty()) {
      uint32_t other = block + 1;
      while (other < p.blocks.size() && in_block(other, 0).empty()) other++;
      if (other < p.blocks.size()) block = other;
    }
    const std::vector<uint32_t> fetches = in_block(block, 0);
    if (fetches.empty()) continue;
    const uint32_t pc = fetches[given[{uint32_t(kind), block | tag}]++ % fetches.size()];
    m.pc = pc | tag, m.op = p.code[pc].form.op;
  }
}

}  // namespace orrery::timing
