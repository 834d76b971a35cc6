// sanitize/asynccheck_barriers.cc: mbarriers and tensor maps; see asynccheck.h.
#include <fmt/format.h>

#include <bit>

#include "exec/mbarrier.h"
#include "exec/mbarrier_store.h"
#include "exec/run_state.h"
#include "exec/wait_graph.h"
#include "sanitize/asynccheck.h"
#include "sanitize/region.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Mod;

namespace {

uint64_t offset_of(const CtaContext& any, const uint64_t* word) {
  uint64_t offset = 0;
  shared_owner(any, word, &offset);
  return offset;
}

}  // namespace

/// The mbarrier must be there for whoever uses it: initialised, and that known to the warp.
void Asynccheck::use_of(Resident& r, MbarrierState& m, const MbarrierEvent& e) {
  const Moment here = r.order->now(e.where, e.lane);
  const uint64_t offset = offset_of(*e.where.warp->cta, e.word);
  if (!m.live) {
    if (m.init.warp >= 0 || mbarrier::live(e.before)) return;  // invalidated, or made by an earlier block: the fault says it
    report("mbarrier-init", here, fmt::format("this uses the mbarrier at byte {} of shared memory, which nobody has initialised yet", offset - lower::kSharedStart),
           "initialise it first, then a barrier (of the cluster when its other blocks use it)", {}, offset);
    return;
  }
  if (e.by_copy || r.order->knows_init(here.warp, m)) return;
  report("mbarrier-init", here, "this uses an mbarrier whose initialisation by another warp nothing orders before it",
         here.where.warp->cta == m.init.where.warp->cta ? "put __syncthreads() between the initialisation and the first use by other warps"
                                                       : "put fence.mbarrier_init.release.cluster and a cluster barrier between the initialisation and the first use by another block",
         {{"is initialised here", m.init}}, offset);
  m.init.warp = here.warp, m.init.clock = 0;  // once
}

void Asynccheck::mbarrier(const MbarrierEvent& e) {
  if (!relevant_) return;
  Resident& r = at(e.where);
  MbarrierState& m = r.order->mbarrier(e.word);
  const int warp = r.order->warp_of(*e.where.warp);
  const Moment here = r.order->now(e.where, e.lane);
  const uint64_t offset = offset_of(*e.where.warp->cta, e.word);
  if (e.op == MbarrierOp::init) {
    if (m.live)
      report("mbarrier-reinit", here, fmt::format("this initialises the mbarrier at byte {} of shared memory again while it is live", offset - lower::kSharedStart),
             "execute mbarrier.inval first (and a barrier, so that nobody still uses it)", {{"was initialised here", m.init}}, offset);
    if (e.count == 0 || e.count > mbarrier::kMaxCount)
      report("mbarrier-count", here, fmt::format("this initialises the mbarrier at byte {} of shared memory for {} arrivals: 1 to {} are possible, and of this one no phase will end", offset - lower::kSharedStart, e.count, mbarrier::kMaxCount),
             "give the number of arrivals that end a phase", {}, offset);
    uint64_t at = 0;
    if (const CtaContext* owner = shared_owner(*e.where.warp->cta, e.word, &at)) {
      AsyncShadow& s = shadow(r, *owner);
      s.barriers_from = std::min(s.barriers_from, at), s.barriers_to = std::max(s.barriers_to, at + 8);
    }
    const uint32_t component = m.component;
    const uint32_t base = m.phases;  // what warps know of earlier phases must not count for the new ones
    m = MbarrierState{};
    m.component = component;
    m.phases = m.first = base;
    m.passed.resize(r.order->warps());
    m.waited.assign(r.order->warps(), base);
    m.arrived.assign(r.order->warps(), 0);
    m.live = true;
    m.init = here;
    m.barriers = r.order->barriers();
    return;
  }
  if (e.op == MbarrierOp::inval) {
    m.live = false;
    return;
  }
  use_of(r, m, e);
  if (e.refused && (e.op == MbarrierOp::arrive || e.op == MbarrierOp::arrive_drop) && mbarrier::live(e.before)) {
    if (mbarrier::pending(e.before) == 0) check_waits_before(r, m, here);  // often the cause
    report("arrival-count", here, fmt::format("{} arrivals on an mbarrier that waits for {} more in this phase", e.count, mbarrier::pending(e.before)),
           "initialise it for as many arrivals as come in one phase, or wait for the phase before", {{"is initialised here", m.init}}, offset);
  }
  if (e.op == MbarrierOp::test) {
    if (!e.passed) return;
    const uint32_t mine = m.arrived[size_t(warp)];
    if (mine == m.phases + 1 && mbarrier::pending(e.before) == 0)
      report("parity", here, fmt::format("this wait for parity {} passes because of phase {}, which was complete before; this warp has arrived in phase {}, which is not complete", e.phase, int64_t(m.phases) - 1, m.phases),
             "flip the parity every time the mbarrier completes a phase", {}, offset);
    else check_wait(r, m, e, here);
    r.order->passed(warp, m);
    return;
  }
  if (e.op == MbarrierOp::complete_tx) {
    m.bytes = here;
    if (!e.by_copy) r.order->needs(m, warp);
  }
  if (e.op == MbarrierOp::arrive || e.op == MbarrierOp::arrive_drop) {
    if (e.by_copy) {  // cp.async.mbarrier.arrive: the thread's earlier copies are complete with this phase
      for (uint32_t id : r.pending[e.where.warp])
        if (r.operations[id].kind == AsyncKind::cp_async && (r.operations[id].lanes >> e.lane & 1)) r.operations[id].phases.emplace_back(&m, m.phases);
    }
    const isa::Form& f = e.where.code->program->code[e.where.pc].form;
    r.order->arrive(warp, m, f.has(Mod::relaxed));
  }
  if (mbarrier::phase(e.before) == mbarrier::phase(e.after)) return;
  check_waits_before(r, m, here);
  r.order->phase_done(m);
}

/// A wait that passed by a phase's parity: it may have come before the phase of the other parity in between was complete,
/// unless its warp knew of that.
void Asynccheck::check_wait(Resident& r, MbarrierState& m, const MbarrierEvent& e, const Moment& here) {
  if (!e.where.code->program->code[e.where.pc].form.has(Mod::parity)) return;
  m.passed[size_t(here.warp)] = here;
  const uint32_t known = std::max(m.first, r.order->phases_known(here.warp, m));
  if (m.phases < known + 2) return;
  const uint32_t met = m.phases - m.first;  // of this initialisation
  report("parity", here,
         fmt::format("this wait for parity {} passes when {} phases are complete, and nothing tells this warp that the one before, phase {}, was: had it come before the end of that, it would have passed because of {}",
                     e.phase, met, met - 2, met > 2 ? fmt::format("phase {}", met - 3) : "the parity that a new mbarrier has"),
         "wait for every phase in turn, or let those who wait for the phases in between tell this warp (an mbarrier, a barrier) before it waits", {{"is initialised here", m.init}},
         offset_of(*e.where.warp->cta, e.word));
}

/// A phase ends: waits that passed because of the one before must have come before that for certain. Later ones would wait
/// for the phase after this one.
void Asynccheck::check_waits_before(Resident& r, MbarrierState& m, const Moment& here) {
  for (Moment& wait : m.passed) {
    if (wait.warp < 0) continue;
    const bool certain = m.waited[size_t(wait.warp)] != m.phases || r.order->ends_after(m, wait);
    if (!certain)
      report("parity", wait, fmt::format("this wait passes because of {}, and nothing orders it before the end of phase {}: had it come later, it would have waited for the end of phase {}",
                                       m.phases > m.first ? fmt::format("phase {}", m.phases - m.first - 1) : "the parity that a new mbarrier has", m.phases - m.first, m.phases - m.first + 1),
             "wait once for every phase, and arrive (here or on the mbarrier that the next phase waits for) after the wait", {{"the next phase ends here", here}, {"is initialised here", m.init}});
    wait.warp = -1;
  }
}

/// The asynchronous proxy must see the initialisation of the mbarrier that it is to tell. Two orders without its fence are
/// accepted unless strict, because NVIDIA ships them. Where the block has met since, a bulk copy inside one block:
/// cuda::memcpy_async. Where the cluster has met since, with an arrival that releases: tutorials and tests of CUTLASS; the
/// fence for this, fence.mbarrier_init.release.cluster, is by its definition that release, restricted to initialisations.
void Asynccheck::check_bar(Resident& r, const AsyncEvent& e) {
  if (e.kind != AsyncKind::bulk && e.kind != AsyncKind::tensor) return;
  MbarrierState& m = r.order->mbarrier(e.mbarrier);
  const Moment here = r.order->now(e.where, e.lane);
  if (!m.live || m.fenced || r.order->knows_fenced(here.warp, m.init)) return;
  const bool met = r.order->barriers() > m.barriers && r.order->knows(here.warp, m.init);
  if (!options_.strict && m.open) return;
  if (!options_.strict && met && e.kind == AsyncKind::bulk && e.where.warp->cta->cluster->n == 1) return;
  report("mbarrier-init", here, "this copy tells an mbarrier whose initialisation no fence has made visible to the asynchronous proxy",
         "after mbarrier.init execute fence.mbarrier_init.release.cluster, or fence.proxy.async", {{"is initialised here", m.init}}, offset_of(*e.where.warp->cta, e.mbarrier));
  m.fenced = true;
}

void Asynccheck::change_map(Resident& r, const Access& a) {
  const int lane = std::countr_zero(a.where.mask);
  const Target t = find_target(a.where, a.space, a.address[lane], lane);
  if (t.region == Region::global) maps_[a.address[lane]] = {r.order->now(a.where, lane), a.where.warp->cta->cluster, {}};
}

/// A tensor map that this kernel has changed must be read behind a fence.proxy.tensormap.
void Asynccheck::check_map(Resident& r, const AsyncEvent& e) {
  const auto it = maps_.find(reinterpret_cast<uint64_t>(e.tensor_map));
  if (it == maps_.end()) return;
  const Moment here = r.order->now(e.where, e.lane);
  for (const auto& [cluster, fence] : it->second.fences)
    if (cluster == r.cluster && r.order->knows(here.warp, fence)) return;
  report("stale-tensor-map", here, "this copy uses a tensor map that the kernel has changed, and no fence.proxy.tensormap stands in between: it may use the map as it was before",
         "fence.proxy.tensormap::generic.release by the thread that changes it, fence.proxy.tensormap::generic.acquire [map], 128 before it is used", {{"is changed here", it->second.change}}, it->first);
  maps_.erase(it);
}

/// At the end of a block no mbarrier may be left with bytes that nobody announced, or that never came.
void Asynccheck::left_bytes(Resident& r, const CtaContext& cta) {
  for (auto& [word, m] : r.order->mbarriers()) {
    uint64_t offset = 0;
    if (!m.live || shared_owner(cta, word, &offset) != &cta) continue;
    const uint64_t bits = cta.cluster->mbarriers->peek(word);
    if (!mbarrier::live(bits) || mbarrier::bytes(bits) == 0) continue;
    const int64_t bytes = mbarrier::bytes(bits);
    const Moment& here = m.bytes.where.warp ? m.bytes : m.init;
    report("transaction-bytes", here,
           bytes < 0 ? fmt::format("{} bytes have come to the mbarrier at byte {} of shared memory that no expect_tx announced: its phases end before the copies are there", -bytes, offset - lower::kSharedStart)
                     : fmt::format("{} bytes that expect_tx announced on the mbarrier at byte {} of shared memory have not come when the block ends", bytes, offset - lower::kSharedStart),
           "let expect_tx name the bytes of all copies of the phase, and tell the mbarrier that the consumers wait for", {{"is initialised here", m.init}}, offset);
    m.live = false;
  }
}

/// A hang on an mbarrier may come from a wait for the wrong parity, or from bytes that went to another mbarrier.
void Asynccheck::hang(const RunState&, const WaitGraph& graph, const std::string&) {
  if (!relevant_) return;
  for (auto& [cluster, r] : resident_)
    for (uint32_t k = 0; k < cluster->n; k++) {
      const CtaContext& cta = *cluster->ctas[k];
      for (const Waiter& w : graph.waiters) {
        if (w.resource < 0 || graph.resources[size_t(w.resource)].kind != WaitKind::mbarrier || !std::equal(w.block, w.block + 3, cta.ctaid)) continue;
        const Resource& x = graph.resources[size_t(w.resource)];
        MbarrierState* m = r.order->find(reinterpret_cast<const uint64_t*>(cta.shared + x.address));
        if (!m || !m->live || !std::equal(x.block, x.block + 3, cta.ctaid)) continue;
        const uint32_t* dim = cta.launch->block;
        const uint32_t thread = w.first_thread[0] + dim[0] * (w.first_thread[1] + dim[1] * w.first_thread[2]);
        const size_t warp = cta.cluster_rank * cta.n_warps + thread / 32;
        const bool overtaken = m->phases >= m->waited[warp] + 2, arrived_before = m->phases && m->arrived[warp] == m->phases;
        if (!overtaken && !arrived_before) continue;
        Finding f;
        f.check = "asynccheck";
        f.kind = "parity";
        f.message = fmt::format("{} for {}, which has completed {} phases; {}", w.who + " waits", x.name, m->phases,
                                overtaken ? fmt::format("the warp has seen {} of them, so the phase that it waits for has been overtaken: more arrivals come than one phase takes, or a wait was left out", m->waited[warp])
                                          : "the warp arrived in the last of them, and asks for the next one: the parity of the wait was not flipped, or was flipped once too often");
        f.remedy = "wait once for every phase, with a parity that flips every time";
        f.place.kernel = graph.kernel;
        f.place.source_file = w.place.file;
        f.place.source_line = w.place.source_line;
        f.place.ptx_line = w.place.ptx_line;
        f.place.instruction = w.place.instruction;
        f.place.in_kernel = true;
        std::copy_n(w.block, 3, f.place.block);
        std::copy_n(w.first_thread, 3, f.place.thread);
        if (m->init.where.warp) f.others.push_back({"is initialised here", place_of(m->init.where, m->init.lane), ""});
        collector_.add(std::move(f));
      }
    }
}

}  // namespace orrery::sanitize
