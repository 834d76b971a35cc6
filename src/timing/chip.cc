// timing/chip.cc: see chip.h.
#include "timing/chip.h"

#include <algorithm>
#include <bit>

namespace orrery::timing {

ChipFigures figures_of(const Profile& p) {
  ChipFigures f;
  f.clock = p.clock_max().value();
  f.sms = uint32_t(p.sm_count()), f.warps = uint32_t(p.max_threads_per_sm() / 32), f.blocks = uint32_t(p.max_blocks_per_sm());
  f.registers = uint32_t(p.registers_per_sm());
  f.shared_bytes = uint32_t(p.shared_per_sm().value()), f.l1_bytes = uint32_t(p.l1_and_shared().value());
  f.l2_bytes = uint64_t(p.l2_size().value());
  f.dram_bandwidth = p.memory_bandwidth().value() * p.memory_efficiency() / f.clock;
  if (p.has(FieldId::latency_l1)) f.l1_latency = p.latency_l1().value();
  return f;
}

Chip::Chip(const ChipFigures& figures, double share) : f_(figures), share_(share) {
  sets_ = uint32_t(std::max<uint64_t>(1, f_.l2_bytes / 2 / 128 / kWays));
  ways_.resize(size_t(sets_) * kWays * 2);
}

Chip::Way& Chip::find(uint64_t line, uint32_t side, bool& hit, double now) {
  uint64_t h = line * 0x9E3779B97F4A7C15ull;
  Way* set = &ways_[(size_t(side) * sets_ + size_t((h >> 32) % sets_)) * kWays];
  Way* oldest = set;
  for (uint32_t i = 0; i < kWays; i++) {
    if (set[i].tag == line) {
      hit = true;
      set[i].used = ++clock_;
      return set[i];
    }
    if (set[i].used < oldest->used) oldest = &set[i];
  }
  hit = false;
  if (oldest->dirty) {
    const double bytes = 32.0 * std::popcount(oldest->dirty);
    counts_.dram_write += bytes;
    take_dram(bytes * f_.dram_write_cost, now);
  }
  *oldest = Way{line, ++clock_, 0, 0};
  return *oldest;
}

void Chip::take_dram(double bytes, double now) {
  const double cycles = bytes / f_.dram_bandwidth;
  dram_free_ = std::max(dram_free_, now) + cycles;
  dram_busy_ += cycles;
}

double Chip::take_l2(double sectors, double now) {
  const double cycles = sectors * 32 / f_.l2_bandwidth;
  l2_free_ = std::max(l2_free_, now) + cycles;
  l2_busy_ += cycles;
  return l2_free_;
}

Chip::Found Chip::look_up(uint64_t line, uint32_t mask, uint32_t side, bool write, uint32_t& missing, double now) {
  bool hit = false;
  Way& near = find(line, side, hit, now);
  if (write) {
    near.valid |= mask, near.dirty |= mask;
    missing = 0;
    return Found::near;
  }
  missing = mask & ~near.valid;
  near.valid |= mask;
  if (!missing) return Found::near;
  // The other partition, without making room there.
  const uint64_t h = line * 0x9E3779B97F4A7C15ull;
  const Way* set = &ways_[(size_t(side ^ 1) * sets_ + size_t((h >> 32) % sets_)) * kWays];
  for (uint32_t i = 0; i < kWays; i++)
    if (set[i].tag == line && (missing & ~set[i].valid) == 0) {
      missing = 0;
      return Found::far;
    }
  return Found::missing;
}

double Chip::read(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  uint32_t missing = 0;
  const Found found = look_up(line, mask, sm & 1, false, missing, now);
  const double sectors = std::popcount(mask);
  counts_.l2_read_sectors += sectors;
  const double start = take_l2(sectors, now);
  const double queue = start - now;
  if (found == Found::near) return counts_.l2_hits += sectors, now + queue + f_.l2_latency;
  if (found == Found::far) return counts_.l2_hits += sectors, now + queue + f_.l2_far_latency;
  const double bytes = 32.0 * std::popcount(missing);
  counts_.dram_read += bytes;
  take_dram(bytes, now);
  return std::max(now + queue, dram_free_) + f_.dram_latency;
}

void Chip::ghost_read(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  uint32_t missing = 0;
  const Found found = look_up(line, mask, sm & 1, false, missing, now);
  const double sectors = std::popcount(mask);
  counts_.l2_read_sectors += sectors;
  take_l2(sectors, now);
  if (found != Found::missing) {
    counts_.l2_hits += sectors;
    return;
  }
  const double bytes = 32.0 * std::popcount(missing);
  counts_.dram_read += bytes;
  take_dram(bytes, now);
}

void Chip::write(uint64_t line, uint32_t mask, uint32_t sm, double now, bool) { ghost_write(line, mask, sm, now); }

void Chip::ghost_write(uint64_t line, uint32_t mask, uint32_t sm, double now) {
  uint32_t missing = 0;
  look_up(line, mask, sm & 1, true, missing, now);
  counts_.l2_write_sectors += std::popcount(mask);
  take_l2(std::popcount(mask), now);
}

double Chip::atomic(uint64_t line, uint32_t mask, uint32_t same, uint32_t lanes, uint32_t sm, double now) {
  const double back = read(line, mask, sm, now);
  look_up(line, mask, sm & 1, true, mask, now);
  (void)lanes;
  return back + same * f_.atomic_interval;
}

}  // namespace orrery::timing
