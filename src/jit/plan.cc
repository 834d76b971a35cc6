// jit/plan.cc: see plan.h.
#include "jit/plan.h"

#include <algorithm>
#include <set>

#include "exec/interpreter.h"
#include "exec/observed.h"
#include "exec/observer.h"
#include "isa/row.h"
#include "lower/flow.h"
#include "lower/shared_origin.h"

namespace orrery::jit {

using isa::Mod;
using isa::Op;
using isa::Type;
using ptx::Instr;
using ptx::Operand;
using ptx::OperandKind;

bool is_service(const Instr& in) {
  switch (in.form.op) {
    case Op::bar: case Op::barrier: case Op::call: case Op::trap: case Op::clusterlaunchcontrol: case Op::alloca:
    case Op::stacksave: case Op::stackrestore:
      return true;
    case Op::barrier_cluster: return !in.form.has(Mod::arrive);
    default: return false;
  }
}

bool may_block(const Instr& in) {
  switch (in.form.op) {
    case Op::mbarrier_test_wait: case Op::mbarrier_try_wait: case Op::wgmma_wait_group: return true;
    default: return false;
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

Plan::Plan(const lower::Program& p, lower::BlockSize block, unsigned observe_bits, bool may_resume)
    : program(p), uniformity(lower::find_uniformity(p, block)), observe(observe_bits), resumable(may_resume), observed(p.code.size(), 0),
      definitions(p.regs.size(), 0), uses(p.regs.size(), 0), loops(find_loops(p)), ahead(find_ahead(p, uniformity, loops)) {
  for (const Instr& in : p.code) lower::for_registers(in, [&](uint32_t r) { definitions[r]++; }, [&](uint32_t r) { uses[r]++; });
  if (observe) find_observed();
  constexpr uint32_t kMeet = isa::effect::atomic | isa::effect::async | isa::effect::barrier | isa::effect::machine;
  for (const Instr& in : p.code) independent &= !(isa::row(in.form.row).effects & kMeet) && in.form.op != Op::call;
  find_services();
  find_entries();
  limit_size();
  find_full_regions();
  find_lazy_nans();
  find_computed();
  if (!observe) streams = find_streams(p, loops, computed);
  find_kept();
  find_at_home();
}

namespace {

/// What only orders memory by fences or strong accesses of the kernel itself.
bool orders_by_strong_accesses(const lower::Program& p) {
  return p.has_calls || std::any_of(p.code.begin(), p.code.end(), [](const Instr& in) {
    const isa::Form& f = in.form;
    return f.op == Op::fence || f.op == Op::membar || f.op == Op::call || is_strong(f);
  });
}

}  // namespace

/// Accesses that are looked at where they are emitted (emit_observed.cc) are not left to exec/.
void Plan::find_observed() {
  observed = exec::observed_instructions(program, observe);
  quiet_exchanges = !orders_by_strong_accesses(program);
  // Registers that a wgmma owns for a time are watched where loads and stores use them, too.
  const bool watches = (observe & exec::kObserveSync) && std::any_of(program.code.begin(), program.code.end(), [](const Instr& in) {
    return in.form.op == Op::wgmma_mma_async || in.form.op == Op::wgmma_mma_async_sp;
  });
  quiet_local = (observe & exec::kObserveLocal) && !watches;
  for (size_t i = 0; i < program.code.size() && quiet_local; i++) {
    const isa::Form& f = program.code[i].form;
    if ((f.op == Op::ld || f.op == Op::st) && f.n_spaces && f.space() == isa::Space::local) observed[i] = 0;
  }
  if (!(observe & exec::kObserveOutside)) return;
  origins = lower::find_shared_origins(program);
  for (size_t i = 0; i < program.code.size(); i++) {
    const Op op = program.code[i].form.op;
    if (op == Op::ld || op == Op::ldu || op == Op::st || op == Op::atom || op == Op::red) observed[i] = 0;
  }
}

namespace {

bool uses_cluster(const lower::Program& p) {
  return std::any_of(p.code.begin(), p.code.end(), [](const Instr& in) {
    const isa::Form& f = in.form;
    return f.op == Op::barrier_cluster || f.op == Op::mapa || f.has(Mod::cluster) || (f.n_spaces && f.space() == isa::Space::shared_cluster);
  });
}

}  // namespace

void Plan::find_services() {
  service.resize(program.code.size());
  for (size_t i = 0; i < program.code.size(); i++) service[i] = is_service(program.code[i]);
  if (!observe) return;
  // What has to wait is told once: by the interpreter, which keeps it waiting.
  for (size_t i = 0; i < program.code.size(); i++) service[i] |= may_block(program.code[i]);
  if (!(observe & exec::kObserveSync) || !uses_cluster(program)) return;
  // The end of a thread whose shared memory others of the cluster use is an event.
  for (size_t i = 0; i < program.code.size(); i++)
    service[i] |= program.code[i].form.op == Op::exit || program.code[i].form.op == Op::ret;
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

namespace {

/// A loop as the order of blocks shows it: its header and all blocks up to the last one that jumps back.
struct LoopSpan {
  uint32_t header = lower::kNone, last = 0;
};

LoopSpan span_of(const lower::Program& p, uint32_t header) {
  LoopSpan s{header, header};
  for (uint32_t b : p.blocks[header].predecessors) s.last = std::max(s.last, b);
  return s;
}

/// The loop around block `b` that does more than wait; no header when there is none.
LoopSpan working_loop(const lower::Program& p, uint32_t b) {
  constexpr uint32_t kWaitLoop = 12;  // instructions of a loop that only waits
  for (uint32_t h = p.blocks[b].loop_header; h != lower::kNone;) {
    const LoopSpan s = span_of(p, h);
    if (p.blocks[s.last].last - p.blocks[h].first > kWaitLoop) return s;
    uint32_t outer = lower::kNone;
    for (uint32_t k = h; k-- > 0 && outer == lower::kNone;)
      if (p.blocks[k].loop_header == k && span_of(p, k).last >= s.last) outer = k;
    h = outer;
  }
  return {};
}

}  // namespace

/// Where other lanes may wait when the loop begins, a region does not end: the warp could not go on in another one.
void Plan::find_hubs() {
  hub.assign(program.code.size() + 1, 0);
  std::vector<uint8_t> apart(program.blocks.size(), 0);
  const lower::Schedule all = lower::make_schedule(program, 0, [](uint32_t) { return false; }, uniformity.divergent);
  for (const lower::Node& n : all.nodes)
    if (!n.waiting.empty()) apart[n.block] = 1;
  for (uint32_t i = 0; i < program.code.size(); i++) {
    if (!may_block(program.code[i])) continue;
    const LoopSpan s = working_loop(program, program.block_of[i]);
    if (s.header != lower::kNone && !apart[s.header]) hub[program.blocks[s.header].first] = 1;
  }
  if (tail != lower::kNone && !apart[tail]) hub[program.blocks[tail].first] = 1;
  // Where lanes wait elsewhere a region cannot end: there a loop is an entry only (find_entries).
  for (const Loop& loop : loops)
    if (resumable && !apart[loop.header]) hub[program.blocks[loop.header].first] = 1;
}

namespace {

/// What code an instruction becomes, in others: an access of global memory holds ways for rows, parts of warps and scattered lanes.
size_t weight_of(const Instr& in) {
  constexpr size_t kAccess = 16;
  const bool access = in.form.op == Op::ld || in.form.op == Op::st;
  return access && (in.form.n_spaces == 0 || in.form.space() == isa::Space::global) ? kAccess : 1;
}

}  // namespace

/// Instructions of all regions, weighed; `regions_of`: by block, how many regions have it.
size_t Plan::weight_of_regions(std::vector<uint32_t>& regions_of) const {
  size_t sum = 0;
  regions_of.assign(program.blocks.size(), 0);
  for (uint32_t e = 0; e < entries.size(); e++) {
    const lower::Schedule s = lower::make_schedule(program, entries[e], [&](uint32_t i) { return ends_before(e, i); }, uniformity.divergent);
    std::set<uint32_t> blocks;
    for (const lower::Node& n : s.nodes) {
      for (uint32_t i = n.first; i < n.last; i++) sum += weight_of(program.code[i]);
      if (n.first < n.last) blocks.insert(program.block_of[n.first]);
    }
    for (const uint32_t b : blocks) regions_of[b]++;
  }
  return sum;
}

/// A block outside of loops where ways meet, from which on several regions have the same long code, such as what stores a
/// tile's sums. kNone: there is none that is worth it.
uint32_t Plan::find_tail(const std::vector<uint32_t>& regions_of) const {
  constexpr size_t kWorth = 2000;  // weighed instructions
  const lower::Program& p = program;
  const auto in_loop = [&](uint32_t b) { return std::any_of(loops.begin(), loops.end(), [&](const Loop& l) { return l.contains(b); }); };
  uint32_t best = lower::kNone;
  size_t most = kWorth;
  for (uint32_t b = 1; b < p.blocks.size(); b++) {
    if (p.blocks[b].predecessors.size() < 2 || regions_of[b] < 2 || in_loop(b)) continue;
    std::set<uint32_t> seen{b};
    std::vector<uint32_t> work{b};
    size_t weight = 0;
    while (!work.empty()) {
      const uint32_t at = work.back();
      work.pop_back();
      for (uint32_t i = p.blocks[at].first; i < p.blocks[at].last; i++) weight += weight_of(p.code[i]);
      for (uint32_t next : p.blocks[at].successors)
        if (regions_of[next] >= regions_of[b] && seen.insert(next).second) work.push_back(next);
    }
    if (const size_t saved = weight * (regions_of[b] - 1); saved > most) best = b, most = saved;
  }
  return best;
}

/// Many main entries in one big loop would each have all of it: then they become side entries. A long tail that many regions
/// come to becomes a hub.
void Plan::limit_size() {
  constexpr size_t kLimit = 24000, kLong = 4000;  // weighed instructions of all regions
  size_t own = 0;
  for (const Instr& in : program.code) own += weight_of(in);
  std::vector<uint32_t> regions_of;
  size_t sum = weight_of_regions(regions_of);
  if (sum > kLong && (tail = find_tail(regions_of)) != lower::kNone) {
    find_entries();
    sum = weight_of_regions(regions_of);
  }
  if (sum > kLimit && sum > 3 * own) std::fill(side.begin() + 1, side.end(), 1);
}

bool Plan::ends_before(uint32_t region, uint32_t i) const {
  if (service[i]) return true;
  if (i == entries[region] || entry_of[i] < 0) return false;
  return hub[i] || (side[region] && program.blocks[program.block_of[i]].first == i);
}

void Plan::find_entries() {
  const lower::Program& p = program;
  std::set<uint32_t> at{0}, side_at;
  auto ends = [&](const Instr& in) {
    return in.form.op == Op::trap || in.form.op == Op::exit || in.form.op == Op::ret;
  };
  find_hubs();
  for (uint32_t i = 0; i < p.code.size(); i++) {
    if (hub[i]) at.insert(i);
    if (!service[i] && !may_block(p.code[i])) continue;
    if (p.code[i].form.op == Op::call && p.code[i].ops[1].negated) continue;  // hardly ever executed: not worth code of its own
    std::set<uint32_t>& after = service[i] ? at : side_at;
    const lower::Block& block = p.blocks[p.block_of[i]];
    if (i + 1 < block.last) {
      if (!ends(p.code[i + 1])) after.insert(i + 1);
    } else {
      for (uint32_t s : block.successors) after.insert(p.blocks[s].first);
    }
    // Lanes that skip this one wait at the end of the branch around it: the warp can come back there.
    for (uint32_t b = p.block_of[i], meet = p.blocks[b].ipdom, steps = 0; meet != lower::kNone && steps < 8; steps++) {
      if (p.blocks[meet].predecessors.size() > 1) { side_at.insert(p.blocks[meet].first); break; }
      meet = p.blocks[meet].ipdom;
    }
  }
  for (const Loop& loop : loops)
    if (resumable) at.insert(p.blocks[loop.header].first);
  spin_entry.assign(p.code.size() + 1, 0);
  for (uint32_t b = 0; b < p.blocks.size(); b++)
    if (p.blocks[b].may_spin) side_at.insert(p.blocks[b].first), spin_entry[p.blocks[b].first] = 1;
  std::set<uint32_t> all = at;
  all.insert(side_at.begin(), side_at.end());
  entries.assign(all.begin(), all.end());
  entry_of.assign(p.code.size() + 1, -1);
  side.clear();
  for (size_t e = 0; e < entries.size(); e++) {
    entry_of[entries[e]] = int32_t(e);
    side.push_back(!at.count(entries[e]));
  }
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
      for (uint32_t i = n.first; i < n.last; i++) any_apart |= service[i] || may_block(p.code[i]);
  }
  while (!work.empty()) {
    const uint32_t b = work.back();
    work.pop_back();
    spread(b);
  }
  const bool whole = uniformity.block.threads() % 32 == 0 && uniformity.block.threads() > 0;
  for (uint32_t e : entries) {
    // A warp comes to an entry in a loop from the interpreter, where lanes that do not take the loop may have exited already.
    const bool in_loop = resumable && std::any_of(loops.begin(), loops.end(), [&](const Loop& l) { return p.blocks[l.header].first == e; });
    const bool full = whole && !in_loop && (e == 0 || (!any_apart && !(any_exit && reduced[p.block_of[e]])));
    all_lanes.push_back(full);
  }
}

void Plan::find_lazy_nans() {
  const lower::Program& p = program;
  lazy_nan.assign(p.regs.size(), 0);
  for (size_t r = 0; r < p.regs.size(); r++) lazy_nan[r] = p.regs[r].kind == lower::RegKind::word && isa::bits_of(p.regs[r].type) == 32;
  auto lazy_source = [&](const Operand& o) {
    if (o.kind == OperandKind::imm) return (uint64_t(o.value) & 0x7fffffff) <= 0x7f800000 && o.is_float && o.float_bits == 32;
    return o.kind == OperandKind::reg && lazy_nan[o.id] != 0;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instr& in : p.code) {
      bool lazy = makes_nan(in);
      if (in.form.op == Op::mov && in.ops.size() == 2) lazy = lazy_source(in.ops[1]);
      if (in.form.op == Op::shfl) lazy = lazy_source(in.ops[1]);
      if (in.form.op == Op::selp) lazy = lazy_source(in.ops[1]) && lazy_source(in.ops[2]);
      if (lazy) continue;
      lower::for_registers(in, [&](uint32_t r) { if (lazy_nan[r]) lazy_nan[r] = 0, changed = true; }, [](uint32_t) {});
    }
  }
}

void Plan::find_computed() {
  computed.assign(program.regs.size(), 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instr& in : program.code) {
      const uint32_t effects = isa::row(in.form.row).effects & 0xffff;
      const bool param = in.form.op == Op::ld && in.form.n_spaces && in.form.space() == isa::Space::param;
      bool known = effects == 0 || effects == isa::effect::machine || param;
      lower::for_registers(in, [](uint32_t) {}, [&](uint32_t r) { known &= computed[r] != 0; });
      if (known) continue;
      lower::for_registers(in, [&](uint32_t r) { if (computed[r]) computed[r] = 0, changed = true; }, [](uint32_t) {});
    }
  }
}

/// There are more of them than the host has registers, and wait_group changes those whose wgmma it waits for.
void Plan::find_at_home() {
  at_home.assign(program.regs.size(), 0);
  for (const Instr& in : program.code)
    if (in.form.op == Op::wgmma_mma_async || in.form.op == Op::wgmma_mma_async_sp)
      lower::for_operand_registers(in.ops[0], [&](uint32_t r) {
        const lower::Register& reg = program.regs[r];
        at_home[r] = reg.kind == lower::RegKind::word && isa::bits_of(reg.type) == 32 && uniformity.regs[r].varies();
      });
}

namespace {

/// It does not change while a block runs, and compiled code knows it.
bool is_fixed(ptx::Sreg s) {
  switch (s) {
    case ptx::Sreg::tid_x: case ptx::Sreg::tid_y: case ptx::Sreg::tid_z:
    case ptx::Sreg::ctaid_x: case ptx::Sreg::ctaid_y: case ptx::Sreg::ctaid_z:
    case ptx::Sreg::nctaid_x: case ptx::Sreg::nctaid_y: case ptx::Sreg::nctaid_z: return true;
    default: return false;
  }
}

}  // namespace

ptx::Sreg Plan::special_of(uint32_t reg) const { return ptx::Sreg(program.code[copied_at[reg]].ops[1].id); }

void Plan::find_kept() {
  kept_at.assign(program.regs.size(), kInFrame);
  copied_at.assign(program.regs.size(), lower::kNone);
  for (uint32_t i = 0; i < program.code.size(); i++) {
    const Instr& in = program.code[i];
    if (in.form.op == Op::mov && isa::bits_of(in.form.type()) == 32 && in.guard.reg == ptx::kNoReg && in.ops.size() == 2 &&
        in.ops[0].kind == ptx::OperandKind::reg && in.ops[1].kind == ptx::OperandKind::sreg && is_fixed(ptx::Sreg(in.ops[1].id)) &&
        definitions[in.ops[0].id] == 1)
      copied_at[in.ops[0].id] = i;
  }
  int32_t used = 0;
  for (uint32_t pc : entries) {
    after_barrier.push_back(pc > 0 && exec::is_plain_barrier(program.code[pc - 1]));
    if (!after_barrier.back()) continue;
    for (uint32_t r : live_before(pc)) {
      const lower::Lanes& l = uniformity.regs[r];
      if (kept_at[r] != kInFrame || l.varies() || l.chunks == 0 || program.regs[r].kind == lower::RegKind::qword) continue;
      const bool number = program.regs[r].kind != lower::RegKind::pred;
      if (number && l.constant && l.chunks == 1) {
        kept_at[r] = kConstant;
      } else if (copied_at[r] != lower::kNone && program.regs[r].kind == lower::RegKind::word && l.chunks == 1) {
        kept_at[r] = kSpecial;
      } else if (used + 8 * l.chunks <= int32_t(exec::kKeptBytes)) {
        kept_at[r] = used;
        used += 8 * l.chunks;
      }
    }
  }
}

}  // namespace orrery::jit
