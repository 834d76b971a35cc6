// timing/ghost_traces.cc: see ghost_traces.h.
#include "timing/ghost_traces.h"

#include <algorithm>

namespace orrery::timing {

GhostTraces::GhostTraces(const TracedBlocks& traced) : traced_(traced) {
  for (const auto& [at, block] : traced_) first_.push_back(block.get());
}

const TracedBlock& GhostTraces::of(uint64_t index) const {
  const auto own = traced_.find(index);
  return own != traced_.end() ? *own->second : *first_[size_t((index * 0x9E3779B97F4A7C15ull >> 33) % first_.size())];
}

const Event* GhostTraces::find(const TracedWarp& other, const Event& e, size_t at) const {
  const auto key = [](const Event& x) { return uint64_t{x.pc} << 32 | x.ordinal; };
  if (at < other.events.size() && other.events[at].n_detail && key(other.events[at]) == key(e)) return &other.events[at];
  const auto [found, fresh] = order_.try_emplace(&other);
  std::vector<uint32_t>& order = found->second;
  if (fresh) {
    for (uint32_t i = 0; i < other.events.size(); i++)
      if (other.events[i].n_detail) order.push_back(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(other.events[a]) < key(other.events[b]); });
  }
  const auto place = std::lower_bound(order.begin(), order.end(), key(e), [&](uint32_t a, uint64_t k) { return key(other.events[a]) < k; });
  return place != order.end() && key(other.events[*place]) == key(e) ? &other.events[*place] : nullptr;
}

}  // namespace orrery::timing
