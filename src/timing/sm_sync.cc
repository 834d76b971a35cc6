// timing/sm_sync.cc: members of a warp that meet, barriers of blocks and clusters, mbarriers, words that blocks hand on, and what waits for them.
#include "timing/sm_state.h"

namespace orrery::timing {

/// Sets of lanes that name each other as members: those of one warp of an SM meet at a time, one set after the other.
void Sm::State::wait_for_members(WarpRun& w, const MachineInstruction& m, const Event* e, double now) {
  // Cycles of the unit, and until the warp goes on [members.cu: meet_all, meet_beside; meet_one]: for one set, and each more;
  constexpr double kOne = 2.1, kMore = 2.85, kMeet = 30, kNext = 20;
  // of a set that goes alone [ballot_all; ballot_one]; and out of line [known_votes_all; known_votes_one].
  constexpr double kAlone = 46, kCollective = 3.05, kOutOfLine = 50;
  const double more = e ? e->extra - 1 : 0;
  double unit = 0, wait = 0;
  switch (m.members) {
    case Members::meet: unit = kOne + kMore * more, wait = kMeet + kNext * more; break;
    case Members::one_by_one: unit = kOne, wait = kAlone; break;
    case Members::collective: unit = kCollective, wait = kOutOfLine; break;
    default: return;
  }
  const double start = std::max(now, match);
  match = start + unit;
  w.ready = std::max(w.ready, start + wait);
}

void Sm::State::complete(NamedBarrier& b, double when) {
  for (uint32_t i : b.waiting) {
    WarpRun& w = warps[i];
    w.blocked = false;
    w.ready = std::max(w.ready, when), w.why = Wait::barrier;
    refresh(w);
  }
  const double open = b.open;
  b = NamedBarrier{};
  b.open = open;
}

/// Cycles that a warp takes the unit, and from the last arrival until warps go on [calib/by_sm.cu: barrier.work32]; beyond that until they know what a
/// reduction gives, and for each warp [barrier.red]; from the last arrival until the next phase, and for each warp [barrier.block].
constexpr double kArrival = 1.3, kRelease = 4, kResult = 31, kResultOfWarp = 0.7, kReopen = 12, kReopenOfWarp = 0.7;

void Sm::State::arrive(Slot& slot, uint32_t number, uint32_t expected, double when) {
  NamedBarrier& b = slot.barriers[number & 15];
  barrier_unit = std::max({barrier_unit, when, b.open}) + kArrival;
  b.arrived++;
  b.last = std::max(b.last, barrier_unit);
  const uint32_t wanted = expected ? expected / 32 : slot.live_warps;
  if (b.arrived < wanted) return;
  slot.meets++;
  b.open = b.last + kReopen + kReopenOfWarp * b.arrived;
  complete(b, b.last + kRelease + (b.reduces ? kResult + kResultOfWarp * b.arrived : 0));
}

/// Ends the phase of an mbarrier when nothing is missing, as of `when`.
void Sm::State::settle(Slot& slot, uint32_t object, double when) {
  Mbarrier& b = slot.mbarriers[object];
  while (b.expected > 0 && b.pending <= 0 && b.bytes <= 0) {
    b.phase ^= 1;
    b.pending += b.expected;
    b.when = std::max(b.when, when);
    wake_waiters(slot, object, b, b.when);
    if (b.pending > 0) break;
  }
}

void Sm::State::wake_waiters(Slot& slot, uint32_t object, const Mbarrier& b, double when) {
  for (uint32_t i : slot.members) {
    WarpRun& w = warps[i];
    if (!w.live || !w.blocked || w.waits_object != object || w.waits_phase == b.phase) continue;
    w.blocked = false;
    meet(slot, w);
    if (b.of_copies) note_stall(slot, when - w.issued), note_fetch(slot, w.issued, when);
    w.waits_object = UINT32_MAX;
    note_looks(w, w.issued, when);
    w.ready = std::max(w.ready, when + 12), w.why = Wait::mbarrier;
    refresh(w);
  }
}

/// A warp comes to where it waits for an mbarrier.
void Sm::State::begin_looks(WarpRun& w, const MachineInstruction& m, double now) {
  w.tests = m.op == isa::Op::mbarrier_test_wait, w.looks_by = m.n ? m.n : uint32_t(kPoll);
  w.waits_until = kNever, w.beside = 0;
  for (uint32_t sc = 0; sc < active.size(); sc++)
    for (const uint32_t i : active[sc]) w.beside += (w.tests || sc == w.sub) && warps[i].waits_until > now;
}

/// Counts what a warp executes that has waited for the end of a phase and looked again and again.
void Sm::State::note_looks(WarpRun& w, double from, double to) {
  w.waits_until = to;
  const double cycles = std::max(0.0, to - from);
  looks_left += w.looks_by * std::floor(cycles / (w.tests ? std::max(kTestsEvery, kTestsApart * w.beside) : kTriesEvery));
  if (!w.tests && w.beside > kAsleep) looks_left += w.looks_by * cycles / (kTriesApart * w.beside);
  const double whole = std::floor(looks_left);
  counts.issued += uint64_t(whole), looks_left -= whole;
}

void Sm::State::synchronise(WarpRun& w, uint32_t index, const MachineInstruction& m, const Event* e, double start) {
  Slot& slot = slots[w.slot];
  const uint32_t object = e->object & 0xFFFFFF;  // every block of a cluster does alike: arrivals of peers count as own
  switch (e->what) {
    case What::barrier: case What::barrier_red: {
      w.blocked = true;
      slot.met |= e->count == 0 || e->count / 32 >= slot.warps;
      meet(slot, w);
      slot.barriers[e->extra & 15].waiting.push_back(index);
      slot.barriers[e->extra & 15].reduces |= e->what == What::barrier_red;
      arrive(slot, e->extra, e->count, start);
      return;
    }
    case What::barrier_arrive: arrive(slot, e->extra, e->count, start); return;
    case What::cluster_arrive: {
      NamedBarrier& b = slot.cluster;
      barrier_unit = std::max(barrier_unit, start) + 2;
      b.arrived++, b.last = std::max(b.last, barrier_unit);
      return;
    }
    case What::cluster_wait: {
      NamedBarrier& b = slot.cluster;
      b.waiting.push_back(index);
      w.blocked = true;
      if (b.arrived >= slot.live_warps && b.waiting.size() >= slot.live_warps) slot.meets++, complete(b, b.last + kClusterBarrier + wait_for_last(slot)), settle_clusters(slot);
      return;
    }
    case What::mbarrier_init: {
      Mbarrier& b = slot.mbarriers[object];
      b = Mbarrier{};
      b.pending = b.expected = e->count;
      return set_barriers(w, m, start + 10, start + 6);
    }
    case What::mbarrier_expect:
      slot.mbarriers[object].bytes += e->count;
      take_from_peers(w, m, *e, start);
      return set_barriers(w, m, start + 10, start + 6);
    case What::mbarrier_arrive: {
      Mbarrier& b = slot.mbarriers[object];
      b.bytes += e->count;
      b.pending -= e->extra;
      if (e->lanes_bytes == kOfCopies) b.when = std::max(b.when, w.copies_done), b.of_copies = true;
      take_from_peers(w, m, *e, start);
      settle(slot, object, start + 9);
      return set_barriers(w, m, start + 10, start + 6);
    }
    case What::mbarrier_wait: {
      Mbarrier& b = slot.mbarriers[object];
      begin_looks(w, m, start);
      if (b.phase != e->extra) {
        note_looks(w, start, b.when);
        if (b.of_copies) note_stall(slot, b.when + 12 - start);
        w.ready = std::max({w.ready, b.when + 12, start + 9});
        return set_barriers(w, m, std::max(b.when + 12, start + 13), start + 8);
      }
      w.blocked = true;
      w.waits_object = object, w.waits_phase = e->extra;
      return set_barriers(w, m, start + 13, start + 8);
    }
    case What::peer_store: {  // as remote stores go there, peers' come here
      const bool far = kernel.cluster > 2;
      const double at = std::max(pipe, start + 2);
      pipe = at + std::max(1.0, e->lanes_bytes / 4.0);
      dsmem = std::max(dsmem, at) + (e->detail ? remote_add_cycles(*e, far) : remote_store_cycles(e->extra, far));
      const double done = dsmem + (far ? f.dsmem_far_latency : f.dsmem_latency) - kIssueToRemote;
      peers_done = std::max(peers_done, dsmem + kRemoteStored);
      Mbarrier& b = slot.mbarriers[object];
      b.bytes -= e->count;
      b.when = std::max(b.when, done);
      settle(slot, object, done);
      return set_barriers(w, m, at + 12, at + 12);
    }
    case What::bulk_load: {
      const double done = e->lanes_bytes == kFromShared ? copy_to_peer(*e, start) : run_copy(w, m, *e, start, false);
      Mbarrier& b = slot.mbarriers[object];
      int64_t bytes = turn ? slot.work.code->trace->runs[e->detail + turn - 1].bytes : e->count;
      if (e->lanes_bytes == kMulticast) bytes *= std::max(1, std::popcount(e->extra & ranks_of(*e)));  // peers multicast to us as we do to them
      shared_written += double(bytes) / kCopyBytes;
      b.bytes -= bytes, b.of_copies = true;
      b.when = std::max(b.when, done);
      settle(slot, object, done);
      return set_barriers(w, m, start + 20, start + 20);
    }
    case What::bulk_store: {
      w.group_done = std::max(w.group_done, run_copy(w, m, *e, start, true));
      return set_barriers(w, m, start + 20, start + 20);
    }
    case What::bulk_prefetch: run_copy(w, m, *e, start, false); return;
    default: return;
  }
}

/// When a load or an atomic operation that was answered at `done` sees what it waits for: what the block before this one writes, or the last one's arrival.
double Sm::State::waited_for(WarpRun& w, const Event& e, double done) {
  if (!kernel.relay || !kernel.relay->looks.count(e.pc)) return done;
  Slot& slot = slots[w.slot];
  if (kernel.relay->meets) {
    const double seen = std::max(done, chip.atomics_free() + Relay::kMet);
    const bool met = kernel.relay->arrive(slot.work.index, ++w.looks, seen, [this, number = number_of(w)](double when) {
      WarpRun& woken = warps[number];
      woken.blocked = false, woken.ready = std::max(woken.ready, when), woken.why = Wait::global;
      refresh(woken);
    });
    w.blocked = !met;
    return seen;
  }
  if (slot.released < 0) slot.released = std::max(done, kernel.relay->due(slot.work.index, done));
  return std::max(done, slot.released);
}

/// The block writes what the next one waits for.
void Sm::State::tell_next(const WarpRun& w, const Event& e, double at) {
  if (!kernel.relay || !kernel.relay->tells.count(e.pc)) return;
  const Slot& slot = slots[w.slot];
  kernel.relay->tell(slot.work.index, at, slot.released < 0 ? 0 : at - slot.released);
}

}  // namespace orrery::timing
