// timing/ghost_traces.cc: see ghost_traces.h.
#include "timing/ghost_traces.h"

#include <algorithm>

namespace orrery::timing {

namespace {
bool has_lines(const Event& e) { return e.n_detail && !is_local(e.what) && e.what != What::bulk_load && e.what != What::bulk_store && e.what != What::bulk_prefetch; }
}  // namespace

uint32_t GhostTraces::column_for(uint32_t pc) {
  auto& [latest, column] = latest_[pc % latest_.size()];
  if (latest != pc || columns_.empty()) latest = pc, column = columns_.try_emplace(pc, uint32_t(columns_.size())).first->second;
  return column;
}

void GhostTraces::add(uint64_t index, const TracedBlock& block) {
  Block& b = blocks_[index];
  b = Block{};
  b.trace = &block;
  column_of_event_.clear();
  for (const TracedWarp& w : block.warps)
    for (const Event& e : w.events)
      if (has_lines(e)) column_of_event_.push_back(column_for(e.pc));
  b.columns = uint32_t(columns_.size());
  b.begins.assign(block.warps.size() * b.columns + 1, 0);
  b.accesses.resize(column_of_event_.size());
  size_t next = 0;
  uint32_t begin = 0;
  for (size_t w = 0; w < block.warps.size(); w++) {
    const std::vector<Event>& events = block.warps[w].events;
    uint32_t* const begins = b.begins.data() + w * b.columns;
    size_t n = next;
    for (const Event& e : events)
      if (has_lines(e)) begins[column_of_event_[n++]]++;
    for (uint32_t c = 0; c < b.columns; c++) begin += std::exchange(begins[c], begin);
    for (uint32_t i = 0; i < events.size(); i++)
      if (has_lines(events[i])) b.accesses[begins[column_of_event_[next++]] + events[i].ordinal] = {i, events[i].detail, uint16_t(events[i].n_detail), events[i].what, filled_of(events[i])};
  }
  b.begins.back() = begin;
  if (index >= kDense) return;
  if (index >= dense_.size()) dense_.resize(index + 1);
  dense_[index] = &b;
}

void GhostTraces::end_stand_ins(const std::vector<uint64_t>& ranges, const Kinds& kinds) {
  kinds_ = &kinds;
  first_.clear(), ranges_.clear();
  for (const auto& [at, block] : blocks_) {
    if (ranges_.size() < ranges.size() && at >= ranges[ranges_.size()]) ranges_.push_back({ranges[ranges_.size()], first_.size()});
    first_.push_back(&block);
  }
}

GhostTraces::View GhostTraces::of(uint64_t index) const {
  if (index < dense_.size() && dense_[index]) return View(*dense_[index]);
  if (index >= kDense)
    if (const auto own = blocks_.find(index); own != blocks_.end()) return View(own->second);
  size_t low = 0, high = first_.size();
  if (const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), std::pair{index, SIZE_MAX}); next != ranges_.begin()) {
    low = std::prev(next)->second;
    if (next != ranges_.end()) high = next->second;
  }
  const StandInFit fit(grid_, *kinds_, index);
  return View(*stand_in(index, high - low, [&](uint64_t n) { return first_[low + n]; }, fit.best(), [&](const Block* b) { return fit.of(b->trace->index, b->trace->work()); }));
}

}  // namespace orrery::timing
