// timing/code_fetch.h: when machine code is there to be issued: lines of 128 bytes that an SM holds, fetched
// in streams.
//
// The first access to a line that does not follow one that was fetched waits for a jump; the lines behind it
// come one after the other, kAhead of them before they are asked for [straight_free: code that is executed
// once; turns.fetch: code larger than what an SM holds]. Not here: what sub-cores keep of them (a loop of up
// to 1,500 instructions costs nothing).
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace orrery::timing {

/// Cycles, by whether the launch finds its code in the chip's caches.
struct FetchCosts {
  double jump = 0;   // to a line away from what was fetched
  double line = 0;   // from a line to the next
  double again = 0;  // the same of one that was held before
};

class CodeFetch {
 public:
  CodeFetch(size_t instructions, const FetchCosts& costs) : costs_(costs), lines_(instructions / kLine + 1) {
    hold(0, 0);
  }
  /// When an instruction is there for a warp that gets to it at `now`.
  double arrives(uint32_t instruction, double now) {
    Line& line = lines_[instruction / kLine];
    if (line.there == kNever) [[unlikely]]
      fetch(instruction / kLine, now);
    if (line.asked == kNever) line.asked = now;
    return line.there;
  }

 private:
  static constexpr uint32_t kLine = 8;   // instructions
  static constexpr uint32_t kAhead = 8;  // lines
  static constexpr size_t kHeld =
      256;  // lines of an SM [turns.fetch.n1024, n2048: 1.0 and 1.2 cycles an instruction, n4096: 2.2]
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Line {
    double there = kNever, asked = kNever;  // when it is; when it was first asked for since
    bool before = false;                    // it was held once
  };
  void fetch(uint32_t line, double now) {
    uint32_t from = line;  // the nearest line before it that is held
    while (from > 0 && line - from < kAhead && lines_[from].there == kNever) from--;
    double at = now + costs_.jump;
    if (lines_[from].there != kNever) {
      at = lines_[from].there;
      for (uint32_t i = from + 1; i <= line; i++) {
        at += lines_[i].before ? costs_.again : costs_.line;
        if (i >= kAhead && lines_[i - kAhead].asked != kNever && lines_[i - kAhead].there != kNever)
          at = std::max(at, lines_[i - kAhead].asked + costs_.jump);
        hold(i, at);
      }
      return;
    }
    hold(line, at);
  }
  void hold(uint32_t line, double at) {
    if (held_.size() < kHeld) {
      held_.push_back(line);
    } else {  // one of those held goes, whichever
      drawn_ = drawn_ * 6364136223846793005u + 1442695040888963407u;
      uint32_t& gone = held_[size_t(drawn_ >> 33) % kHeld];
      lines_[gone].there = lines_[gone].asked = kNever;
      gone = line;
    }
    lines_[line].there = at, lines_[line].before = true;
  }
  FetchCosts costs_;
  std::vector<Line> lines_;
  std::vector<uint32_t> held_;
  uint64_t drawn_ = 1;
};

}  // namespace orrery::timing
