// timing/relay.h: blocks that wait for each other: chains, in which each waits for a word that the one before
// it writes after its own wait, and grids that meet.
//
// Only some blocks are simulated. Of a chain, those between two of them take as long from what they wait for to what they
// write as the last one that was; a grid has met when all that are simulated and have not ended have come so often.
// Not here: which loads wait (spin_loops.h), whether blocks form a chain (waits.cc).
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace orrery::timing {

struct Relay {
  static constexpr double kHandOver = 740;  // cycles from a store until the block that looks for it goes on
                                            // [relay/1056: 1,078 a block, 340 of them in the block]
  static constexpr double kMet =
      1150;  // cycles from the last arrival at a barrier of the grid until it is seen [meet_grid/32]
  std::set<uint32_t> looks, tells;  // instructions that wait, and those that write what is waited for
  bool meets = false;               // the grid waits for its last block
  uint64_t apart = 1;               // from a block to the one that waits for it; where it is more there are as many chains beside each other,
  uint64_t at_once = 1;             // and so many blocks run at once: the first of them come to their wait together, later ones begin one hop behind each other
  /// When block `index`, which looks at `now`, sees what the one before it writes.
  double due(uint64_t index, double now) const {
    if (apart > 1) return now + (index < at_once ? double(index / apart) * hop_ : 0);
    return index > last_ ? told_ + double(index - last_) * hop_ - (hop_ - kHandOver) : 0;
  }
  /// Block `index` has written at `now`, `work` cycles after it could go on.
  void tell(uint64_t index, double now, double work) {
    if (index >= last_ || apart > 1) last_ = index, told_ = now, hop_ = kHandOver + work;
  }
  /// Before the first block. What was learnt of the others stays.
  void restart(double now) { last_ = 0, told_ = now, came_.clear(), waiting_.clear(), met_ = 0, woke_ = false; }

  // Grids that meet. A block is there from begin() to end(); `now` is when the last arrival is known to all.
  void begin(uint64_t block) {
    if (meets) came_[block] = 0;
  }
  void end(uint64_t block, double now) {
    if (meets && came_.erase(block)) settle(now);
  }
  /// A warp of `block` comes for the `time`th time, from 1 on. Has the grid met? If not, `wake` is called with the time when it has.
  bool arrive(uint64_t block, uint32_t time, double now, std::function<void(double)> wake) {
    came_[block] = std::max(came_[block], time);
    settle(now);
    if (met_ >= time) return true;
    waiting_.push_back({time, std::move(wake)});
    return false;
  }
  /// Were warps woken since this was asked last?
  bool woke() { return std::exchange(woke_, false); }

 private:
  void settle(double now) {
    uint32_t least = came_.empty() ? UINT32_MAX : came_.begin()->second;
    for (const auto& [block, times] : came_) least = std::min(least, times);
    if (least <= met_) return;
    met_ = least;
    for (auto& [time, wake] : waiting_)
      if (time <= met_) wake(now), wake = nullptr, woke_ = true;
    std::erase_if(waiting_, [](const auto& w) { return !w.second; });
  }
  uint64_t last_ = 0;  // the last block that wrote
  double told_ = 0, hop_ = kHandOver;
  std::unordered_map<uint64_t, uint32_t> came_;  // by block: how often
  std::vector<std::pair<uint32_t, std::function<void(double)>>> waiting_;
  uint32_t met_ = 0;
  bool woke_ = false;
};

}  // namespace orrery::timing
