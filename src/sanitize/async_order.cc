// sanitize/async_order.cc: see async_order.h.
#include "sanitize/async_order.h"

#include <algorithm>

#include "exec/run_state.h"

namespace orrery::sanitize {

using namespace exec;

namespace {

void join(Clock& to, const Clock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}

void set(Clock& c, uint32_t i, uint32_t v) {
  if (c.size() <= i) c.resize(i + 1);
  c[i] = std::max(c[i], v);
}

}  // namespace

AsyncOrder::AsyncOrder(const ClusterContext& cluster, uint32_t warps_per_block)
    : warps_per_block_(warps_per_block), warps_(cluster.n * warps_per_block), knowledge_(warps_), components_(warps_) {
  for (uint32_t w = 0; w < warps_; w++) set(knowledge_[w].now, w, 1);
}

Moment AsyncOrder::now(const Where& where, int lane) const {
  const int warp = warp_of(*where.warp);
  return {where, lane, warp, at(knowledge_[size_t(warp)].now, uint32_t(warp))};
}

void AsyncOrder::release(int warp, AsyncKnowledge& to) {
  AsyncKnowledge& k = knowledge_[size_t(warp)];
  join(to.now, k.now);
  join(to.fenced, k.fenced);
  join(to.causes, k.causes);
  k.now[size_t(warp)]++;
}

void AsyncOrder::acquire(int warp, const AsyncKnowledge& from) {
  join(knowledge_[size_t(warp)].now, from.now);
  join(knowledge_[size_t(warp)].fenced, from.fenced);
  join(knowledge_[size_t(warp)].causes, from.causes);
}

/// Everything known so far may be seen by asynchronous operations; what the warp does from now on may not.
void AsyncOrder::fence(int warp) {
  AsyncKnowledge& k = knowledge_[size_t(warp)];
  join(k.fenced, k.now);
  k.now[size_t(warp)]++;
}

void AsyncOrder::barrier_arrive(const CtaContext& cta, uint32_t number, int warp, bool waits) {
  Gathering& g = barriers_[{&cta, number}];
  release(warp, g.all);
  if (waits) g.waiting.push_back(warp);
}

void AsyncOrder::barrier_complete(const CtaContext& cta, uint32_t number) {
  Gathering& g = barriers_[{&cta, number}];
  for (int warp : g.waiting) acquire(warp, g.all);
  g = {};
  completed_++;
}

void AsyncOrder::cluster_arrive(int warp, bool relaxed) {
  join(cluster_.all.causes, knowledge_[size_t(warp)].now);
  join(cluster_.all.causes, knowledge_[size_t(warp)].causes);
  if (!relaxed) release(warp, cluster_.all);
  // fence.mbarrier_init releases initialisations only, and so does no more than an arrival that releases everything.
  for (auto& [word, m] : mbarriers_) m.announced |= m.live && (m.fenced || !relaxed) && knows(warp, m.init);
  cluster_.waiting.push_back(warp);
}

void AsyncOrder::cluster_complete() {
  for (int warp : cluster_.waiting) acquire(warp, cluster_.all);
  for (auto& [word, m] : mbarriers_) m.open |= m.announced && m.live;
  cluster_ = {};
}

void AsyncOrder::strong(int warp, bool reads, bool writes) {
  if (reads) acquire(warp, strong_);
  if (writes) release(warp, strong_);
}

MbarrierState& AsyncOrder::mbarrier(const uint64_t* word) {
  const auto [it, fresh] = mbarriers_.try_emplace(word);
  if (fresh) {
    it->second.component = components_++;
    it->second.waited.resize(warps_);
    it->second.arrived.resize(warps_);
    it->second.passed.resize(warps_);
  }
  return it->second;
}

MbarrierState* AsyncOrder::find(const uint64_t* word) {
  const auto it = mbarriers_.find(word);
  return it == mbarriers_.end() ? nullptr : &it->second;
}

void AsyncOrder::arrive(int warp, MbarrierState& m, bool relaxed) {
  m.arrived[size_t(warp)] = m.phases + 1;
  needs(m, warp);
  if (!relaxed) release(warp, m.gathered);
}

void AsyncOrder::needs(MbarrierState& m, int warp) {
  join(m.causes, knowledge_[size_t(warp)].now);
  join(m.causes, knowledge_[size_t(warp)].causes);
}

void AsyncOrder::phase_done(MbarrierState& m) {
  join(m.done.now, m.gathered.now);
  join(m.done.fenced, m.gathered.fenced);
  m.gathered = {};
  m.done_causes.swap(m.causes);
  m.causes.clear();
  m.phases++;
}

void AsyncOrder::passed(int warp, MbarrierState& m) {
  acquire(warp, m.done);
  join(knowledge_[size_t(warp)].causes, m.done_causes);
  set(knowledge_[size_t(warp)].now, m.component, m.phases);
  m.waited[size_t(warp)] = m.phases;
}

}  // namespace orrery::sanitize
