// timing/waits.cc: blocks that wait for each other: in which order they are traced, and whether one waits for
// the next in a chain.
//
// A block that looks for what others write finds it when those ran before it: blocks are traced in the order
// in which they begin. A grid that meets at barriers is run with all its blocks side by side, and so is one of which a
// block waits for a later one.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "timing/predictor.h"
#include "timing/spin_loops.h"
#include "timing/swap_loops.h"

namespace orrery::timing {

bool Predictor::waits_for_blocks() const {
  if (!polls_of(*launch_.kernel->entry->program).empty()) return true;
  return std::any_of(launch_.kernel->functions.begin(), launch_.kernel->functions.end(),
                     [](const auto& f) { return f && !polls_of(*f->program).empty(); });
}

/// Traces a block first. Where it does not end alone and may be waiting, in a loop that does not look like a wait, blocks are traced in order.
void Predictor::trace_first(uint64_t unit) {
  constexpr uint64_t kPatience = 20'000'000;  // warp instructions of a block that may be waiting
  const exec::Kernel& kernel = *launch_.kernel;
  const bool may_wait = may_poll(*kernel.entry->program) || std::any_of(kernel.functions.begin(), kernel.functions.end(), [](const auto& f) { return f && may_poll(*f->program); });
  if (unit == 0 || !may_wait) return trace(unit);
  start_tracer(kPatience);
  try {
    trace(unit);
  } catch (const base::Error&) {
    start_tracer();
    in_order_ = true;
    trace_in_order();
    p_.notes.push_back("a block that is run alone does not end: blocks are traced in their order, and what they wait for is taken to be there");
  }
}

void Predictor::keep(std::vector<TracedBlock> blocks) {
  for (TracedBlock& b : blocks) {
    trace_instructions_ += b.instructions;
    if (b.recorded > 0) unrecorded_ = std::max(unrecorded_, double(b.instructions) / double(b.recorded)), longer_ = std::max(longer_, b.longer);
    join_->widen_local(b);
    join_->add_spills(b);
    const uint64_t at = ordinal(b);
    trace_bytes_ += b.bytes();
    traced_[at] = std::make_unique<TracedBlock>(std::move(b));
    if (ghost_traces_) ghost_traces_->add(at, *traced_[at]);
  }
}

/// Do the first blocks end one after the other? Found elsewhere: what blocks leave that do not end, words counted up among it, would mislead those that run side by side.
bool Predictor::end_in_order(uint64_t blocks) {
  const std::vector<uint64_t> ended = elsewhere([&](const std::function<void(uint64_t)>& tell) {
    for (uint64_t u = 0; u < blocks; u++) tracer_->trace(u), tell(u);
  });
  return ended.size() == blocks;
}

/// The first blocks, or all that run side by side: a grid that meets, or one of which blocks wait for later ones, as they may where the GPU holds all of them.
void Predictor::trace_in_order() {
  const uint64_t units = launch_.grid.count() / launch_.cluster.count();
  constexpr uint64_t kFirst = 16;  // blocks that slopes are taken from
  const uint64_t first = std::min(units, kFirst);
  if (!launch_.cooperative || units == 1) {
    both_ways_ = units > 1 && launch_.grid.count() <= uint64_t{occupancy_.blocks} * figures_.sms && !end_in_order(first);
    if (!both_ways_) {
      for (uint64_t u = 0; u < first; u++) trace(u);
      return;
    }
    p_.notes.push_back("blocks wait for others that come after them: all were traced side by side, and what they wait for is taken to be there");
  }
  const Stopwatch watch(running_, host_.trace);
  keep(tracer_->trace_together());
}

/// Blocks that compare and swap in loops, or all of a grid that take the next piece of work, side by side: those that the GPU holds at once.
/// False where there are none, or none ended.
bool Predictor::trace_contended() {
  const exec::Kernel& kernel = *launch_.kernel;
  if (launch_.cooperative || launch_.cluster.count() > 1) return false;
  const uint64_t at_once = std::min<uint64_t>(launch_.grid.count(), uint64_t{occupancy_.blocks} * figures_.sms);
  const bool all = at_once == launch_.grid.count();
  const auto wants = [&](const auto& f) { return f && (!swap_loops_of(*f->program).empty() || (all && !work_loops_of(*f->program).empty())); };
  if (!wants(kernel.entry) && std::none_of(kernel.functions.begin(), kernel.functions.end(), wants)) return false;
  if (at_once * launch_.block.count() <= 1) return false;
  const Stopwatch watch(running_, host_.trace);
  const SwapTimes times{figures_.atomic_one_line, figures_.l2_latency, figures_.l2_far_latency, figures_.l2_spread};
  keep(tracer_->trace_contended(at_once, times, (all ? 10 : 2) * options_.trace_budget));  // where others can stand for those that do not end, less will do
  crowded_ = tracer_->crowded();
  held_up_ = !traced_.empty() && !all && do_less_alone(at_once);
  if (crowded_ || held_up_)
    p_.notes.push_back(fmt::format("loops compare and swap what others do, or take the next piece of work: {} of {} blocks were traced side by side, the others {}; of those that want a word any is taken to be next", traced_.size(), launch_.grid.count(),
                                   held_up_ ? "are taken to do as these" : "as if they were alone"));
  return !traced_.empty();
}

/// Do blocks from `beyond` on, each traced alone, do less than those that were traced side by side, which try again what others have changed meanwhile?
bool Predictor::do_less_alone(uint64_t beyond) {
  constexpr uint64_t kLooked = 8;
  constexpr double kMore = 1.1;
  double together = 0, alone = 0;
  for (const auto& [at, b] : traced_) together += double(b->work()) / double(traced_.size());
  const uint64_t rest = launch_.grid.count() - beyond, n = std::min(kLooked, rest);
  for (uint64_t i = 0; i < n; i++) {
    const uint64_t unit = beyond + i * rest / n;
    trace(unit);
    alone += double(traced_.at(unit)->work()) / double(n);
    traced_.erase(unit);
  }
  return together > kMore * alone;
}

/// Do blocks form a chain? They do when most that look find what another block wrote first after a look of
/// its own.
void Predictor::find_relay() {
  if (!in_order_) return;
  std::set<uint32_t> looks = polls_of(*launch_.kernel->entry->program);
  for (uint32_t f = 0; f < launch_.kernel->functions.size(); f++)
    if (launch_.kernel->functions[f])
      for (uint32_t i : polls_of(*launch_.kernel->functions[f]->program)) looks.insert(i | (f + 1) << 24);
  if (launch_.cooperative) {
    relay_.looks = looks, relay_.meets = true;
    kernel_.relay = &relay_;
    return;
  }
  struct Writer {
    const TracedBlock* block = nullptr;
    bool looked = false;  // the warp, before it wrote
    uint32_t pc = 0;
  };
  const auto writes = [](const Event& e) { return e.what == What::global_store || e.what == What::global_reduction || e.what == What::global_atomic; };
  std::unordered_map<uint64_t, std::vector<Writer>> writers;  // by address: the first of each block, in their order
  for (const auto& [at, b] : traced_)
    for (const TracedWarp& w : b->warps) {
      bool looked = false;
      for (const Event& e : w.events) {
        looked |= e.address && looks.count(e.pc);
        if (!writes(e) || looks.count(e.pc)) continue;
        std::vector<Writer>& own = writers[e.address];
        if (own.empty() || own.back().block != b.get()) own.push_back({b.get(), looked, e.pc});
      }
    }
  size_t waiting = 0, chained = 0;
  Relay found;
  std::map<uint64_t, size_t> apart;  // how many wait for a block so far ahead
  for (const auto& [at, b] : traced_)
    for (const TracedWarp& w : b->warps)
      for (const Event& e : w.events) {
        if (!e.address || !looks.count(e.pc)) continue;
        waiting++;
        const auto all = writers.find(e.address);
        if (all == writers.end()) continue;
        // Where several write the word, one after the other, the last of those ahead.
        const auto later = std::find_if(all->second.begin(), all->second.end(), [&](const Writer& o) { return o.block->index >= b->index; });
        const Writer& writer = later == all->second.begin() ? *later : *std::prev(later);
        if (writer.block == b.get()) {
          waiting -= all->second.size() > 1;  // the first of a chain
          continue;
        }
        if (!writer.looked && writer.block != traced_.begin()->second.get()) continue;
        chained++;
        if (writer.block->index < b->index) apart[b->index - writer.block->index]++;
        found.looks.insert(e.pc), found.tells.insert(writer.pc);
      }
  if (chained * 2 <= waiting || chained < 2) return;
  for (const auto& [blocks, n] : apart)
    if (n * 2 > chained) found.apart = blocks;
  found.at_once = uint64_t{occupancy_.blocks} * figures_.sms;
  relay_ = found;
  kernel_.relay = &relay_;
}

}  // namespace orrery::timing
