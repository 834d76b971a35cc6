// timing/chip.cc: see chip.h.
#include "timing/chip.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

namespace orrery::timing {

namespace {
uint64_t mix(uint64_t v) {
  v *= 0x9E3779B97F4A7C15ull;
  return v ^ v >> 29;
}
/// Which of 48 units, one for two slices, works on atomic operations on a line: eight neighbouring lines share two, 32 share about five
/// [add_at_end/64 to 1024].
uint32_t atomic_unit_of(uint64_t line) { return uint32_t((mix(line >> 5) >> 30) % 12 * 4 + ((line >> 2 & 1) | (line >> 3 & 2))); }
/// A slice serves a request in 0.93 cycles; of 64 neighbouring lines eight at a time lie in one [same_lines/1 to 64]. Higher bits of
/// the address exchange the eight, as hashes do that keep strides from one slice.
uint32_t slice_of(uint64_t line) {
  const uint64_t above = mix(line >> 6);
  return uint32_t((above >> 30) % 12 * 8 + (((line & 1) | (line >> 1 & 2) | (line >> 2 & 4)) ^ (above >> 50 & 7)));
}

/// Refuses what a profile cannot be (or a what-if setting make it): nothing could be simulated with it.
void check_sizes(const Profile& p) {
  constexpr double kMostL2 = double(uint64_t{1} << 35);  // what L2Lines can number
  for (const auto& [key, value, most] : {std::tuple{"sm.count", double(p.sm_count()), 1e5},
                                         {"clock.max", p.clock_max().value(), 1e12},
                                         {"sm.max_threads", double(p.max_threads_per_sm()), 1e6},
                                         {"sm.max_blocks", double(p.max_blocks_per_sm()), 1e6},
                                         {"memory.bandwidth", p.memory_bandwidth().value(), 1e18},
                                         {"l2.size", p.l2_size().value(), kMostL2}})
    if (!(value > 0 && value <= most)) throw ProfileError(fmt::format("{} is {:g}: the timing model needs more than 0 and at most {:g}", key, value, most));
}
/// Lines that are written live in one partition, whoever writes them.
uint32_t home_of(uint64_t line) { return uint32_t(mix(line) >> 20 & 1); }
}  // namespace

ChipFigures figures_of(const Profile& p) {
  check_sizes(p);
  static const Profile reference = load_profile("h200");
  ChipFigures f;
  f.clock = p.clock_max().value();
  f.sms = uint32_t(p.sm_count()), f.warps = uint32_t(p.max_threads_per_sm() / 32), f.blocks = uint32_t(p.max_blocks_per_sm());
  f.registers = uint32_t(p.registers_per_sm());
  f.shared_bytes = uint32_t(p.shared_per_sm().value()), f.l1_bytes = uint32_t(p.l1_and_shared().value());
  f.l2_bytes = p.l2_size().value();
  const auto number = [](auto v) {
    if constexpr (std::is_arithmetic_v<decltype(v)>) return double(v);
    else return v.value();
  };
#define FIGURE(member, accessor, factor) f.member = number(p.has(FieldId::accessor) ? p.accessor() : reference.accessor()) * factor;
#include "timing/figures.def"
#undef FIGURE
  f.dram_bandwidth = (p.has(FieldId::timing_dram_share) ? p.timing_dram_share() : reference.timing_dram_share()) * p.memory_bandwidth().value() / f.clock;
  f.borrowed = !p.has(FieldId::timing_l2_latency);
  // What L2 keeps goes with its size.
  if (!p.has(FieldId::timing_l2_dirty)) f.l2_dirty_bytes *= f.l2_bytes / reference.l2_size().value();
  if (!p.has(FieldId::timing_l2_partial)) f.l2_partial_sectors *= f.l2_bytes / reference.l2_size().value();
  if (f.borrowed) {
    // What the whole chip moves in a cycle goes with its SMs, power with the board's limit.
    const double size = double(f.sms) / double(reference.sm_count()), power = p.power_limit().value() / reference.power_limit().value();
    for (double* rate : {&f.l2_requests, &f.l2_sectors, &f.l2_far_sectors, &f.l2_write_sectors}) *rate *= size;
    f.block_interval /= size;
    for (double* watts : {&f.dynamic_watts, &f.plain_watts}) *watts *= power;
    f.idle_watts = p.power_idle().value();
  }
  if (p.has(FieldId::clock_tensor_max) && f.borrowed) f.tensor_clock = std::min(f.tensor_clock, f.clock);
  return f;
}

void MemoryCounts::extend(const MemoryCounts& from, const MemoryCounts& to, double times) {
  for (double MemoryCounts::*count : {&MemoryCounts::l2_read_sectors, &MemoryCounts::l2_write_sectors, &MemoryCounts::l2_hits, &MemoryCounts::dram_read, &MemoryCounts::dram_write,
                                      &MemoryCounts::dram_pages, &MemoryCounts::merged_sectors, &MemoryCounts::fabric_sectors})
    this->*count += times * (to.*count - from.*count);
}

ChipFigures ChipFigures::at_clock(double now) const {
  ChipFigures f = *this;
  const double slower = now / clock;
  for (double* latency : {&f.l2_latency, &f.l2_far_latency, &f.dram_latency, &f.l2_spread, &f.dram_wait, &f.dram_wait_busy, &f.dram_wait_written, &f.atomic_one_line, &f.atomic_interval,
                          &f.atomic_same_line, &f.write_slice})
    *latency *= slower;
  for (double* rate : {&f.l2_requests, &f.l2_sectors, &f.l2_far_sectors, &f.l2_write_sectors, &f.dram_bandwidth}) *rate /= slower;
  return f;
}

Chip::Chip(const ChipFigures& figures, uint64_t cluster)
    : f_(figures), cluster_(uint32_t(cluster)), lines_(uint32_t(f_.l2_bytes / 2 / 128 / L2Lines::kWays)), merges_(size_t(kGpcs) * kMerges), pages_(kPages) {
  for (size_t n = 0; n < near_cycles_.size(); n++) near_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_sectors), far_cycles_[n] = std::max(1 / f_.l2_requests, double(n) / f_.l2_far_sectors);
}

L2Lines::Place Chip::place_of(uint64_t line, uint32_t side) const { return lines_.place_of(mix(line), side); }

L2Line* Chip::peek(uint64_t line, uint32_t side) { return lines_.peek(line, place_of(line, side)); }

L2Line& Chip::find(uint64_t line, L2Lines::Place at, double now) {
  return lines_.find(line, at, [&](L2Line& old) { write_back(old.tag, old, now); });
}

Chip::Page& Chip::page_of(uint64_t line) { return pages_[mix(line >> 4) >> 40 & (kPages - 1)]; }

bool Chip::take_dram(uint64_t line, double bytes, bool write, double now) {
  const uint64_t page = line >> 4;  // 2 KiB
  Page& slot = page_of(line);
  double cost = bytes * (write ? f_.dram_write_cost : 1);
  const bool opens = slot.page != page || openings_ - slot.opened > kOpenPages;
  if (opens) cost += f_.dram_page_cost, openings_++, counts_.dram_pages += 1;
  slot = {page, openings_};
  written_share_ += 1e-3 * ((write ? 1 : 0) - written_share_);
  if (write) cost += bytes * f_.dram_turn_cost * std::min(1.0, 2 * (1 - written_share_));  // when memory is read and written by turns
  const double cycles = cost / f_.dram_bandwidth;
  dram_free_ = std::max(dram_free_, now) + cycles;
  dram_busy_ += cycles;
  window_busy_ += cycles;
  if (now > window_start_ + kWindow) {
    utilisation_ = 0.5 * utilisation_ + 0.5 * std::min(1.0, window_busy_ / (now - window_start_));
    window_start_ = now, window_busy_ = 0;
  }
  return opens;
}

/// Latency of a load that memory serves, without waiting for its turn (dram_free_). The shape of the spread is that of
/// calib/raw/h200-2026-11-21-spread.jsonl over its mean, idle, read and copied.
double Chip::dram_latency(uint64_t line, uint32_t sm, double now) const {
  static constexpr double kShares[] = {0, .1, .25, .5, .75, .9, .95, .98, .995, 1}, kWaits[] = {0, .12, .4, .9, 1.37, 1.88, 2.65, 3.5, 4.8, 6};
  const double drawn = double(mix(mix((line >> 4) ^ uint64_t{sm} << 40) ^ uint64_t(now) >> 9) >> 24 & 0xFFFF) / 65536;
  uint32_t i = 0;
  while (drawn >= kShares[i + 1]) i++;
  const double wait = kWaits[i] + (kWaits[i + 1] - kWaits[i]) * (drawn - kShares[i]) / (kShares[i + 1] - kShares[i]);
  const double u = std::min(utilisation_, 0.85), written = std::min(1.0, 2 * written_share_);
  const double mean = f_.dram_wait + f_.dram_wait_busy * std::min(1.0, u / 0.15) + f_.dram_wait_written * written * u * u / (1 - u);
  return f_.dram_latency - f_.dram_wait + mean * wait;
}

/// Writes the dirty sectors of a line to memory; what was written only in part is read first.
void Chip::write_back(uint64_t line, L2Line& way, double now, uint8_t sectors) {
  const uint8_t leaving = way.dirty & sectors;
  if (!leaving) return;
  const double bytes = 32.0 * sectors_in(leaving);
  double partial = 0;
  for (int i = 0; i < 4; i++)
    if (leaving >> i & 1 && !(way.valid >> i & 1) && way.written[size_t(i)] < 32) partial += 1;
  double again = 0;  // the page is opened to read and once more to write
  if (partial > 0) {
    counts_.dram_read += 32 * partial;
    if (take_dram(line, std::max(64.0, 32 * partial) + f_.partial_write_cost, false, now)) again = f_.dram_page_cost;
  }
  counts_.dram_write += bytes;
  take_dram(line, std::max(64.0, bytes) + again, true, now);
  way.valid |= leaving;
  way.dirty &= uint8_t(~leaving);
  for (int i = 0; i < 4; i++)
    if (leaving >> i & 1) way.written[size_t(i)] = 0;
  dirty_bytes_ -= bytes;
}

void Chip::limit_partial(double now) {
  while (double(partial_order_.size()) > f_.l2_partial_sectors) {
    const auto [line, place] = partial_order_.front();
    L2Line* way = peek(line, place & 1);
    uint8_t parts = 0;  // of the line that were written one after the other
    for (; !partial_order_.empty() && partial_order_.front().first == line && (partial_order_.front().second & 1) == (place & 1); partial_order_.pop_front()) {
      const uint32_t sector = partial_order_.front().second >> 1;
      if (way && !(way->valid >> sector & 1) && way->written[sector] < 32) parts |= uint8_t(1 << sector);
    }
    if (parts) write_back(line, *way, now, parts);
  }
}

void Chip::limit_dirty(double now) {
  while (dirty_bytes_ > double(f_.l2_dirty_bytes) && !dirty_order_.empty()) {
    const auto [line, side] = dirty_order_.front();
    dirty_order_.pop_front();
    if (L2Line* way = peek(line, side)) write_back(line, *way, now);
  }
}

double Chip::take_l2(uint32_t sectors, bool first, double now) {
  const double cycles = (first ? far_cycles_ : near_cycles_)[sectors];
  l2_free_ = std::max(l2_free_, now) + cycles;
  l2_busy_ += cycles;
  return l2_free_;
}

void Chip::take_l2_write(double sectors, double now) {
  const double cycles = sectors / f_.l2_write_sectors;
  l2_write_free_ = std::max(l2_write_free_, now) + cycles;
  l2_write_busy_ += cycles;
}

Chip::Found Chip::look_up(uint64_t line, uint32_t mask, uint32_t side, uint32_t& missing, double now, L2Lines::Place at) {
  L2Line& near = find(line, at, now);
  missing = mask & ~(near.valid | near.dirty);
  last_ = &near;
  if (!missing) return Found::near;
  if (const L2Line* far = peek(line, side ^ 1)) {  // what the far partition has is copied from there
    const uint32_t there = missing & (far->valid | far->dirty);
    near.valid |= uint8_t(there), missing &= ~there;
    if (there) near.arrives = std::max(near.arrives, far->arrives);
    if (!missing) return Found::far;
  }
  // Memory gives 64 bytes.
  if (missing & 3) missing |= 3 & ~near.dirty;
  if (missing & 12) missing |= 12 & ~near.dirty;
  near.valid |= uint8_t(missing);
  return Found::missing;
}

/// SMs are numbered by the blocks that they run. Neighbouring blocks are in one GPC [share_near, share_far]; clusters are handed out
/// to GPCs in turn [ring_one with clusters of one: nothing merges that neighbours share].
uint32_t Chip::gpc_of(uint32_t sm) const { return (cluster_ > 1 ? sm / cluster_ : sm * kGpcs / f_.sms) % kGpcs; }

size_t Chip::merge_of(uint64_t line, uint32_t sm) const { return size_t(gpc_of(sm)) * kMerges + (mix(line) >> 32) % kMerges; }

double Chip::read(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  return read_at({line, mask, sm, now, false}, merges_[merge_of(line, sm)], place_of(line, sm & 1));
}

double Chip::read_at(const Request& r, Merge& merge, L2Lines::Place near) {
  if (merge.line == r.line && merge.asked < kMergeMost && !(r.sectors & ~merge.mask) && r.when - merge.when < kMergeWindow) {
    merge.asked++;
    counts_.merged_sectors += sectors_in(r.sectors);
    return std::max(merge.back, r.when);
  }
  const double back = read_from_l2(r, near);
  merge = {r.line, r.sectors, 1, r.when, back};
  return back;
}

/// What a request will touch is fetched while those before it are served: first its set, then the way in it.
double Chip::read_all(std::span<const Request> requests, uint32_t sm) {
  constexpr size_t kAhead = 32, kWayAhead = 16;  // requests
  struct Coming {
    size_t merge;
    L2Lines::Place near, far;
  } coming[kAhead];
  const size_t n = requests.size();
  double last = 0;
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i >= kAhead) {
      const Request& r = requests[i - kAhead];
      const Coming& c = coming[i % kAhead];
      const double back = read_at(r, merges_[c.merge], c.near);
      if (r.sm == sm) last = std::max(last, back);
    }
    if (i < n) {
      Coming& c = coming[i % kAhead];
      const uint32_t side = requests[i].sm & 1;
      c = {merge_of(requests[i].line, requests[i].sm), place_of(requests[i].line, side), place_of(requests[i].line, side ^ 1)};
      _mm_prefetch(reinterpret_cast<const char*>(&merges_[c.merge]), _MM_HINT_T0);
      lines_.fetch_head(c.near), lines_.fetch_head(c.far);
    }
    if (i >= kWayAhead && i - kWayAhead < n)
      if (const Coming& c = coming[(i - kWayAhead) % kAhead]; !lines_.fetch_way(c.near)) {
        lines_.fetch_way(c.far);
        _mm_prefetch(reinterpret_cast<const char*>(&page_of(requests[i - kWayAhead].line)), _MM_HINT_T0);
      }
  }
  return last;
}

/// The other line of 256 bytes comes along from memory [tma.promotion.256.right: 402 cycles, 727 without].
void Chip::bring_other(uint64_t line, uint32_t side, double now, double arrives) {
  uint32_t missing = 0;
  if (look_up(line, 15, side, missing, now, place_of(line, side)) != Found::missing) return;
  const double bytes = 32.0 * sectors_in(missing);
  counts_.dram_read += bytes;
  take_dram(line, bytes, false, now);
  take_l2_write(bytes / 32, now);
  last_->arrives = std::max(arrives, dram_free_);
}

double Chip::read_from_l2(const Request& r, L2Lines::Place near) {
  const auto& [line, mask, sm, now, in_pairs] = r;
  uint32_t missing = 0;
  const Found found = look_up(line, mask, sm & 1, missing, now, near);
  const uint32_t sectors = sectors_in(mask);
  counts_.l2_read_sectors += sectors;
  const double queued = take_l2(sectors, found != Found::near, now);
  double& slice = read_slice_[slice_of(line)];
  slice = std::max(slice, now) + std::max(0.93, 0.23 * sectors);
  const double start = std::max(queued, slice);
  const double spread = double(mix(line ^ uint64_t{sm} << 40) >> 30 & 255) / 127.5 - 1;  // slices and banks are near or far
  // Half of what memory gives lies behind the other partition [share_near/132], as does half of what is written [bulk_store].
  if (found != Found::near) counts_.fabric_sectors += found == Found::far ? sectors : 0.5 * sectors;
  if (found != Found::missing) {
    counts_.l2_hits += sectors;
    // Data that are still on their way from memory are waited for.
    return std::max(last_->arrives, start + (found == Found::near ? f_.l2_latency : f_.l2_far_latency) + spread * f_.l2_spread);
  }
  const double bytes = 32.0 * sectors_in(missing);
  counts_.dram_read += bytes;
  take_dram(line, bytes, false, now);
  take_l2_write(bytes / 32, now);  // the fill
  const double arrives = last_->arrives = std::max({start, dram_free_, l2_write_free_}) + dram_latency(line, sm, now);
  if (in_pairs) bring_other(line ^ 1, sm & 1, now, arrives);
  return arrives;
}

void Chip::write_all(std::span<const Request> requests, uint32_t bytes) {
  constexpr size_t kAhead = 32, kWayAhead = 16;  // requests
  const size_t n = requests.size();
  const auto place = [&](size_t i) { return place_of(requests[i].line, home_of(requests[i].line)); };
  for (size_t i = 0; i < n + kAhead; i++) {
    if (i < n) lines_.fetch_head(place(i)), lines_.fetch_head(place_of(requests[i].line, home_of(requests[i].line) ^ 1));
    if (i >= kWayAhead && i - kWayAhead < n) {
      lines_.fetch_way(place(i - kWayAhead));
      // A line that becomes dirty may send the oldest one out.
      if (dirty_order_.size() > kAhead) lines_.fetch_head(place_of(dirty_order_[kAhead - 1].first, dirty_order_[kAhead - 1].second)), lines_.fetch_way(place_of(dirty_order_[kWayAhead].first, dirty_order_[kWayAhead].second));
    }
    if (i >= kAhead) write(requests[i - kAhead].line, requests[i - kAhead].sectors, requests[i - kAhead].when, bytes);
  }
}

double Chip::write(uint64_t line, uint32_t mask, double now, uint32_t bytes) {
  mark_written(line, mask, now, bytes);
  // Parts of sectors: a request takes the time of one sector more [partial_store/2 to 32].
  const double flits = sectors_in(mask) + (bytes < 32 ? f_.write_request : 0);
  take_l2_write(flits, now);
  double& slice = write_slice_[slice_of(line)];
  slice = std::max(slice, now) + flits * f_.write_slice;
  slices_free_ = std::max(slices_free_, slice);
  return slice;
}

void Chip::mark_written(uint64_t line, uint32_t mask, double now, uint32_t bytes) {
  const uint32_t side = home_of(line);
  L2Line& way = find(line, place_of(line, side), now);
  if (bytes < 32 && (mask & ~way.valid)) {  // what the other partition has read need not be read again
    if (const L2Line* other = peek(line, side ^ 1)) way.valid |= other->valid & ~way.dirty;
  }
  const uint32_t fresh = mask & ~way.dirty;
  if (fresh && !way.dirty) dirty_order_.push_back({line, side});
  dirty_bytes_ += 32.0 * sectors_in(fresh);
  way.dirty |= uint8_t(mask);
  for (int i = 0; i < 4; i++)
    if (bytes < 32 && fresh >> i & 1 && !(way.valid >> i & 1)) partial_order_.push_back({line, side | uint32_t(i) << 1});
  for (int i = 0; i < 4; i++)
    if (mask >> i & 1) way.written[size_t(i)] = uint8_t(std::min<uint32_t>(32, way.written[size_t(i)] + bytes));
  counts_.l2_write_sectors += sectors_in(mask), counts_.fabric_sectors += 0.5 * sectors_in(mask);
  limit_dirty(now);
  limit_partial(now);
}

void Chip::write_more(uint64_t line, uint32_t mask, uint32_t bytes) {
  if (L2Line* way = peek(line, home_of(line)))
    for (int i = 0; i < 4; i++)
      if (mask >> i & 1) way->written[size_t(i)] = uint8_t(std::min<uint32_t>(32, way->written[size_t(i)] + bytes));
}

double Chip::atomic(uint64_t line, uint32_t mask, uint32_t lanes, bool floating, uint32_t sm, double now) {
  uint32_t missing = 0;
  const uint32_t side = home_of(line);
  const Found found = look_up(line, mask, side, missing, now, place_of(line, side));
  if (found == Found::missing) {
    counts_.dram_read += 32.0 * sectors_in(missing);
    take_dram(line, 32.0 * sectors_in(missing), false, now);
  }
  mark_written(line, mask, now, 32);
  take_l2_write(sectors_in(mask), now);
  // The slices of its unit read little meanwhile [add_2_read_2/2].
  const size_t unit = atomic_unit_of(line);
  const bool again = slice_line_[unit] == line;
  const double interval = f_.atomic_interval / 2, each = again && floating ? f_.atomic_same_line : again && lanes == 1 ? f_.atomic_one_line : interval;
  slice_line_[unit] = line;
  slice_[unit] = std::max(slice_[unit], now) + each + (lanes - 1) * interval;
  for (const size_t slice : {2 * unit, 2 * unit + 1}) read_slice_[slice] = std::max(read_slice_[slice], now) + interval * lanes;
  atomics_free_ = std::max(atomics_free_, slice_[unit]);
  return std::max({slice_[unit], now, found == Found::missing ? dram_free_ + dram_latency(line, sm, now) - f_.l2_latency : 0}) + f_.l2_latency;
}

}  // namespace orrery::timing
