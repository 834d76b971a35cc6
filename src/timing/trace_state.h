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
};

struct CodeTable {
  std::vector<exec::Handler> original;
  std::vector<bool> kept;            // by instruction: must it run? (slice.h)
  std::vector<SlowPath> slow;        // by instruction
  std::set<uint32_t> polls;          // loads that wait for other blocks
  std::set<uint32_t> swaps;          // compare and swap in loops
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
  struct Tally { uint64_t instructions = 0, bytes = 0; };  // executed, and recorded
  std::vector<Tally> tallies;            // by unit
  Tally limit;                           // of a unit: what may be recorded
  uint64_t most_instructions = 0;        // of a unit: what may be executed
  uint64_t seed = 1;                     // of sums that look random
  uint64_t looked_at = 0;                // instructions whose data were looked at
  uint64_t executed = 0;                 // warp instructions of all units that run
  std::unique_ptr<Contention> contention;  // while units run side by side that take turns
  bool crowded = false;
  uint64_t writes = 0;                   // instructions that others may wait for
  bool reads_memory = false;             // Slice::reads_memory
  bool needs_memory = false;             // that, constant memory and tensor maps, or quotients are followed
  /// Counts an instruction; true when no more may be recorded.
  bool is_full() {
    executed++;
    return ++last_tally->instructions > limit.instructions || last_tally->bytes > limit.bytes;
  }
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
  std::shared_ptr<const exec::DecodedProgram> traced_copy(const std::shared_ptr<const exec::DecodedProgram>& code, uint32_t tag, std::vector<bool> kept, bool quotients);
};

}  // namespace orrery::timing
