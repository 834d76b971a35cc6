// timing/chip_dram.h: what an access to memory takes: pages, bandwidth and the spread of latencies; private to chip.cc and chip_dram.cc.
//
// Requests are many and short: what serves one is one piece of code.
#pragma once
#include <algorithm>
#include <array>

#include "timing/chip.h"

#define ALWAYS_INLINE [[gnu::always_inline]] inline

namespace orrery::timing {

/// How long loads wait for memory beyond the quickest: the shape of calib/raw/h200-2026-11-21-spread.jsonl
/// over its mean, idle, read and copied, as straight pieces between shares of the loads.
class MemorySpread {
 public:
  constexpr MemorySpread() {
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
inline constexpr MemorySpread kSpread;

/// SMs drift apart: what their requests wait for each other is less than if all asked at once, as the simulated one's ghosts do, by the square of this share of
/// memory's time, but for the first cycles of a launch [arrivals: read 8, 16 by 1,024 threads +17 and +19% before].
inline constexpr double kInStep = 0.9, kTogether = 6000;
/// What loads wait for writes is not spread as far: by its mean [arrivals: copy 4 over read 4: +232 cycles, 9 of 10 less than 426, 99 of 100 than 641].
inline constexpr double kLongestForWrites = 2.8;

/// What memory serves alike: of 8 KB every other 2 KB [latest_2048_32_1/16 and 64: as long as half as many rows far apart; chains of 4 KB, as long as two draws].
constexpr uint64_t drawn_alike(uint64_t line) { return line >> 6 << 1 | (line >> 4 & 1); }

inline constexpr double kBusiest = 0.85;  // utilisation of memory beyond which waits grow no more

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
    const double u = std::min(utilisation_, kBusiest);
    read_wait_ = f_.dram_wait + f_.dram_wait_busy * std::min(1.0, u / 0.15);
    queue_wait_ = f_.dram_wait_queue * u / (1 - u);
    in_step_ = std::min(1.0, std::max(utilisation_ * utilisation_ / (kInStep * kInStep), 1 - (now - begun_) / kTogether));
  }
}

ALWAYS_INLINE void Chip::read_dram(uint64_t line, uint32_t sectors, double now) {
  const bool opens = open_page(line);
  tally_.dram_read += sectors;
  written_share_ += 1e-3 * times_ * (0 - written_share_);
  use_dram(line, read_cycles_[opens][sectors], now);
}

/// Latency of a load that memory serves, without waiting for its turn (dram_free_).
ALWAYS_INLINE double Chip::dram_latency(uint64_t line, uint32_t sm, double now, bool copied) const {
  const uint32_t drawn =
      uint32_t(mix(mix(drawn_alike(line) ^ uint64_t{sm} << 40) ^ uint64_t(now) >> 9) >> 24 & 0xFFFF);
  double mean = read_wait_, for_writes = 0;
  const double written = std::min(1.0, 2 * written_share_);
  if (written > 0) {
    const double u = std::min(utilisation_, kBusiest);
    for_writes = written * u * (f_.dram_wait_mixed + f_.dram_wait_written * u / (1 - u));
  }
  if (!copied) mean += (1 - written) * queue_wait_;
  const double wait = kSpread.wait(drawn);
  return f_.dram_latency - f_.dram_wait + mean * wait + for_writes * std::min(wait, kLongestForWrites);
}

}  // namespace orrery::timing
