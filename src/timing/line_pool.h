// timing/line_pool.h: lines that ghosts draw of where addresses do not move evenly.
// Not here: where they come from (pools.cc).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "timing/chip.h"

namespace orrery::timing {

/// A set of lines: neighbours stand in one word.
class LineSet {
 public:
  /// True when it was not there yet.
  bool insert(uint64_t line) {
    if (2 * (used_ + 1) > groups_.size()) grow();
    Group& g = groups_[place_of(line >> 6)];
    const uint64_t bit = uint64_t{1} << (line & 63);
    used_ += g.lines == 0;
    g.number = line >> 6;
    return !(std::exchange(g.lines, g.lines | bit) & bit);
  }
  bool contains(uint64_t line) const { return used_ > 0 && groups_[place_of(line >> 6)].lines >> (line & 63) & 1; }

 private:
  struct Group {
    uint64_t number = 0, lines = 0;
  };
  /// Where a group stands or, if it is not there, would stand.
  size_t place_of(uint64_t number) const {
    size_t at = mix(number) >> 20 & (groups_.size() - 1);
    while (groups_[at].lines && groups_[at].number != number) at = (at + 1) & (groups_.size() - 1);
    return at;
  }
  void grow() {
    const std::vector<Group> old = std::exchange(groups_, std::vector<Group>(std::max<size_t>(16, 2 * groups_.size())));
    for (const Group& g : old)
      if (g.lines) groups_[place_of(g.number)] = g;
  }
  std::vector<Group> groups_;    // as many as a power of two, half of them empty
  size_t used_ = 0;
};

/// Lines of an irregular instruction: what ghosts draw of when the simulated SM asks L2 for one. Other SMs miss what this one
/// misses: lines that several blocks touch are drawn as often as this SM had to ask for them, not as often as they are read.
struct LinePool {
  uint64_t low = ~uint64_t{0}, high = 0;
};

}  // namespace orrery::timing
