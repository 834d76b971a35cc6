// exec/unit_together.cc: a block whose warps all go the same way, in compiled code (see unit.h).
//
// Most blocks never need a scheduler: every warp runs from the start to a barrier of the whole block, all of them from
// there to the next, and so on to the end. As long as that holds, nothing is kept of groups, barriers and exits; one
// sweep calls compiled code once for all warps. The first sweep after which the warps stand at different places writes
// down what pass() wants to know (separate), and the block goes on there.
//
//   sweep -> all at one barrier -> sweep -> ... -> all done        the block is finished
//                     \-> anything else -> separate -> pass()
//
// Invariant: while a block is together its warps are `fresh`: their groups are as reset() leaves them.
#include "exec/fault.h"
#include "exec/interpreter.h"
#include "exec/observed.h"
#include "exec/observer.h"
#include "exec/unit.h"

namespace orrery::exec {

namespace {
constexpr uint32_t kPollPeriod = 1024;  // sweeps between looks at the stop flag
}

/// Runs the block while its warps stay together. False: pass() goes on. (An optional would be put together in memory
/// byte by byte and read at once, for which the host waits as long as for the rest of this function.)
bool Unit::advance_together(Progress& progress) {
  const NativeCode& native = *blocks_[0]->cta.native;
  std::vector<WarpContext>& warps = blocks_[0]->warps;
  FaultTrap& trap = fault_trap();
  trap.code = run_.kernel.entry.get();
  trap.lane = -1;
  current_ = nullptr;
  int32_t entry = 0;
  for (uint32_t sweeps = 0; entry >= 0; sweeps++) {
    const uint32_t stop = native.entries[size_t(entry)](warps.data(), uint32_t(warps.size()));
    progress = Progress::fault;
    if (Stop(stop & 255) == Stop::fault) return true;
    if (Stop(stop & 255) == Stop::done) {
      uint64_t ran = 0;
      for (const WarpContext& w : warps) ran += w.instructions;
      instructions_ += ran;
      progress = end();
      return true;
    }
    if (Stop(stop & 255) != Stop::arrived) break;
    entry = native.entry_of[(stop >> 8) + 1];
    if (entry < 0) break;
    if (const Observer* o = run_.machine.observer; o && (o->wants() & kObserveSync)) tell_barrier(stop >> 8);
    for (WarpContext& w : warps) w.instructions++, w.budget = kSpinBudget;
    if (sweeps % kPollPeriod == kPollPeriod - 1 && poll(run_)) return true;
  }
  separate();
  return false;
}

/// Reports a barrier that all warps have come to; for the observer they wait there.
void Unit::tell_barrier(uint32_t pc) {
  Observer& o = *run_.machine.observer;
  CtaContext& cta = blocks_[0]->cta;
  const uint32_t number = uint32_t(run_.kernel.entry->code[pc].instr->ops[0].value);
  if (quick_access().barrier && quick_access().barrier(cta, number)) return;
  for (WarpContext& w : blocks_[0]->warps) {
    Group& g = w.groups[0];
    g.mask = w.live, g.pc = pc + 1, g.state = GroupState::barrier, g.barrier = uint8_t(number);
    tell_arrival(o, w, pc, number);
  }
  o.barrier_complete(cta, number);
  for (WarpContext& w : blocks_[0]->warps) {
    w.groups[0] = Group{};
    w.groups[0].mask = w.lanes;
  }
}

/// The warps stand at different places: counts and groups become what they would be had each run by itself.
void Unit::separate() {
  Block& b = *blocks_[0];
  std::vector<WarpContext*> arrived;
  for (WarpContext& w : b.warps) {
    if (Stop(w.stop & 255) == Stop::arrived) arrived.push_back(&w);
    take_back(w);
    w.fresh = false;
    w.stalled = Stop(w.stop & 255) == Stop::spin;
    if (const uint32_t gone = w.lanes & ~w.live) count_exits(w, gone);
    if (w.n_groups) continue;
    w.finished = true;
    unfinished_--;
    instructions_ += w.instructions;
  }
  for (WarpContext* w : arrived) arrive_together(*w, run_.kernel.entry->code[w->groups[0].pc]);
}

}  // namespace orrery::exec
