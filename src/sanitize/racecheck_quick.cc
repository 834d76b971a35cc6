// sanitize/racecheck_quick.cc: the short way of racecheck for ordinary accesses of compiled code; see quick.h.
//
// What visit() (racecheck.cc) does to a word is done here to whole rows where the lanes of a warp use the words of a
// line in order, and to single words elsewhere, as long as it is clear at once that nothing is wrong. An access that was
// dealt with in part before something was not clear goes the long way as a whole: doing a word twice changes nothing.
#include <emmintrin.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "exec/run_state.h"
#include "sanitize/racecheck.h"

namespace orrery::sanitize {

using namespace exec;

/// What a warp knows, for one access.
struct Racecheck::Seen {
  const Knowledge* known = nullptr;
  const BlockKnowledge* own = nullptr;   // of its own block
  Stamp stamp;                           // of lane 0
  uint32_t oldest = 0;
  uint32_t met = 0;                      // BlockOrder::met
  bool whole_warps = true;               // nothing is known of single lanes of the own block

  /// The warp of `s` is known up to there; the lanes of a row are of one warp.
  bool knows_warp(const Stamp& s) const {
    if (s.block < oldest) return true;
    const BlockKnowledge* b = s.block == stamp.block ? own : known ? known->of(s.block) : nullptr;
    const uint32_t warp = s.thread / 32u;
    return b && warp < b->warps.size() && s.clock <= b->warps[warp];
  }
  bool orders_row(const Stamp& s, const Stamp& now) const {
    return (s.block == now.block && s.thread == now.thread && s.bytes == now.bytes) || knows_warp(s);
  }
  bool orders(const Stamp& s, const Stamp& now) const {
    if (s.block == now.block && s.thread == now.thread) return true;
    return knows_warp(s) || (known && known->knows(s.block, s.thread, s.clock));
  }
};

namespace {

/// `ordered(stamp)`; false: not clear.
template <class Ordered>
bool read_word(Stamp& write, Stamp (&read)[2], const Stamp& now, bool silent, Ordered ordered) {
  if (write.site) {
    if (write.same(now)) return true;
    if (!silent && !ordered(write)) return false;
  }
  if (read[0].same(now)) return true;
  if (!read[0].site || ordered(read[0])) {
    if (read[1].site && ordered(read[1])) read[1] = {};
    read[0] = now;
  } else {
    read[1] = now;
  }
  return true;
}

template <class Ordered>
bool write_word(Stamp& write, Stamp (&read)[2], const Stamp& now, Ordered ordered) {
  if (write.site) {
    if (write.same(now)) return true;
    if (!ordered(write)) return false;
  }
  for (const Stamp& r : read)
    if (r.site && !ordered(r)) return false;
  read[0] = read[1] = {};
  write = now;
  return true;
}

/// The cell of the word before, as it was found; where this one was found the same but for the next thread, it becomes the
/// same but for the next thread.
struct Alike {
  Cell before;

  static __m128i load(const Stamp& s) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(&s)); }
  /// The stamp of the next thread, all zero for none.
  static __m128i next(const Stamp& s) { return _mm_add_epi32(load(s), s.site ? _mm_set_epi32(1, 0, 0, 0) : _mm_setzero_si128()); }
  static bool equal(__m128i a, __m128i b) { return _mm_movemask_epi8(_mm_cmpeq_epi32(a, b)) == 0xFFFF; }

  /// `previous`: the cell before as it is now. Decisions may change where another warp begins.
  bool follows(const Cell& previous, Cell& c) {
    const __m128i write = load(c.write), first = load(c.read[0]), second = load(c.read[1]);
    if (!equal(write, next(before.write)) || !equal(first, next(before.read[0])) || !equal(second, next(before.read[1]))) return false;
    if (!(c.write.thread % 32) || !(c.read[0].thread % 32) || !(c.read[1].thread % 32))
      if ((c.write.site && !(c.write.thread % 32)) || (c.read[0].site && !(c.read[0].thread % 32)) || (c.read[1].site && !(c.read[1].thread % 32))) return false;
    before = c;
    const __m128i stamps[3] = {next(previous.write), next(previous.read[0]), next(previous.read[1])};
    std::memcpy(&c, stamps, sizeof c);
    return true;
  }
};
static_assert(sizeof(Stamp) == 16 && sizeof(Cell) == 48 && offsetof(Stamp, thread) == 12);

/// Every access so far was of the whole word.
bool is_whole(const Cell& c) {
  return (c.write.site ? c.write.bytes == 0xF : c.write.bytes != 0xFF) && (!c.read[0].site || c.read[0].bytes == 0xF) &&
         (!c.read[1].site || c.read[1].bytes == 0xF);
}

}  // namespace

bool Racecheck::see(const WarpContext& w, bool shared, uint32_t site, Seen& seen) {
  BlockOrder& b = order_.block(*w.cta);
  WarpOrder& warp = b.warps[w.warp_id];
  if (!warp.clock.uniform) return false;
  if (warp.quick_known != warp.clock.common || !warp.quick_known) {
    warp.quick_known = warp.clock.common;
    warp.quick_own = warp.quick_known ? warp.quick_known->of(b.serial) : nullptr;
  }
  seen.known = warp.quick_known.get();
  seen.own = warp.quick_own;
  seen.whole_warps = !seen.own || seen.own->lanes.empty();
  seen.met = b.met;
  seen.oldest = shared ? b.cluster : quick_oldest_;
  seen.stamp = {b.serial, warp.clock.clock, site, warp.clock.first_thread, 0xF, 0};
  return true;
}

/// The line that holds `address`; cells: null when its page has none.
void Racecheck::quick_line(const QuickMemory& memory, uint64_t address, LineHead*& head, Cell*& cells) {
  const uint64_t line = address % GlobalShadow::kPageBytes / kLineBytes;
  if (memory.shared) {
    head = &memory.shared->heads[address / kLineBytes];
    cells = memory.shared->line_cells(address / kLineBytes);
    return;
  }
  GlobalShadow::Page& page = global_.page(address);
  head = &page.heads[line];
  cells = page.cells ? page.cells + line * kLineWords : nullptr;
}

bool Racecheck::quick_barrier(const CtaContext& cta, uint32_t number) {
  if (!order_.quick_barrier(cta, number)) return false;
  epoch_++;
  // What threads did that have left is not known to those who met.
  for (uint32_t i = 0; i < cta.n_warps; i++)
    if (cta.warps[i].live != cta.warps[i].lanes) return true;
  order_.block(cta).met = epoch_;
  return true;
}

/// A part of a line in shared memory, one word to a lane; false: it needs cells.
bool Racecheck::quick_segment(SharedShadow& shadow, uint64_t line, const Stamp& now, uint32_t from, uint32_t to, QuickDoes does) {
  LineHead& head = shadow.heads[line];
  if (head.state != LineState::empty && head.last != epoch_) return false;
  LineSegments& segments = shadow.segments[line];
  const bool writes = does == QuickDoes::write;
  uint32_t n = head.n_segments;
  if (head.state == LineState::empty) n = 0;
  if (head.state == LineState::row) {
    n = 0;
    for (const Stamp* s : {&head.write, &head.read[0], &head.read[1]}) {
      if (!s->site) continue;
      if (s->bytes != 0xF) return false;
      segments.of[n++] = {*s, 0, kLineWords, s == &head.write};
    }
  }
  uint32_t same = n;
  for (uint32_t i = 0; i < n; i++) {
    const Segment& s = segments.of[i];
    const bool own = s.same_threads(now, from);
    if (s.from < to && from < s.to && !own && (writes || (s.writes && does == QuickDoes::read))) return false;
    if (own && s.from == from && s.to == to && s.writes == writes) same = i;
  }
  if (same == LineSegments::kMost) return false;
  segments.of[same] = {now, uint8_t(from), uint8_t(to), writes};
  head.n_segments = uint8_t(std::max(n, same + 1));
  head.state = LineState::segments;
  return true;
}

/// `n` words from `address` on, 2^shift to a lane, the first lane being `lane`.
bool Racecheck::quick_words(const QuickMemory& memory, const Seen& seen, uint64_t address, uint32_t n, uint32_t lane, uint32_t shift, QuickDoes does) {
  Stamp now = seen.stamp;
  const uint32_t first_thread = now.thread;
  const auto ordered_row = [&](const Stamp& s) { return seen.orders_row(s, now); };
  const auto ordered = [&](const Stamp& s) { return seen.orders(s, now); };
  for (uint32_t i = 0; i < n;) {
    const uint64_t at = address + 4ull * i;
    LineHead* head;
    Cell* cells;
    quick_line(memory, at, head, cells);
    const uint32_t in_line = uint32_t(at % kLineBytes / 4), count = std::min(n - i, uint32_t(kLineWords) - in_line);
    if (memory.shared && head->last < seen.met) *head = {};  // all know of all that was
    if (does != QuickDoes::read) head->quiet = 0;
    else if (memory.shared && head->quiet == epoch_) {  // its last use is of this epoch already
      i += count;
      continue;
    }
    if (memory.shared && shift == 0 && head->state != LineState::cells && (count < kLineWords || head->state == LineState::segments)) {
      now.thread = uint16_t(first_thread + lane + i);
      now.bytes = 0xF;
      if (quick_segment(*memory.shared, at / kLineBytes, now, in_line, in_line + count, does)) {
        head->last = epoch_;
        i += count;
        continue;
      }
    }
    if (count == kLineWords && (head->state == LineState::empty || head->state == LineState::row) && seen.whole_warps) {
      now.thread = uint16_t(first_thread + lane + (i >> shift));
      now.bytes = uint8_t(0xF | std::min(shift, 5u) << 4);
      const bool clear = does == QuickDoes::write ? write_word(head->write, head->read, now, ordered_row)
                                                  : read_word(head->write, head->read, now, does == QuickDoes::write_same, ordered_row);
      if (clear) {
        head->state = LineState::row;
        head->last = epoch_;
        // Not ordered, and of another warp: whoever writes here next is in order with one of the two at most.
        if (does == QuickDoes::read && memory.shared && head->read[1].site && head->read[1].same(now) && head->read[0].thread / 32 != now.thread / 32) head->quiet = epoch_;
        i += count;
        continue;
      }
    }
    if (head->state != LineState::cells) {
      if (!cells) cells = global_.line_cells(global_.page(at), at % GlobalShadow::kPageBytes / kLineBytes);
      give_cells(*head, cells, memory.shared ? &memory.shared->segments[at / kLineBytes] : nullptr);
    }
    head->last = epoch_;
    now.bytes = 0xF;
    Alike alike;
    for (uint32_t k = 0; k < count; k++, i++) {
      Cell& c = cells[in_line + k];
      if (shift == 0 && k && alike.follows(cells[in_line + k - 1], c)) continue;
      alike.before = c;
      now.thread = uint16_t(first_thread + lane + (i >> shift));
      if (!is_whole(c)) return false;
      const bool clear = does == QuickDoes::write ? write_word(c.write, c.read, now, ordered)
                                                  : read_word(c.write, c.read, now, does == QuickDoes::write_same, ordered);
      if (!clear) return false;
    }
    if (count == kLineWords && does == QuickDoes::write) {  // all of it is this warp's now
      head->write = cells[0].write;
      head->write.bytes = uint8_t(0xF | std::min(shift, 5u) << 4);
      head->read[0] = head->read[1] = {};
      head->state = LineState::row;
    }
  }
  return true;
}

/// Lanes in `mask` at consecutive places from `address` (of lane 0) on; lanes in `same` store what is there.
bool Racecheck::quick_run(const WarpContext& w, const QuickMemory& memory, uint32_t site, uint64_t address, uint32_t mask, uint32_t bytes, bool writes,
                          uint32_t same) {
  Seen seen;
  if (!see(w, memory.shared, site, seen)) return false;
  if (writes && order_.has_locations()) return false;
  const uint32_t shift = bytes == 4 ? 0 : bytes == 8 ? 1 : 2;
  for (const uint32_t part : {mask & ~same, mask & same})
    for (uint32_t m = part; m;) {
      const uint32_t lane = uint32_t(std::countr_zero(m)), n = uint32_t(std::countr_one(m >> lane));
      const QuickDoes does = !writes ? QuickDoes::read : part == (mask & same) ? QuickDoes::write_same : QuickDoes::write;
      if (!quick_words(memory, seen, address + uint64_t{lane} * bytes, n << shift, lane, shift, does)) return false;
      if (n + lane >= 32) break;
      m &= ~0u << (lane + n);
    }
  return true;
}

bool Racecheck::quick_block(const WarpContext& w, SharedShadow& shadow, uint32_t site, uint64_t address, uint64_t end, uint32_t mask, uint32_t bytes, bool rows) {
  Seen seen;
  if (!see(w, true, site, seen)) return false;
  const uint32_t words = uint32_t(end - address) / 4;
  if (!rows) {
    constexpr uint32_t kOneLane = 31;  // shift: all words to one lane
    const uint32_t first = uint32_t(std::countr_zero(mask)), last = 31 - uint32_t(std::countl_zero(mask));
    return quick_words({&shadow}, seen, address, words, first, kOneLane, QuickDoes::read) &&
           (first == last || quick_words({&shadow}, seen, address, words, last, kOneLane, QuickDoes::read));
  }
  const uint32_t shift = bytes == 4 ? 0 : bytes == 8 ? 1 : 2;
  if (mask != ~0u) return false;
  for (uint64_t row = address; row < end; row += 32 * bytes)
    if (!quick_words({&shadow}, seen, row, 32 << shift, 0, shift, QuickDoes::read)) return false;
  return true;
}

/// All lanes in `mask` read, or one writes.
bool Racecheck::quick_same(const WarpContext& w, const QuickMemory& memory, uint32_t site, uint64_t address, uint32_t mask, uint32_t bytes, bool writes, bool same) {
  const uint32_t first = uint32_t(std::countr_zero(mask)), last = 31 - uint32_t(std::countl_zero(mask));
  if (writes && (first != last || order_.has_locations())) return false;
  Seen seen;
  if (!see(w, memory.shared, site, seen)) return false;
  const QuickDoes does = !writes ? QuickDoes::read : same ? QuickDoes::write_same : QuickDoes::write;
  const uint32_t words = bytes / 4, shift = bytes == 4 ? 0 : bytes == 8 ? 1 : 2;
  // Of several readers the first and the last are kept, whatever comes between.
  return quick_words(memory, seen, address, words, first, shift, does) && (first == last || quick_words(memory, seen, address, words, last, shift, does));
}

/// A word of shared memory to each lane, anywhere.
bool Racecheck::quick_scattered(SharedShadow& shadow, const Seen& seen, const uint64_t* addresses, uint32_t mask, bool writes, uint32_t same) {
  Stamp now = seen.stamp;
  const auto ordered = [&](const Stamp& s) { return seen.orders(s, now); };
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t lane = uint32_t(std::countr_zero(m));
    const uint64_t line = addresses[lane] / kLineBytes;
    LineHead& head = shadow.heads[line];
    if (!writes && head.quiet == epoch_) continue;
    if (head.last < seen.met) head = {};
    if (head.state != LineState::cells) give_cells(head, shadow.line_cells(line), &shadow.segments[line]);
    head.last = epoch_;
    if (writes) head.quiet = 0;
    Cell& c = shadow.line_cells(line)[addresses[lane] % kLineBytes / 4];
    now.thread = uint16_t(seen.stamp.thread + lane);
    const bool silent = same >> lane & 1;
    if (!is_whole(c)) return false;
    if (!(writes && !silent ? write_word(c.write, c.read, now, ordered) : read_word(c.write, c.read, now, silent, ordered))) return false;
  }
  return true;
}

bool Racecheck::quick_any(const WarpContext& w, const QuickMemory& memory, uint32_t site, const uint64_t* addresses, uint32_t mask, uint32_t bytes, bool writes,
                          uint32_t same) {
  Seen seen;
  if (!see(w, memory.shared, site, seen)) return false;
  if (writes && order_.has_locations()) return false;
  const uint32_t shift = bytes == 4 ? 0 : bytes == 8 ? 1 : 2;
  if (bytes == 4 && memory.shared) return quick_scattered(*memory.shared, seen, addresses, mask, writes, same);
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t lane = uint32_t(std::countr_zero(m));
    const QuickDoes does = !writes ? QuickDoes::read : same >> lane & 1 ? QuickDoes::write_same : QuickDoes::write;
    if (!quick_words(memory, seen, addresses[lane], bytes / 4, lane, shift, does)) return false;
  }
  return true;
}

bool Racecheck::quick_atomic(const WarpContext& w, const QuickMemory& memory, uint32_t site, Scope scope, const uint64_t* addresses, uint32_t mask, uint32_t bytes,
                             uint32_t& fresh) {
  Seen seen;
  // What relaxed accesses hand on needs fences, or somebody's release.
  if (!see(w, memory.shared, site, seen) || order_.has_locations() || !order_.block(*w.cta).warps[w.warp_id].fences.empty()) return false;
  Stamp now = seen.stamp;
  now.scope = uint8_t(scope);
  if (memory.shared) memory.shared->now = epoch_;
  const auto accepted = [&](const Stamp& s) { return seen.orders(s, now) || reach_each_other(s, now); };
  for (uint32_t m = mask; m; m &= m - 1) {
    const uint32_t lane = uint32_t(std::countr_zero(m));
    now.thread = uint16_t(seen.stamp.thread + lane);
    for (uint32_t k = 0; k < bytes; k += 4) {
      Cell& c = memory.shared ? memory.shared->cell((addresses[lane] + k) / 4) : global_.cell(addresses[lane] + k);
      // Mostly another thread has just executed the same instruction on it.
      if (c.write.site == now.site && c.write.block == now.block && c.write.bytes == 0xF && !c.read[0].site && !c.read[1].site) {
        c.write = now;
        continue;
      }
      fresh |= uint32_t(!c.write.site) << lane;
      if (!is_whole(c) || !write_word(c.write, c.read, now, accepted)) return false;
    }
  }
  return true;
}

}  // namespace orrery::sanitize
