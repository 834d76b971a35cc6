// timing/rare_blocks.cc: the few blocks of a grid that do far more than those that are looked at first: one that walks a list, the last that adds up
// what all have left.
//
// They are looked for in a process of its own, so that what blocks write there decides nothing here. Not here: grids whose blocks all differ (sample.cc).
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "timing/predictor.h"
#include "timing/swap_loops.h"

namespace orrery::timing {

/// The numbers that `work` tells of, which runs in a process of its own: what blocks write there is not written here.
std::vector<uint64_t> Predictor::elsewhere(const std::function<void(const std::function<void(uint64_t)>&)>& work) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = machine_.memory->fork_process();
  if (child == 0) {
    close(ends[0]);
    try {
      work([&](uint64_t n) {
        if (write(ends[1], &n, sizeof n) != ssize_t(sizeof n)) _exit(1);
      });
    } catch (const std::exception&) {  // those that were told of are known
    }
    _exit(0);
  }
  close(ends[1]);
  std::vector<uint64_t> told;
  for (uint64_t n; child > 0 && read(ends[0], &n, sizeof n) == ssize_t(sizeof n);) told.push_back(n);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return told;
}

/// Blocks that run far longer than those looked at, where all can be followed to that length: one of many walks a list, a few find what all look for.
void Predictor::trace_long_ones(uint64_t units) {
  constexpr size_t kMost = 64;      // blocks
  constexpr uint64_t kLonger = 4, kLeast = 256;  // times what the longest of those looked at executes, warp instructions
  uint64_t usual = 0;
  for (const auto& [at, b] : traced_) {
    usual = std::max(usual, b->instructions);
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events)
        if (e.what == What::global_atomic) return;  // who comes later finds another number
  }
  if (launch_.cluster.count() > 1 || double(usual) * double(units) > double(options_.trace_budget)) return;
  const Stopwatch watch(running_, host_.trace);
  const std::vector<uint64_t> longer = elsewhere([&](const std::function<void(uint64_t)>& tell) {
    size_t found = 0;
    for (uint64_t unit = 0; unit < units && found < kMost; unit++) {
      if (traced_.count(first_block(unit))) continue;
      const std::optional<bool> ends = tracer_->ends_within(unit, kLonger * usual + kLeast);
      if (!ends) break;
      if (!*ends) tell(unit), found++;
    }
  });
  try {
    trace_while(longer, [&](size_t) { return trace_instructions_ < 2 * options_.trace_budget && trace_bytes_ < kMostTraced; });
  } catch (const base::Error&) {  // those that there are tell
  }
}

/// Blocks that count themselves when they have done their part: does the last that comes do more (add up what all have left)?
void Predictor::trace_last(uint64_t units) {
  const auto counts = [](const auto& f) { return f && !arrivals_of(*f->program).empty(); };
  const exec::Kernel& kernel = *launch_.kernel;
  if (units == 1 || launch_.cluster.count() > 1) return;
  if (!counts(kernel.entry) && std::none_of(kernel.functions.begin(), kernel.functions.end(), counts)) return;
  const Stopwatch watch(running_, host_.trace);
  uint64_t usual = 0;
  for (const auto& [at, b] : traced_) usual = std::max(usual, b->instructions);
  const auto found = elsewhere([&](const std::function<void(uint64_t)>& tell) { tell(tracer_->trace_as_last(units - 1).front().instructions); });
  if (found.empty() || found.front() <= usual) return;
  last_ = std::make_unique<TracedBlock>(std::move(tracer_->trace_as_last(units - 1).front()));
  join_->widen_local(*last_);
  join_->add_spills(*last_);
  p_.notes.push_back("the block that comes last does more than the others: what it takes longer comes after them all");
}

}  // namespace orrery::timing
