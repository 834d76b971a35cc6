// sanitize/wgmma_registers.cc: see wgmma_registers.h.
#include "sanitize/wgmma_registers.h"

#include "exec/decode.h"
#include "lower/flow.h"

namespace orrery::sanitize {

using namespace exec;
using ptx::Operand;
using ptx::OperandKind;

namespace {

template <class F>
void for_registers(const Operand& o, F f) {
  if (o.kind == OperandKind::reg) f(o.id);
  if (o.kind == OperandKind::address && o.base == ptx::BaseKind::reg) f(o.id);
  for (const Operand& p : o.parts) for_registers(p, f);
}

const ptx::Instr& instr_of(const Where& w) { return w.code->program->code[w.pc]; }

}  // namespace

bool WgmmaRegisters::issue(const Where& where, const Moment& moment) {
  const ptx::Instr& in = instr_of(where);
  const auto own = [&](const Operand& o, bool accumulator) { for_registers(o, [&](uint32_t r) { owned_[r] = {accumulator, committed_, moment}; }); };
  own(in.ops[0], true);
  if (in.ops[1].kind == OperandKind::vec) own(in.ops[1], false);
  const bool unfenced = !issued_ && !fenced_;
  issued_ = true;
  return unfenced;
}

void WgmmaRegisters::wait(uint32_t left) {
  std::erase_if(owned_, [&](const auto& x) { return x.second.group + left < committed_; });
}

std::optional<WgmmaRegisters::Misuse> WgmmaRegisters::use(const Where& where) {
  if (owned_.empty()) return {};
  const ptx::Instr& in = instr_of(where);
  if (in.form.op == isa::Op::wgmma_mma_async || in.form.op == isa::Op::wgmma_mma_async_sp) return {};
  const int destinations = lower::destinations(in);
  std::optional<Misuse> wrong;
  const auto name = [&](uint32_t r) { return where.code->program->source->regs.size() > r ? where.code->program->source->regs[r].name : std::string("a register"); };
  const bool copies = in.form.op == isa::Op::mov && in.ops.size() == 2 && in.ops[0].kind == OperandKind::reg && in.ops[1].kind == OperandKind::reg;
  if (copies) {
    const auto from = owned_.find(in.ops[1].id);
    if (from != owned_.end() && from->second.accumulator) {
      const Owner owner = from->second;
      owned_[in.ops[0].id] = owner;
      return {};
    }
  }
  for (size_t i = 0; i < in.ops.size(); i++)
    for_registers(in.ops[i], [&](uint32_t r) {
      const auto it = owned_.find(r);
      const bool writes = int(i) < destinations && in.ops[i].kind != OperandKind::address;
      if (wrong || it == owned_.end() || (!it->second.accumulator && !writes)) return;
      wrong = Misuse{name(r), it->second.accumulator, writes, it->second.group == committed_, it->second.issue};
    });
  if (wrong) std::erase_if(owned_, [&](const auto& x) { return x.second.issue.where.pc == wrong->issue.where.pc; });  // once is enough
  return wrong;
}

}  // namespace orrery::sanitize
