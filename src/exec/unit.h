// exec/unit.h: the blocks that are resident together on a worker: one CTA, or all CTAs of one cluster.
//
// A Unit owns the memory of its blocks (shared, local, register frames) and is reused for the next block or cluster
// when it finishes. Not here: which unit runs when (scheduler.cc).
#pragma once
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "exec/later.h"
#include "exec/mbarrier_store.h"
#include "exec/run_state.h"
#include "exec/wait_log.h"
#include "exec/wgmma_queue.h"

namespace orrery::exec {

class Unit {
 public:
  Unit(RunState& run, const LaunchContext& launch);
  ~Unit();
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;

  /// Prepares the blocks of cluster number `index` of the grid (of block number `index` without clusters).
  void start(uint64_t index);

  enum class Progress { finished, stalled, preempted, fault };
  /// Runs warps until all are finished or all that can run only wait for other blocks. With `random`, runs one random
  /// turn of each warp in random order.
  Progress advance(std::mt19937_64* random);

  /// Can some warp go on without waiting?
  bool some_ready() const;

  /// The blocks, by rank in their cluster, for observers of a unit.
  std::vector<CtaContext*> blocks();

  /// The block runs compiled code.
  bool native() const { return blocks_[0]->cta.native != nullptr; }

  /// Adds the blocks to `blocks`.
  void add_blocks(std::vector<const CtaContext*>& blocks) const;

  /// The warp that is running now, for fault reports.
  WarpContext& current_warp() const { return current_ ? *current_ : *blocks_[0]->cta.running; }

 private:
  struct Block {
    CtaContext cta;
    std::vector<WarpContext> warps;
    std::vector<uint32_t> partial;
  };
  void place(Block& block, uint32_t rank);
  void go_to(uint64_t index);
  void locate(CtaContext& cta, uint32_t rank);
  void reset(WarpContext& w) const;
  bool pass(std::mt19937_64* random, bool& ran, bool& spinning);
  void take_up_code();
  Progress end();
  bool advance_together(Progress& progress);
  void tell_barrier(uint32_t pc);
  void separate();
  bool waits_for_mbarrier() const;
  void report_hang();

  RunState& run_;
  const LaunchContext& launch_;
  uint64_t at_ = ~uint64_t{1};   // number of the cluster that is here: none yet
  uint32_t first_[3] = {};       // coordinates of its first block
  uint64_t window_ = 0;          // shared and local memory of all blocks
  uint64_t shared_span_ = 0, local_span_ = 0;
  std::byte* frames_ = nullptr;
  uint64_t frame_span_ = 0;
  ClusterContext cluster_;
  WarpContext* current_ = nullptr;  // null: the one that compiled code says
  WaitLog log_;
  std::optional<MbarrierStore> mbarriers_;
  Later later_;
  WgmmaQueue wgmma_;
  std::vector<std::unique_ptr<Block>> blocks_;
  bool counts_phases_ = false;   // lower::Program::counts_phases
  bool force_ = false;           // wake waits for mbarriers, so that they tell the program that their time is up
  uint32_t polls_ = 0;           // forced passes in a row in which nothing happened
  std::vector<WarpContext*> order_;  // in which warps run
  bool together_ = false;        // the block is to start in compiled code, all warps at once
  uint32_t unfinished_ = 0;      // warps
  uint64_t instructions_ = 0;    // of finished warps, not yet added to the launch's count
};

constexpr int32_t kSpinBudget = 64;  // iterations of a compiled loop that may wait for others

/// What compiled code left behind, in the form that the interpreter wants: groups where it wrote none.
Stop take_back(WarpContext& w);

/// Checks interrupt and deadline; true when the launch must stop.
bool poll(RunState& run);

}  // namespace orrery::exec
