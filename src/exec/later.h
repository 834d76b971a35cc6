// exec/later.h: asynchronous operations that a checked run has issued and not yet carried out.
//
// `orrery run` carries out a copy when it is issued. Under `orrery check` it is put off as long as the rules allow: until
// the thread that issued it waits for its group, or until nothing else in the cluster can go on. A missing wait then
// shows as a wrong value, as it would on the GPU on a bad day.
//
// Invariant: operations of one thread and kind are carried out in the order of their issue; all of them before the block
// ends. Not here: wgmma (wgmma_queue.h), what a missing wait is called (sanitize/).
#pragma once
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <unordered_map>

#include "exec/fault.h"
#include "exec/stepper.h"

namespace orrery::exec {

class Later {
 public:
  enum class Kind : uint8_t { cp_async, group, mbarrier };  // who waits: the thread for its cp.async or bulk group, or an mbarrier
  using Work = std::function<Next(Stepper&)>;

  void clear() {
    if (!works_.empty()) works_.clear();
    if (!committed_.empty()) committed_.clear();
  }
  void add(const Stepper& s, Kind kind, uint32_t lanes, Work&& work) {
    works_.push_back({&s.w, s.code, s.call, s.pc, lanes, kind, groups(s.w, kind)[size_t(std::countr_zero(lanes))], std::move(work)});
  }
  /// The lanes close a group.
  void commit(const WarpContext& w, Kind kind, uint32_t lanes) {
    for_lanes(lanes, [&](int l) { groups(w, kind)[size_t(l)]++; });
  }
  /// Carries out what the lanes have issued, but for the last `left` groups.
  Next wait(Stepper& s, Kind kind, uint32_t left, bool all) {
    const std::array<uint32_t, 32>& done = groups(s.w, kind);
    for (size_t i = 0; i < works_.size();) {
      One& o = works_[i];
      if (o.warp != &s.w || o.kind != kind || !(o.lanes & s.mask) || (!all && o.group + left >= done[size_t(std::countr_zero(o.lanes))])) {
        i++;
        continue;
      }
      const One one = std::move(o);
      works_.erase(works_.begin() + ptrdiff_t(i));
      if (carry_out(s.run, one) == Next::fault) return Next::fault;
    }
    return Next::next;
  }
  /// Carries out the oldest instruction's operations that tell an mbarrier, and the cp.async that such an arrival stands
  /// for; false when there is none: nobody can be woken by what is left.
  bool next(RunState& run) {
    const auto first = std::find_if(works_.begin(), works_.end(), [](const One& o) { return o.kind == Kind::mbarrier; });
    if (first == works_.end()) return false;
    const WarpContext* const warp = first->warp;
    const DecodedProgram* const code = first->code;
    const uint32_t pc = first->pc;
    const bool arrival = code->code[pc].instr->form.op == isa::Op::cp_async_mbarrier_arrive;
    bool before = true;
    for (size_t i = 0; i < works_.size() && !run.stop;) {
      One& o = works_[i];
      const bool same = o.kind == Kind::mbarrier && o.warp == warp && o.pc == pc && o.code == code;
      before &= !same;
      if (!same && !(arrival && before && o.kind == Kind::cp_async && o.warp == warp)) {
        if (!before && o.warp == warp) break;
        i++;
        continue;
      }
      const One one = std::move(o);
      works_.erase(works_.begin() + ptrdiff_t(i));
      carry_out(run, one);
    }
    return true;
  }
  /// Carries out everything, oldest first.
  void finish(RunState& run) {
    while (!works_.empty() && !run.stop) {
      const One one = std::move(works_.front());
      works_.pop_front();
      carry_out(run, one);
    }
  }

 private:
  struct One {
    WarpContext* warp;
    const DecodedProgram* code;
    CallFrame* call;
    uint32_t pc, lanes;
    Kind kind;
    uint32_t group;
    Work work;
  };
  static Next carry_out(RunState& run, const One& o) {
    Stepper s{*o.warp, *o.warp->cta, run, o.code, o.warp->frame, o.call, nullptr, o.pc, o.lanes};
    FaultTrap& trap = fault_trap();
    trap.code = o.code;
    trap.late = o.warp;
    trap.lane = std::countr_zero(o.lanes);
    o.warp->at_inst = o.pc;
    const Next next = o.work(s);
    trap.late = nullptr;
    return next;
  }
  std::array<uint32_t, 32>& groups(const WarpContext& w, Kind kind) { return committed_[{&w, kind}]; }

  struct Hash {
    size_t operator()(const std::pair<const WarpContext*, Kind>& k) const { return reinterpret_cast<size_t>(k.first) / 64 * 4 + size_t(k.second); }
  };
  std::deque<One> works_;
  std::unordered_map<std::pair<const WarpContext*, Kind>, std::array<uint32_t, 32>, Hash> committed_;
};

/// Does `work` now, or later when the run puts operations off.
template <class Work>
Next in_time(Stepper& s, Later::Kind kind, int lane, Work work) {
  Later* later = s.cta.cluster->later;
  if (!later) return work(s);
  later->add(s, kind, uint32_t{1} << lane, std::move(work));
  return Next::next;
}
/// commit_group and wait_group of the thread's operations of a kind; nothing to do when none are put off.
inline Next commit_group(Stepper& s, Later::Kind kind) {
  if (Later* later = s.cta.cluster->later) later->commit(s.w, kind, s.mask);
  return Next::next;
}
inline Next wait_group(Stepper& s, Later::Kind kind, uint32_t left, bool all) {
  Later* later = s.cta.cluster->later;
  return later ? later->wait(s, kind, left, all) : Next::next;
}

}  // namespace orrery::exec
