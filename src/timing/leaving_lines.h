// timing/leaving_lines.h: lines that an SM has stored to and that are on their way out of it.
//
// What stores write to a line goes through the SM behind what was stored and asked for before, whichever warps that was; a store to a line that has not
// come to the end of that way takes up what was stored before, and the line is written once, with the last of them [calib/steps/store_rows.cu, rest_ and
// go_: one warp's rows of 16 lines all join, of 32 none; four warps' of 28 together nearly all, of 32 next to none; apart_4_2_2: with 30 cycles between two
// stores none]. What several warps store to the same sectors at once is written once, too. Not here: rows of warps that compete for the way with others of
// their sub-core, which come between (sm_stores.cc); stores of other warps to other sectors of a line, which join on an H200 where they come at once
// (others_4_4), and which here come at once more often than there.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace orrery::timing {

class LeavingLines {
 public:
  static constexpr size_t kWay = 30;  // lines, and cycles, from one end to the other
  static constexpr double kAlike = 18;  // cycles within which stores of several warps become one

  /// A line as a warp has stored to it.
  struct Line {
    double leaves = 0;     // until when it stays at least
    uint32_t sectors = 0;  // written
    uint32_t warp = 0;
    double came = 0;       // when the first of its stores did
  };

  /// The line where a store of that warp at `now` joins what it has stored before; null where it does not.
  const Line* find(uint64_t line, uint32_t warp, double now) const {
    for (size_t back = 1; back <= kWay; back++) {
      const size_t i = (entered_ - back) % kKept;
      if (lines_[i] != line) continue;
      return ways_[i].warp != warp || now > std::max(ways_[i].leaves, when_[i] + double(kWay)) ? nullptr : &ways_[i];
    }
    return nullptr;
  }
  /// The line where other warps' stores at nearly that time have written all of `sectors`, which is written once for all of them; null where none have
  /// [calib/steps/same_stores.cu: of eight warps at once 0.17 leave, 8 cycles apart 0.40, 24 cycles apart 0.92].
  const Line* find_alike(uint64_t line, uint32_t sectors, uint32_t warp, double now) const {
    for (size_t back = 1; back <= kWay; back++) {
      const size_t i = (entered_ - back) % kKept;
      if (lines_[i] != line) continue;
      const Line& way = ways_[i];
      return way.warp == warp || now > way.came + kAlike || sectors & ~way.sectors ? nullptr : &way;
    }
    return nullptr;
  }
  /// What that warp stores from now on joins nothing that it has stored before.
  void part(uint32_t warp) {
    for (Line& way : ways_)
      if (way.warp == warp) way.warp = kNobody;
  }
  /// A store goes to the line.
  void add(uint64_t line, double now, Line way) {
    const size_t i = entered_++ % kKept;
    lines_[i] = line, when_[i] = now, ways_[i] = way;
  }
  /// A line is asked for, which takes the same way.
  void pass(double now) { add(kNone, now, {}); }

 private:
  static constexpr size_t kKept = 32;
  static constexpr uint64_t kNone = ~uint64_t{0};
  static constexpr uint32_t kNobody = ~uint32_t{0};
  static constexpr std::array<uint64_t, kKept> none() {
    std::array<uint64_t, kKept> all{};
    all.fill(kNone);
    return all;
  }
  std::array<uint64_t, kKept> lines_ = none();
  std::array<double, kKept> when_{};  // the latest store came
  std::array<Line, kKept> ways_{};
  size_t entered_ = kKept;
};

}  // namespace orrery::timing
