// sanitize/quick_shared.cc: the short way for shared memory, where a block may follow what another has done before
// (block_script.h); see quick.h.
#include <algorithm>
#include <bit>

#include "sanitize/quick.h"

namespace orrery::sanitize {

using namespace exec;
using isa::Space;

/// The bytes of shared memory from the first to the last that a step uses.
std::pair<uint64_t, uint64_t> Quick::span_of(const Step& step, uint32_t bytes) {
  const uint64_t at = step.place();
  const uint32_t first = uint32_t(std::countr_zero(step.lanes)), last = 31 - uint32_t(std::countl_zero(step.lanes));
  switch (step.kind) {
    case StepKind::run: return {at + uint64_t{first} * bytes, at + (uint64_t{last} + 1) * bytes};
    case StepKind::block: return {at, at + uint64_t{step.count} * bytes};
    case StepKind::rows: return {at, at + uint64_t{step.count} * 32 * bytes};
    default: return {at, at + bytes};
  }
}

/// Whether what a step does to the shared memory of cta_ is right, and the record of it. `equal`: lanes that store what is
/// there. `addresses`: of kind `any`.
bool Quick::judge(const WarpContext& w, const Site& s, const Step& step, const uint64_t* addresses, uint32_t equal) {
  if (step.kind == StepKind::any) {
    for (uint32_t m = step.lanes; m; m &= m - 1) {
      const uint64_t at = addresses[std::countr_zero(m)];
      if (!inside(s, at, at + s.bytes, at) || !initialised(s, at, s.bytes)) return false;
    }
    return racecheck_->quick_any(w, {shared_shadow_}, s.number, addresses, step.lanes, s.bytes, s.writes, equal);
  }
  const auto [low, end] = span_of(step, s.bytes);
  if (!inside(s, low, end, step.place())) return false;
  if (!s.writes && step.kind != StepKind::same && racecheck_->is_quiet(*shared_shadow_, low, end)) return true;
  if (!(step.kind == StepKind::run ? initialised_run(s, step.place(), step.lanes) : initialised(s, low, end - low))) return false;
  switch (step.kind) {
    case StepKind::run: return racecheck_->quick_run(w, {shared_shadow_}, s.number, step.place(), step.lanes, s.bytes, s.writes, equal);
    case StepKind::same: return racecheck_->quick_same(w, {shared_shadow_}, s.number, low, step.lanes, s.bytes, s.writes, equal != 0);
    default: return racecheck_->quick_block(w, *shared_shadow_, s.number, low, end, step.lanes, s.bytes, step.kind == StepKind::rows);
  }
}

uint32_t Quick::unchanged_by(const Site& s, const Step& step, const uint64_t* addresses, const void* values) const {
  if (!s.writes || !s.compares || !values) return 0;
  switch (step.kind) {
    case StepKind::run: return unchanged(s, step.place(), values, step.lanes);
    case StepKind::same: return unchanged_same(s, step.place(), values, step.lanes);
    default: return unchanged(s, addresses, values, step.lanes);
  }
}

bool Quick::in_memory(const CtaContext& cta, const Site& s, const Step& step, const uint64_t* addresses) {
  if (step.kind != StepKind::any) {
    const auto [low, end] = span_of(step, s.bytes);
    return low < end && end <= cta.shared_bytes;
  }
  for (uint32_t m = step.lanes; m; m &= m - 1)
    if (addresses[std::countr_zero(m)] + s.bytes > cta.shared_bytes) return false;
  return true;
}

/// The end of run() and the others, for shared memory.
uint32_t Quick::shared_access(const WarpContext& w, const Site& s, const Step& step, const uint64_t* addresses, const void* values) {
  if (script_cta_ == w.cta && script_use_ == ScriptUse::follow) {
    if (addresses ? script_.is_next(script_at_, step, addresses) : script_.is_next(script_at_, step)) {
      if (s.writes) script_equal_[script_at_] = unchanged_by(s, step, addresses, values);
      script_at_++;
      leave();
      return 0;
    }
    leave_script();
  }
  const bool clear = in_memory(*w.cta, s, step, addresses) && judge(w, s, step, addresses, unchanged_by(s, step, addresses, values));
  if (script_cta_ == w.cta && clear) record(step, addresses);
  leave();
  return !clear;
}

void Quick::record(const Step& step, const uint64_t* addresses) {
  if (!(addresses ? script_.add(step, addresses) : script_.add(step))) leave_script();
}

/// The block goes on without the script.
void Quick::leave_script() {
  if (!script_cta_) return;
  if (script_use_ == ScriptUse::follow) {
    make_up();
    if (script_failed_) script_ready_ = false;
    script_failed_ = true;
    script_doubts_ += 2;
  } else {
    script_doubts_++;
  }
  script_cta_ = nullptr;
}

/// What was not done while the block followed the script: the record of what was written, and of the accesses since the
/// block met (what came before them is ordered before all that comes).
void Quick::make_up() {
  const CtaContext& cta = *script_cta_;
  look_at(cta);
  for (size_t i = 0; i < script_at_; i++) {
    const Step& step = script_[i];
    if (step.kind == StepKind::barrier) continue;
    const uint64_t* addresses = step.kind == StepKind::any ? script_.addresses(step) : nullptr;
    const Site& s = sites_[step.pc];
    if (i >= script_epoch_) judge(cta.warps[step.warp], s, step, addresses, script_equal_[i]);
    else if (s.writes && step.kind == StepKind::run) initialised_run(s, step.place(), step.lanes);
    else if (s.writes && step.kind == StepKind::same) initialised(s, step.place(), s.bytes);
    else if (s.writes)
      for (uint32_t m = step.lanes; m; m &= m - 1) initialised(s, addresses[std::countr_zero(m)], s.bytes);
  }
}

void Quick::interrupt(const Access& a) {
  const bool weak = a.order == Order::weak && a.kind != AccessKind::atomic && a.kind != AccessKind::reduction && !a.volatile_;
  if (!weak || (a.space != Space::global && a.space != Space::local && a.space != Space::const_)) interrupt(a.where.warp->cta);
}

}  // namespace orrery::sanitize
