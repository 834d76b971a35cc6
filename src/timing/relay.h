// timing/relay.h: blocks that wait for each other: chains, in which each waits for a word that the one before
// it writes after its own wait, and grids that meet.
//
// Only some blocks are simulated; those between two of them take as long from what they wait for to what they
// write as the last one that was. Not here: which loads wait (spin_loops.h), whether blocks form a chain
// (waits.cc).
#pragma once
#include <cstdint>
#include <set>

namespace orrery::timing {

struct Relay {
  static constexpr double kHandOver = 690;  // cycles from a store until the block that looks for it goes on
                                            // [relay/1056: 1,078 a block, 390 of them in the block]
  static constexpr double kMet =
      1150;  // cycles from the last arrival at a barrier of the grid until it is seen [meet_grid/32]
  std::set<uint32_t> looks, tells;  // instructions that wait, and those that write what is waited for
  bool meets = false;               // the grid waits for its last block
  /// When block `index` sees what the one before it writes.
  double due(uint64_t index) const {
    return index > last_ ? told_ + double(index - last_) * hop_ - (hop_ - kHandOver) : 0;
  }
  /// Block `index` has written at `now`, `work` cycles after it could go on.
  void tell(uint64_t index, double now, double work) {
    if (index >= last_) last_ = index, told_ = now, hop_ = kHandOver + work;
  }
  /// Before the first block. What was learnt of the others stays.
  void restart(double now) { last_ = 0, told_ = now; }

 private:
  uint64_t last_ = 0;  // the last block that wrote
  double told_ = 0, hop_ = kHandOver;
};

}  // namespace orrery::timing
