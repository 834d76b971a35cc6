// timing/leaving_lines.h: lines that an SM has stored to and that have not left it yet.
//
// A store to a line that is here takes up what was stored before, whichever warp that was, and the line is written once, with the last of them. Lines go
// when others need their place, those first that were stored to longest ago, or when for a moment nobody stores [calib/steps/store_rows.cu, rest_ and go_:
// one warp's rows of 16 lines all join, of 32 none; four warps' of 28 together nearly all, of 36 next to none; apart_4_4_4_8: with 36 cycles between two stores
// of one warp none, of four warps, which store by turns, half; others_4_4 and joined.cu, tiles_: of several warps as of one]. Not here: rows of warps that
// compete for the way with others of their sub-core, which come between (sm_stores.cc).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace orrery::timing {

class LeavingLines {
 public:
  static constexpr size_t kPlaces = 30;
  static constexpr double kMoment = 16;  // cycles

  /// A line as it has been stored to.
  struct Line {
    double leaves = 0;     // until when it stays at least
    uint32_t sectors = 0;  // written
    uint32_t warp = 0;     // the last to store
  };

  /// Somebody stores from `now` until `end`: what nobody has stored to for a moment has gone.
  void begin(double now, double end) {
    if (now > latest_ + kMoment)
      for (size_t i = 0; i < kPlaces; i++)
        if (now > ways_[i].leaves) lines_[i] = kNone;
    latest_ = std::max(latest_, end);
  }
  /// The line that a store joins; null where none is here.
  const Line* find(uint64_t line) const {
    const size_t i = place_of(line);
    return i == kPlaces ? nullptr : &ways_[i];
  }
  /// What that warp stores from now on joins nothing that it has stored before.
  void part(uint32_t warp) {
    for (size_t i = 0; i < kPlaces; i++)
      if (ways_[i].warp == warp) lines_[i] = kNone;
  }
  /// A store goes to the line.
  void add(uint64_t line, Line way) { take(line) = way; }
  /// A line is asked for, which takes the same way.
  void pass() { take(kNone - ++passed_ % kPlaces) = {}; }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};  // and those before it: what was asked for
  size_t place_of(uint64_t line) const { return size_t(std::find(lines_.begin(), lines_.end(), line) - lines_.begin()); }
  Line& take(uint64_t line) {
    size_t i = place_of(line);
    if (i == kPlaces) i = size_t(std::min_element(stored_.begin(), stored_.end()) - stored_.begin());
    lines_[i] = line, stored_[i] = ++turn_;
    return ways_[i];
  }
  static constexpr std::array<uint64_t, kPlaces> none() {
    std::array<uint64_t, kPlaces> all{};
    all.fill(kNone);
    return all;
  }
  std::array<uint64_t, kPlaces> lines_ = none(), stored_{};  // stored_: when it was last, as a number of stores
  std::array<Line, kPlaces> ways_{};
  uint64_t turn_ = 0, passed_ = 0;
  double latest_ = 0;
};

}  // namespace orrery::timing
