// jit/steps.cc: see steps.h.
#include "jit/steps.h"

#include <algorithm>

#include "lower/flow.h"

namespace orrery::jit {

using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr int kMostDepth = 6;  // definitions followed

/// What tells a thread where it is.
std::optional<Step> of_place(ptx::Sreg s) {
  switch (s) {
    case ptx::Sreg::ctaid_x: return Step{1};
    case ptx::Sreg::tid_x: case ptx::Sreg::tid_y: case ptx::Sreg::tid_z: case ptx::Sreg::laneid: return Step{};
    case ptx::Sreg::ctaid_y: case ptx::Sreg::ctaid_z: case ptx::Sreg::nctaid_x: case ptx::Sreg::nctaid_y: case ptx::Sreg::nctaid_z:
    case ptx::Sreg::ntid_x: case ptx::Sreg::ntid_y: case ptx::Sreg::ntid_z: return Step{};
    default: return {};
  }
}

/// The sum of two steps, where one number and one register can say it.
std::optional<Step> plus(std::optional<Step> a, std::optional<Step> b) {
  if (!a || !b) return {};
  if (a->factor == 0) return b;
  if (b->factor == 0) return a;
  if (a->by != b->by) return {};
  return Step{a->factor + b->factor, a->by};
}

std::optional<Step> times(std::optional<Step> a, std::optional<int64_t> by, bool shift) {
  if (a && a->factor == 0) return Step{};
  if (!a || !by || *by < 0 || *by > 4096 || (shift && *by > 20)) return {};
  return Step{shift ? a->factor << *by : a->factor * *by, a->by};
}

}  // namespace

std::vector<Loop> find_loops(const lower::Program& p) {
  std::vector<Loop> loops;
  for (uint32_t h = 0; h < p.blocks.size(); h++) {
    Loop loop{h, lower::kNone, true, false};
    for (uint32_t from : p.blocks[h].predecessors)
      if (from >= h && (loop.last == lower::kNone || from > loop.last)) loop.last = from;
    if (loop.last == lower::kNone) continue;
    for (Loop& outer : loops) outer.innermost &= !outer.contains(h);
    for (uint32_t i = p.blocks[h].first; i < p.blocks[loop.last].last; i++)
      loop.barrier |= p.code[i].form.op == Op::bar || p.code[i].form.op == Op::barrier;
    loops.push_back(loop);
  }
  return loops;
}

Steps::Steps(const lower::Program& p, const lower::Uniformity& u, const Loop& loop) : p_(p), u_(u) {
  for (uint32_t i = p.blocks[loop.header].first; i < p.blocks[loop.last].last; i++)
    lower::for_registers(p.code[i], [&](uint32_t r) { at_[r] = at_.count(r) ? lower::kNone : i; }, [](uint32_t) {});
}

Steps::Steps(const lower::Program& p, const lower::Uniformity& u) : p_(p), u_(u), blocks_(true) {
  for (uint32_t i = 0; i < p.code.size(); i++)
    lower::for_registers(p.code[i], [&](uint32_t r) { at_[r] = at_.count(r) ? lower::kNone : i; }, [](uint32_t) {});
}

std::optional<Step> Steps::of(uint32_t reg, int depth) const {
  const auto at = at_.find(reg);
  if (at == at_.end()) return Step{};
  if (at->second == lower::kNone || depth > kMostDepth) return {};
  const Instr& in = p_.code[at->second];
  if (in.guard.reg != ptx::kNoReg) return {};
  switch (in.form.op) {
    case Op::mov: case Op::cvt: case Op::cvta: return of(in.ops[1], reg, depth);
    case Op::add: return sum(in, reg, depth);
    case Op::shl: return times(of(in.ops[1], reg, depth), constant(in.ops[2]), true);
    case Op::mul: return product(in.ops[1], in.ops[2], reg, depth);
    case Op::mad: return plus(product(in.ops[1], in.ops[2], reg, depth), of(in.ops[3], reg, depth));
    case Op::ld: return blocks_ && in.form.n_spaces && in.form.space() == isa::Space::param ? std::optional(Step{}) : std::nullopt;
    default: return {};
  }
}

std::optional<Step> Steps::product(const Operand& a, const Operand& b, uint32_t self, int depth) const {
  if (const auto by = constant(b)) return times(of(a, self, depth), by, false);
  if (const auto by = constant(a)) return times(of(b, self, depth), by, false);
  const auto grows = of(a, self, depth), also = of(b, self, depth);
  if (!grows || !also || (grows->factor && also->factor)) return {};
  const Operand& by = grows->factor ? b : a;
  const Step& step = grows->factor ? *grows : *also;
  if (step.factor == 0) return Step{};
  return step.constant() && by.kind == OperandKind::reg && !by.negated && u_.regs[by.id].uniform() ? std::optional(Step{step.factor, by.id}) : std::nullopt;
}

std::optional<Step> Steps::of(const Operand& o, uint32_t self, int depth) const {
  if (o.kind == OperandKind::imm) return Step{};
  if (blocks_ && o.kind == OperandKind::sreg) return of_place(ptx::Sreg(o.id));
  if (o.kind != OperandKind::reg || o.negated) return {};
  return o.id == self ? Step{} : of(o.id, depth + 1);
}

/// `r = r + c` grows by c, any other sum by what its operands grow.
std::optional<Step> Steps::sum(const Instr& in, uint32_t self, int depth) const {
  for (size_t i : {1, 2})
    if (in.ops[i].kind == OperandKind::reg && in.ops[i].id == self) return grows_by(in.ops[3 - i]);
  return plus(of(in.ops[1], self, depth), of(in.ops[2], self, depth));
}

std::optional<Step> Steps::grows_by(const Operand& o) const {
  if (const auto c = constant(o)) return Step{*c, lower::kNone};
  if (o.kind == OperandKind::reg && !o.negated && !at_.count(o.id) && u_.regs[o.id].uniform()) return Step{1, o.id};
  return {};
}

std::optional<int64_t> Steps::constant(const Operand& o) const {
  if (o.kind == OperandKind::imm && !o.is_float) return o.value;
  if (o.kind != OperandKind::reg) return {};
  const lower::Lanes& l = u_.regs[o.id];
  return l.constant && l.flat() ? std::optional(l.value) : std::nullopt;
}

}  // namespace orrery::jit
