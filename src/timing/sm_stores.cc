// timing/sm_stores.cc: what an SM stores: which stores leave it as one, when they leave and what they write of L2.
//
// Not here: how stores wait for the pipe (sm_memory.cc), lines on their way out (leaving_lines.h), what L2 does with them (chip.h).
#include <algorithm>
#include <cmath>
#include <utility>

#include "timing/sm_ghosts.h"
#include "timing/sm_state.h"

namespace orrery::timing {

namespace {
/// Which bytes of their words lanes store to in local memory.
uint8_t bytes_of_words(const Event& e) { return e.lanes_bytes >= 4 ? 15 : uint8_t(((1u << e.lanes_bytes) - 1) << (e.address & 3)); }
}  // namespace

/// Lines of the stores that the warp makes one right behind the other, of which it issues one now: nothing between them is waited for. Warps that
/// wait for as many lines before they store come one by one.
void Sm::State::note_row(WarpRun& w) {
  if (w.at <= w.row_ends) return;
  const uint32_t first = w.at - 1, before = w.row_ends;
  w.row_ends = w.at, w.row_lines = 0, w.row_most = 0;
  uint32_t own = 0;  // barriers that say when the row's stores have read their registers
  for (uint32_t i = first; i < w.steps->size() && i < w.row_ends + kInARow; i++) {
    const Step& s = (*w.steps)[i];
    const MachineInstruction& m = code[s.instruction];
    if (i > first && m.i.wait_mask & ~own) break;
    if (m.kind != Class::store || s.event == UINT32_MAX || w.trace->events[s.event].what != What::global_store) continue;
    if (m.i.read_barrier < 6) own |= 1u << m.i.read_barrier;
    const Event& e = w.trace->events[s.event];
    w.row_lines += std::max(kFewestInRow, e.n_detail), w.row_most = std::max(w.row_most, e.n_detail), w.row_ends = i + 1;
  }
  const uint32_t event = (*w.steps)[first].event;
  uint32_t loaded = 0;  // lines, since the row before
  for (uint32_t i = first; i-- > std::max(before, first - std::min(first, kLooksBack));)
    if (const Step& s = (*w.steps)[i]; s.event != UINT32_MAX && w.trace->events[s.event].what == What::global_load) loaded += w.trace->events[s.event].n_detail;
  w.row_waited = event != UINT32_MAX && loaded >= w.trace->events[event].n_detail;
}

/// Of stores one right behind the other, those that touch more lines than wait in a sub-core let other warps in between [pieces2_8_8, pieces1_16_16:
/// next to none join; pieces1_8_8, pieces8_3_3 and struct7_4: a half to a third; pieces4_3_3, pieces4_4_4: nearly all]. Which, is drawn. What warps
/// that have loaded do depends on how many lines a store has, not on how many stores there are [move_4_4_7 and move_4_7_7: 0.4 to 0.6 join].
bool Sm::State::stays_near(const WarpRun& w, uint64_t line, bool alone) const {
  const auto [together, apart] = !w.row_waited ? kRow : alone ? kWaitedAlone : kWaited;
  const double share = (apart - (w.row_waited ? w.row_most : w.row_lines)) / (apart - together);
  return share >= 1 || double(mix(line ^ w.stores << 40) >> 32 & 1023) < 1024 * share;
}

/// Does a store to a line join one before it? One that a slice holds up takes any of its sub-core that lies near it in the queue, with no load or
/// atomic between [chase_and_store: each store comes to L2; store_one_word: one in 25]; another takes
/// those of its warp for which nothing but the pipe was waited for.
bool Sm::State::joins_waiting(WarpRun& w, uint64_t line, double at, bool alone, bool& joins_held) {
  const SubCore& p = sub[w.sub];
  note_row(w);
  if (!stays_near(w, line, alone)) return false;
  for (uint64_t back = 1; back <= std::min(kNear, p.stores); back++) {
    const WaitingStore& other = p.waiting[(p.stores - back) % kNear];
    if (other.line == line && other.held && other.leaves > at && other.requests == p.requests) return joins_held = true;
  }
  const double could_issue = fronts[number_of(w)].earliest;
  for (StoredLine& other : w.stored_lines)
    if (other.line == line && could_issue <= other.issued + kJoinsWithin && !other.gone) {
      other.issued = w.issued;
      return true;
    }
  return false;
}

/// Does a store of parts of a thread's words in local memory join what its warp has stored of that line? Not where it stores the same bytes again, nor if the warp
/// has loaded since; after one that left by itself some do, after one that joined nearly all [local_bytes_256, local_bytes_spaced_256, local_halves_256: 2, 2 and
/// 1.6 of 4, 4 and 2 leave, of few warps 1.3, 1.8 and 1.3; local_bytes_again_256, local_bytes_between_256: all].
bool Sm::State::joins_local(WarpRun& w, const Event& e, uint64_t line) {
  const uint8_t bytes = bytes_of_words(e);
  for (StoredLine& other : w.stored_lines) {
    if (other.line != line || other.gone) continue;
    const double share = (other.bytes & bytes) || other.loads != w.loads ? 0 : other.joined ? kLocalMore : kLocal;
    other.joined = double(mix(line ^ (w.stores + other.bytes) << 40) >> 32 & 1023) < 1024 * share;
    other.gone = !other.joined, other.bytes |= bytes;
    return other.joined;
  }
  return false;
}

/// A barrier of memory: stores behind it join none before it [fence_block_store/1].
void Sm::State::part_stores(WarpRun& w) {
  for (StoredLine& line : w.stored_lines) line.gone = true;
  leaving_lines.part(number_of(w));
}

/// How many other warps of the sub-core could store now.
size_t Sm::State::competing(const WarpRun& w) const {
  const uint32_t self = number_of(w);
  return size_t(std::count_if(active[w.sub].begin(), active[w.sub].end(), [&](uint32_t other) { return other != self && fronts[other].kind == Class::store && fronts[other].earliest <= w.issued; }));
}

/// When a store that is ready at write_port leaves: L2 must have taken the one so many before it. What comes after waits, too.
double Sm::State::leaves_at(WarpRun& w, const Event& e, uint64_t line, uint32_t mask, double at) {
  const double held = taken[stores % kInFlight], leaves = std::max({write_port, held, chip.write_free() - kOnTheWay});
  if (held > write_port) held_until = std::max(held_until, held);
  SubCore& p = sub[w.sub];
  p.waiting[p.stores++ % kNear] = {line, leaves, held > write_port, p.requests};
  // One for which nothing waits goes before the next comes, or just not [pieces2_2_2, pieces4_2_2 and pieces8_2_2, of one, two and four lines: 0.5, 0.77 and
  // 0.87 join; pieces1_2_2, of two sectors: 0.03].
  const bool gone = leaves < at + kAtOnce && (sectors_in(mask) <= 2 || mix(line ^ w.stores << 40) >> 45 & 1);
  const bool in_local = is_local(e.what);
  w.stored_lines[w.stores++ % kNear] = {line, w.issued, gone && !in_local, false, in_local ? bytes_of_words(e) : uint8_t{0}, w.loads};
  left[stores % left.size()] = leaves;
  return leaves;
}

double Sm::State::write_own(uint64_t line, uint32_t mask, uint32_t bytes, double leaves) {
  if (mask == 0) return 0;
  const uint64_t among = chip.among_taken(line);
  return chip.takes(line) ? chip.write(among, mask, leaves, bytes) : chip.would_write(among, mask, leaves, bytes);
}

/// Writes, of the lines for which ghosts have asked, the one sector at an end of which the store has so many bytes: the row begins or ends in it.
/// A ghost's line may lie in two, one after the other: the row begins in the lower and ends in the upper.
void Sm::State::write_ends_of_ghosts(bool lowest, uint32_t bytes) {
  ends.clear();
  const auto follows = [](const Request& a, const Request& b) { return a.sm == b.sm && a.line + 1 == b.line; };
  for (size_t i = 0; i < n_requests; i++) {
    if (lowest ? i > 0 && follows(requests[i - 1], requests[i]) : i + 1 < n_requests && follows(requests[i], requests[i + 1])) continue;
    if (const uint32_t sector = take_end(requests[i].sectors, lowest)) ends.push_back(requests[i]), ends.back().sectors = sector;
  }
  chip.write_all(ends, bytes);
}

/// Writes the line, and of the lines for which ghosts have asked all other sectors: those that the store fills or of which it has as much each.
/// Returns when L2 has taken it.
double Sm::State::write_rest(uint64_t line, uint32_t mask, uint32_t bytes, double leaves) {
  const auto end = std::remove_if(requests.begin(), requests.begin() + ptrdiff_t(n_requests), [](const Request& r) { return r.sectors == 0; });
  chip.write_all({requests.begin(), end}, bytes);
  n_requests = 0;
  return write_own(line, mask, bytes, leaves);
}

void Sm::State::global_write(WarpRun& w, const Event& e, double at, bool to_surface) {
  const TracedBlock& block = *slots[w.slot].work.code->trace;
  double sectors = 0;
  for (uint32_t i = 0; i < e.n_detail; i++) sectors += sectors_in(uint32_t(block.lines[e.detail + i] & 15));
  bool joins_held = false;
  // Bytes next to each other fill their sectors but for the first and the last, which neighbours fill.
  const bool gapless = sectors >= 3 && e.count > 32 * (sectors - 2);
  // Of several rows (a block of few columns) each may begin and end between sectors: what lies between is filled.
  const Filled filled = gapless ? Filled::none : filled_of(e);
  double whole = 0;
  if (filled == Filled::some)
    for (uint32_t i = 0; i < e.n_detail; i++) whole += sectors_in(filled_sectors(&block.lines[e.detail], e.n_detail, i, filled));
  const uint32_t per_sector = gapless ? 32 : uint32_t(std::min(32.0, std::ceil((double(e.count) - 32 * whole) / std::max(1.0, sectors - whole))));
  const uint32_t off = gapless && e.what == What::global_store ? uint32_t(e.address) % 32 : 0;
  const uint32_t at_first = 32 - off, at_last = off ? (off + e.count + 31) % 32 + 1 : 32;  // bytes of the first and the last sector
  const int64_t own = moves_of(w, e).own;
  const uint32_t warp = number_of(w);
  const bool in_local = is_local(e.what);
  const bool alone = !to_surface && competing(w) < kCompeting;
  if (!to_surface) leaving_lines.begin(at, pipe);
  uint64_t latest = ~uint64_t{0};  // line of which the store has written a part: two that it touched may have moved to one
  double leaves = 0;
  for (uint32_t i = 0; i < e.n_detail; i++) {
    const uint64_t packed = block.lines[e.detail + i];
    const uint32_t fills = filled == Filled::some ? filled_sectors(&block.lines[e.detail], e.n_detail, i, filled) : 0;
    const Move filled_to((packed & ~uint64_t{15}) | fills, own);
    uint32_t parts = Move(packed, own).requests();
    bool first = true;
    moved(packed, own, [&](uint64_t line, uint32_t mask) {
      const bool shares_out = std::exchange(first, false), ends_here = --parts == 0;
      const uint32_t filled_here = (line == filled_to.line ? filled_to.sectors : filled_to.sectors >> 4) & 15;
      const bool goes_on = std::exchange(latest, line) == line && leaves > 0;
      if (!to_surface) l1.store(line, mask);
      const double now = at + i;
      const LeavingLines::Line* leaving = goes_on || to_surface || in_local ? nullptr : leaving_lines.find(line);
      if (leaving && (leaving->warp == warp ? !alone : held_until > now)) leaving = nullptr;  // others come between
      const bool joins = !goes_on && (to_surface ? joins_surface(line, mask, at) : in_local ? joins_local(w, e, line) : joins_waiting(w, line, at, alone, joins_held));
      if (joins || leaving) {
        leaves = 0;
        LeavingLines::Line way{write_port, mask, warp};
        // Sectors that the line did not have yet go along with it.
        const uint32_t fresh = leaving && !joins ? mask & ~leaving->sectors : 0;
        if (leaving) way.leaves = std::max(way.leaves, leaving->leaves), way.sectors |= leaving->sectors;
        if (!to_surface) leaving_lines.add(line, way);
        if (fresh) {
          write_port = std::max(write_port, now) + sectors_in(fresh) * 32.0 / f.sm_write_bandwidth;
          if (shares_out) ask_ghosts(w, e, i, way.leaves, mask == (packed & 15) ? fresh : 15);
          counts.requests++, counts.looked_up += chip.takes(line);
          write_rest(line, fresh, per_sector, std::max(way.leaves, now));
          mask &= ~fresh;
          if (mask == 0) return;
        }
        if (chip.takes(line)) {
          if (filled_here) chip.write_more(chip.among_taken(line), filled_here, 32);
          chip.write_more(chip.among_taken(line), mask & ~filled_here, per_sector);
        }
        if (shares_out) for_ghosts(w, e, i, [&](uint64_t l, uint32_t k, uint32_t) {
          if (chip.takes(l)) chip.write_more(chip.among_taken(l), k, per_sector);
        });
        return;
      }
      if (goes_on) {
        write_port += sectors_in(mask) * 32.0 / f.sm_write_bandwidth;
      } else {
        slices.touch(line);
        write_port = std::max(write_port, at) + std::max(per_sector < 32 ? kPartialLine : 1.0, sectors_in(mask) * 32.0 / f.sm_write_bandwidth);
        leaves = leaves_at(w, e, line, mask, at);
        if (!to_surface) leaving_lines.add(line, {leaves, mask, warp});
      }
      if (filled == Filled::some) {
        if (shares_out) ask_ghosts(w, e, i, leaves, fills, Part::filled);
        const double done = write_rest(line, filled_here, 32, leaves);
        if (shares_out) ask_ghosts(w, e, i, leaves, ~fills & 15, Part::rest);
        counts.requests++, counts.looked_up += chip.takes(line);
        taken[stores++ % kInFlight] = std::max(done, write_rest(line, mask & ~filled_here, per_sector, leaves));
        return;
      }
      if (shares_out) ask_ghosts(w, e, i, leaves, 15);
      counts.requests++, counts.looked_up += chip.takes(line);
      const bool begins_between = i == 0 && at_first < 32, ends_between = i + 1 == e.n_detail && at_last < 32;
      if (begins_between) write_ends_of_ghosts(true, at_first);
      if (ends_between) write_ends_of_ghosts(false, at_last);
      double done = begins_between && shares_out ? write_own(line, take_end(mask, true), at_first, leaves) : 0;
      if (ends_between && ends_here) done = std::max(done, write_own(line, take_end(mask, false), at_last, leaves));
      taken[stores++ % kInFlight] = std::max(done, write_rest(line, mask, per_sector, leaves));
    });
  }
  if (joins_held) write_port += kJoin;
}

}  // namespace orrery::timing
