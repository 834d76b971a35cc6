// jit/rows.cc: see rows.h.
#include "jit/rows.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "isa/row.h"
#include "jit/steps.h"
#include "lower/flow.h"

namespace orrery::jit {

using isa::Op;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

namespace {

constexpr size_t kMostInstructions = 64;  // of the loop: longer ones spend their time otherwise
constexpr size_t kMostState = 640;        // bytes of registers that change places at every turn

/// The only instruction of the program that writes `reg`; null: there are several, or none.
const Instr* only_definition(const lower::Program& p, uint32_t reg) {
  const Instr* found = nullptr;
  int count = 0;
  for (const Instr& in : p.code)
    lower::for_registers(in, [&](uint32_t r) { if (r == reg) found = &in, count++; }, [](uint32_t) {});
  return count == 1 && found->guard.reg == ptx::kNoReg ? found : nullptr;
}

/// The threads of the grid along x, as kernels compute them: gridDim.x times blockDim.x.
bool is_grid_width(const Plan& plan, uint32_t reg) {
  const Instr* product = only_definition(plan.program, reg);
  if (!product || product->form.op != Op::mul) return false;
  const auto is_grid = [&](const Operand& o) {
    const Instr* in = o.kind == OperandKind::reg ? only_definition(plan.program, o.id) : nullptr;
    return in && in->form.op == Op::mov && in->ops[1].kind == OperandKind::sreg && ptx::Sreg(in->ops[1].id) == ptx::Sreg::nctaid_x;
  };
  const auto is_block = [&](const Operand& o) {
    if (o.kind == OperandKind::imm) return o.value == plan.uniformity.block.x;
    if (o.kind != OperandKind::reg) return false;
    const lower::Lanes& l = plan.uniformity.regs[o.id];
    return l.constant && l.flat() && l.value == plan.uniformity.block.x;
  };
  const Operand &a = product->ops[1], &b = product->ops[2];
  return (is_grid(a) && is_block(b)) || (is_grid(b) && is_block(a));
}

/// Rows that an iteration moves on a load that the block's warps make from neighbouring addresses, row after row; else 0.
int64_t rows_walked(const Plan& plan, const Steps& steps, const Instr& in) {
  if (in.form.op != Op::ld || in.ops.size() < 2) return 0;
  for (int i = 0; i < in.form.n_spaces; i++)
    if (in.form.space(i) != isa::Space::global) return 0;
  const Operand& address = in.ops[1];
  if (address.base != ptx::BaseKind::reg) return 0;
  const lower::Lanes& lanes = plan.uniformity.regs[address.id];
  const bool row_at_run_time = lanes.varies() && plan.computed[address.id] && !plan.observe;
  if (!row_at_run_time && (lanes.chunks != 1 || lanes.pattern == 0)) return 0;
  const auto step = steps.of(address.id);
  const int64_t bytes = isa::bytes_of(in.form.type()) * std::max(1, int(in.form.vec));
  const int64_t row = int64_t(plan.uniformity.block.threads()) * bytes;
  if (!step || row <= 2 * 32 * bytes) return 0;
  if (!step->constant()) return step->factor > 0 && step->factor % bytes == 0 && is_grid_width(plan, step->by) ? step->factor / bytes : 0;
  const int64_t by = step->factor;
  return by >= row && by % row == 0 && by <= 16 * row ? by / row : 0;
}

/// The same for all warps of a block.
bool is_of_block(const Plan& plan, ptx::Sreg s) {
  switch (s) {
    case ptx::Sreg::tid_x: return plan.uniformity.block.x <= 32 && 32 % plan.uniformity.block.x == 0;
    case ptx::Sreg::ctaid_x: case ptx::Sreg::ctaid_y: case ptx::Sreg::ctaid_z: case ptx::Sreg::laneid:
    case ptx::Sreg::ntid_x: case ptx::Sreg::ntid_y: case ptx::Sreg::ntid_z:
    case ptx::Sreg::nctaid_x: case ptx::Sreg::nctaid_y: case ptx::Sreg::nctaid_z: return true;
    default: return false;
  }
}

/// By register: whether warps may have different values. Not a proof: which way a warp went is left out.
std::vector<uint8_t> differs_by_warp(const Plan& plan) {
  const lower::Program& p = plan.program;
  std::vector<uint8_t> differs(p.regs.size(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instr& in : p.code) {
      bool is = in.form.op == Op::ld && !(in.form.n_spaces && in.form.space() == isa::Space::param);
      for (const Operand& o : in.ops) is |= o.kind == OperandKind::sreg && !is_of_block(plan, ptx::Sreg(o.id));
      lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { is |= differs[r] != 0; });
      if (is) lower::for_registers(in, [&](uint32_t r) { changed |= !std::exchange(differs[r], 1); }, [](uint32_t) {});
    }
  }
  return differs;
}

/// A column of rows, each in another page, that all warps of the block read.
bool is_shared_column(const Plan& plan, const Steps& steps, const std::vector<uint8_t>& differs, const Instr& in) {
  if (in.form.op != Op::ld || in.ops.size() < 2 || !in.form.n_spaces || in.form.space() != isa::Space::global) return false;
  const Operand& address = in.ops[1];
  if (address.base != ptx::BaseKind::reg || differs[address.id] || plan.uniformity.regs[address.id].uniform()) return false;
  const auto step = steps.of(address.id);
  return step && (!step->constant() || std::abs(step->factor) >= kLongStep);
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

std::vector<uint32_t> live_at(const Plan& plan, const lower::Schedule& schedule, uint32_t node) {
  const auto& here = plan.program.live_in[schedule.nodes[node].block];
  std::set<uint32_t> live(here.begin(), here.end());
  schedule.nodes[node].waiting.each([&](uint32_t w) {
    const auto& there = plan.program.live_in[schedule.nodes[w].block];
    live.insert(there.begin(), there.end());
  });
  return {live.begin(), live.end()};
}

std::set<uint32_t> written_from(const Plan& plan, const lower::Schedule& schedule, uint32_t node) {
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
  uint32_t best = lower::kNone;
  int64_t most = 0;
  std::vector<uint8_t> differs;  // made when a loop is short enough to ask
  for (uint32_t n = 0; n < schedule.nodes.size(); n++) {
    const lower::Node& latch = schedule.nodes[n];
    if (!latch.latch || p.blocks[latch.block].may_spin) continue;
    const auto loop = std::find_if(plan.loops.begin(), plan.loops.end(), [&](const Loop& l) { return l.header == latch.block; });
    if (loop == plan.loops.end()) continue;
    size_t instructions = 0, state = 0;
    for (uint32_t b = latch.block; b < p.blocks.size(); b++)
      if (p.blocks[b].loop_header == latch.block) instructions += p.blocks[b].last - p.blocks[b].first;
    if (instructions > kMostInstructions) continue;
    if (differs.empty()) differs = differs_by_warp(plan);
    const Steps steps(p, plan.uniformity, *loop);
    int64_t rows = 0;
    bool bad = false;
    for (uint32_t b = latch.block; b < p.blocks.size(); b++) {
      if (p.blocks[b].loop_header != latch.block) continue;
      for (uint32_t i = p.blocks[b].first; i < p.blocks[b].last; i++) {
        bad |= plan.service[i] || may_block(p.code[i]);
        rows = std::max(rows, rows_walked(plan, steps, p.code[i]));
        if (is_shared_column(plan, steps, differs, p.code[i])) rows = std::max<int64_t>(rows, 1);
      }
    }
    for (uint32_t r : live_at(plan, schedule, latch.successors[0])) state += bytes_of(plan, r);
    if (rows > most && !bad && state <= kMostState) most = rows, best = n;
  }
  return best;
}

}  // namespace orrery::jit
