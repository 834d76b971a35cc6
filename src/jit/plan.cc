// jit/plan.cc: see plan.h.
#include "jit/plan.h"

#include <algorithm>
#include <set>

#include "lower/flow.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using isa::Type;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

bool is_service(const Instr& in) {
  switch (in.form.op) {
    case Op::bar: case Op::barrier: case Op::barrier_cluster: case Op::call: case Op::trap: case Op::brkpt:
    case Op::nanosleep: case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: case Op::cp_async_wait_group:
    case Op::cp_async_wait_all: case Op::cp_async_bulk_wait_group: case Op::wgmma_wait_group: case Op::griddepcontrol:
    case Op::clusterlaunchcontrol: case Op::setmaxnreg: case Op::wgmma_mma_async: case Op::wgmma_mma_async_sp:
    case Op::wgmma_fence: case Op::wgmma_commit_group: case Op::alloca: case Op::stacksave: case Op::stackrestore:
      return true;
    default:
      return false;
  }
}

bool makes_nan(const Instr& in) {
  const isa::Form& f = in.form;
  if (f.type() != Type::f32 || f.has(Mod::approx) || f.has(Mod::full) || f.has(Mod::sat)) return false;
  switch (f.op) {
    case Op::add: case Op::sub: case Op::mul: case Op::fma: case Op::mad: case Op::div: case Op::rcp: case Op::sqrt:
    case Op::neg: case Op::abs:
      return true;
    default:
      return false;
  }
}

Plan::Plan(const lower::Program& p, lower::BlockSize block)
    : program(p), uniformity(lower::find_uniformity(p, block)), definitions(p.regs.size(), 0) {
  for (const Instr& in : p.code) lower::for_registers(in, [&](uint32_t r) { definitions[r]++; }, [](uint32_t) {});
  find_services();
  find_entries();
  find_full_regions();
  find_lazy_nans();
}

void Plan::find_services() {
  service.resize(program.code.size());
  for (size_t i = 0; i < program.code.size(); i++) service[i] = is_service(program.code[i]);
}

std::vector<uint32_t> Plan::live_before(uint32_t i) const {
  const lower::Block& block = program.blocks[program.block_of[i]];
  std::set<uint32_t> live;
  for (uint32_t s : block.successors) live.insert(program.live_in[s].begin(), program.live_in[s].end());
  for (uint32_t k = block.last; k-- > i;) {
    const Instr& in = program.code[k];
    std::vector<uint32_t> used;
    lower::for_registers(
        in, [&](uint32_t r) { if (in.guard.reg == ptx::kNoReg) live.erase(r); }, [&](uint32_t r) { used.push_back(r); });
    live.insert(used.begin(), used.end());
  }
  return {live.begin(), live.end()};
}

void Plan::find_entries() {
  const lower::Program& p = program;
  std::set<uint32_t> at{0};
  auto ends = [&](const Instr& in) {
    return in.form.op == Op::trap || in.form.op == Op::exit || in.form.op == Op::ret;
  };
  for (uint32_t i = 0; i < p.code.size(); i++) {
    if (!service[i]) continue;
    const lower::Block& block = p.blocks[p.block_of[i]];
    if (i + 1 < block.last) {
      if (!ends(p.code[i + 1])) at.insert(i + 1);
    } else {
      for (uint32_t s : block.successors) at.insert(p.blocks[s].first);
    }
    // Lanes that skip this service wait at the end of the branch around it: the warp can come back there.
    for (uint32_t b = p.block_of[i], meet = p.blocks[b].ipdom, steps = 0; meet != lower::kNone && steps < 8; steps++) {
      if (p.blocks[meet].predecessors.size() > 1) { at.insert(p.blocks[meet].first); break; }
      meet = p.blocks[meet].ipdom;
    }
  }
  spin_entry.assign(p.code.size() + 1, 0);
  for (uint32_t b = 0; b < p.blocks.size(); b++)
    if (p.blocks[b].may_spin) at.insert(p.blocks[b].first), spin_entry[p.blocks[b].first] = 1;
  entries.assign(at.begin(), at.end());
  entry_of.assign(p.code.size() + 1, -1);
  for (size_t e = 0; e < entries.size(); e++) entry_of[entries[e]] = int32_t(e);
}

void Plan::find_full_regions() {
  const lower::Program& p = program;
  // Blocks that a lane may have exited before, or where lanes may run apart after a service: not full.
  std::vector<uint8_t> reduced(p.blocks.size(), 0);
  std::vector<uint32_t> work;
  auto spread = [&](uint32_t b) {
    for (uint32_t s : p.blocks[b].successors)
      if (!reduced[s]) reduced[s] = 1, work.push_back(s);
  };
  bool any_exit = false, any_apart = false;
  const lower::Schedule all = lower::make_schedule(p, 0, [](uint32_t) { return false; }, uniformity.divergent);
  for (const lower::Node& n : all.nodes) {
    if (n.exits && (n.divergent || !n.waiting.empty())) {
      any_exit = true;
      n.waiting.each([&](uint32_t w) {
        if (!reduced[all.nodes[w].block]) reduced[all.nodes[w].block] = 1, work.push_back(all.nodes[w].block);
      });
      spread(n.block);
    }
    if (!n.waiting.empty())
      for (uint32_t i = n.first; i < n.last; i++) any_apart |= service[i] != 0;
  }
  while (!work.empty()) {
    const uint32_t b = work.back();
    work.pop_back();
    spread(b);
  }
  const bool whole = uniformity.block.threads() % 32 == 0 && uniformity.block.threads() > 0;
  for (uint32_t e : entries) {
    const bool full = whole && (e == 0 || (!any_apart && !(any_exit && reduced[p.block_of[e]])));
    all_lanes.push_back(full);
  }
}

void Plan::find_lazy_nans() {
  const lower::Program& p = program;
  lazy_nan.assign(p.regs.size(), 0);
  for (size_t r = 0; r < p.regs.size(); r++) lazy_nan[r] = p.regs[r].type == Type::f32;
  auto lazy_source = [&](const Operand& o) {
    if (o.kind == OperandKind::imm) return (uint64_t(o.value) & 0x7fffffff) <= 0x7f800000 && o.is_float && o.float_bits == 32;
    return o.kind == OperandKind::reg && lazy_nan[o.id] != 0;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instr& in : p.code) {
      bool lazy = makes_nan(in);
      if (in.form.op == Op::mov && in.ops.size() == 2) lazy = lazy_source(in.ops[1]);
      if (in.form.op == Op::selp) lazy = lazy_source(in.ops[1]) && lazy_source(in.ops[2]);
      if (lazy) continue;
      lower::for_registers(in, [&](uint32_t r) { if (lazy_nan[r]) lazy_nan[r] = 0, changed = true; }, [](uint32_t) {});
    }
  }
}

}  // namespace orrery::jit
