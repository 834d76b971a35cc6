// timing/swap_loops.cc: see swap_loops.h.
#include "timing/swap_loops.h"

#include <algorithm>
#include <map>

#include "lower/flow.h"

namespace orrery::timing {

std::set<uint32_t> swap_loops_of(const lower::Program& program) {
  const auto loop_of = [&](uint32_t i) { return program.blocks[program.block_of[i]].loop_header; };
  std::map<uint32_t, std::set<uint32_t>> written;  // registers, by loop
  std::set<uint32_t> swaps;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const ptx::Instr& in = program.code[i];
    if (loop_of(i) == lower::kNone) continue;
    lower::for_registers(in, [&](uint32_t r) { written[loop_of(i)].insert(r); }, [](uint32_t) {});
    if (in.form.op == isa::Op::atom && in.form.has(isa::Mod::cas) && !(in.form.n_spaces && in.form.space() == isa::Space::shared)) swaps.insert(i);
  }
  std::erase_if(swaps, [&](uint32_t i) {  // another word in each turn: a table is searched
    const std::set<uint32_t>& own = written[loop_of(i)];
    return std::any_of(program.code[i].ops.begin(), program.code[i].ops.end(), [&](const ptx::Operand& o) { return o.kind == ptx::OperandKind::address && o.base == ptx::BaseKind::reg && own.count(o.id); });
  });
  return swaps;
}

}  // namespace orrery::timing
