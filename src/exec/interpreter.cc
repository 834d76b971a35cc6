// exec/interpreter.cc: see interpreter.h.
#include "exec/interpreter.h"

#include <algorithm>

#include "exec/fault.h"
#include "exec/polling.h"

namespace orrery::exec {

namespace {

constexpr int kSpinSlice = 64;         // backward jumps in a loop that may wait
constexpr int kLookForCode = 1 << 14;  // backward jumps in loops that do not wait between looks for compiled code
constexpr int kLongSlice = 1 << 20;    // backward jumps in any other loop, between looks at the stop flag

uint32_t depth_of(const Group& g) { return g.frame ? g.frame->depth : 0; }

/// Deepest call first, then lowest instruction; with `after` >= 0 the next ready group behind that one.
int pick(const WarpContext& w, int after) {
  if (after >= 0) {
    for (uint32_t i = 1; i <= w.n_groups; i++) {
      const int k = int((uint32_t(after) + i) % w.n_groups);
      if (w.groups[k].state == GroupState::ready) return k;
    }
    return -1;
  }
  int best = -1;
  for (int i = 0; i < int(w.n_groups); i++) {
    const Group& g = w.groups[i];
    if (g.state != GroupState::ready) continue;
    if (best < 0) { best = i; continue; }
    const Group& b = w.groups[best];
    if (depth_of(g) > depth_of(b) || (depth_of(g) == depth_of(b) && g.pc < b.pc)) best = i;
  }
  return best;
}

/// The ready group that holds `lane`, -1 when there is none.
int group_of_lane(const WarpContext& w, int lane) {
  for (int i = 0; i < int(w.n_groups); i++)
    if (w.groups[i].state == GroupState::ready && (w.groups[i].mask >> lane & 1)) return i;
  return -1;
}

bool native_can_start(const WarpContext& w) {
  if (!w.cta->native || is_watched(*w.cta->launch->run) || w.n_groups != 1) return false;
  const Group& g = w.groups[0];
  return g.state == GroupState::ready && !g.frame && g.mask == w.live && w.cta->native->entry_of[g.pc] >= 0;
}

}  // namespace

Group& add_group(WarpContext& w) { return w.groups[w.n_groups++] = Group{}; }

void drop_empty_groups(WarpContext& w) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w.n_groups; i++)
    if (w.groups[i].mask) w.groups[n++] = w.groups[i];
  w.n_groups = n;
}

void merge_groups(WarpContext& w) {
  for (uint32_t i = 0; i < w.n_groups; i++)
    for (uint32_t k = i + 1; k < w.n_groups; k++) {
      Group &a = w.groups[i], &b = w.groups[k];
      if (!a.mask || !b.mask || a.pc != b.pc || a.frame != b.frame) continue;
      if (a.state != GroupState::ready || b.state != GroupState::ready) continue;
      a.mask |= b.mask;
      b.mask = 0;
    }
  drop_empty_groups(w);
}

void count_exits(WarpContext& w, uint32_t mask) {
  w.cta->live_threads -= mask == ~0u ? 32 : uint32_t(std::popcount(mask));
  if (w.live && w.cta->used_barriers) fill_partial_arrivals(w);
  ClusterContext* c = w.cta->cluster;
  if (!c) return;
  c->live_threads -= uint32_t(std::popcount(mask));
  c->arrived -= uint32_t(std::popcount(mask & w.cluster_arrived));
  w.cluster_arrived &= ~mask;
}

void exit_lanes(RunState& run, WarpContext& w, Group& g, uint32_t mask) {
  g.mask &= ~mask;
  w.live &= ~mask;
  count_exits(w, mask);
  for (CallFrame* f = g.frame; f; f = f->caller) f->lanes &= ~mask;
}

void check_warp_sync(WarpContext& w) {
  // Groups that wait with the same member mask at the same instruction become one when all named live lanes are there.
  for (uint32_t i = 0; i < w.n_groups; i++) {
    Group& a = w.groups[i];
    if (a.state != GroupState::warp_sync || !a.mask) continue;
    uint32_t present = a.mask;
    for (uint32_t k = 0; k < w.n_groups; k++) {
      const Group& b = w.groups[k];
      if (k != i && b.state == GroupState::warp_sync && b.pc == a.pc && b.frame == a.frame && b.member_mask == a.member_mask)
        present |= b.mask;
    }
    if ((a.member_mask & w.live) & ~present) continue;
    for (uint32_t k = 0; k < w.n_groups; k++) {
      Group& b = w.groups[k];
      if (k != i && b.state == GroupState::warp_sync && b.pc == a.pc && b.frame == a.frame && b.member_mask == a.member_mask)
        b.mask = 0;
    }
    a.mask = present;
    a.state = GroupState::ready;  // it runs the instruction again, now with everybody
  }
  drop_empty_groups(w);
}

namespace {

/// All groups of the warp wait. bar.warp.sync may be met at different instructions: let those with one mask go on.
bool release_divergent_sync(const RunState& run, WarpContext& w) {
  for (uint32_t i = 0; i < w.n_groups; i++) {
    const Group& a = w.groups[i];
    if (a.state != GroupState::warp_sync) continue;
    uint32_t present = 0;
    for (uint32_t k = 0; k < w.n_groups; k++)
      if (w.groups[k].state == GroupState::warp_sync && w.groups[k].member_mask == a.member_mask) present |= w.groups[k].mask;
    if (present != (a.member_mask & w.live)) continue;
    const uint32_t members = a.member_mask;
    for (uint32_t k = 0; k < w.n_groups; k++) {
      Group& g = w.groups[k];
      if (g.state != GroupState::warp_sync || g.member_mask != members) continue;
      const DecodedProgram& code = g.frame ? *g.frame->code : *run.kernel.entry;
      g.state = GroupState::ready;
      if (code.code[g.pc].instr->form.op == isa::Op::bar_warp) g.pc++;
      else g.member_mask = g.mask;
    }
    return true;
  }
  return false;
}

/// Executes instructions of one group until it must give way. Returns true when the warp must be given back. Watched:
/// Polling sees every instruction.
template <bool kWatched>
bool run_group(RunState& run, WarpContext& w, int index, int& slice, bool& rotate, Stop& stop) {
  Group& g = w.groups[index];
  Stepper s{w, *w.cta, run, g.frame ? g.frame->code : run.kernel.entry.get(), g.frame ? g.frame->registers : w.frame, g.frame, &g, g.pc, g.mask};
  const std::vector<Decoded>& code = s.code->code;
  fault_trap().code = s.code;
  const bool alone = w.n_groups == 1;
  for (;;) {
    const Decoded& d = code[s.pc];
    w.at_inst = s.pc;
    w.instructions++;
    s.mask = g.mask;
    if (d.guard != UINT32_MAX) {
      const uint32_t p = *reinterpret_cast<const uint32_t*>(s.frame + d.guard);
      s.mask &= d.guard_negated ? ~p : p;
    }
    Next next = Next::next;
    if constexpr (kWatched) {
      if (s.mask) {
        const uint32_t pc = s.pc;
        run.polling->before(s, d);
        next = d.run(s, d);
        s.pc = pc;
        run.polling->after(s, d);
      }
    } else {
      if (s.mask) next = d.run(s, d);
    }
    if (next == Next::next) {
      g.pc = ++s.pc;
      if (!alone && s.code->block_start[s.pc]) return false;
    } else if (next == Next::jump) {
      const uint32_t from = s.pc;
      g.pc = s.pc = d.target;
      if (d.target <= from) {
        const bool waits = s.code->spin_edge[from] == 1;
        slice -= waits ? kLongSlice / kSpinSlice : 1;
        if (!waits && slice % kLookForCode == 0) run.take_up_code(*w.cta);
        if (slice <= 0 || (waits && --w.budget < 0)) {
          rotate = true;
          return false;
        }
      }
      if (!alone) return false;
    } else if (next == Next::fault) {
      stop = Stop::fault;
      return true;
    } else {
      return false;  // regroup or block: the handler has written the groups
    }
    if (alone && native_can_start(w)) {
      stop = Stop::service;
      return true;
    }
    if (w.turn && --w.turn == 0) {
      stop = Stop::preempted;
      return true;
    }
  }
}

}  // namespace

Stop interpret(RunState& run, WarpContext& w) {
  int slice = kLongSlice, favoured = -1;  // favoured: a lane whose group runs first after others used up their slices
  bool first = true;
  for (uint32_t rotations = 0;;) {
    if (run.stop) return Stop::fault;
    merge_groups(w);
    if (w.n_groups == 0) return Stop::done;
    if (!first && native_can_start(w)) return Stop::service;
    int index = favoured >= 0 ? group_of_lane(w, favoured) : -1;
    if (index < 0) favoured = -1, index = pick(w, -1);
    if (index < 0) {
      if (release_divergent_sync(run, w)) continue;
      return Stop::blocked;
    }
    first = false;
    bool rotate = false;
    Stop stop = Stop::done;
    if (run.polling ? run_group<true>(run, w, index, slice, rotate, stop) : run_group<false>(run, w, index, slice, rotate, stop)) return stop;
    if (!rotate) continue;
    slice = kLongSlice;
    if (++rotations > w.n_groups || w.n_groups == 1) {
      w.stalled = true;
      return Stop::spin;
    }
    index = pick(w, index);
    favoured = index < 0 ? -1 : std::countr_zero(w.groups[index].mask);
  }
}

}  // namespace orrery::exec
