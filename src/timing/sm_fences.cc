// timing/sm_fences.cc: when a barrier of memory lets its warp go on (fences.h).
#include <cmath>

#include "timing/sm_state.h"

namespace orrery::timing {

/// When the copies are there that a barrier of memory waits for which would have ended at `when`: what the SM's engine has asked for by then, for whichever warp.
double Sm::State::copied(double now, double when) const {
  double there = 0;
  for (const CopyUnderWay& c : copies_under_way)
    if (c.done > now) there = std::max(there, c.there(when));
  return there;
}

/// The engine is given a copy at `now`: barriers of memory that slices have not answered yet wait for it, too.
void Sm::State::fence_copy(const CopyUnderWay& copy, double now) {
  std::erase_if(copies_under_way, [&](const CopyUnderWay& c) { return c.done <= now; });
  copies_under_way.push_back(copy);
  for (const auto& [i, answered] : fences.warps) {
    const double there = answered > now ? copy.there(answered) : 0;
    WarpRun& w = warps[i];
    if (!w.live || there <= w.ready) continue;
    w.ready = there, fences.ends = std::max(fences.ends, there);
    refresh(w);
  }
}

/// Where a barrier of memory of `cycles`, to which a warp comes at `now`, lets it go on: it waits for the warp's own loads, for words on their way to and from
/// other blocks and, where the SM has touched slices of L2 since the last one, for these and what the SM and the chip have stored.
double Sm::State::fenced(WarpRun& w, double now, double cycles, double slices_touched) {
  if (kernel.relay) return now + cycles;  // handing over and meeting were measured with what their fences wait for [relay, meet_grid]
  Fences& x = fences;
  const double enters = std::max(now, x.free);
  x.free = enters + kFenceOfWarp;
  const bool stored = std::exchange(w.stored, false), gave = std::exchange(w.gave_peers, false), touched = slices_touched > 0 || stored;
  // Of a block that has met since, those that come long behind its first are too late for that one's round, if slices have to answer.
  Slot& slot = slots[w.slot];
  const bool has_met = std::exchange(w.met_before, slot.meets) != slot.meets;
  if (has_met && std::exchange(slot.fenced_meet, slot.meets) != slot.meets) slot.fenced_from = enters;
  const bool beside_others = x.there > enters && std::any_of(x.warps.begin(), x.warps.end(), [&](const Fences::Waiting& o) { return warps[o.warp].slot != w.slot; });
  const bool late = has_met && x.touched && enters > slot.fenced_from + kFenceLate && x.begins <= enters && !beside_others;
  const bool joins = enters <= x.open && !late;
  const auto spread = [](double slices) { return kSliceSpread * std::log2(std::clamp(slices, 1.0, kSlicesApart)); };
  if (!stored && !gave && peers_done <= enters && (slices_touched > 0 || enters > x.open)) {  // nothing of its own is on the way
    const double own = slices_touched > 0 && f.barrier_touched ? enters + f.fence_stored + spread(slices_touched) : std::max(now, enters - kFenceQueue);
    const double answered = std::max(own + cycles, x.opener > enters ? x.opener + (enters > x.opened + kFenceQueue ? kFenceBehind : 0) : 0);
    if (slices_touched > 0 && x.opener <= enters) x.opened = enters, x.opener = answered;
    if (x.ends <= enters) x.warps.clear(), x.ends = answered;
    x.warps.push_back({number_of(w), answered});
    return std::max({answered, w.loaded + cycles, copied(now, answered)});
  }
  if (!joins) {
    x.begins = x.there = x.open = std::max(enters, x.ends);
    x.first = 0, x.slices = 0, x.touched = false, x.warps.clear();
  }
  x.touched |= touched, x.slices += slices_touched;
  const double written = stored ? std::max(chip.write_free(), *std::max_element(taken.begin(), taken.end())) - kStoreTravels : 0;
  x.there = std::max({x.there, enters, written, peers_done});
  if (x.first == 0) x.first = x.there;
  const bool asks_touched = x.touched && f.barrier_touched;  // other GPUs' ask all slices each time, in the time that any takes
  x.open = std::max(x.open, x.there + std::max(asks_touched ? f.fence_stored : 0, kFenceOpen));
  const double answered = (asks_touched ? std::max(x.there, x.first + spread(x.slices)) + f.fence_stored : x.there) + cycles;
  x.ends = std::max({x.ends, answered, copied(now, answered)});
  x.warps.push_back({number_of(w), answered});
  for (const Fences::Waiting& o : x.warps)  // whoever has come before
    if (WarpRun& other = warps[o.warp]; &other != &w && other.live && other.ready > now) other.ready = std::max(other.ready, x.ends), refresh(other);
  return std::max(x.ends, w.loaded + cycles);
}

}  // namespace orrery::timing
