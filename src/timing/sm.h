// timing/sm.h: one SM in detail: four sub-cores that issue the warps' machine instructions, L1 and shared memory, TMA,
// tensor cores, barriers.
//
// A sub-core issues at most one instruction a cycle: the warp that issued last if it can, else of the block that began first the last that can.
// A warp can issue when its last instruction's stall count is over, the dependence barriers that it waits for are
// free and the pipe has room. Every resource is reserved at issue, so the time at which a dependence barrier frees is
// known then; only barriers and mbarriers wait for other warps.
// Not here: where instructions come from (join.h), L2 and memory (chip.h), how many blocks are simulated (predict.h).
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "timing/chip.h"
#include "timing/code_fetch.h"
#include "timing/ghost_traces.h"
#include "timing/grid_shape.h"
#include "timing/join.h"
#include "timing/line_pool.h"
#include "timing/record.h"
#include "timing/relay.h"
#include "timing/shared_steps.h"
#include "timing/trace.h"

namespace orrery::timing {

/// How an instruction's address moves from block to block, when it does so evenly.
struct Slope {
  bool regular = false;
  int64_t x = 0, y = 0, z = 0;   // bytes a block
  bool operator==(const Slope&) const = default;
};

/// What the blocks of one traced shape issue, ready to be run many times.
struct BlockCode {
  const TracedBlock* trace = nullptr;
  std::vector<Steps> warps;
  uint64_t steps = 0;
};

/// One block to run: code, and which block of the grid it stands for.
struct BlockWork {
  const BlockCode* code = nullptr;
  uint64_t index = 0;
  int64_t at[3] = {0, 0, 0};
  uint32_t within = 0;           // its place among the blocks, one after the other, that it and ghosts of its SM run
};

/// Bulk copies of one instruction by one warp of a block.
constexpr uint64_t copy_key(uint32_t pc, uint32_t warp) { return uint64_t{pc} | uint64_t{warp} << 32; }

/// Where every block's bulk copies of an instruction by one warp lie, in the order in which it makes them (0: outside the tensor):
/// by block of the grid; empty, or beyond the end, for blocks that make none.
struct AllCopies {
  std::vector<std::vector<uint64_t>> starts;
};

/// The same of the traced blocks, of which ghosts draw.
struct CopyPool {
  std::vector<std::vector<uint64_t>> starts;  // of each traced block with addresses of its own: by ordinal
  uint32_t population = 1;                    // how many such blocks there are in the grid, as far as the sample tells
  double share = 1;                           // of traced blocks, those that execute the copy: one of a cluster may copy for all
};

struct Kernel {                  // what all SMs share
  const Join* join = nullptr;
  GridShape grid;
  std::unordered_map<uint32_t, Slope> slopes;      // by PTX instruction
  std::unordered_map<uint32_t, LinePool> pools;
  std::unordered_map<uint64_t, CopyPool> copies;       // of irregular bulk copies: by copy_key
  std::unordered_map<uint64_t, AllCopies> all_copies;  // the same
  std::vector<bool> copies_followed;                   // of which blocks all_copies tells: the others draw
  uint64_t cluster = 1;          // blocks
  uint32_t cluster_shape[3] = {1, 1, 1};
  bool cluster_launch = false;   // clusters were asked for, if only of one block
  uint32_t ghosts = 0;           // SMs that each simulated SM stands for, without itself
  uint32_t behind = 0;           // of them, those whose blocks lie before the simulated one's
  const GhostTraces* traces = nullptr;  // where blocks differ
  Relay* relay = nullptr;        // where blocks wait for each other in a chain
  /// Of a block of the grid, in its cluster.
  uint32_t rank_of(uint64_t block) const {
    const uint64_t x = block % grid.x % cluster_shape[0], y = block / grid.x % grid.y % cluster_shape[1], z = block / (grid.x * grid.y) % cluster_shape[2];
    return uint32_t(x + cluster_shape[0] * (y + cluster_shape[1] * z));
  }
  /// The block that ghost `g` (from 1) runs when its SM runs `own`.
  uint64_t block_of(uint32_t g, const BlockWork& own) const { return own.index - own.within + (own.within + g) % (ghosts + 1); }
  /// By how many SMs ghost `g` is ahead.
  int64_t ahead(uint32_t g) const { return g + behind <= ghosts ? int64_t(g) : int64_t(g) - int64_t(ghosts) - 1; }
  uint32_t l1_bytes = 0;
  double first_load = 0;         // what an SM waits for once, at its first load
  FetchCosts fetch;              // of its code
  std::vector<bool> executed;    // lines of it, by CodeFetch::kLine instructions
};

struct SmCounts {
  uint64_t issued = 0, thread_instructions = 0;
  std::array<uint64_t, size_t(Class::count)> by_class{};
  std::array<uint64_t, size_t(Class::count)> lanes_by_class{};
  std::array<double, size_t(Class::count)> changed_lanes{}, changed_reads{};  // lanes, and words that they read from registers, by how much data change
  double changed_columns = 0, shared_words_read = 0, shared_words_written = 0;  // the same of wgmma and shared memory
  double l1_sectors = 0, l1_hits = 0, shared_wavefronts = 0, tensor_busy = 0, tensor_columns = 0, double_products = 0, tma_bytes = 0, lines_asked = 0;
  double fence_sectors = 0;  // of L2, for barriers of memory before the end
  uint32_t slices = 0;       // of L2 that the SM has touched
  uint64_t requests = 0, looked_up = 0;  // of the SM and its ghosts, loads and stores; those of pages that are looked up
  std::vector<std::pair<uint32_t, double>> clock_reads;  // of the first block: warp of the block, and when it read the SM's clock
};

class Sm {
 public:
  Sm(const ChipFigures& figures, const Kernel& kernel, Chip& chip, uint32_t number, uint32_t slots);
  ~Sm();
  /// Starts a block in a free slot at `now` or later.
  void start(const BlockWork& work, double now);
  uint32_t free_slots() const;
  bool idle() const;
  /// Issues what can be issued at `now`; returns the next time at which something may happen (infinity: nothing will).
  double step(double now);
  /// Blocks that ended since the last call, with their times.
  std::vector<std::pair<uint64_t, double>> take_finished();
  const SmCounts& counts() const;
  /// From now on waits are noted in `record`, which must outlive the SM.
  void note_in(Record* record);

 private:
  struct State;
  std::unique_ptr<State> s_;
};

}  // namespace orrery::timing
