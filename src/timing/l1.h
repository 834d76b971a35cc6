// timing/l1.h: what an SM keeps of memory: lines of its L1, and the last lines of the constant bank.
//
// Invariant: a line has one place at a time. Not here: what of a line is asked for, and when it comes (sm_memory.cc).
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "timing/chip.h"

namespace orrery::timing {

/// Five bits of a line's number: the set of L1 that it lies in.
constexpr uint32_t set_of_line(uint64_t line) {
  line ^= line >> 40, line ^= line >> 20, line ^= line >> 10;  // (40, 20 and 10 are multiples of five)
  return uint32_t(line ^ line >> 5) & 31;
}
/// Which of four banks a line is looked up in, one a cycle in each: two sums of its bits [calib/steps/gathers.cu, odd_lines_apart: of all such sums of the first twelve
/// bits these alone give the cycles that 32 lines 3 to 127 apart take, and with the next five those of lines up to 4,097 apart; what lies above is folded onto them].
constexpr uint32_t bank_of_line(uint64_t line) {
  line ^= line >> 34, line ^= line >> 17;
  const auto sum = [](uint32_t bits) { return bits ^= bits >> 16, bits ^= bits >> 8, bits ^= bits >> 4, 0x6996u >> (bits & 15) & 1; };
  return sum(uint32_t(line) & 0x1d5da) | sum(uint32_t(line) & 0x07ab5) << 1;
}

/// The L1 of an SM: lines of four sectors in 32 sets, over which a line's number is folded five bits at a time, so that lines a power of two apart lie in all
/// of them [calib/steps/strides.cu: of 1,536 lines 128 to 4,096 bytes apart, anywhere, all that were read are there when L1 has 1,792; 384 bytes apart a twentieth
/// is lost]. Of a set some old line goes, not always the oldest: a table that is gone over in order is found in part when it is a little larger than L1
/// [calib/steps/carved.cu: of 1.03, 1.04, 1.14 and 1.29 times L1 0.73, 0.72, 0.17 and 0.18 of what could be].
class L1 {
 public:
  explicit L1(uint64_t bytes) : lines_(std::max<uint32_t>(kSets, uint32_t(bytes / 128))), stride_((lines_ / kSets + 8) / 8 * 8) {
    const size_t all = size_t{stride_} * kSets;
    keys_.assign(all, kNoKey), tags_.assign(all, kNone), turns_.assign(all, 0), valid_.assign(all, 0), arrives_.assign(all, 0);
  }
  /// A line's place, which may be another line's later.
  class Way {
    friend L1;
    L1* l1_ = nullptr;
    uint32_t at_ = 0;
    Way(L1* l1, uint32_t at) : l1_(l1), at_(at) {}

   public:
    Way() = default;
    explicit operator bool() const { return l1_ != nullptr; }
    uint64_t tag() const { return l1_->tags_[at_]; }
    uint8_t& valid() const { return l1_->valid_[at_]; }
    double& arrives() const { return l1_->arrives_[at_]; }
  };
  /// The place of a line that is read; one that was not there takes another's.
  Way find(uint64_t line) {
    const uint32_t set = set_of(line);
    uint32_t at = place_of(line, set);
    if (at == kNowhere) {
      at = victim(set);
      tags_[at] = line, keys_[at] = key_of(line), valid_[at] = 0, arrives_[at] = 0;
    }
    turns_[at] = ++turn_;
    return {this, at};
  }
  /// A line is stored to, which is there from then on [stored_whole: what is loaded then is] and takes another's place [kept_few_last: of 197 and 229 KB
  /// that are read three times, and as much stored beside the third, 0.57 and 0.42 are there for 0.67 and 0.61].
  void store(uint64_t line, uint32_t sectors) { find(line).valid() |= uint8_t(sectors); }
  /// Fetches what find() looks at into the host's caches.
  [[gnu::always_inline]] void fetch(uint64_t line) const {
    const uint32_t* const keys = &keys_[set_of(line)];
    for (uint32_t i = 0; i < stride_; i += 16) fetch_ahead(keys + i);
  }
  /// All lines are to be asked for again.
  void forget() { std::fill(valid_.begin(), valid_.end(), uint8_t{0}); }

 private:
  static constexpr uint32_t kSets = 32, kNoKey = ~0u, kNowhere = ~0u;
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr uint32_t kDrawn = 6;  // lines of which the oldest goes: as one of the oldest quarter would

  static uint32_t key_of(uint64_t line) { return uint32_t(line) ^ uint32_t(line >> 32); }
  /// Where the set begins in what is kept of lines.
  uint32_t set_of(uint64_t line) const { return set_of_line(line) * stride_; }
  uint32_t place_of(uint64_t line, uint32_t set) const {
    const uint32_t key = key_of(line);
    for (uint32_t i = set; i < set + stride_; i += 8) {
      uint32_t any = 0;
      for (uint32_t k = 0; k < 8; k++) any |= keys_[i + k] == key ? 1u << k : 0;
      for (; any; any &= any - 1)
        if (const uint32_t at = i + uint32_t(std::countr_zero(any)); tags_[at] == line) return at;
    }
    return kNowhere;
  }
  /// The place that a line takes which is not there: a free one, or that of an old line.
  uint32_t victim(uint32_t set) {
    const uint32_t ways = (lines_ + kSets - 1 - set / stride_) / kSets;
    if (turns_[set + ways - 1] == 0)  // places are taken in order
      for (uint32_t i = set;; i++)
        if (turns_[i] == 0) return i;
    uint32_t oldest = set + draw(ways);
    for (uint32_t k = 1; k < kDrawn; k++)
      if (const uint32_t other = set + draw(ways); turns_[other] < turns_[oldest]) oldest = other;
    return oldest;
  }
  uint32_t draw(uint32_t ways) {
    random_ ^= random_ << 13, random_ ^= random_ >> 17, random_ ^= random_ << 5;
    return uint32_t(uint64_t{random_} * ways >> 32);
  }

  uint32_t lines_, stride_;             // of all; of what is kept of a set's
  std::vector<uint32_t> keys_, turns_;  // of each place: what of the line is compared first; when it was last used, 0: never
  std::vector<uint64_t> tags_;
  std::vector<uint8_t> valid_;
  std::vector<double> arrives_;
  uint32_t turn_ = 0, random_ = 2463534242;
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
