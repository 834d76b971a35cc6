// timing/slice.cc: see slice.h. Registers are taken as a whole, wherever they are written: a fixed point over uses.
#include "timing/slice.h"

#include "lower/flow.h"

namespace orrery::timing {

using isa::Op;
using isa::Space;

namespace {

bool is_product(Op op) { return op == Op::mma || op == Op::mma_sp || op == Op::wmma_mma || op == Op::wgmma_mma_async || op == Op::wgmma_mma_async_sp; }
/// Parameters and local memory carry arguments and what is spilt.
bool of_thread(Space s) { return s == Space::param || s == Space::param_entry || s == Space::param_func || s == Space::local; }
bool is_store(const exec::Decoded& d) {
  const Op op = d.instr->form.op;
  if (op == Op::stmatrix || op == Op::wmma_store) return true;
  return op == Op::st && !of_thread(d.instr->form.space());
}
bool is_load(Op op) { return op == Op::ld || op == Op::ldmatrix || op == Op::wmma_load; }
/// May it be left out when nobody needs what it writes?
bool may_go(const exec::Decoded& d) {
  const Op op = d.instr->form.op;
  return d.pure || is_load(op) || op == Op::mov || op == Op::shfl;
}

}  // namespace

std::vector<bool> address_slice(const exec::DecodedProgram& code) {
  const lower::Program& p = *code.program;
  std::vector<bool> kept(p.code.size(), false), needed(p.regs.size(), false);
  bool reads_memory = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < p.code.size(); i++) {
      const exec::Decoded& d = code.code[i];
      if (kept[i] || is_product(d.instr->form.op)) continue;
      bool keep = is_store(d) ? reads_memory : !may_go(d);
      if (!keep) lower::for_registers(p.code[i], [&](uint32_t r) { keep |= needed[r]; }, [](uint32_t) {});
      if (!keep) continue;
      kept[i] = changed = true;
      const Space space = d.instr->form.space();
      if (is_load(d.instr->form.op) && !of_thread(space) && space != Space::const_) reads_memory = true;
      lower::for_registers(p.code[i], [](uint32_t) {}, [&](uint32_t r) { needed[r] = true; });
    }
  }
  return kept;
}

}  // namespace orrery::timing
