// jit/rows.cc: see rows.h.
#include "jit/rows.h"

#include <map>
#include <optional>
#include <set>

#include "isa/row.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr size_t kMostInstructions = 64;  // of the loop: longer ones spend their time otherwise
constexpr size_t kMostState = 640;        // bytes of registers that change places at every turn

/// How registers change from one iteration of an innermost loop to the next.
class Steps {
 public:
  Steps(const lower::Program& p, const lower::Uniformity& u, uint32_t header) : p_(p), u_(u) {
    for (uint32_t b = header; b < p.blocks.size(); b++) {
      if (p.blocks[b].loop_header != header) continue;
      for (uint32_t i = p.blocks[b].first; i < p.blocks[b].last; i++)
        lower::for_registers(p.code[i], [&](uint32_t r) { at_[r] = at_.count(r) ? lower::kNone : i; }, [](uint32_t) {});
    }
  }
  /// Bytes (or units) by which the register grows; nothing when that is not a constant.
  std::optional<int64_t> of(uint32_t reg, int depth = 0) const {
    const auto at = at_.find(reg);
    if (at == at_.end()) return 0;
    if (at->second == lower::kNone || depth > 6) return {};
    const Instr& in = p_.code[at->second];
    if (in.guard.reg != ptx::kNoReg) return {};
    switch (in.form.op) {
      case Op::mov: case Op::cvt: case Op::cvta: return of(in.ops[1], reg, depth);
      case Op::add: return plus(of(in.ops[1], reg, depth), of(in.ops[2], reg, depth), in, reg);
      case Op::shl: return times(of(in.ops[1], reg, depth), constant(in.ops[2]), true);
      case Op::mul: return times(of(in.ops[1], reg, depth), constant(in.ops[2]), false);
      case Op::mad: {
        const auto product = times(of(in.ops[1], reg, depth), constant(in.ops[2]), false), more = of(in.ops[3], reg, depth);
        return product && more ? std::optional(*product + *more) : std::nullopt;
      }
      default: return {};
    }
  }

 private:
  const lower::Program& p_;
  const lower::Uniformity& u_;
  std::map<uint32_t, uint32_t> at_;  // register -> its only definition in the loop, or kNone

  std::optional<int64_t> constant(const Operand& o) const {
    if (o.kind == OperandKind::imm && !o.is_float) return o.value;
    if (o.kind != OperandKind::reg) return {};
    const lower::Lanes& l = u_.regs[o.id];
    return l.constant && l.flat() ? std::optional(l.value) : std::nullopt;
  }
  std::optional<int64_t> of(const Operand& o, uint32_t self, int depth) const {
    if (o.kind == OperandKind::imm) return 0;
    if (o.kind != OperandKind::reg || o.negated) return {};
    return o.id == self ? 0 : of(o.id, depth + 1);
  }
  /// `r = r + c` grows by c, any other sum by what its operands grow.
  std::optional<int64_t> plus(std::optional<int64_t> a, std::optional<int64_t> b, const Instr& in, uint32_t self) const {
    for (size_t i : {1, 2})
      if (in.ops[i].kind == OperandKind::reg && in.ops[i].id == self) return constant(in.ops[3 - i]);
    return a && b ? std::optional(*a + *b) : std::nullopt;
  }
  static std::optional<int64_t> times(std::optional<int64_t> a, std::optional<int64_t> by, bool shift) {
    if (a && *a == 0) return 0;
    if (!a || !by || *by < 0 || *by > 4096 || (shift && *by > 20)) return {};
    return shift ? *a << *by : *a * *by;
  }
};

/// True for a load that the block's warps make from neighbouring addresses, row after row.
bool walks(const Plan& plan, const Steps& steps, const Instr& in) {
  if (in.form.op != Op::ld || in.ops.size() < 2) return false;
  for (int i = 0; i < in.form.n_spaces; i++)
    if (in.form.space(i) != isa::Space::global) return false;
  const Operand& address = in.ops[1];
  if (address.base != ptx::BaseKind::reg) return false;
  const lower::Lanes& lanes = plan.uniformity.regs[address.id];
  if (lanes.chunks != 1 || lanes.pattern == 0) return false;
  const auto step = steps.of(address.id);
  const int64_t bytes = isa::bytes_of(in.form.type()) * std::max(1, int(in.form.vec));
  const int64_t row = int64_t(plan.uniformity.block.threads()) * bytes;
  return step && row > 2 * 32 * bytes && *step >= row && *step % row == 0 && *step <= 16 * row;
}

size_t bytes_of(const Plan& plan, uint32_t r) {
  switch (plan.program.regs[r].kind) {
    case lower::RegKind::pred: return 4;
    case lower::RegKind::word: return 4 * size_t(plan.uniformity.regs[r].chunks);
    case lower::RegKind::dword: return 8 * size_t(plan.uniformity.regs[r].chunks);
    case lower::RegKind::qword: break;
  }
  return 512;
}

}  // namespace

std::vector<uint32_t> live_at_latch(const Plan& plan, const lower::Schedule& schedule, uint32_t node) {
  const lower::Node& latch = schedule.nodes[node];
  const auto& header = plan.program.live_in[latch.block];
  std::set<uint32_t> live(header.begin(), header.end());
  latch.waiting.each([&](uint32_t w) {
    const auto& there = plan.program.live_in[schedule.nodes[w].block];
    live.insert(there.begin(), there.end());
  });
  return {live.begin(), live.end()};
}

std::set<uint32_t> written_after(const Plan& plan, const lower::Schedule& schedule, uint32_t node) {
  std::vector<uint8_t> seen(schedule.nodes.size(), 0);
  std::vector<uint32_t> work{node};
  std::set<uint32_t> out;
  while (!work.empty()) {
    const lower::Node& n = schedule.nodes[work.back()];
    work.pop_back();
    for (uint32_t i = n.first; i < n.last; i++)
      lower::for_registers(plan.program.code[i], [&](uint32_t r) { out.insert(r); }, [](uint32_t) {});
    auto add = [&](uint32_t k) { if (!seen[k]) seen[k] = 1, work.push_back(k); };
    for (uint32_t k : n.successors) add(k);
    n.waiting.each(add);
  }
  return out;
}

uint32_t find_row_loop(const Plan& plan, const lower::Schedule& schedule) {
  const lower::Program& p = plan.program;
  for (uint32_t n = 0; n < schedule.nodes.size(); n++) {
    const lower::Node& latch = schedule.nodes[n];
    if (!latch.latch || p.blocks[latch.block].may_spin) continue;
    const Steps steps(p, plan.uniformity, latch.block);
    size_t instructions = 0, state = 0;
    bool good = false, bad = false;
    for (uint32_t b = latch.block; b < p.blocks.size(); b++) {
      if (p.blocks[b].loop_header != latch.block) continue;
      instructions += p.blocks[b].last - p.blocks[b].first;
      for (uint32_t i = p.blocks[b].first; i < p.blocks[b].last; i++) {
        bad |= plan.service[i] || may_block(p.code[i]);
        good |= walks(plan, steps, p.code[i]);
      }
    }
    for (uint32_t r : live_at_latch(plan, schedule, n)) state += bytes_of(plan, r);
    if (good && !bad && instructions <= kMostInstructions && state <= kMostState) return n;
  }
  return lower::kNone;
}

}  // namespace orrery::jit
