// sanitize/async_order.h: what each warp of a cluster knows to have happened: vector clocks over warps and mbarriers.
//
// A warp has its own clock, which grows when it releases (arrives at a barrier, a strong store). What it knows of the
// others travels through what orders threads: barriers of block and cluster, mbarriers, strong accesses. One more
// component per mbarrier says how many of its phases the warp knows to be complete: that is how it knows of copies.
//   AsyncKnowledge::now      happened before
//   AsyncKnowledge::fenced   happened before, with a fence.proxy.async on the way: what asynchronous operations may see
//   AsyncKnowledge::causes   came before for certain, beside that: also what came before the issue of a copy that was waited
//                            for, or before a relaxed arrival. Nobody may read memory on the strength of it
//
// Invariant: knowledge is never less than what the PTX memory model gives (all strong accesses order each other here,
// lanes of a warp know what any of them knows), so "does not know" is certain. Not here: races (race_order.h).
#pragma once
#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "exec/observer.h"

namespace orrery::sanitize {

using Clock = std::vector<uint32_t>;

struct AsyncKnowledge {
  Clock now, fenced, causes;
};

/// A lane at an instruction, as it was when something happened there.
struct Moment {
  exec::Where where;
  int lane = 0;
  int warp = -1;         // in the cluster; -1: there is no such moment
  uint32_t clock = 0;    // of that warp
};

/// The past of one mbarrier.
struct MbarrierState {
  uint32_t component = 0;
  bool live = false, fenced = false;      // fenced: fence.mbarrier_init after the initialisation
  bool announced = false, open = false;   // the initialisation was released to a cluster barrier; that is complete
  Moment init, bytes;                     // bytes: the last copy that told it
  AsyncKnowledge gathered, done;               // of the arrivals of the phase that runs; of the last complete one
  uint32_t barriers = 0;                  // AsyncOrder::barriers() at the initialisation
  uint32_t phases = 0, first = 0;         // complete, of all that ever lay there; of those before the initialisation
  Clock causes, done_causes;              // what came before the end of the phase that runs; of the last complete one
  std::vector<uint32_t> waited, arrived;  // per warp: phases known from its own last wait; phase of its last arrival plus one
  std::vector<Moment> passed;             // per warp: its last wait by parity that passed
};

class AsyncOrder {
 public:
  explicit AsyncOrder(const exec::ClusterContext& cluster, uint32_t warps_per_block);

  int warp_of(const exec::WarpContext& w) const { return int(w.cta->cluster_rank * warps_per_block_ + w.warp_id); }
  uint32_t warps() const { return warps_; }
  Moment now(const exec::Where& where, int lane) const;
  /// True when `warp` knows of `moment`.
  bool knows(int warp, const Moment& moment) const { return warp == moment.warp || at(knowledge_[size_t(warp)].now, uint32_t(moment.warp)) >= moment.clock; }
  bool knows_fenced(int warp, const Moment& moment) const { return at(knowledge_[size_t(warp)].fenced, uint32_t(moment.warp)) >= moment.clock; }
  /// Phases that the warp knows to be complete.
  uint32_t phases_known(int warp, const MbarrierState& m) const {
    const AsyncKnowledge& k = knowledge_[size_t(warp)];
    return std::max(at(k.now, m.component), at(k.causes, m.component));
  }
  /// The phase that runs cannot end before `moment`.
  bool ends_after(const MbarrierState& m, const Moment& moment) const { return at(m.causes, uint32_t(moment.warp)) >= moment.clock; }
  /// The phase that runs cannot end before what `warp` does now, an arrival or a copy; relaxed or not.
  void needs(MbarrierState& m, int warp);
  bool knows_init(int warp, const MbarrierState& m) const { return m.open || knows(warp, m.init); }
  bool knows_phase(int warp, const MbarrierState& m, uint32_t phase) const { return at(knowledge_[size_t(warp)].now, m.component) > phase; }

  void fence(int warp);
  void barrier_arrive(const exec::CtaContext& cta, uint32_t number, int warp, bool waits);
  void barrier_complete(const exec::CtaContext& cta, uint32_t number);
  /// Barriers of blocks that have completed.
  uint32_t barriers() const { return completed_; }
  void cluster_arrive(int warp, bool relaxed);
  void cluster_complete();
  void strong(int warp, bool reads, bool writes);
  MbarrierState& mbarrier(const uint64_t* word);
  MbarrierState* find(const uint64_t* word);
  std::unordered_map<const uint64_t*, MbarrierState>& mbarriers() { return mbarriers_; }
  void arrive(int warp, MbarrierState& m, bool relaxed);
  void phase_done(MbarrierState& m);
  void passed(int warp, MbarrierState& m);

 private:
  static uint32_t at(const Clock& c, uint32_t i) { return i < c.size() ? c[i] : 0; }
  void release(int warp, AsyncKnowledge& to);
  void acquire(int warp, const AsyncKnowledge& from);

  const uint32_t warps_per_block_, warps_;
  std::vector<AsyncKnowledge> knowledge_;
  struct Gathering {
    AsyncKnowledge all;
    std::vector<int> waiting;
  };
  std::map<std::pair<const exec::CtaContext*, uint32_t>, Gathering> barriers_;
  Gathering cluster_;
  AsyncKnowledge strong_;
  std::unordered_map<const uint64_t*, MbarrierState> mbarriers_;
  uint32_t components_, completed_ = 0;
};

}  // namespace orrery::sanitize
