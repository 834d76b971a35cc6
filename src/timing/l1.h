// timing/l1.h: what an SM keeps of memory: lines of its L1, and the last lines of the constant bank.
//
// Invariant: a line has one place at a time. Not here: what of a line is asked for, and when it comes (sm_memory.cc).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "timing/chip.h"

namespace orrery::timing {

/// The L1 of an SM: lines of four sectors, in sets of which any goes when another needs its place; one that was read again is spared, every other time until
/// it is read once more, and what was stored and not read since goes first, twice in five times [calib/steps/kept.cu: of rows that 64 warps go over three times 0.67, 0.62, 0.53 and 0.22 of what they ask for is there when
/// an SM's have 128, 197, 229 and 328 KB, and with stores beside the last turn 0.66, 0.55, 0.51 and 0.31; the one that was read longest ago would go on
/// from 0.67 to 0.00 at once].
class L1 {
  struct Set;

 public:
  explicit L1(uint64_t bytes) : sets_(std::max<uint64_t>(1, bytes / 128 / kWays)) {}
  /// A line's place, which may be another line's later.
  class Way {
    friend L1;
    Set* set_ = nullptr;
    uint32_t way_ = 0;
    Way(Set& set, uint32_t way) : set_(&set), way_(way) {}

   public:
    Way() = default;
    explicit operator bool() const { return set_ != nullptr; }
    uint64_t tag() const { return set_->tags[way_]; }
    uint8_t& valid() const { return set_->valid[way_]; }
    double& arrives() const { return set_->arrives[way_]; }
  };
  /// The place of a line that is read; one that was not there takes another's.
  Way find(uint64_t line) {
    const uint64_t before = taken_;
    const Way way = place(line);
    const auto bit = uint16_t(1u << way.way_);
    if (taken_ == before) way.set_->again |= way.set_->stored & bit ? 0 : bit;
    way.set_->stored &= uint16_t(~bit);
    return way;
  }
  /// A line is stored to, which is there from then on [stored_whole: what is loaded then is].
  void store(uint64_t line, uint32_t sectors) {
    const uint64_t before = taken_;
    const Way way = place(line);
    way.valid() |= uint8_t(sectors);
    if (taken_ != before) way.set_->stored |= uint16_t(1u << way.way_);
  }
  /// Fetches what find() looks at into the host's caches.
  [[gnu::always_inline]] void fetch(uint64_t line) const {
    const Set* const set = set_of(line);
    fetch_ahead(set->tags), fetch_ahead(set->tags + 8), fetch_ahead(set->valid);
  }
  /// All lines are to be asked for again.
  void forget() {
    for (Set& s : sets_) std::fill(std::begin(s.valid), std::end(s.valid), uint8_t{0});
  }

 private:
  static constexpr uint32_t kWays = 16;
  static constexpr int kChunk = 5;  // bits of a line among those whose sets lie side by side: 4 KB
  static constexpr uint32_t kSpared = 8;
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct alignas(64) Set {
    uint64_t tags[kWays];
    uint8_t valid[kWays] = {};
    uint16_t stored = 0, again = 0;  // of each way a bit: stored to and not read since; read again
    double arrives[kWays] = {};
    Set() { std::fill(std::begin(tags), std::end(tags), kNone); }
  };
  Way place(uint64_t line) {
    Set& set = *set_of(line);
    uint32_t free = kWays;
    for (uint32_t i = 0; i < kWays; i++) {
      if (set.tags[i] == line) return {set, i};
      if (set.tags[i] == kNone) free = i;
    }
    uint64_t drawn = mix(++taken_);
    uint32_t way = free < kWays ? free : uint32_t(drawn % kWays);
    if (free == kWays) {
      for (uint32_t spared = 0; set.again >> way & 1 && spared < kSpared; spared++) {
        drawn >>= 5;
        if (drawn & 1) set.again &= uint16_t(~(1u << way));
        way = uint32_t(drawn >> 1) % kWays;
      }
      if (set.stored && mix(taken_ ^ kNone) % 5 < 2)
        while (!(set.stored >> way & 1)) way = (way + 1) % kWays;
    }
    set.tags[way] = line, set.valid[way] = 0, set.arrives[way] = 0, set.stored &= uint16_t(~(1u << way)), set.again &= uint16_t(~(1u << way));
    return {set, way};
  }
  const Set* set_of(uint64_t line) const { return &sets_[(uint32_t(line) + (uint32_t(mix(line >> kChunk)) & 0xFFFF)) % uint32_t(sets_.size())]; }
  Set* set_of(uint64_t line) { return const_cast<Set*>(std::as_const(*this).set_of(line)); }
  std::vector<Set> sets_;
  uint64_t taken_ = 0;  // places, by lines that were not there
};

/// The last lines of 64 bytes that were read of the constant bank [constants_words_32/16 goes over 2,240 bytes and finds them, constants_bytes/4096 none].
class ConstantCache {
 public:
  /// When a line that is asked for at `start` is there: memory behind it gives one after the other [constants_bytes_one_warp/4096 and 32768: 42 and 53 cycles
  /// each; latency.constant.4096B: 104 cycles, 34 of a line that is there].
  double read(uint32_t line, double start) {
    constexpr double kInterval = 38, kMiss = 69.5;
    for (size_t i = 0; i < lines_.size(); i++)
      if (lines_[i].first == line) {
        std::rotate(lines_.begin(), lines_.begin() + ptrdiff_t(i), lines_.begin() + ptrdiff_t(i) + 1);
        return std::max(start, lines_[0].second);
      }
    fills_ = std::max(fills_, start + kMiss - kInterval) + kInterval;
    if (lines_.size() == kLines) lines_.pop_back();
    lines_.insert(lines_.begin(), {line, fills_});
    return fills_;
  }

 private:
  static constexpr size_t kLines = 40;
  std::vector<std::pair<uint32_t, double>> lines_;  // the latest first, and when each is there
  double fills_ = 0;
};

}  // namespace orrery::timing
