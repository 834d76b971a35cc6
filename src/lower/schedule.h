// lower/schedule.h: the order in which a warp that stays together executes blocks, and who may be waiting meanwhile.
//
// A warp of lanes that part at a branch executes one set of lanes at a time: always the node that comes first in a
// fixed order among those with waiting lanes. The order is that of the program's blocks, with one addition: lanes that
// jump back to a loop header wait at the loop's latch, a node after the last block of the loop, so that the others
// catch up within the iteration. Which nodes can have waiting lanes while a node runs is known statically:
//
//   while n runs      waiting(n) is a superset of the nodes where other lanes wait; all come after n in the order
//   after n           the next node is one of waiting(n) and successors(n), never later than the last successor
//
// A register that is written in n needs its old value kept (a blend under the mask) only if it is live at the start of
// some node in waiting(n).
//
// A schedule covers the code that is reachable from one start instruction up to instructions where execution stops
// (`stops`), which is how code is compiled; with no stops it covers the program.
//
// Not here: masks (jit/), what varies between lanes (uniformity.h).
// Source: partial linearisation, Moll and Hack, "Partial control-flow linearization", PLDI 2018.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "lower/program.h"

namespace orrery::lower {

/// A set of node numbers.
class NodeSet {
 public:
  explicit NodeSet(size_t n = 0) : words_((n + 63) / 64) {}
  bool has(uint32_t i) const { return words_[i / 64] >> (i % 64) & 1; }
  void add(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  bool empty() const;
  /// Adds the members of `other` that are greater than `above`; true when this set grew.
  bool add_above(const NodeSet& other, uint32_t above);
  template <class F>
  void each(F f) const {
    for (size_t w = 0; w < words_.size(); w++)
      for (uint64_t m = words_[w]; m; m &= m - 1) f(uint32_t(w * 64 + size_t(__builtin_ctzll(m))));
  }

 private:
  std::vector<uint64_t> words_;
};

struct Node {
  uint32_t block = 0;               // of the program; for a latch: the loop header
  bool latch = false;
  uint32_t first = 0, last = 0;     // instructions; empty for a latch
  bool stops = false;               // the last instruction is one where execution stops: no successors
  bool divergent = false;           // lanes may leave it for different successors
  bool exits = false;               // the last instruction is a ret or exit (of some lanes, when there are successors)
  std::vector<uint32_t> successors; // nodes; fall-through first, as in the block
  NodeSet waiting;
};

struct Schedule {
  std::vector<Node> nodes;          // in order; the start is node `start`
  uint32_t start = 0;
};

/// `stops(i)`: execution stops before instruction i. `divergent[b]`: lanes may leave block b for different blocks.
Schedule make_schedule(const Program& program, uint32_t start, const std::function<bool(uint32_t)>& stops,
                       const std::vector<uint8_t>& divergent);

}  // namespace orrery::lower
