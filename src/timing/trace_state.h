// timing/trace_state.h: what a tracer keeps while units run: private to trace.cc (what handlers record) and trace_units.cc (which units run).
#pragma once
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/prepared_launch.h"
#include "exec/unit.h"
#include "timing/contention.h"
#include "timing/slow_paths.h"
#include "timing/trace.h"
#include "timing/trace_look.h"
#include "timing/trace_waits.h"

namespace orrery::timing {

/// What a warp's recording needs between two instructions.
struct WarpState {
  uint32_t block = UINT32_MAX, pc = 0;
  uint32_t mask = 0;
  Tries tries;
  std::unordered_map<uint32_t, uint32_t> quotients;  // by instruction: how many times it was executed
  uint64_t executed = 0, recorded = 0, bytes = 0;    // instructions, those that the stream tells of, what the stream takes
};

struct CodeTable {
  std::vector<exec::Handler> original;
  std::vector<bool> kept;            // by instruction: must it run? (slice.h)
  std::vector<SlowPath> slow;        // by instruction
  std::set<uint32_t> polls;          // loads that wait for other blocks
  std::set<uint32_t> swaps;          // compare and swap in loops, or take the next piece of work
  std::set<uint32_t> takes_work;     // of them the latter
  std::set<uint32_t> arrivals;       // additions by which a block finds out whether it comes last
  std::vector<AccessPattern> patterns;  // by first address operand
  uint32_t tag = 0;  // function number + 1 << 24
};

/// A launch that is traced knows by whom: what its handlers find.
struct TracedLaunch : exec::Launch {
  Tracer::State* tracer;
  TracedLaunch(exec::Launch l, Tracer::State* t) : exec::Launch(std::move(l)), tracer(t) {}
};

struct Tracer::State {
  State(exec::Machine& m, exec::Launch l, TraceOptions o) : machine(m), launch(std::move(l), this), options(o) {}

  exec::Machine& machine;
  TracedLaunch launch;
  TraceOptions options;
  std::unique_ptr<exec::PreparedLaunch> prepared;
  std::unique_ptr<exec::Unit> unit;
  std::vector<std::unique_ptr<exec::Unit>> side_by_side;
  exec::Unit* running = nullptr;
  std::unordered_map<const exec::DecodedProgram*, CodeTable> tables;
  const exec::DecodedProgram* last_code = nullptr;
  CodeTable* last_table = nullptr;
  std::unordered_map<const exec::CtaContext*, uint32_t> block_of;  // place in `blocks`
  std::vector<TracedBlock> blocks;
  std::vector<std::vector<WarpState>> warps;
  struct Tally {
    uint64_t instructions = 0, recorded = 0, bytes = 0;  // executed; recorded
    uint64_t warps = 0;
    bool meets = false;                    // its warps wait for each other, and so go on together
  };
  std::vector<Tally> tallies;            // by unit
  struct Limit {
    uint64_t instructions = 0, bytes = 0;
  } limit;                               // of a unit: what may be recorded
  uint64_t most_instructions = 0;        // of a unit: what may be executed
  uint64_t seed = 1;                     // of sums that look random
  uint64_t looked_at = 0;                // instructions whose data were looked at
  uint64_t executed = 0;                 // warp instructions of all units that run
  std::unique_ptr<Contention> contention;  // while units run side by side that take turns
  bool crowded = false;
  bool comes_last = false;                 // all other blocks have come before the one that runs
  uint64_t writes = 0;                   // instructions that others may wait for
  bool reads_memory = false;             // Slice::reads_memory
  bool needs_memory = false;             // that, constant memory and tensor maps, or quotients are followed
  /// Counts an instruction; true when no more may be recorded: of the unit, or of a warp that waits for nobody, since those run one after the other and
  /// the first would leave nothing to the others.
  bool is_full(const WarpState& w) {
    executed++, last_tally->instructions++;
    return has_no_room(w);
  }
  bool has_no_room(const WarpState& w) const {
    const Tally& t = *last_tally;
    if (t.recorded >= limit.instructions || t.bytes > limit.bytes) return true;
    return !t.meets && (w.recorded * t.warps >= limit.instructions || w.bytes * t.warps > limit.bytes);
  }
  void count_recorded(WarpState& w) { last_tally->recorded++, w.recorded++, w.executed++; }
  void count_bytes(WarpState& w, uint64_t bytes) { last_tally->bytes += bytes, w.bytes += bytes; }
  const exec::CtaContext* last_cta = nullptr;
  Tally* last_tally = nullptr;
  uint32_t last_block = 0;

  uint32_t number_of(const exec::CtaContext* cta) {
    if (cta != last_cta) last_cta = cta, last_block = block_of.at(cta), last_tally = &tallies[last_block / launch.cluster.count()];
    return last_block;
  }

  CodeTable& table(const exec::DecodedProgram* code) {
    if (code != last_code) last_code = code, last_table = &tables.at(code);
    return *last_table;
  }
  void prepare();
  bool finish(std::vector<exec::Unit*> units);
  std::vector<bool> finish_contended(uint64_t most_instructions);
  void begin(uint64_t units);
  void start(exec::Unit& where, uint64_t index);
  std::vector<TracedBlock> recorded();
  static double longer(const std::vector<WarpState>& of);
  std::shared_ptr<const exec::DecodedProgram> traced_copy(const std::shared_ptr<const exec::DecodedProgram>& code, uint32_t tag, std::vector<bool> kept, bool quotients);
};

}  // namespace orrery::timing
