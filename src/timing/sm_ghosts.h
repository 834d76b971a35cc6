// timing/sm_ghosts.h: what the SMs that a simulated one stands for touch when it touches a line: private to sm_memory.cc, sm_copies.cc and
// sm_ghosts.cc.
//
// Where addresses move evenly, ghosts touch the traced block's lines moved by their slopes; where blocks differ, those that traces
// of their own or of other blocks say.
#pragma once
#include "timing/sm_state.h"

namespace orrery::timing {

/// Stands for data that lie so many sectors, or lines, from the traced block's.
inline uint32_t mate_of(int64_t away) { return uint32_t(mix(uint64_t(away) + 1) >> 24) | 1; }

/// Sectors of a line, moved by some: what they are then, from the line's first on.
struct Move {
  uint64_t line;
  uint32_t sectors;
  Move(uint64_t packed, int64_t by) {
    const uint64_t first = uint64_t(int64_t((packed >> 4) * 4) + by);
    line = first >> 2, sectors = uint32_t((packed & 15) << (first & 3));
  }
  uint32_t requests() const { return ((sectors & 15) != 0) + (sectors > 15); }
};

/// Puts ghosts in the order in which their SMs ask, so that those that come together are looked at together.
template <class Ghosts, class SmOf>
void Sm::State::in_order(const Apart& apart, Ghosts& ghosts, uint32_t& turn, SmOf sm_of) {
  if (turn == apart.turn) return;
  turn = apart.turn;
  constexpr uint32_t kNobody = UINT32_MAX;
  ghost_of.assign(apart.order.size(), kNobody);
  for (uint32_t i = 0; i < ghosts.size(); i++) ghost_of[sm_of(ghosts[i]) - first_sm] = i;
  Ghosts sorted;
  sorted.reserve(ghosts.size());
  for (const uint16_t sm : apart.order)
    if (ghost_of[sm] != kNobody) sorted.push_back(ghosts[ghost_of[sm]]);
  ghosts.swap(sorted);
}

/// Calls f(line, sectors) for what sectors of a line become that many sectors on: of one line or two, either with some.
template <class F>
void Sm::State::moved(uint64_t packed, int64_t sectors, F f) {
  const uint64_t first = uint64_t(int64_t((packed >> 4) * 4) + sectors), wide = (packed & 15) << (first & 3);
  if (wide & 15) f(first >> 2, uint32_t(wide & 15));
  if (wide >> 4) f((first >> 2) + 1, uint32_t(wide >> 4));
}

/// Calls f(line, sectors, SM) for what ghosts do when the detailed block touches the event's line of that number.
template <class F>
void Sm::State::for_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f) {
  if (kernel.ghosts == 0) return;
  Slot& slot = slots[w.slot];
  if (kernel.traces && !is_local(e.what)) return for_traced_ghosts(w, e, line, f);
  for_even_ghosts(moves_of(w, e), slot.work.code->trace->lines[e.detail + line], f);
}

template <class F>
void Sm::State::for_even_ghosts(const Moves& moves, uint64_t packed, F f) {
  for (const auto& [sectors, sm] : moves.ghosts)
    moved(packed, sectors, [&](uint64_t l, uint32_t mask) { f(l, mask, sm); });
}

/// Lists the places of ghosts, of `n`, whose request may be for a page that is looked up. Most are not, and no processor foretells which: none is
/// jumped over. `move(i)` says where ghost i's line lies. `requests` grows by those of ghosts that are not listed.
template <class F>
size_t Sm::State::find_asking(size_t n, uint64_t& requests, F move) {
  const PageChoice pages = chip.pages_taken();
  if (asking.size() < n) asking.resize(n);
  uint32_t* const list = asking.data();
  size_t listed = 0;
  uint64_t others = 0;
  for (size_t i = 0; i < n; i++) {
    const Move to = move(i);
    const bool may = pages.takes(to.line) | pages.takes(to.line + (to.sectors > 15));
    list[listed] = uint32_t(i), listed += may;
    others += to.requests() & (uint64_t{may} - 1);
  }
  requests += others;
  return listed;
}

/// Asks for a line as ghosts do whose addresses move evenly, of pages that are looked up.
inline void Sm::State::ask_even_ghosts(const std::vector<std::pair<int64_t, uint32_t>>& all, uint64_t packed, double when) {
  const auto ask_one = [&](const std::pair<int64_t, uint32_t>& ghost) {
    moved(packed, ghost.first, [&](uint64_t l, uint32_t mask) { ask_if_taken(l, mask, ghost.second, when); });
  };
  if (chip.one_of() == 1) {
    for (const auto& ghost : all) ask_one(ghost);
    return;
  }
  const std::pair<int64_t, uint32_t>* const ghosts = all.data();
  const size_t n = find_asking(all.size(), counts.requests, [=](size_t i) { return Move(packed, ghosts[i].first); });
  for (size_t i = 0; i < n; i++) ask_one(ghosts[asking[i]]);
}

/// A line of the event, before all move by sectors.
inline uint64_t Sm::State::GhostLines::packed(uint32_t line) const {
  const uint64_t at = lines[line];
  if (!own || !own[line]) return at;
  uint64_t place = (at >> 4) - low + away;
  if (place >= room) place = place < 2 * room ? place - room : place % room;
  return (low + place) << 4 | (at & 15);
}

/// Of a store's line of that number the sectors that it fills.
inline uint32_t Sm::State::filled_sectors(const uint64_t* lines, uint32_t n, uint32_t line, Filled filled) {
  return filled == Filled::all ? 15 : filled == Filled::some ? uint32_t(lines[n + line]) : 0;
}

inline uint32_t Sm::State::GhostLines::sectors_of(uint32_t line, Part part) const {
  if (part == Part::all) return 15;
  const uint32_t whole = filled_sectors(lines, n, line, filled);
  return part == Part::filled ? whole : ~whole & 15;
}

/// Calls f(line, sectors) for lines of a ghost's event, from `first` to before `last`.
template <class F>
void Sm::State::for_lines_of(const GhostLines& g, uint32_t first, uint32_t last, F f) {
  for (uint32_t i = first; i < last; i++) moved(g.packed(i), g.sectors, f);
}

template <class F>
void Sm::State::for_traced_ghosts(const WarpRun& w, const Event& e, uint32_t line, F f) {
  if (ghost_event != &e || ghost_slot != w.slot) find_ghost_lines(w, e);
  for (const GhostLines& g : ghost_lines)
    if (line < g.n) for_lines_of(g, line, line + 1 == e.n_detail ? g.n : line + 1, [&](uint64_t l, uint32_t mask) { f(l, mask, g.sm); });
}

}  // namespace orrery::timing
