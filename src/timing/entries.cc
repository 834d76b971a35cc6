// timing/entries.cc: machine instructions of a warp that cannot be led through the machine code: when its trace enters a PTX
// block, the machine blocks at home there are issued.
#include <algorithm>

#include "timing/join.h"
#include "timing/join_cursor.h"

namespace orrery::timing {

void Join::emit(const Version& v, Cursor& c, size_t begin, size_t end, uint32_t lanes, std::vector<Step>& out, JoinStatistics& statistics) const {
  for (const auto& [first, last] : v.ranges)
    for (uint32_t i = first; i < last; i++) take_step(i, c, begin, end, lanes, out, statistics);
  statistics.steps = out.size();
}

/// The machine blocks at home in each PTX block that the trace enters.
std::vector<Step> Join::by_entries(const TracedWarp& warp, Cursor& c, JoinStatistics& statistics) const {
  std::vector<Step> out;
  out.reserve(warp.events.size() * 4);
  std::unordered_map<uint32_t, size_t> window;  // by home: where its last emission's events ended
  for (size_t k = 0; k < c.enters.size();) {
    const Event& e = warp.events[c.enters[k]];
    const Home* home = home_of(e.pc);
    if (!home) {
      k++;
      continue;
    }
    // Consecutive entries of the block (others in between have no code of their own).
    size_t run = 1, at = k + 1;
    std::vector<size_t> entries = {k};
    const uint32_t most = [&] {
      uint32_t u = 1;
      for (const Version& v : home->versions) u = std::max(u, v.unroll);
      return u;
    }();
    for (; at < c.enters.size() && run < most + 1; at++) {
      const Event& other = warp.events[c.enters[at]];
      if (other.pc == e.pc && other.mask == e.mask) run++, entries.push_back(at);
      else if (home_of(other.pc)) break;
    }
    const Version* best = nullptr;
    for (const Version& v : home->versions) {
      if (v.unroll > run && best) continue;
      if (!best || (best->unroll > run && v.unroll < best->unroll) || (v.unroll <= run && v.unroll > best->unroll) ||
          (v.unroll == best->unroll && v.loops && !best->loops && window.count(e.pc)))
        best = &v;
    }
    const size_t taken = std::min<size_t>(best->unroll, run);
    size_t next = taken < entries.size() ? entries[taken] : at;
    if (taken == run && taken == entries.size()) next = entries.back() + 1;
    // Events of absorbed blocks lie up to the next entry of this block.
    size_t limit = warp.events.size();
    for (size_t j = next; j < c.enters.size(); j++)
      if (warp.events[c.enters[j]].pc == e.pc) {
        limit = c.enters[j];
        break;
      } else if (j - next > 64) {
        limit = c.enters[j];
        break;
      }
    emit(*best, c, window[e.pc], limit, e.extra, out, statistics);
    window[e.pc] = c.enters[k];
    k = next;
  }
  return out;
}

}  // namespace orrery::timing
