// timing/contention.cc: see contention.h.
#include "timing/contention.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace orrery::timing {

double Contention::Word::next() const {
  double first = waiting.front().comes;
  for (const Held& h : waiting) first = std::min(first, h.comes);
  return std::max(first, free);
}

bool Contention::may_go(exec::Stepper& s, const exec::Decoded& d, uint32_t unit, bool for_work) {
  bool granted = false;
  exec::for_lanes(s.group->mask, [&](int lane) { granted |= granted_.erase(key_of(s.w, lane)) > 0; });
  const auto word_of = [&](int lane) { return s.address(s.code->addresses[size_t(d.address)], lane) / 32; };
  if (!granted) {
    const auto [found, fresh] = last_.try_emplace(&s.w);
    if (fresh) found->second.comes = now_ + way_of(unit);
    const uint64_t word = word_of(std::countr_zero(s.mask));
    const double worked = for_work ? kInstruction * double(s.w.instructions - found->second.instructions) : 0;
    words_[word].in_order = for_work;
    words_[word].waiting.push_back({std::max(now_, found->second.comes + worked), &s.w, s.pc, s.group->mask, unit});
    wanted_.insert(word);
    const bool all = times_held_[&s.w]++ < kMostHeld;
    s.group->state = exec::GroupState::waiting, s.group->wait_word = nullptr;
    for (uint32_t i = 0; all && i < s.w.n_groups; i++)  // lanes that part meet again behind the loop: none runs ahead
      if (exec::Group& g = s.w.groups[i]; g.state == exec::GroupState::ready) g.state = exec::GroupState::waiting, g.wait_word = nullptr;
    return false;
  }
  double done = now_;
  exec::for_lanes(s.mask, [&](int lane) {
    double& free = words_[word_of(lane)].free;
    free = std::max(free, now_) + times_.lane;
    done = std::max(done, free);
  });
  last_[&s.w] = {done + way_of(unit), s.w.instructions};
  return true;
}

/// Of those that have come by `now` any goes on, or the first where they come for work; its unit.
uint32_t Contention::let_go(Word& word, double now) {
  turns_++, crowded_ += word.waiting.size() > 1;
  std::vector<size_t> here;
  for (size_t i = 0; i < word.waiting.size(); i++)
    if (word.waiting[i].comes <= now) here.push_back(i);
  const auto first = std::min_element(word.waiting.begin(), word.waiting.end(), [](const Held& a, const Held& b) { return a.comes < b.comes; });
  Held& chosen = word.in_order ? *first : word.waiting[here[random_() % here.size()]];
  const Held h = std::exchange(chosen, word.waiting.back());
  word.waiting.pop_back();
  for (uint32_t i = 0; i < h.warp->n_groups; i++) {
    exec::Group& g = h.warp->groups[i];
    if (g.state != exec::GroupState::waiting || g.wait_word) continue;
    g.state = exec::GroupState::ready;
    if (g.pc == h.pc && (g.mask & h.mask)) granted_.insert(key_of(*h.warp, std::countr_zero(g.mask)));
  }
  return h.unit;
}

std::vector<uint32_t> Contention::release() {
  std::vector<uint32_t> units;
  if (wanted_.empty()) return units;
  double next = words_[*wanted_.begin()].next();
  for (uint64_t w : wanted_) next = std::min(next, words_[w].next());
  now_ = std::max(now_, next);
  for (auto at = wanted_.begin(); at != wanted_.end();) {
    Word& word = words_[*at];
    if (const double turn = word.next(); turn <= now_ + kTogether) {
      const uint32_t unit = let_go(word, std::max(now_, turn));
      if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    }
    at = word.waiting.empty() ? wanted_.erase(at) : std::next(at);
  }
  return units;
}

}  // namespace orrery::timing
