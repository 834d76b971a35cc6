// sanitize/clocks.h: happens-before between the threads of a launch, as vector clocks.
//
// Every warp counts: its clock goes up when a lane of it releases. An access is stamped (block, thread, clock of the
// thread's warp); a thread that acquires learns how far other threads were. What a thread knows is a Knowledge: per
// block that it knows of, one number per warp ("all lanes up to here") and exceptions for single lanes. Knowledge is
// shared and does not change (but where a block alone holds it: RaceOrder::quick_barrier), so that a barrier gives all threads
// of a block one object.
//
//   release(w, lanes)     what the lanes know, with their own past added; the warp's clock goes up
//   acquire(w, lanes, k)  the lanes also know k
//
// A thread always knows its own past; blocks are numbered through all launches (serial numbers).
// Not here: which instructions release and acquire (race_order.cc), memory (race_shadow.h).
// Source: Flanagan and Freund, FastTrack (PLDI 2009); Eizenberg et al., BARRACUDA (PLDI 2017) for the compression.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace orrery::sanitize {

/// What is known of one block's threads.
struct BlockKnowledge {
  std::vector<uint32_t> warps;                             // all lanes of warp i up to this clock
  std::vector<std::pair<uint16_t, uint32_t>> lanes;        // thread -> clock above its warp's, sorted
  bool knows(uint16_t thread, uint32_t clock) const;
  /// Adds what `other` knows; false when that was nothing new.
  bool join(const BlockKnowledge& other);
  void add_thread(uint16_t thread, uint32_t clock);
  void add_warp(uint32_t warp, uint32_t clock);
};
using BlockKnowledgePtr = std::shared_ptr<const BlockKnowledge>;

struct Knowledge {
  std::vector<std::pair<uint32_t, BlockKnowledgePtr>> blocks;  // by serial number of the block, sorted
  const BlockKnowledge* of(uint32_t block) const;
  bool knows(uint32_t block, uint16_t thread, uint32_t clock) const {
    const BlockKnowledge* b = of(block);
    return b && b->knows(thread, clock);
  }
};
using KnowledgePtr = std::shared_ptr<const Knowledge>;  // null: nothing

KnowledgePtr join(const KnowledgePtr& a, const KnowledgePtr& b);

/// The lanes of one warp.
struct WarpClock {
  uint32_t block = 0;                  // serial number
  uint16_t first_thread = 0;           // in the block
  uint32_t clock = 1;
  bool uniform = true;                 // all lanes know `common`
  KnowledgePtr common;
  std::vector<KnowledgePtr> lanes;     // 32, when not uniform

  const KnowledgePtr& of(int lane) const { return uniform ? common : lanes[size_t(lane)]; }
  void split();
};

/// `live`: the lanes of the warp that run. Releasing with all of them is one step.
KnowledgePtr release(WarpClock& w, uint32_t mask, uint32_t live);
void acquire(WarpClock& w, uint32_t mask, uint32_t live, const KnowledgePtr& k);
/// The lanes know exactly `k`, which holds all that they knew.
void assign(WarpClock& w, uint32_t mask, uint32_t live, const KnowledgePtr& k);

}  // namespace orrery::sanitize
