// timing/chip.cc: see chip.h.
#include "timing/chip.h"

#include <algorithm>
#include <bit>
#include <cmath>

/// Requests are many and short: what serves one is one piece of code.
#define ALWAYS_INLINE [[gnu::always_inline]] inline

namespace orrery::timing {

namespace {
/// Which of 48 units, one for two slices, works on atomic operations on a line: eight neighbouring lines
/// share two, 32 share about five [add_at_end/64 to 1024].
uint32_t atomic_unit_of(uint64_t line) {
  return uint32_t((mix(line >> 5) >> 30) % 12 * 4 + ((line >> 2 & 1) | (line >> 3 & 2)));
}
/// A slice serves a request in 0.93 cycles; of 64 neighbouring lines eight at a time lie in one [same_lines/1
/// to 64]. Higher bits of the address exchange the eight, as hashes do that keep strides from one slice.
ALWAYS_INLINE uint32_t slice_of(uint64_t line) {
  const uint64_t above = mix(line >> 6);
  return uint32_t((above >> 30) % 12 * 8 +
                  (((line & 1) | (line >> 1 & 2) | (line >> 2 & 4)) ^ (above >> 50 & 7)));
}

/// How long loads wait for memory beyond the quickest: the shape of calib/raw/h200-2026-11-21-spread.jsonl
/// over its mean, idle, read and copied, as straight pieces between shares of the loads.
class Spread {
 public:
  constexpr Spread() {
    for (uint32_t i = 1; i < kShares.size(); i++) {
      const double bound = kShares[i] * 65536;
      bounds_[i] = uint32_t(bound) + (bound > uint32_t(bound));
    }
    for (uint32_t high = 0, i = 0; high < 256; high++) {
      while (high << 8 >= bounds_[i + 1]) i++;
      piece_[high] = uint8_t(i);
    }
  }
  /// Of the load at place `drawn` among 65,536, the quickest first.
  double wait(uint32_t drawn) const {
    const uint32_t first = piece_[drawn >> 8],
                   i = first + (drawn >= bounds_[first + 1]);  // no two bounds lie within 256
    const double share = double(drawn) / 65536;
    return kWaits[i] + (kWaits[i + 1] - kWaits[i]) * (share - kShares[i]) / (kShares[i + 1] - kShares[i]);
  }

 private:
  static constexpr std::array<double, 10> kShares = {0, .1, .25, .5, .75, .9, .95, .98, .995, 1};
  static constexpr std::array<double, 10> kWaits = {0, .12, .4, .9, 1.37, 1.88, 2.65, 3.5, 4.8, 6};
  std::array<uint32_t, 10> bounds_{};
  std::array<uint8_t, 256> piece_{};
};
constexpr Spread kSpread;

constexpr double kBusiest = 0.85;  // utilisation of memory beyond which waits grow no more
}  // namespace

void MemoryCounts::extend(const MemoryCounts& from, const MemoryCounts& to, double times) {
  using C = MemoryCounts;
  for (double C::*count : {&C::l2_read_sectors, &C::l2_write_sectors, &C::l2_hits, &C::dram_read,
                           &C::dram_write, &C::dram_pages, &C::merged_sectors, &C::fabric_sectors})
    this->*count += times * (to.*count - from.*count);
}

/// SMs are numbered by the blocks that they run. Neighbouring blocks are in one GPC [share_near, share_far]; clusters
/// are handed out to GPCs in turn [ring_one with clusters of one: nothing merges that neighbours share].
uint32_t Chip::gpc_of(uint32_t sm) const {
  return uint32_t((cluster_ > 1 ? sm / cluster_ : uint64_t{sm} * f_.gpcs / f_.sms) % f_.gpcs);
}

Chip::Chip(const ChipFigures& figures, uint64_t cluster, uint32_t one_of)
    : f_(figures),
      cluster_(uint32_t(cluster)),
      one_of_(one_of),
      one_bits_(uint32_t(std::countr_zero(one_of))),
      slices_(kSlices / one_of),
      times_(one_of),
      dirty_limit_(f_.l2_dirty_bytes / one_of),
      partial_limit_(f_.l2_partial_sectors / one_of),
      lines_(uint32_t(f_.l2_bytes / 2 / 128 / L2Lines::kWays), one_bits_),
      merges_(size_t(f_.gpcs) * (kMerges / one_of)),
      pages_(kPages / one_of) {
  for (uint32_t sm = 0; sm < f_.sms; sm++) first_merge_.push_back(merges_of(sm));
  for (size_t n = 0; n < near_cycles_.size(); n++) {
    near_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_sectors);
    far_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_far_sectors);
    slice_cycles_[n] = std::max(0.93, 0.23 * double(n));
    for (const bool opens : {false, true})
      read_cycles_[opens][n] = (32.0 * double(n) + (opens ? f_.dram_page_cost : 0)) / f_.dram_bandwidth;
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
  c.merged_sectors = double(tally_.merged), c.fabric_sectors = 0.5 * double(tally_.half_crossing);
  MemoryCounts all;
  all.extend({}, c, times_);
  return all;
}

double Chip::page_error() const {
  double sum = 0, squares = 0;
  for (const double busy : part_busy_) sum += busy, squares += busy * busy;
  const double n = double(part_busy_.size()), mean = sum / n;
  return one_of_ == 1 || mean <= 0 ? 0 : std::sqrt(std::max(0.0, squares / n - mean * mean) / n) / mean;
}

ALWAYS_INLINE L2Lines::Line Chip::find(uint64_t line, L2Lines::Place at, double now) {
  return lines_.find(line, at, [&](L2Lines::Line old) {
    if (old.dirty()) write_back(old.tag(), old, now);
  });
}

ALWAYS_INLINE bool Chip::open_page(uint64_t line) {
  const uint64_t page = line >> kPageBits;
  Page& slot = pages_[page_of(line)];
  const bool opens = slot.page != page || (openings_ - slot.opened) * one_of_ > kOpenPages;
  openings_ += opens, tally_.pages += opens;
  slot = {page, openings_};
  return opens;
}

ALWAYS_INLINE void Chip::use_dram(uint64_t line, double of_one, double now) {
  const double cycles = of_one * times_;
  if (one_of_ > 1) {  // neighbouring pages that are looked up are of different parts
    const uint64_t page = line >> kPageBits;
    part_busy_[(page + (mix(page >> 3) >> 40)) % part_busy_.size()] += cycles;
  }
  dram_free_ = std::max(dram_free_, now) + cycles;
  dram_busy_ += cycles;
  window_busy_ += cycles;
  if (now > window_start_ + kWindow) [[unlikely]] {
    utilisation_ = 0.5 * utilisation_ + 0.5 * std::min(1.0, window_busy_ / (now - window_start_));
    window_start_ = now, window_busy_ = 0;
    read_wait_ = f_.dram_wait + f_.dram_wait_busy * std::min(1.0, std::min(utilisation_, kBusiest) / 0.15);
  }
}

ALWAYS_INLINE void Chip::read_dram(uint64_t line, uint32_t sectors, double now) {
  const bool opens = open_page(line);
  tally_.dram_read += sectors;
  written_share_ += 1e-3 * times_ * (0 - written_share_);
  use_dram(line, read_cycles_[opens][sectors], now);
}

bool Chip::take_dram(uint64_t line, double bytes, bool write, double now) {
  double cost = bytes * (write ? f_.dram_write_cost : 1);
  const bool opens = open_page(line);
  if (opens) cost += f_.dram_page_cost;
  written_share_ += 1e-3 * times_ * ((write ? 1 : 0) - written_share_);
  if (write)
    cost += bytes * f_.dram_turn_cost *
            std::min(1.0, 2 * (1 - written_share_));  // when memory is read and written by turns
  use_dram(line, cost / f_.dram_bandwidth, now);
  return opens;
}

/// Latency of a load that memory serves, without waiting for its turn (dram_free_).
ALWAYS_INLINE double Chip::dram_latency(uint64_t line, uint32_t sm, double now) const {
  const uint32_t drawn =
      uint32_t(mix(mix((line >> kPageBits) ^ uint64_t{sm} << 40) ^ uint64_t(now) >> 9) >> 24 & 0xFFFF);
  double mean = read_wait_;
  if (written_share_ > 0) {
    const double u = std::min(utilisation_, kBusiest);
    mean += f_.dram_wait_written * std::min(1.0, 2 * written_share_) * u * u / (1 - u);
  }
  return f_.dram_latency - f_.dram_wait + mean * kSpread.wait(drawn);
}

/// Writes the dirty sectors of a line to memory; what was written only in part is read first.
void Chip::write_back(uint64_t line, L2Lines::Line way, double now, uint32_t sectors) {
  const uint32_t leaving = way.dirty() & sectors;
  if (!leaving) return;
  const double bytes = 32.0 * sectors_in(leaving);
  double again = 0;  // the page is opened to read and once more to write
  if (const uint32_t partial = sectors_in(way.written().not_full(leaving & ~way.valid()))) {
    tally_.dram_read += partial;
    if (take_dram(line, std::max(64.0, 32.0 * partial) + f_.partial_write_cost, false, now))
      again = f_.dram_page_cost;
  }
  tally_.dram_write += sectors_in(leaving);
  take_dram(line, std::max(64.0, bytes) + again, true, now);
  way.set_sectors(way.valid() | leaving, way.dirty() & ~leaving);
  way.clear_written(leaving);
  dirty_bytes_ -= bytes;
}

void Chip::limit_partial(double now) {
  while (double(partial_order_.size()) > partial_limit_) {
    const uint64_t line = partial_order_.front() >> 2;
    const L2Lines::Line way = lines_.peek(line, home_place_of(line));
    uint32_t parts = 0;  // of the line that were written one after the other
    for (; !partial_order_.empty() && partial_order_.front() >> 2 == line; partial_order_.pop_front()) {
      const uint32_t sector = 1u << (partial_order_.front() & 3);
      if (way) parts |= way.written().not_full(sector & ~way.valid());
    }
    if (parts) write_back(line, way, now, parts);
  }
}

void Chip::limit_dirty(double now) {
  while (dirty_bytes_ > dirty_limit_ && !dirty_order_.empty()) {
    const uint64_t line = dirty_order_.front() >> 2;
    dirty_order_.pop_front();
    if (const L2Lines::Line way = lines_.peek(line, home_place_of(line))) write_back(line, way, now);
  }
}

/// Lines that were replaced, and so written back, stay in the order until they are the oldest: they are left out when it has become long.
void Chip::forget_clean() {
  for (size_t n = dirty_order_.size(); n > 0; n--) {
    if (n > kAhead) lines_.fetch_head(home_place_of(dirty_order_[kAhead] >> 2));
    const uint64_t written = dirty_order_.front();
    dirty_order_.pop_front();
    const L2Lines::Line way = lines_.peek(written >> 2, home_place_of(written >> 2));
    if (way && way.dirty()) dirty_order_.push_back(written);
  }
}

ALWAYS_INLINE double Chip::take_l2(uint32_t sectors, bool first, double now) {
  const double cycles = (first ? far_cycles_ : near_cycles_)[sectors], start = std::max(l2_free_, now);
  l2_free_ = start + cycles * times_;
  l2_busy_ += cycles * times_;
  return start + cycles;
}

ALWAYS_INLINE void Chip::take_l2_write(double sectors, double now) {
  const double cycles = sectors / f_.l2_write_sectors * times_;
  l2_write_free_ = std::max(l2_write_free_, now) + cycles;
  l2_write_busy_ += cycles;
}

ALWAYS_INLINE Chip::Found Chip::look_up(uint64_t line, uint32_t mask, L2Lines::Place at,
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
    if (!missing) return Found::far;
  }
  // Memory gives 64 bytes.
  if (missing & 3) missing |= 3 & ~dirty;
  if (missing & 12) missing |= 12 & ~dirty;
  way.set_sectors(valid | missing, dirty);
  return Found::missing;
}

/// Where a read goes, worked out once.
struct Chip::Coming {
  Merge* merge;
  L2Lines::Place near, far;
};

ALWAYS_INLINE Chip::Coming Chip::coming(const Request& r) {
  const uint64_t hash = mix(r.line);
  const uint32_t side = r.sm & 1, first_merge = r.sm < f_.sms ? first_merge_[r.sm] : merges_of(r.sm);
  const L2Lines::Place near = lines_.place_of(hash, side);
  return {&merges_[first_merge + ((hash >> 32) % kMerges >> one_bits_)], near, lines_.across(near, side)};
}

double Chip::read(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  const Request r{line, mask, sm, now, false};
  return read_at(r, coming(r));
}

ALWAYS_INLINE double Chip::read_at(const Request& r, const Coming& at) {
  Merge& merge = *at.merge;
  if (merge.line == r.line && merge.asked < kMergeMost && !(r.sectors & ~merge.mask) &&
      r.when - merge.when < kMergeWindow) {
    merge.asked++;
    tally_.merged += sectors_in(r.sectors);
    return std::max(merge.back, r.when);
  }
  const double back = read_from_l2(r, at);
  merge = {r.line, r.sectors, 1, r.when, back};
  return back;
}

/// What a request will touch is fetched while those before it are served: first its set, then the way in it.
void Chip::read_all(std::span<Request> requests) {
  Coming ahead[kAhead];
  const size_t n = requests.size();
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i >= kAhead) {
      Request& r = requests[i - kAhead];
      r.when = read_at(r, ahead[i % kAhead]);
    }
    if (i < n) {
      const Coming& c = ahead[i % kAhead] = coming(requests[i]);
      fetch_ahead(c.merge);
      lines_.fetch_head(c.near), lines_.fetch_head(c.far);
    }
    if (i >= kWayAhead && i - kWayAhead < n) {
      const Coming& c = ahead[(i - kWayAhead) % kAhead];
      if (lines_.fetch_way(c.near)) continue;
      lines_.fetch_found(c.far);
      fetch_ahead(&pages_[page_of(requests[i - kWayAhead].line)]);
    }
  }
}

/// The other line of 256 bytes comes along from memory [tma.promotion.256.right: 402 cycles, 727 without].
void Chip::bring_other(uint64_t line, L2Lines::Place near, L2Lines::Place far, double now, double arrives) {
  uint32_t missing = 0;
  L2Lines::Line way;
  if (look_up(line, 15, near, far, now, way, missing) != Found::missing) return;
  read_dram(line, sectors_in(missing), now);
  take_l2_write(sectors_in(missing), now);
  way.arrives() = std::max(arrives, dram_free_);
}

ALWAYS_INLINE double Chip::read_from_l2(const Request& r, const Coming& at) {
  uint32_t missing = 0;
  L2Lines::Line way;
  const Found found = look_up(r.line, r.sectors, at.near, at.far, r.when, way, missing);
  const uint32_t sectors = sectors_in(r.sectors);
  tally_.l2_read += sectors;
  const double queued = take_l2(sectors, found != Found::near, r.when);
  double& slice = read_slice_[slice_of(r.line) % slices_];
  slice = std::max(slice, r.when) + slice_cycles_[sectors];
  const double start = std::max(queued, slice);
  // Half of what memory gives lies behind the other partition [share_near/132], as does half of what is
  // written [bulk_store].
  if (found != Found::near) tally_.half_crossing += found == Found::far ? 2 * sectors : sectors;
  if (found != Found::missing) {
    tally_.l2_hits += sectors;
    const double spread = spread_[mix(r.line ^ uint64_t{r.sm} << 40) >> 30 & 255];
    // Data that are still on their way from memory are waited for.
    return std::max(way.arrives(), start + (found == Found::near ? f_.l2_latency : f_.l2_far_latency) + spread);
  }
  const uint32_t read = sectors_in(missing);
  read_dram(r.line, read, r.when);
  take_l2_write(read, r.when);  // the fill
  const double served = std::max(std::max(start, dram_free_), l2_write_free_);
  const double arrives = way.arrives() = served + dram_latency(r.line, r.sm, r.when);
  if (r.in_pairs) {
    const L2Lines::Place near = place_of(r.line ^ 1, r.sm & 1);
    bring_other(r.line ^ 1, near, lines_.across(near, r.sm & 1), r.when, arrives);
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
  return write_at({line, mask, 0, now, false}, bytes, home_place_of(line));
}

ALWAYS_INLINE double Chip::write_at(const Request& r, uint32_t bytes, L2Lines::Place home) {
  mark_written(r.line, r.sectors, r.when, bytes, home);
  // Parts of sectors: a request takes the time of one sector more [partial_store/2 to 32].
  const double flits = sectors_in(r.sectors) + (bytes < 32 ? f_.write_request : 0);
  take_l2_write(flits, r.when);
  double& slice = write_slice_[slice_of(r.line) % slices_];
  slice = std::max(slice, r.when) + flits * f_.write_slice;
  slices_free_ = std::max(slices_free_, slice);
  return slice;
}

double Chip::would_write(uint64_t line, uint32_t mask, double now, uint32_t bytes) const {
  return std::max(write_slice_[slice_of(line) % slices_], now) + (sectors_in(mask) + (bytes < 32 ? f_.write_request : 0)) * f_.write_slice;
}

ALWAYS_INLINE void Chip::mark_written(uint64_t line, uint32_t mask, double now, uint32_t bytes,
                                      L2Lines::Place home) {
  const L2Lines::Line way = find(line, home, now);
  uint32_t valid = way.valid();
  const uint32_t dirty = way.dirty(), fresh = mask & ~dirty;
  if (bytes < 32 && (mask & ~valid)) {  // what the other partition has read need not be read again
    if (const L2Lines::Line other = lines_.peek(line, lines_.across(home, home_of(mix(line)))))
      valid |= other.valid() & ~dirty;
  }
  if (fresh && !dirty) {
    if (dirty_order_.full() && dirty_order_.size() >= kLongOrder) [[unlikely]]
      forget_clean();
    dirty_order_.push_back(line << 2);
  }
  dirty_bytes_ += 32.0 * sectors_in(fresh);
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
  if (const L2Lines::Line way = lines_.peek(line, home_place_of(line)))
    way.add_written(mask, bytes);
}

double Chip::atomic(uint64_t line, uint32_t mask, uint32_t lanes, bool floating, uint32_t sm, double now) {
  uint32_t missing = 0;
  L2Lines::Line way;
  const uint32_t side = home_of(mix(line));
  const L2Lines::Place home = place_of(line, side);
  const Found found = look_up(line, mask, home, lines_.across(home, side), now, way, missing);
  if (found == Found::missing) read_dram(line, sectors_in(missing), now);
  mark_written(line, mask, now, 32, home);
  take_l2_write(sectors_in(mask), now);
  // The slices of its unit read little meanwhile [add_2_read_2/2].
  const size_t unit = atomic_unit_of(line);
  const bool again = slice_line_[unit] == line;
  const double interval = f_.atomic_interval / 2;
  const double each = again && floating     ? f_.atomic_same_line
                      : again && lanes == 1 ? f_.atomic_one_line
                                            : interval;
  slice_line_[unit] = line;
  slice_[unit] = std::max(slice_[unit], now) + each + (lanes - 1) * interval;
  for (const size_t slice : {2 * unit % slices_, (2 * unit + 1) % slices_})
    read_slice_[slice] = std::max(read_slice_[slice], now) + interval * lanes;
  atomics_free_ = std::max(atomics_free_, slice_[unit]);
  const double read = found == Found::missing ? dram_free_ + dram_latency(line, sm, now) - f_.l2_latency : 0;
  return std::max({slice_[unit], now, read}) + f_.l2_latency;
}

}  // namespace orrery::timing
