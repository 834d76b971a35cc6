// timing/trace.h: what the warps of some thread blocks did, recorded while the interpreter ran them.
//
// A stream is one warp's events in order: entries into PTX blocks (with the lanes that entered) and, inside them, the
// memory and synchronising instructions with what time depends on: lines of global memory, shared-memory wavefronts,
// mbarriers and byte counts. Failed polls of an mbarrier are taken out: how often a warp polls is for the timing model.
// Matrix products are not computed while tracing (their results hardly ever steer control), unless `values` is set.
//
// Tracing changes memory; whoever needs the memory as it was traces in a forked process.
// Not here: machine code (join.h), time (sm.h).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/launch.h"
#include "timing/data_change.h"
#include "timing/fetch_size.h"

namespace orrery::timing {

enum class What : uint8_t {
  enter,          // pc = first instruction of the block, count = where it was entered, extra = number of lanes
  global_load, global_store, global_atomic, global_reduction,  // detail: lines; stores, extra: Filled; fetches of texels, extra: cycles, count: FetchKind
  shared_load, shared_store, shared_atomic,                    // extra: wavefronts; atomics, count: most lanes on one word; of floats, detail: object words
  remote_load, remote_store,                                   // shared memory of another block of the cluster
  remote_atomic,                                               // extra: sectors; count: most lanes on one word
  peer_store,      // st.async; extra: sectors that it fills, and halves of others; object: mbarrier; count: bytes that it is told of. red.async; extra: sectors; detail: most lanes on one word
  local_load, local_store,                                     // detail: lines, from where the block's local memory begins
  constant_load,                                               // extra: different words; object: the first's 64 bytes; count: how many such
  copy_async,      // cp.async: detail: lines
  bulk_load, bulk_store, bulk_prefetch,                        // detail: runs; object: mbarrier
  barrier,         // extra: number; count: threads expected (0: all)
  barrier_arrive,
  barrier_red,
  cluster_arrive, cluster_wait,
  mbarrier_init, mbarrier_arrive, mbarrier_expect, mbarrier_wait,  // object; count
  match,           // extra: how many values the lanes hold
  sleep,           // count: nanoseconds, of the lane that asks for most
  other,
};

/// Bulk loads that fill several blocks of the cluster, and those whose source is shared memory; arrivals at an mbarrier by the copies that a warp has made
/// before; bulk stores that add to what they find, or the like (Event::lanes_bytes).
inline constexpr uint8_t kMulticast = 1, kFromShared = 2, kOfCopies = 3, kReduces = 4;

/// What only one thread knows of: it lies where the block runs, not by its place in the grid.
constexpr bool is_local(What w) { return w == What::local_load || w == What::local_store; }

/// Of the sectors that a store touches, how many it writes all of (Event::extra). Where it is some, which: as many words as it has lines, behind them.
enum class Filled : uint16_t { none, some, all };

/// Words of atomics of floats in shared memory: address << kLanesOfWord | lanes.
inline constexpr int kLanesOfWord = 8;

struct Event {
  uint32_t pc = 0;        // instruction of the program (function << 24 for called functions)
  uint32_t mask = 0;      // lanes; bulk loads of clusters: the ranks that make them (peer_copies.h)
  What what = What::other;
  uint8_t lanes_bytes = 0;   // bytes a lane; bulk loads: kMulticast, kFromShared; bulk stores: kReduces; arrivals: kOfCopies
  uint16_t extra = 0;
  uint32_t count = 0;
  uint32_t detail = 0, n_detail = 0;  // into Block::detail
  uint32_t object = 0;               // mbarrier: shared offset | block rank << 24
  uint32_t ordinal = 0;              // accesses to global memory: how many of this instruction its warp made before; mbarriers: 1 + which of from_peers
  uint64_t address = 0;              // global and local: of the first lane, or of the first run
};

/// The ranks that make a copy: all, but of bulk loads that blocks of a cluster do not make alike.
inline uint32_t ranks_of(const Event& e) { return e.what == What::bulk_load && e.mask ? e.mask : UINT32_MAX; }

constexpr Filled filled_of(const Event& e) { return e.what == What::global_store ? Filled(e.extra) : Filled::none; }

/// A run of rows in global memory that a bulk or tensor copy moves.
struct Run {
  uint64_t address = 0;
  uint32_t bytes = 0, rows = 1;
  uint64_t stride = 0;
  uint64_t space = 0;                // bytes of the tensor that it is a part of, 0: not known
  FetchSize fetch = FetchSize::half;         // by a tensor map's promotion
};

/// A quotient or root whose operands, of one lane at least, are not ordinary: its machine code calls a function (slow_paths.h).
struct SlowCall {
  uint32_t pc = 0;
  uint32_t ordinal = 0;              // how many times the warp had executed the instruction before
  uint32_t lanes = 0, instructions = 0;  // how many lanes call, and what the longest way adds
  bool operator==(const SlowCall&) const = default;
};

struct TracedWarp {
  std::vector<Event> events;
  std::vector<SlowCall> slow;        // in order
  bool cut = false;                  // it went on when no more could be recorded
};

/// What a block of the cluster copies into this one, and this one does not itself.
struct PeerCopy {
  Event copy;                        // its runs are among this block's
  uint32_t warp = 0, rank = 0;       // of the block that makes it
};

struct TracedBlock {
  uint64_t index = 0;               // number of the block in the grid
  uint32_t ctaid[3] = {0, 0, 0};
  uint32_t rank = 0;                // in its cluster
  std::vector<TracedWarp> warps;
  std::vector<uint64_t> lines;      // line address << 4 | sectors touched
  std::vector<uint8_t> own;         // of each line, when that is known: no other block touches it
  std::vector<Run> runs;
  uint64_t local_bytes = 0;         // of local memory, where some is touched
  std::vector<std::vector<PeerCopy>> from_peers;  // of each mbarrier event that expects such
  uint64_t instructions = 0;        // PTX warp instructions
  uint64_t recorded = 0;            // of them, those that the streams tell of
  double longer = 1;                // how many times as long the warps that execute most run as what was recorded of them
  uint64_t slow = 0;                // machine instructions of functions that quotients and roots call
  /// What tells blocks that do more from those that do less.
  uint64_t work() const { return instructions + slow; }
  /// What the recording takes of memory.
  uint64_t bytes() const;
  uint64_t shape = 0;               // hash of the control flow of all warps
};

struct TraceOptions {
  bool values = false;              // compute matrix products too
  bool copies_only = false;         // only bulk copies are recorded, and what they do not depend on is left out (slice.h)
  DataChange* changes = nullptr;    // nothing is recorded but by how much data change; all but matrix products is computed
  uint64_t max_instructions = 40'000'000;    // of a unit, or of all that run at once: what comes after is only counted
  uint64_t max_bytes = uint64_t{512} << 20;  // of events and lines: the same
  uint64_t most_instructions = 400'000'000;  // of a unit: one that runs longer is refused
  double warps = 0;                 // that an SM holds: a loop that waits for the clock turns more slowly where there are many
};

/// How L2 serves lanes that compare and swap one word: cycles for each, and until their warp has its answer where the word is near and where it is
/// far, by how much that differs from one to the next.
struct SwapTimes {
  double lane = 0, near = 0, far = 0, spread = 0;
};

/// Runs units (blocks, or clusters) of a launch one after the other, or all at once, and records them. Several may work at a time, each on
/// a thread of its own.
class Tracer {
 public:
  Tracer(exec::Machine& machine, const exec::Launch& launch, TraceOptions options);
  ~Tracer();
  /// The blocks of unit `index`. Throws base::Error when the unit faults, hangs or runs too long; nothing can be traced after that.
  std::vector<TracedBlock> trace(uint64_t index);
  /// The blocks of all units, run side by side: they may wait for each other. Throws as trace() does.
  std::vector<TracedBlock> trace_together();
  /// The blocks of the first `units`, run side by side, whose compare and swap in loops take turns as they would on the GPU (contention.h).
  /// Those that have not ended when all have executed so many warp instructions are not among them. Throws as trace() does.
  std::vector<TracedBlock> trace_contended(uint64_t units, SwapTimes times, uint64_t most_instructions);
  /// The blocks of unit `index` as if all others had counted themselves before (arrivals_of of swap_loops.h). Throws as trace() does.
  std::vector<TracedBlock> trace_as_last(uint64_t index);
  /// Did the warps of the last trace_contended() wait for each other?
  bool crowded() const;
  /// Does the unit end within so many warp instructions? Nothing is recorded, and what it did until then stays done. Nothing when it faults
  /// or waits for others.
  std::optional<bool> ends_within(uint64_t index, uint64_t instructions);
  /// Do control or addresses depend on what is in memory, where blocks that run before may have left it?
  bool reads_memory() const;
  /// Does anything that is recorded, constant memory and tensor maps taken in?
  bool needs_memory() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace orrery::timing
