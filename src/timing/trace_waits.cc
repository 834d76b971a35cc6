// timing/trace_waits.cc: see trace_waits.h.
#include "timing/trace_waits.h"

#include <algorithm>

namespace orrery::timing {

namespace {

/// Drops what lanes `mask` did from `first` to before `now`; what others did meanwhile stays.
void drop(std::vector<Event>& events, Tries& tries, size_t first, size_t now, uint32_t mask) {
  std::vector<size_t> dropped;
  for (size_t i = first; i < now; i++)
    if (events[i].mask & mask)
      dropped.push_back(i);
    else
      events[i - dropped.size()] = events[i];
  events.erase(events.begin() + ptrdiff_t(now - dropped.size()), events.begin() + ptrdiff_t(now));
  const auto before = [&](size_t at) {
    return size_t(std::lower_bound(dropped.begin(), dropped.end(), at) - dropped.begin());
  };
  for (auto& [pc, poll] : tries.failed) poll.at -= before(poll.at);
  for (auto& [pc, at] : tries.looks) at -= before(at);
}

bool is_barrier(What w) { return w == What::barrier || w == What::cluster_arrive || w == What::cluster_wait; }

}  // namespace

void poll_again(std::vector<Event>& events, Tries& tries, const Event& e, size_t length) {
  const auto failed = tries.failed.find(e.pc);
  if (failed == tries.failed.end()) return;
  const Tries::Poll first = failed->second;
  tries.failed.erase(failed);
  if (first.object == e.object && first.phase == e.extra && first.at <= length)
    drop(events, tries, first.at, length, e.mask);
}

void poll_failed(const std::vector<Event>& events, Tries& tries, const Event& e) {
  const bool entered = !events.empty() && events.back().what == What::enter;
  tries.failed[e.pc] = {events.size() - entered, e.object, e.extra};
}

void look_again(std::vector<Event>& events, Tries& tries, const Event& e, size_t length) {
  const size_t entered = events.size() - length;
  if (const auto earlier = tries.looks.find(e.pc);
      earlier != tries.looks.end() && earlier->second <= length) {
    const size_t first = earlier->second;
    const bool only_looked = std::all_of(
        events.begin() + ptrdiff_t(first), events.begin() + ptrdiff_t(length),
        [&](const Event& o) { return o.what == What::enter || o.pc == e.pc || !(o.mask & e.mask); });
    if (only_looked) drop(events, tries, first, length, e.mask);
  }
  tries.looks[e.pc] = events.size() - entered;
}

void meet_at_barriers(std::vector<Event>& events) {
  std::unordered_map<uint32_t, uint32_t> later;  // by barrier: lanes that come to it afterwards
  std::vector<bool> goes(events.size());
  for (size_t i = events.size(); i-- > 0;) {
    const Event& e = events[i];
    if (!is_barrier(e.what)) continue;
    uint32_t& lanes = later[e.pc];
    if (lanes == 0 || (lanes & e.mask)) {
      lanes = e.mask;
      continue;
    }
    lanes |= e.mask;
    goes[i] = true;
    for (size_t k = i; k-- > 0;)  // their entry into its block
      if (events[k].mask & e.mask) {
        goes[k] = events[k].what == What::enter && events[k].mask == e.mask;
        break;
      }
  }
  size_t kept = 0;
  for (size_t i = 0; i < events.size(); i++)
    if (!goes[i]) events[kept++] = events[i];
  events.resize(kept);
}

}  // namespace orrery::timing
