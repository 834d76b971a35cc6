// timing/trace_units.cc: units of a launch that are traced: one after the other, all at once, or for a short while. What is recorded of them: trace.cc.
#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <random>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "exec/async.h"
#include "exec/texel_watch.h"
#include "timing/peer_copies.h"
#include "timing/spin_watch.h"
#include "timing/trace_state.h"

namespace orrery::timing {

Tracer::Tracer(exec::Machine& machine, const exec::Launch& launch, TraceOptions options)
    : state_(std::make_unique<State>(machine, launch, options)) {
  state_->prepare();
}

Tracer::~Tracer() = default;

bool Tracer::reads_memory() const { return state_->reads_memory; }

bool Tracer::needs_memory() const { return state_->needs_memory; }

uint64_t TracedBlock::bytes() const {
  uint64_t n = sizeof(uint64_t) * lines.capacity() + sizeof(Run) * runs.capacity();
  for (const TracedWarp& w : warps) n += sizeof(Event) * w.events.capacity() + sizeof(SlowCall) * w.slow.capacity();
  for (const std::vector<PeerCopy>& copies : from_peers) n += sizeof copies + sizeof(PeerCopy) * copies.capacity();
  return n;
}

namespace {

uint64_t shape_of(const TracedBlock& b) {
  uint64_t h = 1469598103934665603ull;
  const auto mix = [&](uint64_t v) { h = (h ^ v) * 1099511628211ull; };
  for (const TracedWarp& w : b.warps) {
    mix(w.events.size());
    for (const Event& e : w.events) mix(e.pc), mix(e.mask), mix(uint64_t(e.what));
  }
  // Which quotients call is up to the data and differs from block to block; how much that makes up tells kinds of blocks apart.
  const double share = double(b.slow) / double(std::max<uint64_t>(1, b.instructions));
  mix((share > 0.05) + (share > 0.2) + (share > 0.8));
  return h;
}

}  // namespace

/// Runs the units to their end. False when one faulted or none can go on.
bool Tracer::State::finish(std::vector<exec::Unit*> units) {
  constexpr int kPatience = 100'000;  // turns in which all warps only wait
  exec::FaultTrap& trap = exec::fault_trap();
  exec::KernelCode entered(*machine.memory);
  SpinWatch watch(prepared->run);
  if (sigsetjmp(trap.env, 0)) {
    exec::texel_watch() = nullptr;
    exec::record_page_fault(prepared->run, *running);
    return false;
  }
  trap.armed = true;
  for (size_t stalls = 0; stalls * units.size() < kPatience; stalls++) {
    const uint64_t before = writes;
    for (size_t i = 0; i < units.size();) {
      running = units[i];
      const exec::Unit::Progress p = running->advance(nullptr);
      if (p == exec::Unit::Progress::fault) return false;
      if (p == exec::Unit::Progress::finished) units.erase(units.begin() + ptrdiff_t(i)), stalls = 0;
      else if (units.size() == 1 && watch.spins(*running, executed)) return false;
      else i++;
    }
    if (units.empty()) return true;
    if (writes != before) stalls = 0;
  }
  return false;
}

/// Runs the units side by side until they have ended or have executed so many instructions. Which have ended; none after a fault.
std::vector<bool> Tracer::State::finish_contended(uint64_t most_instructions) {
  constexpr size_t kPatience = 1000;  // turns in which nobody is held, and the others only wait
  std::vector<bool> ended(side_by_side.size());
  exec::FaultTrap& trap = exec::fault_trap();
  exec::KernelCode entered(*machine.memory);
  std::mt19937_64 order(1);  // of an SM's warps
  std::vector<uint32_t> turn(ended.size());
  std::iota(turn.begin(), turn.end(), 0u);
  if (sigsetjmp(trap.env, 0)) {
    exec::texel_watch() = nullptr;
    exec::record_page_fault(prepared->run, *running);
    return {};
  }
  trap.armed = true;
  for (size_t stalls = 0; !turn.empty() && stalls < kPatience && executed < most_instructions;) {
    std::vector<uint32_t> spinning;
    for (uint32_t u : turn)
      while (!ended[u] && side_by_side[u]->some_ready()) {
        running = side_by_side[u].get();
        const exec::Unit::Progress p = running->advance(&order);
        if (p == exec::Unit::Progress::fault) return {};
        ended[u] = p == exec::Unit::Progress::finished;
        if (p == exec::Unit::Progress::stalled) spinning.push_back(u);
        if (p != exec::Unit::Progress::preempted || executed >= most_instructions) break;
      }
    turn = contention->release();
    stalls = turn.empty() ? stalls + 1 : 0;
    turn.insert(turn.end(), spinning.begin(), spinning.end());
  }
  return ended;
}

/// `n` units are about to run, which share what may be recorded.
void Tracer::State::begin(uint64_t n) {
  constexpr uint64_t kTogether = 10;         // a grid may execute so many times what a unit alone may,
  constexpr uint64_t kTogetherRecorded = 3;  // and so many times of it is recorded
  blocks.clear(), warps.clear(), block_of.clear();
  last_cta = nullptr;
  tallies.assign(n, {});
  const uint64_t share = n == 1 ? 1 : kTogetherRecorded;
  limit = {options.max_instructions * share / n, options.max_bytes * share / n};
  most_instructions = n == 1 ? options.most_instructions : options.most_instructions * kTogether / n;
  writes = 0, executed = 0;
}

/// Starts unit `index` in `where`; its blocks are found through the cluster of any of them.
void Tracer::State::start(exec::Unit& where, uint64_t index) {
  where.start(index);
  const std::vector<exec::CtaContext*> ctas = where.blocks();
  for (uint64_t r = 0; r < launch.cluster.count(); r++) {
    exec::CtaContext& c = *ctas[r];
    block_of[&c] = uint32_t(blocks.size());
    TracedBlock b;
    b.index = c.cta_linear;
    b.rank = c.cluster_rank;
    std::copy(std::begin(c.ctaid), std::end(c.ctaid), b.ctaid);
    b.warps.resize(c.n_warps);
    warps.emplace_back(c.n_warps);
    tallies[blocks.size() / launch.cluster.count()].warps += c.n_warps;
    blocks.push_back(std::move(b));
  }
}

/// How many times as long the warps that execute most run as what was recorded of them.
double Tracer::State::longer(const std::vector<WarpState>& of) {
  uint64_t most = 0, executed = 0, recorded = 0;
  for (const WarpState& w : of) most = std::max(most, w.executed);
  for (const WarpState& w : of)
    if (2 * w.executed >= most) executed += w.executed, recorded += w.recorded;
  return recorded ? double(executed) / double(recorded) : 1;
}

/// What was recorded of units that have ended.
std::vector<TracedBlock> Tracer::State::recorded() {
  for (size_t i = 0; i < blocks.size(); i++) {
    blocks[i].longer = longer(warps[i]);
    for (size_t w = 0; w < warps[i].size(); w++) blocks[i].warps[w].cut = warps[i][w].executed > warps[i][w].recorded;
  }
  for (TracedBlock& b : blocks) {
    for (TracedWarp& w : b.warps) meet_at_barriers(w.events);
    b.shape = shape_of(b);
    for (TracedWarp& w : b.warps) {
      std::unordered_map<uint32_t, uint32_t> copies;
      for (Event& e : w.events)
        if (e.n_detail || e.what == What::bulk_load || e.what == What::bulk_store || e.what == What::bulk_prefetch) e.ordinal = copies[e.pc]++;
    }
  }
  find_peer_copies(blocks, launch.cluster.count());
  return std::move(blocks);
}

std::vector<TracedBlock> Tracer::trace(uint64_t index) {
  State& t = *state_;
  t.begin(1);
  t.start(*t.unit, index);
  if (!t.finish({t.unit.get()})) {
    const std::optional<exec::Fault>& fault = t.prepared->run.fault;
    base::fail("block {} could not be traced: {}", index, fault ? fault->message : "it waits for other blocks, which do not run beside it here");
  }
  return t.recorded();
}

std::vector<TracedBlock> Tracer::trace_as_last(uint64_t index) {
  state_->comes_last = true;
  std::vector<TracedBlock> blocks = trace(index);
  state_->comes_last = false;
  return blocks;
}

bool Tracer::crowded() const { return state_->crowded; }

std::optional<bool> Tracer::ends_within(uint64_t index, uint64_t instructions) {
  State& t = *state_;
  t.begin(1);
  t.limit = {}, t.most_instructions = instructions;
  t.start(*t.unit, index);
  const bool ended = t.finish({t.unit.get()});
  std::optional<exec::Fault>& fault = t.prepared->run.fault;
  const bool goes_on = fault && fault->kind == exec::FaultKind::timeout;
  fault.reset(), t.prepared->run.stop = false;
  if (ended || goes_on) return ended;
  return {};
}

std::vector<TracedBlock> Tracer::trace_together() {
  State& t = *state_;
  const uint64_t n = t.launch.grid.count() / t.launch.cluster.count();
  t.begin(n);
  std::vector<exec::Unit*> units;
  for (uint64_t u = 0; u < n; u++) {
    t.side_by_side.push_back(std::make_unique<exec::Unit>(t.prepared->run, t.prepared->context));
    t.start(*t.side_by_side.back(), u);
    units.push_back(t.side_by_side.back().get());
  }
  const bool done = t.finish(units);
  t.side_by_side.clear();
  if (!done) {
    const std::optional<exec::Fault>& fault = t.prepared->run.fault;
    base::fail("the grid could not be traced: {}", fault ? fault->message : "its blocks wait for each other for ever");
  }
  return t.recorded();
}

std::vector<TracedBlock> Tracer::trace_contended(uint64_t units, SwapTimes times, uint64_t most_instructions) {
  State& t = *state_;
  t.begin(units);
  t.contention = std::make_unique<Contention>(times);
  for (uint64_t u = 0; u < units; u++) {
    t.side_by_side.push_back(std::make_unique<exec::Unit>(t.prepared->run, t.prepared->context));
    t.start(*t.side_by_side.back(), u);
  }
  const std::vector<bool> ended = t.finish_contended(most_instructions);
  t.crowded = t.contention->crowded();
  t.side_by_side.clear(), t.contention.reset();
  if (ended.empty()) base::fail("the grid could not be traced: {}", t.prepared->run.fault ? t.prepared->run.fault->message : "a block faulted");
  std::vector<TracedBlock> out;
  for (TracedBlock& b : t.recorded())
    if (ended[b.index]) out.push_back(std::move(b));
  return out;
}

}  // namespace orrery::timing
