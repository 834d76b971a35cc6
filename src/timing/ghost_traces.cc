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

GhostTraces::Places& GhostTraces::places_of(const TracedBlock& block) const {
  std::unique_ptr<Places>& places = places_[&block];
  if (!places) places = std::make_unique<Places>(block);
  return *places;
}

const GhostTraces::Places::Accesses& GhostTraces::Places::of(size_t warp) {
  Accesses& a = warps_[warp];
  if (!a.begins.empty()) return a;
  const std::vector<Event>& events = block_.warps[warp].events;
  for (uint32_t i = 0; i < events.size(); i++)
    if (events[i].n_detail) a.events.push_back(i);
  std::stable_sort(a.events.begin(), a.events.end(), [&](uint32_t x, uint32_t y) { return events[x].pc < events[y].pc; });
  for (uint32_t k = 0; k < a.events.size(); k++)
    if (const uint32_t pc = events[a.events[k]].pc; a.begins.empty() || a.begins.back().first != pc) a.begins.push_back({pc, k});
  a.begins.push_back({UINT32_MAX, uint32_t(a.events.size())});
  return a;
}

const Event* GhostTraces::find(Places& places, size_t warp, const Event& e, size_t at) {
  const std::vector<Event>& events = places.block_.warps[warp].events;
  const auto is_it = [&](const Event& x) { return x.n_detail && x.pc == e.pc && x.ordinal == e.ordinal; };
  if (at < events.size() && is_it(events[at])) return &events[at];
  const Places::Accesses& a = places.of(warp);
  const auto begin = std::lower_bound(a.begins.begin(), a.begins.end(), std::pair{e.pc, 0u});
  if (begin == a.begins.end() || begin->first != e.pc || begin->first == UINT32_MAX) return nullptr;
  // Accesses of an instruction have the ordinals from 0 on, in order; of bulk copies some touch nothing and are not among these.
  uint32_t k = std::min(begin->second + e.ordinal, (begin + 1)->second - 1);
  while (events[a.events[k]].ordinal > e.ordinal && k > begin->second) k--;
  const Event& found = events[a.events[k]];
  return is_it(found) ? &found : nullptr;
}

}  // namespace orrery::timing
