// timing/spin_watch.cc: see spin_watch.h.
#include "timing/spin_watch.h"

#include <string_view>
#include <vector>

#include "exec/polling.h"
#include "exec/run_state.h"
#include "exec/wait_graph.h"

namespace orrery::timing {

namespace {

constexpr uint64_t kWatched = 1'000'000;  // instructions for which it is watched; then it runs three times as long as so far before it is again
constexpr int kTimes = 8;                 // as often must it have come back: the states are told apart by hashes

/// Registers, places and lanes of all warps.
uint64_t state_of(const std::vector<const exec::CtaContext*>& blocks, size_t frame_bytes) {
  uint64_t h = 1469598103934665603ull;
  const auto mix = [&](uint64_t v) { h = (h ^ v) * 1099511628211ull, h ^= h >> 29; };
  for (const exec::CtaContext* c : blocks)
    for (uint32_t i = 0; i < c->n_warps; i++) {
      const exec::WarpContext& w = c->warps[i];
      if (w.finished) continue;
      mix(i), mix(w.n_groups);
      for (uint32_t g = 0; g < w.n_groups; g++) mix(w.groups[g].pc), mix(w.groups[g].mask), mix(uint64_t(w.groups[g].state)), mix(reinterpret_cast<uint64_t>(w.groups[g].frame));
      mix(std::hash<std::string_view>{}({reinterpret_cast<const char*>(w.frame), frame_bytes}));
    }
  return h;
}

}  // namespace

SpinWatch::~SpinWatch() {
  if (until_) run_.polling.reset();
}

bool SpinWatch::spins(const exec::Unit& unit, uint64_t instructions) {
  if (instructions < next_) return false;
  if (!until_) {
    run_.polling = std::make_shared<exec::Polling>(false);
    run_.polling->spinning = true;
    until_ = instructions + kWatched, changes_ = 0;
    return false;
  }
  std::vector<const exec::CtaContext*> blocks;
  unit.add_blocks(blocks);
  if (run_.polling->changes != changes_) seen_.clear(), changes_ = run_.polling->changes;
  const size_t frame_bytes = run_.launch.kernel->entry->program->frame_bytes;
  if (++seen_[state_of(blocks, frame_bytes)] >= kTimes && run_.polling->looks_in_vain(*run_.machine.memory)) {
    run_.record(exec::make_hang(run_, blocks));
    return true;
  }
  if (instructions > until_) {
    run_.polling.reset(), seen_.clear();
    until_ = 0, next_ = 4 * instructions;
  }
  return false;
}

}  // namespace orrery::timing
