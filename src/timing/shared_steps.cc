// timing/shared_steps.cc: see shared_steps.h.
#include "timing/shared_steps.h"

#include <algorithm>

namespace orrery::timing {

namespace {

/// Is it the same to whoever leads the warp?
bool same(const Event& a, const Event& b) {
  return a.pc == b.pc && a.mask == b.mask && a.what == b.what && (a.what != What::enter || (a.count == b.count && a.extra == b.extra));
}

uint64_t hash_of(const TracedWarp& w) {
  uint64_t h = 1469598103934665603ull;
  for (const Event& e : w.events) {
    h = (h ^ (uint64_t{e.pc} << 32 | e.mask)) * 0x9E3779B97F4A7C15ull;
    h = (h ^ h >> 29 ^ uint64_t(e.what)) * 1099511628211ull;
  }
  return h;
}

void add(JoinStatistics& to, const JoinStatistics& s) {
  to.steps = s.steps;
  to.memory_steps += s.memory_steps, to.unmatched += s.unmatched, to.calls_lost += s.calls_lost;
  to.walked += s.walked, to.by_entries += s.by_entries;
}

}  // namespace

Steps SharedSteps::of(const Join& join, const TracedWarp& warp, JoinStatistics& statistics) {
  const uint64_t hash = hash_of(warp);
  for (auto [at, end] = known_.equal_range(hash); at != end; ++at) {
    const Known& k = at->second;
    if (!std::equal(warp.events.begin(), warp.events.end(), k.warp->events.begin(), k.warp->events.end(), same) || warp.slow != k.warp->slow) continue;
    add(statistics, k.statistics);
    return k.steps;
  }
  Known fresh{&warp, nullptr, {}};
  fresh.steps = std::make_shared<const std::vector<Step>>(join.steps(warp, fresh.statistics));
  add(statistics, fresh.statistics);
  return known_.emplace(hash, std::move(fresh))->second.steps;
}

}  // namespace orrery::timing
