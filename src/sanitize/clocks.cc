// sanitize/clocks.cc: see clocks.h.
#include "sanitize/clocks.h"

#include <algorithm>
#include <bit>

namespace orrery::sanitize {

bool BlockKnowledge::knows(uint16_t thread, uint32_t clock) const {
  const uint32_t warp = thread / 32u;
  if (warp < warps.size() && clock <= warps[warp]) return true;
  if (lanes.empty()) return false;
  const auto it = std::lower_bound(lanes.begin(), lanes.end(), std::pair<uint16_t, uint32_t>{thread, 0});
  return it != lanes.end() && it->first == thread && clock <= it->second;
}

void BlockKnowledge::add_thread(uint16_t thread, uint32_t clock) {
  if (knows(thread, clock)) return;
  const auto it = std::lower_bound(lanes.begin(), lanes.end(), std::pair<uint16_t, uint32_t>{thread, 0});
  if (it != lanes.end() && it->first == thread) it->second = clock;
  else lanes.insert(it, {thread, clock});
}

void BlockKnowledge::add_warp(uint32_t warp, uint32_t clock) {
  if (warps.size() <= warp) warps.resize(warp + 1, 0);
  if (clock <= warps[warp]) return;
  warps[warp] = clock;
  std::erase_if(lanes, [&](const auto& l) { return l.first / 32u == warp && l.second <= clock; });
}

bool BlockKnowledge::join(const BlockKnowledge& other) {
  bool grew = false;
  for (uint32_t w = 0; w < other.warps.size(); w++)
    if (w >= warps.size() || other.warps[w] > warps[w]) {
      if (other.warps[w]) add_warp(w, other.warps[w]), grew = true;
    }
  for (const auto& [thread, clock] : other.lanes)
    if (!knows(thread, clock)) add_thread(thread, clock), grew = true;
  return grew;
}

const BlockKnowledge* Knowledge::of(uint32_t block) const {
  const auto it = std::lower_bound(blocks.begin(), blocks.end(), block, [](const auto& entry, uint32_t b) { return entry.first < b; });
  return it != blocks.end() && it->first == block ? it->second.get() : nullptr;
}

namespace {

/// True when `a` knows all that `b` knows.
bool covers(const BlockKnowledge& a, const BlockKnowledge& b) {
  for (uint32_t w = 0; w < b.warps.size(); w++)
    if (b.warps[w] && (w >= a.warps.size() || b.warps[w] > a.warps[w])) return false;
  for (const auto& [thread, clock] : b.lanes)
    if (!a.knows(thread, clock)) return false;
  return true;
}

BlockKnowledgePtr join_blocks(const BlockKnowledgePtr& a, const BlockKnowledgePtr& b) {
  if (a == b || covers(*a, *b)) return a;
  if (covers(*b, *a)) return b;
  auto sum = std::make_shared<BlockKnowledge>(*a);
  sum->join(*b);
  return sum;
}

}  // namespace

KnowledgePtr join(const KnowledgePtr& a, const KnowledgePtr& b) {
  if (!b || a == b) return a;
  if (!a) return b;
  auto sum = std::make_shared<Knowledge>();
  bool all_a = true, all_b = true;
  size_t i = 0, k = 0;
  const auto &x = a->blocks, &y = b->blocks;
  while (i < x.size() || k < y.size()) {
    if (k == y.size() || (i < x.size() && x[i].first < y[k].first)) {
      sum->blocks.push_back(x[i++]);
      all_b = false;
    } else if (i == x.size() || y[k].first < x[i].first) {
      sum->blocks.push_back(y[k++]);
      all_a = false;
    } else {
      BlockKnowledgePtr both = join_blocks(x[i].second, y[k].second);
      all_a &= both == x[i].second;
      all_b &= both == y[k].second;
      sum->blocks.emplace_back(x[i].first, std::move(both));
      i++, k++;
    }
  }
  if (all_a) return a;
  if (all_b) return b;
  return sum;
}

void WarpClock::split() {
  if (!uniform) return;
  lanes.assign(32, common);
  uniform = false;
}

KnowledgePtr release(WarpClock& w, uint32_t mask, uint32_t live) {
  KnowledgePtr known = w.of(std::countr_zero(mask));
  if (!w.uniform)
    for (uint32_t m = mask & (mask - 1); m; m &= m - 1) known = join(known, w.of(std::countr_zero(m)));
  auto own = std::make_shared<BlockKnowledge>();
  auto sum = std::make_shared<Knowledge>();
  if (known) *sum = *known;
  auto it = std::lower_bound(sum->blocks.begin(), sum->blocks.end(), w.block, [](const auto& e, uint32_t b) { return e.first < b; });
  if (it != sum->blocks.end() && it->first == w.block) *own = *it->second;
  else it = sum->blocks.insert(it, {w.block, nullptr});
  if ((mask & live) == live) own->add_warp(w.first_thread / 32u, w.clock);
  else for (uint32_t m = mask; m; m &= m - 1) own->add_thread(uint16_t(w.first_thread + std::countr_zero(m)), w.clock);
  it->second = std::move(own);
  w.clock++;
  return sum;
}

void acquire(WarpClock& w, uint32_t mask, uint32_t live, const KnowledgePtr& k) {
  if (!k || !mask) return;
  if (w.uniform && (mask & live) == live) {
    w.common = join(w.common, k);
    return;
  }
  w.split();
  for (uint32_t m = mask; m; m &= m - 1) {
    KnowledgePtr& lane = w.lanes[size_t(std::countr_zero(m))];
    lane = join(lane, k);
  }
}

void assign(WarpClock& w, uint32_t mask, uint32_t live, const KnowledgePtr& k) {
  if ((mask & live) == live) {
    w.uniform = true;
    w.lanes.clear();
    w.common = k;
    return;
  }
  w.split();
  for (uint32_t m = mask; m; m &= m - 1) w.lanes[size_t(std::countr_zero(m))] = k;
}

}  // namespace orrery::sanitize
