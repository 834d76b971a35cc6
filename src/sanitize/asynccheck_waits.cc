// sanitize/asynccheck_waits.cc: groups of operations, waits for them, fences, and the registers of wgmma; see asynccheck.h.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "exec/run_state.h"
#include "exec/stepper.h"
#include "sanitize/asynccheck.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Mod;
using isa::Op;

void Asynccheck::registers(const Where& where) {
  if (!relevant_ || where.call) return;
  Resident& r = at(where);
  const auto it = r.registers.find(where.warp);
  if (it == r.registers.end()) return;
  const auto wrong = it->second.use(where);
  if (!wrong) return;
  report("wgmma-register", r.order->now(where, std::countr_zero(where.mask)),
         fmt::format("this {} {}, {} of a wgmma that may still run{}", wrong->writes ? "writes" : "reads", wrong->name, wrong->accumulator ? "an accumulator" : "an A register",
                     wrong->uncommitted ? ": no wgmma.commit_group has put it into a group, so no wait covers it" : ""),
         wrong->uncommitted ? "wgmma.commit_group, then wgmma.wait_group, before the registers are used" : "wgmma.wait_group before the registers are used", {{"the wgmma was issued here", wrong->issue}});
}

void Asynccheck::barrier_arrive(const Where& where, uint32_t number, uint32_t, bool waits) {
  if (relevant_) at(where).order->barrier_arrive(*where.warp->cta, number, at(where).order->warp_of(*where.warp), waits);
}
void Asynccheck::barrier_complete(const CtaContext& cta, uint32_t number) {
  if (relevant_) at(cta).order->barrier_complete(cta, number);
}
void Asynccheck::cluster_arrive(const Where& where, bool relaxed) {
  if (relevant_) at(where).order->cluster_arrive(at(where).order->warp_of(*where.warp), relaxed);
}
void Asynccheck::cluster_complete(const ClusterContext& cluster) {
  if (relevant_) at(*cluster.ctas[0]).order->cluster_complete();
}

/// The lanes of `where` wait until at most `left` of their groups are in flight.
void Asynccheck::wait_group(Resident& r, const Where& where, AsyncKind kind, bool bulk, uint32_t left, bool reads_only) {
  const std::vector<uint32_t>& done = committed(r, *where.warp, kind);
  const Moment now = r.order->now(where, std::countr_zero(where.mask));
  std::erase_if(r.pending[where.warp], [&](uint32_t id) {
    Operation& o = r.operations[id];
    if ((o.kind == AsyncKind::cp_async) == bulk || o.kind == AsyncKind::wgmma) return false;
    const uint32_t lanes = o.lanes & where.mask;
    if (!lanes || o.group + left >= done[size_t(std::countr_zero(lanes))]) return false;
    if (reads_only) return o.read_done.push_back(now), false;
    o.waited |= lanes;
    if (o.waited != o.lanes) return false;
    return o.done.push_back(now), true;
  });
}

void Asynccheck::wait_wgmma(Resident& r, const Where& where, uint32_t left) {
  r.registers[where.warp].wait(left);
  const uint32_t done = committed(r, *where.warp, AsyncKind::wgmma)[0];
  const Moment now = r.order->now(where, std::countr_zero(where.mask));
  std::erase_if(r.pending[where.warp], [&](uint32_t id) {
    Operation& o = r.operations[id];
    if (o.kind != AsyncKind::wgmma || o.group + left >= done) return false;
    return o.done.push_back(now), true;
  });
}

void Asynccheck::fence(Resident& r, const Where& where) {
  const isa::Form& f = where.code->program->code[where.pc].form;
  const int warp = r.order->warp_of(*where.warp);
  if (f.has(Mod::mbarrier_init)) {
    for (auto& [word, m] : r.order->mbarriers()) m.fenced |= m.live && r.order->knows(warp, m.init);
  } else if (f.has(Mod::tensormap_generic) && f.has(Mod::acquire)) {
    for (auto& [address, map] : maps_) map.fences.emplace_back(where.warp->cta->cluster, r.order->now(where, std::countr_zero(where.mask)));
  } else if (f.has(Mod::proxy)) {
    r.order->fence(warp);
  } else {
    r.order->strong(warp, true, true);
  }
}

void Asynccheck::instruction(const Where& where) {
  if (!relevant_) return;
  Resident& r = at(where);
  const ptx::Instr& in = where.code->program->code[where.pc];
  const auto number = [&] { return in.ops.empty() ? 0u : uint32_t(in.ops[0].value); };
  const auto commit = [&](AsyncKind kind) {
    for_lanes(where.mask, [&](int lane) { committed(r, *where.warp, kind)[size_t(lane)]++; });
  };
  switch (in.form.op) {
    case Op::fence: case Op::membar: return fence(r, where);
    case Op::cp_async_commit_group: return commit(AsyncKind::cp_async);
    case Op::cp_async_bulk_commit_group: return commit(AsyncKind::bulk);
    case Op::cp_async_wait_group: return wait_group(r, where, AsyncKind::cp_async, false, number(), false);
    case Op::cp_async_wait_all:
      commit(AsyncKind::cp_async);
      return wait_group(r, where, AsyncKind::cp_async, false, 0, false);
    case Op::cp_async_bulk_wait_group: return wait_group(r, where, AsyncKind::bulk, true, number(), in.form.has(Mod::read));
    case Op::wgmma_fence: return r.registers[where.warp].fence();
    case Op::wgmma_commit_group:
      r.registers[where.warp].commit();
      return void(committed(r, *where.warp, AsyncKind::wgmma)[0]++);
    case Op::wgmma_wait_group: return wait_wgmma(r, where, number());
    default: return;
  }
}

}  // namespace orrery::sanitize
