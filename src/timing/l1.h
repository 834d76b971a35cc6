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

/// The L1 of an SM: lines of four sectors. A line that is read again is kept for long, one that was read once goes first
/// [again_same/32 to 48: of sets that are too large, what does not fit misses and little else].
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
  Way find(uint64_t line) {
    Set& set = *set_of(line);
    for (uint32_t i = 0; i < kWays; i++)
      if (set.tags[i] == line) return set.ages[i] = 0, Way(set, i);
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < kWays; i++)
      if (set.ages[i] > set.ages[oldest]) oldest = i;
    const uint8_t years = uint8_t(kOldest - set.ages[oldest]);
    for (uint8_t& age : set.ages) age = uint8_t(age + years);
    set.tags[oldest] = line, set.valid[oldest] = 0, set.ages[oldest] = kOldest - 1, set.arrives[oldest] = 0;
    return {set, oldest};
  }
  /// Fetches what find() looks at into the host's caches.
  [[gnu::always_inline]] void fetch(uint64_t line) const {
    const Set* const set = set_of(line);
    fetch_ahead(set->tags), fetch_ahead(set->valid);
  }
  /// All lines are to be asked for again.
  void forget() {
    for (Set& s : sets_) std::fill(std::begin(s.valid), std::end(s.valid), uint8_t{0});
  }

 private:
  static constexpr uint32_t kWays = 8;
  static constexpr int kChunk = 11;  // bits of a line among those whose sets lie side by side: 256 KB
  static constexpr uint8_t kOldest = 3;
  struct alignas(64) Set {
    uint64_t tags[kWays];
    uint8_t valid[kWays] = {}, ages[kWays];  // age 0: read again
    double arrives[kWays] = {};
    Set() { std::fill(std::begin(tags), std::end(tags), ~uint64_t{0}), std::fill(std::begin(ages), std::end(ages), kOldest); }
  };
  /// Neighbours lie in sets side by side, so that what just fits fits [again_same/20 to 32: 1 to 4% too slow; 13 to 16% with lines spread over sets as
  /// chance has it]; each 256 KB begin at a set of their own, so that rows far apart do not share few sets [129 cases of lines.cu: sectors 10.5 -> 9.9% off, again_same/36 to 48 +47..+80 -> +28..+65%].
  const Set* set_of(uint64_t line) const { return &sets_[(uint32_t(line) + (uint32_t(mix(line >> kChunk)) & 0xFFFF)) % uint32_t(sets_.size())]; }
  Set* set_of(uint64_t line) { return const_cast<Set*>(std::as_const(*this).set_of(line)); }
  std::vector<Set> sets_;
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
