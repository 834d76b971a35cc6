// exec/ops_sync.cc: barriers of a block and of a cluster, fences.
//
// Fences do nothing: every access is carried out in program order by one host thread per block, and host atomics are
// sequentially consistent. (What a missing fence would do on the GPU is the business of `check`.)
// Source: PTX ISA manual, bar/barrier, barrier.cluster, membar/fence.
#include "exec/interpreter.h"
#include "exec/stepper.h"

namespace orrery::exec {

using isa::Mod;
using isa::Op;

namespace {

void complete(CtaContext& cta, int number) {
  Barrier& b = cta.barriers[number];
  b.last_and = b.and_, b.last_or = b.or_, b.last_count = b.count;
  b.and_ = 1, b.or_ = 0, b.count = 0;
  b.arrived = b.expected = 0;
  b.open = false;
  b.phase++;
  if (Observer* o = cta.launch->run->machine.observer) o->barrier_complete(cta, uint32_t(number));
  for (uint32_t w = 0; w < cta.n_warps; w++) {
    cta.partial[uint32_t(number) * cta.n_warps + w] = 0;
    WarpContext& warp = cta.warps[w];
    for (uint32_t i = 0; i < warp.n_groups; i++) {
      Group& g = warp.groups[i];
      if (g.state == GroupState::barrier && g.barrier == number) g.state = GroupState::ready;
    }
  }
}

uint32_t live_warps(const CtaContext& cta) {
  if (cta.live_threads == cta.n_threads) return cta.n_warps;
  uint32_t n = 0;
  for (uint32_t w = 0; w < cta.n_warps; w++) n += cta.warps[w].live != 0;
  return n;
}

void check(CtaContext& cta, int number) {
  const Barrier& b = cta.barriers[number];
  if (!b.open) return;
  const uint32_t expected = b.expected ? b.expected : 32 * live_warps(cta);
  if (b.arrived >= expected) complete(cta, number);
}

void arrive(Stepper& s, int number, uint32_t expected) {
  Barrier& b = s.cta.barriers[number];
  b.open = true;
  s.cta.used_barriers |= 1u << number;
  if (expected) b.expected = expected;
  uint32_t& partial = s.cta.partial[uint32_t(number) * s.cta.n_warps + s.w.warp_id];
  const uint32_t before = uint32_t(std::popcount(partial));
  if (s.mask == s.w.live && !partial) {
    b.arrived += 32;
  } else {
    partial |= s.mask;
    if ((partial & s.w.live) == s.w.live) b.arrived += 32 - before, partial = 0;
    else b.arrived += uint32_t(std::popcount(partial)) - before;
  }
}

void set_result(Stepper& s, const Ref& r, const isa::Form& f, const Barrier& b, uint32_t mask) {
  std::byte* p = s.frame + r.offset;
  if (f.has(Mod::popc)) {
    for_lanes(mask, [&](int l) { reinterpret_cast<uint32_t*>(p)[l] = b.last_count; });
    return;
  }
  const uint32_t v = (f.has(Mod::and_) ? b.last_and : b.last_or) ? ~0u : 0;
  uint32_t& m = *reinterpret_cast<uint32_t*>(p);
  m = (m & ~mask) | (v & mask);
}

/// bar and barrier: .sync, .arrive, .red.{popc,and,or}. A group that waits for a reduction stays at the instruction
/// (Group::reduction) and takes the result when it runs again.
Next op_barrier(Stepper& s, const Decoded& d) {
  const isa::Form& f = d.instr->form;
  const bool red = f.has(Mod::red);
  int at = d.n_dst;
  const int leader = std::countr_zero(s.mask);
  const uint64_t number = s.value(s.ref(d, at), 0, leader);
  if (number > 15) return s.fault(FaultKind::illegal_instruction, leader, 0, fmt::format("barrier {} does not exist; there are 16", number));
  const int n_src = d.n_src - (red ? 1 : 0);
  const uint32_t expected = n_src > 1 ? uint32_t(s.value(s.ref(d, at + 1), 1, leader)) : 0;
  if (expected % 32) return s.fault(FaultKind::illegal_instruction, leader, 0, fmt::format("barrier thread count {} is not a multiple of 32", expected));
  Barrier& b = s.cta.barriers[number];
  Group& g = *s.group;
  if (g.reduction) {  // woken: the phase has completed
    set_result(s, s.ref(d, 0), f, b, s.mask);
    g.reduction = false;
    return Next::next;
  }
  if (red) {
    const Ref& p = s.ref(d, at + n_src);
    const uint32_t bits = s.words(p, 2)[0] & s.mask;
    b.and_ &= bits == s.mask;
    b.or_ |= bits != 0;
    b.count += uint32_t(std::popcount(bits));
  }
  if (Observer* o = s.observer()) o->barrier_arrive(s.where(), uint32_t(number), expected, !f.has(Mod::arrive));
  arrive(s, int(number), expected);
  if (f.has(Mod::arrive)) {
    check(s.cta, int(number));
    return Next::next;
  }
  if (s.mask != g.mask) {  // guarded: the others go on
    Group rest = g;
    rest.mask = g.mask & ~s.mask;
    rest.pc = s.pc + 1;
    add_group(s.w) = rest;
    g.mask = s.mask;
  }
  g.state = GroupState::barrier;
  g.barrier = uint8_t(number);
  g.pc = red ? s.pc : s.pc + 1;
  g.reduction = red;
  check(s.cta, int(number));
  return Next::regroup;
}

Next op_barrier_cluster(Stepper& s, const Decoded& d) {
  ClusterContext* c = s.cta.cluster;
  if (!c) return Next::next;
  const isa::Form& f = d.instr->form;
  if (f.has(Mod::arrive)) {
    if (Observer* o = s.observer()) o->cluster_arrive(s.where(), f.has(Mod::relaxed));
    c->arrived += uint32_t(std::popcount(s.mask & ~s.w.cluster_arrived));
    s.w.cluster_arrived |= s.mask;
    s.w.cluster_phase = c->phase & 1 ? s.w.cluster_phase | s.mask : s.w.cluster_phase & ~s.mask;
    check_cluster_barrier(*c);
    return Next::next;
  }
  if (Observer* o = s.observer()) o->cluster_wait(s.where());
  if (((c->phase & 1 ? ~s.w.cluster_phase : s.w.cluster_phase) & s.mask) == s.mask) return Next::next;
  if (!s.group) return Next::block;  // compiled code
  s.group->state = GroupState::cluster;
  s.group->pc = s.pc + 1;
  return Next::regroup;
}

Next op_fence(Stepper&, const Decoded&) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  return Next::next;
}

}  // namespace

bool is_plain_barrier(const ptx::Instr& in) {
  const isa::Form& f = in.form;
  if ((f.op != Op::bar && f.op != Op::barrier) || f.has(Mod::red) || f.has(Mod::arrive) || in.guard.reg != ptx::kNoReg) return false;
  return in.ops.size() == 1 && in.ops[0].kind == ptx::OperandKind::imm && uint64_t(in.ops[0].value) <= 15;
}

void tell_arrival(Observer& o, const WarpContext& w, uint32_t pc, uint32_t number) {
  const RunState* run = w.cta->launch->run;
  o.barrier_arrive({run, &w, run->kernel.entry.get(), nullptr, pc, w.live}, number, 0, true);
}

bool arrive_together(WarpContext& w, const Decoded& d) {
  if (!is_plain_barrier(*d.instr)) return false;
  CtaContext& cta = *w.cta;
  const uint32_t number = uint32_t(d.instr->ops[0].value);
  if (cta.partial[number * cta.n_warps + w.warp_id]) return false;
  Group& g = w.groups[0];
  Barrier& b = cta.barriers[number];
  if (Observer* o = cta.launch->run->machine.observer; o && (o->wants() & kObserveSync)) tell_arrival(*o, w, g.pc, number);
  w.instructions++;
  g.pc++;
  g.state = GroupState::barrier;
  g.barrier = uint8_t(number);
  b.open = true;
  cta.used_barriers |= 1u << number;
  b.arrived += 32;
  check(cta, int(number));
  return true;
}

void fill_partial_arrivals(WarpContext& w) {
  CtaContext& cta = *w.cta;
  for (uint32_t used = cta.used_barriers; used; used &= used - 1) {
    const uint32_t number = uint32_t(std::countr_zero(used));
    uint32_t& partial = cta.partial[number * cta.n_warps + w.warp_id];
    if (!partial || (partial & w.live) != w.live) continue;
    cta.barriers[number].arrived += 32 - uint32_t(std::popcount(partial));
    partial = 0;
  }
}

void check_barriers(CtaContext& cta) {
  for (int i = 0; i < 16; i++) check(cta, i);
}

void check_cluster_barrier(ClusterContext& c) {
  // Threads that have exited count as arrived: `arrived` and `live_threads` are of those that have not.
  if (c.arrived < c.live_threads || c.live_threads == 0) return;
  c.arrived = 0;
  c.phase++;
  if (Observer* o = c.ctas[0]->launch->run->machine.observer) o->cluster_complete(c);
  for (uint32_t k = 0; k < c.n; k++)
    for (uint32_t w = 0; w < c.ctas[k]->n_warps; w++) {
      WarpContext& warp = c.ctas[k]->warps[w];
      warp.cluster_arrived = 0;
      for (uint32_t i = 0; i < warp.n_groups; i++)
        if (warp.groups[i].state == GroupState::cluster) warp.groups[i].state = GroupState::ready;
    }
}

Handler find_sync_handler(const isa::Form& form) {
  switch (form.op) {
    case Op::bar: case Op::barrier: return op_barrier;
    case Op::barrier_cluster: return op_barrier_cluster;
    case Op::membar: case Op::fence: return op_fence;
    default: return nullptr;
  }
}

}  // namespace orrery::exec
