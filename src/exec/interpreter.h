// exec/interpreter.h: runs one warp, group by group.
//
// Scheduling inside a warp: among ready groups the deepest call and then the lowest instruction runs, so lanes meet
// again as early as possible; groups at the same instruction of the same frame merge. A backward jump of a loop that
// may wait for other threads uses up the time slice; when it is spent another group runs (round robin), or the warp
// is given back (Stop::spin), so every thread makes progress.
#pragma once
#include "exec/run_state.h"
#include "exec/stepper.h"
#include "exec/warp.h"

namespace orrery::exec {

/// Runs `w` until it is done, blocked, spins or faults, or stands, after at least one instruction, converged at an
/// entry of compiled code (Stop::service).
Stop interpret(RunState& run, WarpContext& w);

/// Merges groups that stand at the same instruction; called wherever groups changed.
void merge_groups(WarpContext& w);

/// Ends the lanes in `mask` of group `g`.
void exit_lanes(RunState& run, WarpContext& w, Group& g, uint32_t mask);

/// Takes exited lanes out of the block's and the cluster's counts.
void count_exits(WarpContext& w, uint32_t mask);

/// True for a barrier that all threads of the block take part in, whoever they are: bar.sync with a constant number.
bool is_plain_barrier(const ptx::Instr& instr);

/// Behind a warp's register frame: room for what compiled code keeps of it at a barrier (jit/emit_kept.cc).
constexpr uint32_t kKeptBytes = 256;

/// The commonest service without the interpreter: a converged warp stands at an unguarded bar.sync of all threads. False
/// when `d` is something else; otherwise the group waits, or is ready when it was the last to arrive.
bool arrive_together(WarpContext& w, const Decoded& d);
/// Reports that all live lanes of the warp come to a barrier of the whole block at instruction `pc`.
void tell_arrival(Observer& observer, const WarpContext& w, uint32_t pc, uint32_t number);
/// When the lanes of a warp that had not arrived at a barrier exit, the warp has arrived as a whole.
void fill_partial_arrivals(WarpContext& w);
/// Rechecks barriers that wait for live threads only; wakes their groups. Called after arrivals and exits.
void check_barriers(CtaContext& cta);
void check_cluster_barrier(ClusterContext& cluster);
/// Lets groups that wait for member lanes go on when these have arrived or exited.
void check_warp_sync(WarpContext& w);

/// True when all live lanes named in `members` are at the instruction; else the group now waits and the handler must
/// return Next::regroup.
bool gathered(Stepper& s, uint32_t members);

/// Leaves the lanes that a guard holds back as a ready group behind the current instruction.
void leave_rest_behind(Stepper& s);

Group& add_group(WarpContext& w);
void drop_empty_groups(WarpContext& w);

}  // namespace orrery::exec
