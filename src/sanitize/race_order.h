// sanitize/race_order.h: what orders the threads of a launch: which events release and acquire, and how far that reaches.
//
//   bar.sync, barrier.cluster   every waiting thread learns what every arriving thread knew
//   bar.warp.sync               the same among the named lanes; being in step, shfl, vote and the like order nothing
//   mbarrier                    arrivals release, a passed test acquires what the completed phase gathered
//   st.release, atom.release    release at their location; ld.acquire, atom.acquire acquire what they read
//   fence; strong write         releases what came before the fence
//   strong read; fence          acquires when the fence comes
//
// A release reaches an acquire when the scopes of both include the other thread. Two leniencies, for what every GPU does
// and much correct code relies on: what a thread has published by a fence at the scope of the GPU stays published when
// the threads of its block meet at a barrier ("all fence, all meet, one raises the flag"); and what a strong read has
// seen orders later strong reads even without a fence (the last block to take a ticket reads the others' results
// through volatile), also of threads met at a barrier since. Weak reads need the fence. A third: a read has its value
// before a strong store that follows it, and a write that follows a strong read of that store comes later still, with or
// without fences (LaneFence::depends; it is passed on at barriers and by shuffles and votes); so a write does not race
// with such a read. Tile-by-tile algorithms in place rely on it.
// Source: PTX ISA manual, memory consistency model (release and acquire patterns, morally strong, causality order).
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "exec/observer.h"
#include "sanitize/clocks.h"

namespace orrery::sanitize {

/// What fences have published for one lane, and what its strong reads have seen that no fence has acquired yet.
struct LaneFence {
  KnowledgePtr published;        // by fences of scope gpu or sys, without the lane's own past
  uint32_t published_clock = 0;  // its own past then; 0: none
  KnowledgePtr narrow;           // by fences of scope cta or cluster
  uint32_t narrow_clock = 0;
  KnowledgePtr gathered;         // published by threads that it met at barriers
  KnowledgePtr seen, seen_narrow;
  KnowledgePtr depends;          // whose reads came before what this lane has been told through strong accesses
};

struct WarpOrder {
  WarpClock clock;
  KnowledgePtr quick_known;              // clock.common when `quick_own` was looked up
  const BlockKnowledge* quick_own = nullptr;  // what is known of the warp's own block
  std::vector<LaneFence> fences;  // 32 once the warp has used fences or strong accesses, else empty
  LaneFence& fence(int lane) {
    if (fences.empty()) fences.resize(32);
    return fences[size_t(lane)];
  }
};

/// Lanes of a warp at a barrier, and the clock of the arrival.
struct BarrierArrival {
  exec::Where where;
  uint32_t clock = 0;
};

/// A block that runs. The object belongs to one CtaContext at a time.
struct BlockOrder {
  uint32_t serial = 0, cluster = 0;   // numbers of the block and of the first block of its cluster
  const exec::RunState* run = nullptr;
  std::vector<WarpOrder> warps;
  struct Gather {
    KnowledgePtr known, published, seen, depends;
    std::vector<std::pair<uint32_t, uint32_t>> whole;  // warps that came with all their live lanes, and their clocks; without what they knew
  };
  Gather barriers[16];
  /// Arrivals at a barrier that counts fewer threads than the block has: of this phase and of the one before.
  struct Arrivals {
    std::vector<BarrierArrival> now, before;
  };
  Arrivals arrivals[16];
  bool fenced = false;                // some lane has used a fence
  uint32_t met = 0;                   // racecheck's epoch since all threads of the block met last; 0: they have not
  KnowledgePtr cluster_pending, cluster_done;  // of the cluster's first block: barrier.cluster
};

class RaceOrder {
 public:
  BlockOrder& block(const exec::CtaContext& cta);
  WarpOrder& warp(const exec::Where& where) { return block(*where.warp->cta).warps[where.warp->warp_id]; }

  void block_begin(const exec::CtaContext& cta, uint32_t serial, uint32_t cluster, const exec::RunState* run);
  void launch_end(const exec::RunState& run);
  /// An arrival of the phase before that nothing orders before this one, so that the two might have changed places; null
  /// when there is none. `expected` as the observer has it.
  const BarrierArrival* barrier_arrive(const exec::Where&, uint32_t number, uint32_t expected);
  void barrier_complete(const exec::CtaContext&, uint32_t number);
  /// Arrival and completion at once for all warps of a block; false, and nothing done, when more is known of them than
  /// where they are.
  bool quick_barrier(const exec::CtaContext& cta, uint32_t number);
  void warp_sync(const exec::Where&);
  /// Lanes tell each other values (shfl, vote, match, redux).
  void exchange(const exec::Where&);
  void cluster_arrive(const exec::Where&, bool relaxed);
  void cluster_wait(const exec::Where&);
  void cluster_complete(const exec::ClusterContext&);
  void mbarrier(const exec::MbarrierEvent&);
  void fence(const exec::Where&, exec::Scope scope, bool acquires, bool releases);

  /// A strong access of one lane to the location `key`; before it happens.
  void strong_read(const exec::Where&, int lane, uint64_t key, exec::Order order, exec::Scope scope);
  void strong_write(const exec::Where&, int lane, uint64_t key, exec::Order order, exec::Scope scope, bool also_reads,
                    bool global);
  /// Whether some location has something to give to whoever reads it.
  bool has_locations() const { return !locations_.empty(); }
  /// A weak write: whoever reads it acquires nothing.
  void weak_write(uint64_t key) {
    if (!locations_.empty()) locations_.erase(key);
  }

 private:
  struct Location {
    KnowledgePtr wide;                     // reaches every thread of the GPU
    KnowledgePtr narrow;                   // reaches its block or cluster only
    KnowledgePtr depends;                  // reads before the strong store, without a fence
    exec::Scope narrow_scope = exec::Scope::cta;
    uint32_t block = 0, cluster = 0;       // of who released `narrow`
  };
  struct PhaseClock {
    KnowledgePtr pending, done;
  };
  KnowledgePtr lane_past(WarpOrder& w, int lane, const KnowledgePtr& known, uint32_t clock);

  std::unordered_map<const exec::CtaContext*, std::unique_ptr<BlockOrder>> blocks_;
  const exec::CtaContext* last_cta_ = nullptr;
  BlockOrder* last_ = nullptr;
  std::unordered_map<uint64_t, Location> locations_;
  std::vector<uint64_t> shared_keys_;      // those of locations_ in shared memory
  std::unordered_map<const uint64_t*, PhaseClock> phases_;
};

}  // namespace orrery::sanitize
