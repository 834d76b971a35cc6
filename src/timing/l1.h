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

/// The L1 of an SM: lines of four sectors, in sets of which the line goes that was used longest ago. Neighbours of 16 KB lie in sets side by side, those pieces
/// anywhere [calib/steps/carved.cu: of a table that a block goes over four times 0.75, 0.55, 0.13 and 0.00 is there when it has 96, 128, 160 and 192 KB
/// and L1 156; lines.cu, again_same: 0.87, 0.84 and 0.76 of 8 turns when an SM's have 152, 197 and 242 KB and L1 222].
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
    Set& set = *set_of(line);
    uint32_t way = 0;
    for (uint32_t i = 0; i < kWays; i++) {
      if (set.tags[i] == line) return set.turns[i] = ++turn_, Way(set, i);
      if (set.turns[i] < set.turns[way]) way = i;
    }
    set.tags[way] = line, set.valid[way] = 0, set.arrives[way] = 0, set.turns[way] = ++turn_;
    return {set, way};
  }
  /// A line is stored to, which is there from then on [stored_whole: what is loaded then is] and takes another's place [kept_few_last: of 197 and 229 KB
  /// that are read three times, and as much stored beside the third, 0.57 and 0.42 are there for 0.67 and 0.61].
  void store(uint64_t line, uint32_t sectors) { find(line).valid() |= uint8_t(sectors); }
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
  static constexpr int kChunk = 7;  // bits of a line among those whose sets lie side by side
  static constexpr uint64_t kNone = ~uint64_t{0};
  struct alignas(64) Set {
    uint64_t tags[kWays];
    uint8_t valid[kWays] = {};
    uint32_t turns[kWays] = {};  // when each was last used; 0: never
    double arrives[kWays] = {};
    Set() { std::fill(std::begin(tags), std::end(tags), kNone); }
  };
  const Set* set_of(uint64_t line) const { return &sets_[(uint32_t(line) + (uint32_t(mix(line >> kChunk)) & 0xFFFF)) % uint32_t(sets_.size())]; }
  Set* set_of(uint64_t line) { return const_cast<Set*>(std::as_const(*this).set_of(line)); }
  std::vector<Set> sets_;
  uint32_t turn_ = 0;
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
