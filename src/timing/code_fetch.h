// timing/code_fetch.h: when machine code is there to be issued: lines of 128 bytes that an SM holds, fetched
// in streams.
//
// The first access to a line that does not follow one that was fetched waits for a jump; the lines behind it
// come one after the other, kAhead of them before they are asked for [straight_free: code that is executed
// once; turns.fetch: code larger than what an SM holds]. A line that was given up comes again no sooner than
// that. Not here: what sub-cores keep of them (a loop of up to 1,500 instructions costs nothing), where lines come
// from that an SM has never held (the caller's costs).
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace orrery::timing {

/// Cycles, by whether the launch finds its code in the chip's caches.
struct FetchCosts {
  double jump = 0;   // to a line away from what was fetched
  double line = 0;   // from a line to the next
  double far = 0;    // the same of a line further into the kernel than its launch brings near
  double again = 0;  // the same of one that was held before
};

class CodeFetch {
 public:
  static constexpr uint32_t kLine = 8;  // instructions
  /// `executed`: the lines that the kernel executes. Where a set has more of them than it holds, the launch before has left none that is asked for
  /// in time [turns.fetch.n4096: the first turn takes as long as later ones; straight_free4096, warm; straight_free2048: few come again].
  CodeFetch(const std::vector<bool>& executed, const FetchCosts& costs) : costs_(costs), lines_(std::max<size_t>(1, executed.size())) {
    std::array<uint32_t, kSets> in_set{};
    for (size_t i = 0; i < executed.size(); i++) in_set[i % kSets] += executed[i];
    for (size_t i = 0; i < lines_.size(); i++) lines_[i].first = std::max(i < kNear ? costs.line : costs.far, in_set[i % kSets] > kWays ? costs.again : 0);
    hold(0, 0);
  }
  /// When an instruction is there for a warp that gets to it at `now`.
  double arrives(uint32_t instruction, double now) {
    Line& line = lines_[instruction / kLine];
    if (line.there == kNever) [[unlikely]]
      fetch(instruction / kLine, now);
    if (line.asked == kNever) line.asked = now;
    line.used = std::max(line.used, now);
    return line.there;
  }

 private:
  static constexpr uint32_t kAhead = 8;  // lines
  // Of each kernel a launch brings the first 64 KB near all SMs, whichever part of them is executed [far_code_8_4096 to 16384, far_code_8192_2048:
  // memory reads that much, and what lies behind is read as it is executed].
  static constexpr size_t kNear = 512;
  // Lines of an SM, in sets of which the line goes that was used longest ago [turns.fetch.n1024, n2048: 1.0 and 1.17 cycles an instruction: of
  // 260 lines in a loop 36 come again; n4096: 2.2, all do].
  static constexpr uint32_t kSets = 32, kWays = 8;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Line {
    double there = kNever, asked = kNever;  // when it is; when it was first asked for since
    double used = 0, gone = 0;              // when it was last; when it was given up
    double first = 0;                       // what it costs after the one before it, the first time
    bool before = false;                    // it was held once
  };
  void fetch(uint32_t line, double now) {
    uint32_t from = line;  // the nearest line before it that is held
    while (from > 0 && line - from < kAhead && lines_[from].there == kNever) from--;
    if (lines_[from].there == kNever) return hold(line, now + costs_.jump);
    double at = lines_[from].there;
    for (uint32_t i = from + 1; i <= line; i++) {
      const Line& next = lines_[i];
      // A stream that passed when this line was still held did not fetch it: another begins where the line before it is used.
      if (next.before && at <= next.gone) at = std::min(now, std::max(next.gone, lines_[i - 1].used));
      at += next.before ? costs_.again : next.first;
      if (i >= kAhead && lines_[i - kAhead].asked != kNever && lines_[i - kAhead].there != kNever)
        at = std::max(at, lines_[i - kAhead].asked + costs_.jump);
      hold(i, at);
    }
  }
  void hold(uint32_t line, double at) {
    std::vector<uint32_t>& held = held_[line % kSets];
    if (held.size() < kWays) {
      held.push_back(line);
    } else {
      uint32_t& gone = *std::min_element(held.begin(), held.end(), [this](uint32_t a, uint32_t b) { return lines_[a].used < lines_[b].used; });
      lines_[gone].there = lines_[gone].asked = kNever;
      lines_[gone].gone = at;
      gone = line;
    }
    lines_[line].there = lines_[line].used = at, lines_[line].before = true;
  }
  FetchCosts costs_;
  std::vector<Line> lines_;
  std::array<std::vector<uint32_t>, kSets> held_;
};

}  // namespace orrery::timing
