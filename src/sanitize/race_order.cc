// sanitize/race_order.cc: see race_order.h.
#include "sanitize/race_order.h"

#include <algorithm>
#include <bit>

#include "exec/decode.h"
#include "exec/run_state.h"
#include "isa/form.h"

namespace orrery::sanitize {

using namespace exec;

BlockOrder& RaceOrder::block(const CtaContext& cta) {
  if (&cta != last_cta_) {
    auto& b = blocks_[&cta];
    if (!b) b = std::make_unique<BlockOrder>();
    last_cta_ = &cta;
    last_ = b.get();
  }
  return *last_;
}

void RaceOrder::block_begin(const CtaContext& cta, uint32_t serial, uint32_t cluster, const RunState* run) {
  BlockOrder& b = block(cta);
  b.serial = serial;
  b.cluster = cluster;
  b.run = run;
  b.fenced = false;
  b.met = 0;
  b.cluster_pending = b.cluster_done = nullptr;
  for (auto& gather : b.barriers) gather = {};
  for (auto& arrivals : b.arrivals) arrivals.now.clear(), arrivals.before.clear();
  b.warps.resize(cta.n_warps);
  for (uint32_t w = 0; w < cta.n_warps; w++) {
    WarpOrder& warp = b.warps[w];
    warp.fences.clear();
    warp.clock = {};
    warp.quick_known = nullptr;
    warp.quick_own = nullptr;
    warp.clock.block = serial;
    warp.clock.first_thread = uint16_t(32 * w);
  }
  const uint64_t first = reinterpret_cast<uint64_t>(cta.shared);
  std::erase_if(phases_, [&](const auto& p) { return reinterpret_cast<uint64_t>(p.first) - first < cta.shared_bytes; });
  std::erase_if(shared_keys_, [&](uint64_t key) {
    const bool here = key - first < cta.shared_bytes;
    if (here) locations_.erase(key);
    return here;
  });
}

void RaceOrder::launch_end(const RunState& run) {
  std::erase_if(blocks_, [&](const auto& b) { return b.second->run == &run; });
  last_cta_ = nullptr;
  locations_.clear();
  shared_keys_.clear();
  phases_.clear();
}

KnowledgePtr RaceOrder::lane_past(WarpOrder& w, int lane, const KnowledgePtr& known, uint32_t clock) {
  BlockKnowledge own;
  own.add_thread(uint16_t(w.clock.first_thread + lane), clock);
  auto past = std::make_shared<Knowledge>();
  past->blocks.emplace_back(w.clock.block, std::make_shared<BlockKnowledge>(std::move(own)));
  return join(known, past);
}

// ---- barriers ----

namespace {

/// All that a lane knows of the order of others, also what only strong accesses and control flow tell.
bool knows_of(const WarpOrder& w, int lane, uint32_t block, uint16_t thread, uint32_t clock) {
  const auto holds = [&](const KnowledgePtr& k) { return k && k->knows(block, thread, clock); };
  if (holds(w.clock.of(lane))) return true;
  if (w.fences.empty()) return false;
  const LaneFence& f = w.fences[size_t(lane)];
  return holds(f.seen) || holds(f.seen_narrow) || holds(f.gathered) || holds(f.depends);
}

/// Whether every lane of `b` comes after the first lane of `a`.
bool comes_after(const BarrierArrival& a, const WarpOrder& w, const Where& b) {
  if (a.where.warp == b.warp && !(b.mask & ~a.where.mask)) return true;
  const uint16_t thread = uint16_t(a.where.warp->warp_id * 32 + uint32_t(std::countr_zero(a.where.mask)));
  for (uint32_t m = b.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    if (a.where.warp == b.warp && (a.where.mask >> lane & 1)) continue;
    if (!knows_of(w, lane, w.clock.block, thread, a.clock)) return false;
  }
  return true;
}

}  // namespace

const BarrierArrival* RaceOrder::barrier_arrive(const Where& where, uint32_t number, uint32_t expected) {
  BlockOrder& b = block(*where.warp->cta);
  WarpOrder& w = b.warps[where.warp->warp_id];
  const BarrierArrival* unordered = nullptr;
  if (expected && expected < where.warp->cta->n_threads) {
    BlockOrder::Arrivals& arrivals = b.arrivals[number & 15];
    for (const BarrierArrival& before : arrivals.before)
      if (!unordered && !comes_after(before, w, where)) unordered = &before;
    arrivals.now.push_back({where, w.clock.clock});
  }
  BlockOrder::Gather& gather = b.barriers[number & 15];
  if (!w.fences.empty())
    for (uint32_t m = where.mask; m; m &= m - 1) {
      const int lane = std::countr_zero(m);
      LaneFence& f = w.fences[size_t(lane)];
      gather.published = join(gather.published, f.gathered);
      gather.seen = join(gather.seen, f.seen);
      gather.depends = join(gather.depends, f.depends);
      if (f.published_clock) gather.published = join(gather.published, lane_past(w, lane, f.published, f.published_clock));
    }
  if (w.clock.uniform && (where.mask & where.warp->live) == where.warp->live) {
    // As release() would do, but that the barrier adds the pasts of all warps at once.
    gather.known = join(gather.known, w.clock.common);
    gather.whole.emplace_back(where.warp->warp_id, w.clock.clock++);
  } else {
    gather.known = join(gather.known, release(w.clock, where.mask, where.warp->live));
  }
  return unordered;
}

namespace {

/// `known` and the pasts of whole warps of a block.
KnowledgePtr with_pasts(const KnowledgePtr& known, uint32_t block, const std::vector<std::pair<uint32_t, uint32_t>>& warps) {
  if (warps.empty()) return known;
  auto own = std::make_shared<BlockKnowledge>();
  auto sum = known ? std::make_shared<Knowledge>(*known) : std::make_shared<Knowledge>();
  auto it = std::lower_bound(sum->blocks.begin(), sum->blocks.end(), block, [](const auto& e, uint32_t b) { return e.first < b; });
  if (it != sum->blocks.end() && it->first == block) *own = *it->second;
  else it = sum->blocks.insert(it, {block, nullptr});
  for (const auto& [warp, clock] : warps) own->add_warp(warp, clock);
  it->second = std::move(own);
  return sum;
}

}  // namespace

void RaceOrder::barrier_complete(const CtaContext& cta, uint32_t number) {
  BlockOrder& b = block(cta);
  BlockOrder::Arrivals& arrivals = b.arrivals[number & 15];
  arrivals.before.swap(arrivals.now);
  arrivals.now.clear();
  BlockOrder::Gather& kept = b.barriers[number & 15];
  BlockOrder::Gather gather = std::move(kept);
  gather.known = with_pasts(gather.known, b.serial, gather.whole);
  gather.whole.clear();
  kept = {};
  kept.whole = std::move(gather.whole);  // its memory
  for (uint32_t i = 0; i < cta.n_warps; i++) {
    const WarpContext& w = cta.warps[i];
    uint32_t mask = 0;
    for (uint32_t g = 0; g < w.n_groups; g++)
      if (w.groups[g].state == GroupState::barrier && w.groups[g].barrier == number) mask |= w.groups[g].mask;
    if (!mask) continue;
    assign(b.warps[i].clock, mask, w.live, gather.known);
    if (!gather.published && !gather.seen && !gather.depends) continue;
    for (uint32_t m = mask; m; m &= m - 1) {
      LaneFence& f = b.warps[i].fence(std::countr_zero(m));
      f.gathered = join(f.gathered, gather.published);
      f.seen = join(f.seen, gather.seen);
      f.depends = join(f.depends, gather.depends);
    }
  }
}

/// What all warps of a block know of it, when nobody but they holds that: then it can grow where it is.
static BlockKnowledge* sole_knowledge(const BlockOrder& b, const KnowledgePtr& common) {
  if (!common) return nullptr;
  long holders = 0;
  for (const WarpOrder& w : b.warps) holders += 1 + (w.quick_known == common);
  if (common.use_count() != holders) return nullptr;
  for (const auto& [serial, known] : common->blocks)
    if (serial == b.serial) return known.use_count() == 1 && known->lanes.empty() ? const_cast<BlockKnowledge*>(known.get()) : nullptr;
  return nullptr;
}

bool RaceOrder::quick_barrier(const CtaContext& cta, uint32_t number) {
  BlockOrder& b = block(cta);
  BlockOrder::Gather& gather = b.barriers[number & 15];
  BlockOrder::Arrivals& arrivals = b.arrivals[number & 15];
  if (gather.known || !gather.whole.empty() || !arrivals.now.empty()) return false;
  const KnowledgePtr& common = b.warps[0].clock.common;
  for (const WarpOrder& w : b.warps)
    if (!w.fences.empty() || !w.clock.uniform || w.clock.common != common) return false;
  for (uint32_t i = 0; i < cta.n_warps; i++)
    if (cta.warps[i].live) gather.whole.emplace_back(i, b.warps[i].clock.clock++);
  arrivals.before.clear();
  if (BlockKnowledge* own = gather.whole.size() == b.warps.size() ? sole_knowledge(b, common) : nullptr) {
    for (const auto& [warp, clock] : gather.whole) own->add_warp(warp, clock);
    gather.whole.clear();
    return true;
  }
  const KnowledgePtr met = with_pasts(common, b.serial, gather.whole);
  for (uint32_t i = 0; i < cta.n_warps; i++)
    if (cta.warps[i].live) b.warps[i].clock.common = met;
  gather.whole.clear();
  return true;
}

void RaceOrder::warp_sync(const Where& where) {
  WarpOrder& w = warp(where);
  if (!(where.mask & (where.mask - 1))) return;
  const KnowledgePtr k = release(w.clock, where.mask, where.warp->live);
  assign(w.clock, where.mask, where.warp->live, k);
  if (w.fences.empty()) return;
  KnowledgePtr published;
  for (uint32_t m = where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    const LaneFence& f = w.fences[size_t(lane)];
    published = join(published, f.gathered);
    if (f.published_clock) published = join(published, lane_past(w, lane, f.published, f.published_clock));
  }
  if (!published) return;
  for (uint32_t m = where.mask; m; m &= m - 1) w.fences[size_t(std::countr_zero(m))].gathered = published;
}

void RaceOrder::exchange(const Where& where) {
  WarpOrder& w = warp(where);
  if (w.fences.empty()) return;
  KnowledgePtr depends;
  for (uint32_t m = where.mask; m; m &= m - 1) depends = join(depends, w.fences[size_t(std::countr_zero(m))].depends);
  if (!depends) return;
  for (uint32_t m = where.mask; m; m &= m - 1) w.fences[size_t(std::countr_zero(m))].depends = depends;
}

void RaceOrder::cluster_arrive(const Where& where, bool relaxed) {
  if (relaxed) return;
  BlockOrder& first = block(*where.warp->cta->cluster->ctas[0]);
  const KnowledgePtr k = release(warp(where).clock, where.mask, where.warp->live);
  first.cluster_pending = join(first.cluster_pending, k);
}

void RaceOrder::cluster_wait(const Where& where) {
  const KnowledgePtr done = block(*where.warp->cta->cluster->ctas[0]).cluster_done;
  acquire(warp(where).clock, where.mask, where.warp->live, done);
}

void RaceOrder::cluster_complete(const ClusterContext& c) {
  BlockOrder& first = block(*c.ctas[0]);
  first.cluster_done = std::move(first.cluster_pending);
  first.cluster_pending = nullptr;
  const KnowledgePtr done = first.cluster_done;
  for (uint32_t r = 0; r < c.n; r++)
    for (uint32_t i = 0; i < c.ctas[r]->n_warps; i++) {
      const WarpContext& w = c.ctas[r]->warps[i];
      for (uint32_t g = 0; g < w.n_groups; g++)
        if (w.groups[g].state == GroupState::cluster) acquire(block(*c.ctas[r]).warps[i].clock, w.groups[g].mask, w.live, done);
    }
}

void RaceOrder::mbarrier(const MbarrierEvent& e) {
  PhaseClock& phase = phases_[e.word];
  WarpOrder& w = warp(e.where);
  const uint32_t lane = 1u << e.lane;
  // A relaxed operation orders nothing by itself: a fence before the arrival, or after the test, does.
  const bool relaxed = e.where.code->code[e.where.pc].instr->form.has(isa::Mod::relaxed);
  switch (e.op) {
    case MbarrierOp::init: case MbarrierOp::inval: phase = {}; return;
    case MbarrierOp::arrive: case MbarrierOp::arrive_drop:
      if (relaxed && w.fences.empty()) break;
      if (relaxed) {
        const LaneFence& f = w.fence(e.lane);
        if (f.narrow_clock) phase.pending = join(phase.pending, lane_past(w, e.lane, f.narrow, f.narrow_clock));
        phase.pending = join(phase.pending, f.gathered);
        break;
      }
      phase.pending = join(phase.pending, release(w.clock, lane, e.where.warp->live));
      break;
    case MbarrierOp::test:
      if (!e.passed) return;
      if (relaxed) w.fence(e.lane).seen_narrow = join(w.fence(e.lane).seen_narrow, phase.done);
      else acquire(w.clock, lane, e.where.warp->live, phase.done);
      return;
    default: break;
  }
  if (e.before >> 63 == e.after >> 63) return;  // the same phase (exec/mbarrier.h)
  phase.done = std::move(phase.pending);
  phase.pending = nullptr;
}

// ---- locations and fences ----

namespace {
bool is_wide(Scope s) { return s == Scope::gpu || s == Scope::sys; }
}  // namespace

void RaceOrder::fence(const Where& where, Scope scope, bool acquires, bool releases) {
  BlockOrder& b = block(*where.warp->cta);
  WarpOrder& w = b.warps[where.warp->warp_id];
  b.fenced = true;
  for (uint32_t m = where.mask; m; m &= m - 1) {
    const int lane = std::countr_zero(m);
    LaneFence& f = w.fence(lane);
    if (acquires && (f.seen || f.seen_narrow)) {
      KnowledgePtr seen = is_wide(scope) ? join(f.seen, f.seen_narrow) : f.seen_narrow;
      acquire(w.clock, 1u << lane, where.warp->live, seen);
      f.seen_narrow = nullptr;
      if (is_wide(scope)) f.seen = nullptr;
    }
    if (!releases) continue;
    const KnowledgePtr& known = w.clock.of(lane);
    f.narrow = known, f.narrow_clock = w.clock.clock;
    if (is_wide(scope)) f.published = known, f.published_clock = w.clock.clock, f.gathered = nullptr;
  }
  w.clock.clock++;
}

void RaceOrder::strong_read(const Where& where, int lane, uint64_t key, Order order, Scope scope) {
  if (locations_.empty()) return;
  const auto it = locations_.find(key);
  if (it == locations_.end()) return;
  const Location& l = it->second;
  BlockOrder& b = block(*where.warp->cta);
  WarpOrder& w = b.warps[where.warp->warp_id];
  const bool same_block = l.block == b.serial, same_cluster = l.cluster == b.cluster;
  const bool near = same_block || (same_cluster && l.narrow_scope == Scope::cluster && scope != Scope::cta);
  const KnowledgePtr narrow = near ? l.narrow : nullptr;
  const bool reaches = is_wide(scope) || same_block || (same_cluster && scope == Scope::cluster);
  const KnowledgePtr wide = reaches ? l.wide : nullptr;
  if (order == Order::acquire || order == Order::acq_rel || order == Order::sc) {
    acquire(w.clock, 1u << lane, where.warp->live, join(wide, narrow));
    if (l.depends) w.fence(lane).depends = join(w.fence(lane).depends, l.depends);
    return;
  }
  LaneFence& f = w.fence(lane);
  f.depends = join(f.depends, l.depends);
  f.seen = join(f.seen, wide);
  f.seen_narrow = join(f.seen_narrow, same_block ? join(wide, narrow) : narrow);
}

void RaceOrder::strong_write(const Where& where, int lane, uint64_t key, Order order, Scope scope, bool also_reads, bool global) {
  BlockOrder& b = block(*where.warp->cta);
  WarpOrder& w = b.warps[where.warp->warp_id];
  KnowledgePtr wide, narrow;
  if (order == Order::release || order == Order::acq_rel || order == Order::sc) {
    narrow = lane_past(w, lane, w.clock.of(lane), w.clock.clock);
    if (!w.fences.empty()) narrow = join(narrow, w.fences[size_t(lane)].gathered);
    if (is_wide(scope)) wide = narrow;
    w.clock.clock++;
  } else if (!w.fences.empty()) {
    LaneFence& f = w.fences[size_t(lane)];
    if (f.published_clock && is_wide(scope)) wide = lane_past(w, lane, f.published, f.published_clock);
    if (is_wide(scope)) wide = join(wide, f.gathered);
    if (f.narrow_clock) narrow = lane_past(w, lane, f.narrow, f.narrow_clock);
    narrow = join(narrow, f.gathered);
  }
  KnowledgePtr depends;
  if (!also_reads && global && is_wide(scope) && !wide) {
    depends = lane_past(w, lane, w.clock.of(lane), w.clock.clock++);
    if (!w.fences.empty()) depends = join(depends, w.fences[size_t(lane)].depends);
  }
  if (!wide && !narrow && !depends) {
    if (!also_reads && !locations_.empty()) locations_.erase(key);
    return;
  }
  const auto [at, fresh] = locations_.try_emplace(key);
  Location& l = at->second;
  if (fresh && !global) shared_keys_.push_back(key);
  if (!also_reads) l = {};
  l.depends = join(l.depends, depends);
  l.wide = join(l.wide, wide);
  if (l.block != b.serial) l.narrow = nullptr;
  l.narrow = join(l.narrow, narrow);
  l.narrow_scope = scope == Scope::cta ? Scope::cta : Scope::cluster;
  l.block = b.serial, l.cluster = b.cluster;
}

}  // namespace orrery::sanitize
