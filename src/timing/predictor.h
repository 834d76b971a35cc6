// timing/predictor.h: one prediction under way; private to the files named here.
//
// predict.cc simulates, host_memory.cc says what goes over the link to the host, moved_pages.cc what managed memory moves, page_sample.cc says how much of memory, pools.cc what ghosts draw of, sample.cc traces blocks and finds out how
// the others differ, rare_blocks.cc which do far more, waits.cc in which order when they wait for each other, describe.cc says what came out, energy.cc
// what it takes.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "timing/energy.h"
#include "timing/paired_tracer.h"
#include "timing/predict.h"

namespace orrery::timing {

struct Occupancy {
  uint32_t blocks = 1;
  std::string limiter;
};

/// What of a grid is simulated, of clusters (without them: of blocks).
struct Extent {
  uint64_t units = 1, per = 1;   // how many there are, and blocks of each
  uint64_t stride = 1;           // how many run at once, one an SM: row by row they go over the grid
  uint64_t rows = 1, rows_run = 1;  // of the busiest SM; those that are simulated
  uint64_t apart = 1;            // from one simulated SM to the next
  uint32_t simulated = 1;        // SMs in detail
};

/// All that one prediction works on.
class Predictor {
 public:
  Predictor(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const PredictOptions& options,
            const std::function<void(double)>& estimate)
      : machine_(machine), launch_(launch), options_(options), estimate_(estimate), at_full_clock_(figures_of(profile)), figures_(at_full_clock_), profile_(profile), managed_(*machine.memory) {}
  Prediction run();

 private:
  static constexpr uint64_t kMostTraced = uint64_t{1} << 30;  // bytes of traces after which no more blocks are traced than must be
  void join_code();
  void sample();
  void start_tracer(uint64_t most = TraceOptions{}.most_instructions);
  void trace(uint64_t unit);
  void trace_first(uint64_t unit);
  void trace_while(const std::vector<uint64_t>& units, const std::function<bool(size_t)>& wants);
  void trace_all(double expected);
  bool find_ranges();
  bool regular_ranges();
  void trace_spread(double each, uint64_t units);
  void trace_long_ones(uint64_t units);
  void trace_last(uint64_t units);
  std::vector<uint64_t> elsewhere(const std::function<void(const std::function<void(uint64_t)>&)>& work);
  bool drawn_alike(uint64_t shape);
  double share_of_usual();
  /// Is the grid so large that few of those simulated can be traced themselves?
  bool stands_for_many(uint64_t units) const { return units > 16 * uint64_t(figures_.sms); }
  bool end_in_order(uint64_t blocks);
  void trace_in_order();
  bool waits_for_blocks() const;
  bool trace_contended();
  bool do_less_alone(uint64_t beyond);
  void find_relay();
  void keep(std::vector<TracedBlock> blocks);
  uint64_t busiest(uint64_t stride, uint64_t apart) const;
  uint64_t usual_place() const;
  bool work_differs() const;
  void fit_slopes(const std::vector<const TracedBlock*>& same);
  void fit_slope_across(int direction);
  void compare_ranks();
  void find_lead();
  const TracedBlock& lead_of(const TracedBlock& b) const;
  void find_kinds(uint64_t units);
  void make_pools();
  void make_copy_pools();
  void follow_copies();
  const BlockCode& code_for(uint64_t block);
  std::unique_ptr<BlockCode> code_of(const TracedBlock& b);
  double last_longer(Chip& chip, double now);
  /// How far a grid has come from one block (0) to a block on each SM of that share (1).
  double on_sms(double share) const { return std::min(1.0, double(launch_.grid.count() - 1) / (share * double(figures_.sms))); }
  double simulate();
  void find_extent();
  double simulate_blocks();
  double effort_of(uint64_t block);
  // Blocks that are looked at where kinds of work lie in parts of the grid of their own: of the grid, and of each part; evenly, but in no step with its rows.
  static constexpr uint64_t kOfAll = 16, kOfEach = 6;
  static constexpr size_t kEnoughSpread = 8;  // of spread_, to say what others do
  static uint64_t place_in(uint64_t first, uint64_t end, uint64_t i) {
    const double turns = 0.6180339887 * (double(i) + 0.5);
    return first + uint64_t((turns - std::floor(turns)) * double(end - first));
  }
  double mean_work();
  /// Is known what blocks do that are not simulated?
  bool knows_work() const { return all_traced_ || !ranges_.empty() || !kinds_.seen.empty() || one_wave_differs(); }
  /// Do blocks that all begin at once differ, of which some all over the grid are known?
  bool one_wave_differs() const { return !regular_ && !in_order_ && extent_.per == 1 && extent_.rows == 1 && spread_.size() >= kEnoughSpread; }
  struct Queued {
    uint64_t unit = 0;
    uint32_t within = 0;         // BlockWork::within
  };
  std::vector<Queued> queue_of(uint64_t shift);
  void find_executed(const BlockCode& block);
  const BlockCode& longest_code();
  uint32_t pages_for_one(const BlockCode& code, size_t blocks) const;
  double page_error(const Chip& chip) const;
  void note_clocks(const SmCounts& counts);
  double expected_clock() const;
  void name_assumptions();
  void simulate_at_its_clock();
  double describe(double cycles);
  struct OverLink {
    double read = 0, written = 0;  // shares
  };
  OverLink share_of_host() const;
  double with_link(double cycles);
  void find_moves();
  double other_sectors(double seconds) const;
  double barrier_sectors() const;
  std::string details() const;
  void find_changes();
  std::vector<EnergyPart> dynamic_energy(double seconds, Spent& spent) const;
  uint64_t ordinal(const TracedBlock& b) const { return b.ctaid[0] + kernel_.grid.x * (b.ctaid[1] + kernel_.grid.y * uint64_t{b.ctaid[2]}); }
  uint64_t first_block(uint64_t unit) const;

  exec::Machine& machine_;
  const exec::Launch& launch_;
  const PredictOptions& options_;
  const std::function<void(double)>& estimate_;
  const ChipFigures at_full_clock_;
  ChipFigures figures_;          // at the clock that is expected
  const Profile& profile_;
  ManagedMemory managed_;        // as it was before
  Prediction p_;
  Kernel kernel_;
  std::unique_ptr<Join> join_;
  std::unique_ptr<PairedTracer> tracer_;
  TracedBlocks traced_;
  std::unique_ptr<GhostTraces> ghost_traces_;                 // where blocks differ
  bool all_traced_ = false;
  SharedSteps steps_;
  std::map<uint64_t, std::unique_ptr<BlockCode>> code_;
  const TracedBlock* model_ = nullptr;                        // regular kernels: the block that stands for all
  std::map<uint64_t, const TracedBlock*> ranges_;             // where blocks of several kinds follow each other: the first of each, and what stands for it
  bool regular_ = false;
  std::vector<uint64_t> spread_;                              // where blocks differ: units all over the grid, which stand for those that are not traced
  Kinds kinds_;                                                // the same: which do much and which leave at once
  uint64_t lead_ = 0;                                         // of a cluster the block that works longest, which is simulated: its number less the first one's
  double lead_share_ = 1;                                     // what a block of a cluster executes, of what that one does
  double usual_share_ = 1;                                    // where odd blocks are left out: what a block of the grid does, of what the usual one does
  std::unique_ptr<TracedBlock> last_;                         // the block that comes last, where that one does more than the others
  bool contended_ = false;                                    // blocks were traced side by side, since they compare and swap what others do
  bool crowded_ = false;                                      // and wait for each other there
  bool held_up_ = false;                                      // they do more so than alone: those that are not traced do as they
  bool in_order_ = false;                                     // blocks wait for those before them
  bool both_ways_ = false;                                    // and for later ones: all were traced side by side
  Relay relay_;
  uint64_t trace_instructions_ = 0, trace_bytes_ = 0;
  Occupancy occupancy_;
  JoinStatistics statistics_;
  MemoryCounts memory_;
  SmCounts sm_;
  Record record_;
  Extent extent_;
  uint32_t one_of_ = 0;          // pages for which one is looked up; 0: not decided yet
  double page_error_ = 0;        // share of the time that the others may add or take
  double data_change_ = 1;       // by how much what memory holds changes, of what random data do
  double slices_ = 0;            // of L2 that a simulated SM touched
  double rows_share_ = 1;        // of the blocks of an SM, those that were simulated
  double scale_ = 1;             // whole grid over what was simulated
  double chip_scale_ = 1;        // whole chip over the SMs that were simulated or ghosts
  double link_busy_ = 0;         // of the time, what the link between host and GPU works
  double dram_busy_ = 0, l2_busy_ = 0, simulated_cycles_ = 0;
  HostCost host_;
  Stopwatch* running_ = nullptr;
  double unrecorded_ = 1, longer_ = 1;  // how much more traced blocks execute than was recorded of them, and how much longer they run
};

}  // namespace orrery::timing
