// timing/join_looks.cc: what a warp executes that looks at an mbarrier once more: Join::find_looks.
//
// Where the code that tries again lies out of line (find_first_tries) a look is as long as any (kPoll). A library's wait is a loop of its own around the
// instruction, with counters and pauses: the shortest way round it, as long as nothing else happens on it. Not here: how often a warp looks (sm_sync.cc).
#include <algorithm>
#include <limits>
#include <queue>

#include "timing/join.h"

namespace orrery::timing {

void Join::find_looks() {
  constexpr uint32_t kLongest = 64;  // instructions
  const auto size_of = [&](int32_t b) { return blocks_[size_t(b)].second - blocks_[size_t(b)].first; };
  const auto is_wait = [](const MachineInstruction& m) { return m.kind == Class::mbarrier && (m.op == isa::Op::mbarrier_try_wait || m.op == isa::Op::mbarrier_test_wait); };
  /// Nothing that the trace tells of but one wait.
  const auto only_looks = [&](int32_t b, bool waits) {
    return std::all_of(code_.begin() + blocks_[size_t(b)].first, code_.begin() + blocks_[size_t(b)].second, [&](const MachineInstruction& m) { return !eventful(m.kind) || (waits && is_wait(m)); });
  };
  for (int32_t begin = 0; begin < int32_t(blocks_.size()); begin++) {
    const auto first = code_.begin() + blocks_[size_t(begin)].first, last = code_.begin() + blocks_[size_t(begin)].second;
    const auto wait = std::find_if(first, last, is_wait);
    if (wait == last || !reached_[size_t(begin)] || !only_looks(begin, true)) continue;
    std::vector<uint32_t> length(blocks_.size(), std::numeric_limits<uint32_t>::max());
    std::priority_queue<std::pair<uint32_t, int32_t>, std::vector<std::pair<uint32_t, int32_t>>, std::greater<>> next;
    next.push({0, begin});
    while (!next.empty()) {
      const auto [so_far, b] = next.top();
      next.pop();
      if (so_far > 0 && b == begin) {
        wait->n = uint16_t(so_far);
        break;
      }
      if (so_far > kLongest || (b != begin && !only_looks(b, false))) continue;
      for (const int32_t to : {flow_[size_t(b)].fall, flow_[size_t(b)].taken})
        if (const uint32_t then = so_far + size_of(b); to >= 0 && then < length[size_t(to)]) length[size_t(to)] = then, next.push({then, to});
    }
  }
}

}  // namespace orrery::timing
