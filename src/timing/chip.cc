// timing/chip.cc: see chip.h.
#include "timing/chip.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "timing/chip_dram.h"

namespace orrery::timing {

namespace {
/// Which of 96 units works on atomic operations on a line. Eight neighbouring lines share two; 16 such groups have units of their own, of the
/// next 16 some share with them, of 64 no three and of 128 some four [calib/raw/h200-2026-11-27-units.jsonl; add_to_lines/64 to 1024].
uint32_t atomic_unit_of(uint64_t line) {
  const uint64_t group = line >> 3, row = group >> 4;
  const uint32_t slot = (group ^ mix(row >> 2) >> 30) & 15;
  return (slot * 3 + uint32_t((row + slot % 2) % 6 / 2)) * 2 + (line >> 1 & 1);
}
/// A slice serves a request in 0.93 cycles; of 64 neighbouring lines eight at a time lie in one [same_lines/1
/// to 64]. Higher bits of the address exchange the eight, as hashes do that keep strides from one slice.
ALWAYS_INLINE uint32_t slice_of(uint64_t line) {
  const uint64_t above = mix(line >> 6);
  return uint32_t((above >> 30) % 12 * 8 +
                  (((line & 1) | (line >> 1 & 2) | (line >> 2 & 4)) ^ (above >> 50 & 7)));
}

}  // namespace

void MemoryCounts::extend(const MemoryCounts& from, const MemoryCounts& to, double times) {
  using C = MemoryCounts;
  for (double C::*count : {&C::l2_read_sectors, &C::l2_write_sectors, &C::l2_hits, &C::dram_read,
                           &C::dram_write, &C::dram_pages, &C::merged_sectors, &C::fabric_sectors, &C::completed_sectors})
    this->*count += times * (to.*count - from.*count);
}

/// What shares a GPC, as far as times go: SMs are numbered by the blocks that they run. Neighbouring blocks are in one GPC [share_near, share_far]; clusters
/// are handed out to GPCs in turn [ring_one with clusters of one: nothing merges that neighbours share].
uint32_t Chip::gpc_of(uint32_t sm) const {
  return uint32_t((in_turn_ ? sm / cluster_ : uint64_t{sm} * f_.gpcs / f_.sms) % f_.gpcs);
}

Chip::Chip(const ChipFigures& figures, uint64_t cluster, uint32_t one_of, bool in_turn, uint64_t blocks)
    : f_(figures),
      in_turn_(in_turn || cluster > 1),
      cluster_(uint32_t(cluster)),
      one_of_(one_of),
      one_bits_(uint32_t(std::countr_zero(one_of))),
      slices_(kSlices / one_of),
      pages_taken_{one_bits_},
      times_(one_of),
      dirty_limit_(f_.l2_dirty_bytes / one_of),
      partial_limit_(f_.l2_partial_sectors / one_of),
      completed_limit_(f_.l2_completed_lines / one_of),
      lines_(uint32_t(f_.l2_bytes / 2 / 128 / L2Lines::kWays), one_bits_),
      merges_(size_t(f_.gpcs) * (kMerges / one_of)),
      counted_(merges_.size()),
      firsts_(kFirsts),
      places_(places_of(figures, std::min<uint64_t>(blocks, figures.sms), cluster, in_turn)),
      pages_(kPages / one_of) {
  for (uint32_t sm = 0; sm < f_.sms; sm++) askers_.push_back(asker_of(sm));
  for (size_t n = 0; n < near_cycles_.size(); n++) {
    near_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_sectors);
    far_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_far_sectors);
    slice_cycles_[n] = std::max(0.93, 0.23 * double(n));
    for (const bool opens : {false, true})
      read_cycles_[opens][n] = (std::max(64.0, 32.0 * double(n)) + (opens ? f_.dram_page_cost : 0)) / f_.dram_bandwidth;
  }
  for (size_t n = 0; n < spread_.size(); n++) spread_[n] = (double(n) / 127.5 - 1) * f_.l2_spread;
  read_wait_ = f_.dram_wait;
}

MemoryCounts Chip::counts() const {
  MemoryCounts c;
  c.l2_read_sectors = double(tally_.l2_read), c.l2_write_sectors = double(tally_.l2_write),
  c.l2_hits = double(tally_.l2_hits);
  c.dram_read = 32 * double(tally_.dram_read), c.dram_write = 32 * double(tally_.dram_write),
  c.dram_pages = double(tally_.pages);
  c.merged_sectors = double(tally_.merged), c.fabric_sectors = 0.5 * double(tally_.half_crossing) + kFirstWritten * tally_.first_written;
  c.completed_sectors = double(tally_.completed);
  MemoryCounts all;
  all.extend({}, c, times_);
  return all;
}

ALWAYS_INLINE L2Lines::Line Chip::find(uint64_t line, L2Lines::Place at, double now) {
  return lines_.find(line, at, [&](L2Lines::Line old) {
    if (old.dirty()) write_back(old.tag(), old, now);
  });
}

ALWAYS_INLINE double Chip::take_l2(uint32_t sectors, bool first, double now) {
  const double cycles = (first ? far_cycles_ : near_cycles_)[sectors], start = std::max(l2_free_, now);
  l2_free_ = start + cycles * times_;
  l2_busy_ += cycles * times_;
  return start + cycles;
}

/// When requests that cross to the other partition have done so, whatever their sectors.
ALWAYS_INLINE double Chip::cross(double requests, double now) {
  return crossing_free_ = std::max(crossing_free_, now) + requests * kCrossing * times_;
}

ALWAYS_INLINE void Chip::take_l2_write(double sectors, double now) {
  const double cycles = sectors / f_.l2_write_sectors * times_;
  l2_write_free_ = std::max(l2_write_free_, now) + cycles;
  l2_write_busy_ += cycles;
}

ALWAYS_INLINE Chip::Found Chip::look_up(uint64_t line, uint32_t mask, FetchSize fetch, L2Lines::Place at,
                                        L2Lines::Place across, double now, L2Lines::Line& way,
                                        uint32_t& missing) {
  way = find(line, at, now);
  uint32_t valid = way.valid();
  const uint32_t dirty = way.dirty();
  missing = mask & ~(valid | dirty);
  if (!missing) return Found::near;
  if (const L2Lines::Line far =
          lines_.peek(line, across)) {  // what the far partition has is copied from there
    const uint32_t there = missing & far.held();
    valid |= there, missing &= ~there;
    way.set_sectors(valid, dirty);
    if (there) way.arrives() = std::max(way.arrives(), far.arrives());
    if (far.crossed()) way.set_crossed();
    if (!missing) return Found::far;
  }
  if (fetch != FetchSize::half) missing = 15 & ~(valid | dirty);
  if (missing & 3) missing |= 3 & ~dirty;
  if (missing & 12) missing |= 12 & ~dirty;
  way.set_sectors(valid | missing, dirty);
  return Found::missing;
}

Chip::Asker Chip::asker_of(uint32_t sm) const {
  const uint32_t gpc = gpc_of(sm), merges = kMerges >> one_bits_;
  return {gpc * merges, place(sm).gpc * merges, place(sm).tpc, uint8_t(gpc & 1)};
}

/// Where a read goes, worked out once.
struct Chip::Coming {
  Merge* merge;
  Counted* counted;
  L2Lines::Place near, far;
  uint16_t tpc;
  bool crosses;  // its home is in the other partition
};

/// Part by part into where it is kept: a whole that is copied there waits for its parts.
ALWAYS_INLINE void Chip::coming(const Request& r, Coming& c) {
  const uint64_t hash = mix(r.line);
  const uint32_t side = r.sm & 1;
  const size_t at = (hash >> 32) % kMerges >> one_bits_;
  const Asker sm = r.sm < askers_.size() ? askers_[r.sm] : asker_of(r.sm);
  c.merge = &merges_[sm.merges + at], c.counted = &counted_[sm.counted + at];
  c.tpc = sm.tpc, c.crosses = sm.odd_gpc != home_of(hash);
  lines_.find_places(r.line, hash, side, c.near, c.far);
}

/// A request becomes one with another while that waits: on its way back from a hit shortly, longer where many ask at once, and until memory has answered
/// [meet_four_load_l1: all at 48 cycles, whichever TPCs they are of; past L1 only those of one, meet_four_load; by the copy engine less, meet_two_bulk;
/// meet_two_load_dram: 400 to 700 cycles].
ALWAYS_INLINE bool Chip::comes_in_time(const Request& r, const Counted& counted, uint16_t tpc) const {
  const double apart = std::fabs(r.when + double(r.late) - counted.first);
  return apart < double(counted.waits) + (r.copied || (r.past_l1 && tpc != counted.tpc) ? kCopyWindow : kLoadWindow);
}

/// Whoever is the first of SMs that are apart to ask for a line asks memory for it.
ALWAYS_INLINE void Chip::note_first(const Request& r) {
  First& first = first_of(r.line);
  const double asked = r.when + double(r.late);
  if (first.line != r.line || r.when > first.when + kOneFetch) first = {r.line, r.when, asked};
  else first.apart = std::min(first.apart, asked);
}

/// Which look-ups there are on the GPU, where SMs are apart. Here they come at once, and what that makes one takes the time of one.
ALWAYS_INLINE void Chip::count(const Request& r, Counted& counted, uint16_t tpc, const Merge& merge) {
  const double asked = r.when + double(r.late);
  double waits = double(merge.waits);
  if (merge.memory > 0) {
    const First& first = first_of(r.line);
    waits = std::max(waits, first.apart + (merge.memory - first.when) - asked);
  }
  const uint32_t sectors = sectors_in(r.sectors);
  if (r.for_many || r.parted) {  // becomes one with nobody's [ends_multicast, ends_multicast_l2: none of 1.1 and 8.7 million sectors; async_same_]
    tally_.l2_read += sectors;
    return;
  }
  if (counted.line == r.line && counted.asked < kMergeMost && !(r.sectors & ~counted.mask) && comes_in_time(r, counted, tpc)) {
    counted.asked++;
    tally_.merged += sectors;
    return;
  }
  tally_.l2_read += sectors;
  counted = {r.line, asked, float(waits), tpc, uint8_t(r.sectors), 1};
}

double Chip::read(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  Request r{line, mask, sm, now};
  Coming at;
  coming(r, at);
  note_first(r);
  return read_at(r, at);
}

ALWAYS_INLINE double Chip::read_at(Request& r, const Coming& at) {
  Merge& merge = *at.merge;
  double back;
  if (merge.line == r.line && merge.asked < kMergeMost && !(r.sectors & ~merge.mask) && r.when - merge.when < kMergeWindow) {
    merge.asked++;
    back = std::max(merge.when + merge.took, r.when);
    if (r.parted || r.for_many) back = std::max(back, take_l2(sectors_in(r.sectors), false, r.when) + f_.l2_latency);  // it becomes one with nobody's and its data come once more
  } else {
    back = read_from_l2(r, at);
    merge.line = r.line, merge.when = r.when, merge.took = back - r.when, merge.waits = r.waits, merge.memory = r.memory, merge.mask = uint8_t(r.sectors), merge.asked = 1;
  }
  count(r, *at.counted, at.tpc, merge);
  r.waits = merge.memory > 0 ? std::max(merge.waits, float(merge.memory - r.when)) : merge.waits;
  return back;
}

/// What a request will touch is fetched while those before it are served: first its set, then the way in it, or, where it is not there,
/// its set in the other partition and then that one's way.
void Chip::read_all(std::span<Request> requests) {
  Coming ahead[kAhead];
  const size_t n = requests.size();
  for (const Request& r : requests) note_first(r);
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i >= kAhead) {
      Request& r = requests[i - kAhead];
      r.when = read_at(r, ahead[i % kAhead]);
    }
    if (i < n) {
      Coming& c = ahead[i % kAhead];
      coming(requests[i], c);
      fetch_ahead(c.merge), fetch_ahead(c.counted);
      lines_.fetch_head(c.near);
    }
    if (i >= kAhead - kWayAhead && i - (kAhead - kWayAhead) < n) {
      const Coming& c = ahead[(i - (kAhead - kWayAhead)) % kAhead];
      if (!lines_.fetch_way(c.near)) lines_.fetch_head(c.far), fetch_ahead(&pages_[page_of(requests[i - (kAhead - kWayAhead)].line)]);
    }
    if (i >= kAhead - kFarAhead && i - (kAhead - kFarAhead) < n) {
      const Coming& c = ahead[(i - (kAhead - kFarAhead)) % kAhead];
      lines_.fetch_found(c.far);
    }
  }
}

/// The other line of 256 bytes comes along from memory [tma.promotion.256.right: 402 cycles, 727 without].
void Chip::bring_other(uint64_t line, L2Lines::Place near, L2Lines::Place far, bool crosses, double now, double arrives) {
  uint32_t missing = 0;
  L2Lines::Line way;
  if (look_up(line, 15, FetchSize::pair, near, far, now, way, missing) != Found::missing) return;
  tally_.l2_read += kPromoted;
  if (crosses) tally_.half_crossing += 2 * sectors_in(missing);  // and again when it is asked for [feed_alone/1: 0.75 for each sector, share_blocks/1: 0.5]
  read_dram(line, sectors_in(missing), now);
  take_l2_write(sectors_in(missing), now);
  way.arrives() = std::max(arrives, dram_free_);
}

ALWAYS_INLINE double Chip::read_from_l2(Request& r, const Coming& at) {
  uint32_t missing = 0;
  L2Lines::Line way;
  const Found found = look_up(r.line, r.sectors, r.fetch, at.near, at.far, r.when, way, missing);
  const uint32_t sectors = sectors_in(r.sectors);
  const double queued = take_l2(sectors, found != Found::near, r.when);
  double& slice = read_slice_[slice_of(r.line) % slices_];
  slice = std::max(slice, r.when) + slice_cycles_[sectors];
  double start = std::max(queued, slice);
  // A GPC lies beside one partition: what belongs to the other crosses once, with what memory gives beside it [share_apart/0: each sector
  // once, read by all SMs; random_read/1024: 1.07 for each that is asked for].
  if (at.crosses && (found == Found::missing || !way.crossed())) {
    tally_.half_crossing += 2 * sectors_in(found == Found::missing ? missing : r.sectors);
    start = std::max(start, cross(1, r.when));
    way.set_crossed();
    if (const L2Lines::Line copy = lines_.peek(r.line, at.far)) copy.set_crossed();
  }
  if (found != Found::missing) {
    tally_.l2_hits += sectors;
    const double spread = spread_[mix(r.line ^ uint64_t{r.sm} << 40) >> 30 & 255];
    // Data that are still on their way from memory are waited for.
    const double back = start + (found == Found::near ? f_.l2_latency : f_.l2_far_latency) + spread;
    const double queue = r.copied ? back - r.when - f_.l2_latency : start - r.when;
    r.waits = float(std::max(0.0, queue - double(r.apart)));
    const double memory = way.arrives() - f_.l2_latency;
    r.memory = memory > r.when ? memory : 0;
    return std::max(way.arrives(), back);
  }
  const uint32_t read = sectors_in(missing);
  read_dram(r.line, read, r.when);
  take_l2_write(read, r.when);  // the fill
  const double turn = std::max(std::max(start, dram_free_), l2_write_free_);
  const double served = r.copied ? turn : r.when + (turn - r.when) * in_step_;
  const double arrives = way.arrives() = served + dram_latency(r.line, r.sm, r.when, r.copied);
  r.waits = 0, r.memory = arrives - f_.l2_latency;
  if (r.fetch == FetchSize::pair) {
    const uint64_t hash = mix(r.line ^ 1);
    const L2Lines::Place near = lines_.place_of(r.line ^ 1, hash, r.sm & 1);
    bring_other(r.line ^ 1, near, lines_.across(near, r.sm & 1), (gpc_of(r.sm) & 1) != home_of(hash), r.when, arrives);
  }
  return arrives;
}

/// Fetches what the oldest of those that were written will touch when they leave L2.
ALWAYS_INLINE void Chip::fetch_oldest(const Queue<uint64_t>& order) const {
  if (order.size() < kAhead) return;
  lines_.fetch_head(home_place_of(order[kAhead - 1] >> 2));
  const uint64_t next = order[kWayAhead] >> 2;
  const L2Lines::Place at = home_place_of(next);
  lines_.fetch_found(at), lines_.fetch_written(at);
  fetch_ahead(&pages_[page_of(next)]);
}

void Chip::write_all(std::span<const Request> requests, uint32_t bytes) {
  L2Lines::Place ahead[kAhead];
  const size_t n = requests.size();
  // What is written may send the oldest out.
  const bool dirty_leave = dirty_bytes_ + 128.0 * double(n) > dirty_limit_;
  const bool partial_leave = bytes < 32 && double(partial_order_.size() + 4 * n) > partial_limit_;
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i >= kAhead) write_at(requests[i - kAhead], bytes, ahead[i % kAhead]);
    if (i < n) {
      const uint64_t line = requests[i].line;
      const uint32_t home = home_of(mix(line));
      const L2Lines::Place at = ahead[i % kAhead] = place_of(line, home);
      lines_.fetch_head(at);
      if (bytes < 32) lines_.fetch_head(lines_.across(at, home));
    }
    if (i >= kWayAhead && i - kWayAhead < n) {
      const L2Lines::Place at = ahead[(i - kWayAhead) % kAhead];
      lines_.fetch_way(at), lines_.fetch_written(at);
      if (dirty_leave) fetch_oldest(dirty_order_);
      if (partial_leave) fetch_oldest(partial_order_);
    }
  }
}

double Chip::write(uint64_t line, uint32_t mask, double now, uint32_t bytes) {
  return write_at({line, mask, 0, now}, bytes, home_place_of(line));
}

ALWAYS_INLINE double Chip::write_at(const Request& r, uint32_t of_sectors, L2Lines::Place home) {
  const uint32_t bytes = r.parted ? std::min(of_sectors, kInPart) : of_sectors;
  mark_written(r.line, r.sectors, r.when, bytes, home);
  // Parts of sectors: a request takes the time of one sector more [partial_store/2 to 32].
  const double flits = sectors_in(r.sectors) + (bytes < 32 ? f_.write_request : 0);
  take_l2_write(flits, r.when);
  double& slice = write_slice_[slice_of(r.line) % slices_];
  slice = std::max(slice, r.when) + flits * f_.write_slice;
  slices_free_ = std::max(slices_free_, slice);
  return r.sectors == 15 ? slice : std::max(slice, cross(kWriteCrosses, r.when));
}

double Chip::would_write(uint64_t line, uint32_t mask, double now, uint32_t bytes) const {
  return std::max(write_slice_[slice_of(line) % slices_], now) + (sectors_in(mask) + (bytes < 32 ? f_.write_request : 0)) * f_.write_slice;
}

/// Sectors that change in the partition where they are kept are not what the other one has any more.
ALWAYS_INLINE void Chip::take_back(L2Lines::Line home, L2Lines::Line other, uint32_t mask) {
  const uint32_t stale = other ? mask & other.valid() : 0;
  if (!stale && !home.crossed()) return;
  home.clear_crossed();
  if (other) other.clear_crossed(), other.set_sectors(other.valid() & ~stale, other.dirty());
  tally_.half_crossing += sectors_in(stale ? stale : mask);
}

ALWAYS_INLINE void Chip::mark_written(uint64_t line, uint32_t mask, double now, uint32_t bytes,
                                      L2Lines::Place home) {
  const bool changed = bytes == kChanged;  // what it was is known
  if (changed) bytes = 32;
  const L2Lines::Line way = find(line, home, now);
  uint32_t valid = way.valid();
  const uint32_t dirty = way.dirty(), fresh = mask & ~dirty;
  if (bytes < 32 || changed) {
    const L2Lines::Line other = lines_.peek(line, lines_.across(home, home_of(mix(line))));
    if (other && bytes < 32) valid |= other.valid() & ~dirty;  // need not be read again
    take_back(way, other, mask);
  }
  if (fresh && !dirty) {
    if (dirty_order_.full() && dirty_order_.size() >= kLongOrder) [[unlikely]]
      forget_clean();
    dirty_order_.push_back(line << 2);
  }
  dirty_bytes_ += 32.0 * sectors_in(fresh);
  if (dirty_bytes_ < dirty_limit_) tally_.first_written += sectors_in(fresh);
  way.set_sectors(valid, dirty | mask);
  way.add_written(mask, bytes);
  if (bytes < 32)
    for (uint32_t i = 0; i < 4; i++)
      if (fresh >> i & 1 && !(valid >> i & 1)) partial_order_.push_back(line << 2 | i);
  tally_.l2_write += sectors_in(mask), tally_.half_crossing += sectors_in(mask);
  if (dirty_bytes_ > dirty_limit_) limit_dirty(now);
  limit_partial(now);
}

void Chip::write_more(uint64_t line, uint32_t mask, uint32_t bytes) {
  const L2Lines::Line way = lines_.peek(line, home_place_of(line));
  if (!way) return;
  const uint32_t parts = way.written().not_full(mask);
  way.add_written(mask, bytes);
  // What left the SM as one and fills its sectors takes what whole sectors take [pieces4_4_4, pieces8_2_2].
  if (parts && !way.written().not_full(mask)) {
    const double less = f_.write_request / f_.l2_write_sectors * times_;
    l2_write_free_ -= less, l2_write_busy_ -= less;
    write_slice_[slice_of(line) % slices_] -= f_.write_request * f_.write_slice;
  }
}

void Chip::atomic_all(std::span<Request> requests, const AtomicWork& work) {
  struct Home {
    uint32_t side = 0;
    L2Lines::Place at;
  } ahead[kAhead];
  const size_t n = requests.size();
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i >= kAhead) {
      Request& r = requests[i - kAhead];
      const Home& home = ahead[i % kAhead];
      r.when = atomic_at(r, work, home.side, home.at);
    }
    if (i < n) {
      Home& home = ahead[i % kAhead];
      home.side = home_of(mix(requests[i].line)), home.at = place_of(requests[i].line, home.side);
      lines_.fetch_head(home.at), lines_.fetch_head(lines_.across(home.at, home.side));
    }
    if (i >= kWayAhead && i - kWayAhead < n) {
      const Home& home = ahead[(i - kWayAhead) % kAhead];
      if (!lines_.fetch_way(home.at)) lines_.fetch_found(lines_.across(home.at, home.side));
      lines_.fetch_written(home.at);
    }
  }
}

/// Brings what an atomic operation changes to where it is kept; how many sectors come from memory. A load of a sector brings two: of the operations
/// those of one half of the SMs [update_add/512: 1.5 sectors an operation; update_add/32].
ALWAYS_INLINE uint32_t Chip::look_up_to_change(const Request& r, L2Lines::Place home, L2Lines::Place across, bool crosses) {
  const L2Lines::Line way = find(r.line, home, r.when);
  const uint32_t dirty = way.dirty();
  uint32_t valid = way.valid(), missing = r.sectors & ~(valid | dirty);
  if (missing)
    if (const L2Lines::Line other = lines_.peek(r.line, across)) valid |= missing & other.held(), missing &= ~other.held();
  if (!crosses) missing |= (missing & 3 ? 3 : 0) & ~(valid | dirty), missing |= (missing & 12 ? 12 : 0) & ~(valid | dirty);
  way.set_sectors(valid | missing, dirty);
  if (missing) read_dram(r.line, sectors_in(missing), r.when);
  if (!dirty) changed_order_.push_back(r.line);
  return missing;
}

ALWAYS_INLINE double Chip::atomic_at(Request& r, const AtomicWork& work, uint32_t side, L2Lines::Place home) {
  const uint64_t line = r.line;
  const uint32_t lanes = r.lanes, sectors = sectors_in(r.sectors);
  const double now = r.when;
  const bool crosses = asker_of(r.sm).odd_gpc != side;
  const uint32_t missing = look_up_to_change(r, home, lines_.across(home, side), crosses);
  mark_written(line, r.sectors, now, kChanged, home);
  limit_lines(changed_order_, dirty_limit_ / 128, now);  // whole lines count [update_add/32: of 29 MB 22 leave; update_add/512, update_alone_few: 220,000 lines of one sector stay]
  tally_.l2_write += lanes - 1, tally_.half_crossing += lanes - 1;  // each of a word's lanes is looked up [swap_in_vain_lanes, add_float_lanes]
  take_l2_write(sectors, now);
  // Its slice reads little meanwhile [add_2_read_2/2]; of one line again and again half as much is taken from it.
  const size_t unit = atomic_unit_of(line);
  const bool again = slice_line_[unit] == line;
  slice_line_[unit] = line;
  double takes = f_.atomic_interval * ((sectors > 1 ? std::max(work.weight, 1 + (again ? kMoreSectors : work.more) * (sectors - 1)) : work.weight) * work.passes + (lanes - 1));
  if (again && work.floating) takes = std::max(takes, f_.atomic_same_line * lanes * work.turn);  // a sum waits for the one before it
  else if (again && sectors == 1) takes = std::min(takes, f_.atomic_one_line * lanes);  // [swap_in_vain_lanes/1056: 1.46 cycles a lane]
  slice_[unit] = std::max(slice_[unit], now) + takes;
  double& reads = read_slice_[unit % slices_];
  reads = std::max(reads, now) + f_.atomic_interval * (sectors + lanes - 1) * (again ? 0.5 : 1);
  if (work.answer > 0) answers_free_ = std::max(answers_free_, now) + work.answer * sectors * lanes * f_.atomic_interval / kSlices;
  const double done = r.taken = std::max({slice_[unit], work.answer > 0 ? answers_free_ : now, cross(kAtomicCrosses, now)});
  atomics_free_ = std::max(atomics_free_, done);
  const double read = missing ? dram_free_ + dram_latency(line, r.sm, now) - f_.l2_latency : 0;
  return std::max(done, read) + (crosses ? f_.l2_far_latency : f_.l2_latency);
}

}  // namespace orrery::timing
