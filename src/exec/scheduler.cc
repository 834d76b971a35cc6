// exec/scheduler.cc: execute(): workers take blocks in order and keep resident what can only wait (see launch.h).
#include <immintrin.h>
#include <sched.h>

#include <algorithm>

#include "exec/fault.h"
#include "exec/launch.h"
#include "exec/observer.h"
#include "exec/polling.h"
#include "exec/prepared_launch.h"
#include "exec/stepper.h"
#include "exec/tma.h"
#include "exec/unit.h"
#include "exec/wait_graph.h"
#include "exec/workers.h"
#include "profile/occupancy.h"

namespace orrery::exec {

namespace {

/// Blocks (or clusters) that one worker may hold at a time: its share of what the GPU keeps resident.
uint64_t residency(const RunState& run, unsigned workers) {
  const lower::Program& p = *run.kernel.entry->program;
  const uint32_t registers = 32;
  const uint32_t shared = p.dynamic_shared_offset - std::min(p.dynamic_shared_offset, uint32_t(lower::kSharedStart)) + run.launch.dynamic_shared;
  const uint64_t per_sm = std::max(1u, blocks_per_sm(run.machine.gpu, uint32_t(run.launch.block.count()), registers, shared));
  const uint64_t total = per_sm * run.machine.gpu.sm_count / run.launch.cluster.count();
  return std::max<uint64_t>(1, (total + workers - 1) / workers);
}

/// Launches that run now in this process: one may write what another waits for.
std::atomic<int> running_launches{0};

/// One worker's loop; a page fault inside kernel code comes back here through the fault trap.
class Worker {
 public:
  Worker(RunState& run, const LaunchContext& launch, uint64_t units, uint64_t limit, unsigned workers)
      : run_(run), launch_(launch), units_(units), limit_(limit), alone_(workers == 1) {
    // Neighbouring blocks mostly use neighbouring memory; yet no worker shall be left with much more than the others.
    constexpr uint64_t kBatches = 64, kMost = 256;
    batch_ = run.kernel.entry->program->order_sensitive ? 1 : std::clamp<uint64_t>(units / (kBatches * workers), 1, kMost);
    if (run.machine.options.seed) random_.emplace(*run.machine.options.seed);
  }

  void work() {
    FaultTrap& trap = fault_trap();
    KernelCode entered(*run_.machine.memory);
    if (sigsetjmp(trap.env, 0)) {
      record_page_fault(run_, *running_);
    } else {
      trap.armed = true;
      loop();
    }
    _mm_sfence();  // stores past the caches (jit/streams.h) are done before the launch is
    run_.finished_ctas.fetch_add(finished_, std::memory_order_relaxed);
    run_.native_ctas.fetch_add(finished_native_, std::memory_order_relaxed);
  }

 private:
  /// Takes the next block. Large grids are handed out some at a time, so that workers seldom meet at the counter.
  bool claim() {
    if (next_ == end_) {
      next_ = run_.next_cta.fetch_add(batch_, std::memory_order_relaxed);
      end_ = std::max(next_, std::min(units_, next_ + batch_));
      if (next_ == end_) return false;
    }
    const uint64_t index = next_++;
    if (idle_.empty()) idle_.push_back(std::make_unique<Unit>(run_, launch_));
    std::unique_ptr<Unit> unit = std::move(idle_.back());
    idle_.pop_back();
    unit->start(index);
    resident_.push_back(std::move(unit));
    return true;
  }

  /// Random schedule: a few blocks are resident, and each turn goes to a random one.
  void random_loop() {
    constexpr size_t kResident = 4;
    bool more = true;
    while (!run_.stop) {
      while (more && resident_.size() < std::min<size_t>(kResident, limit_)) more = claim();
      if (resident_.empty()) break;
      const size_t i = size_t((*random_)() % resident_.size());
      running_ = resident_[i].get();
      const Unit::Progress progress = running_->advance(&*random_);
        settle_stores();
      if (progress == Unit::Progress::fault || poll(run_)) return;
      if (progress == Unit::Progress::stalled && more && resident_.size() < limit_) more = claim();
      if (progress != Unit::Progress::finished) {
        if ((!more || resident_.size() >= limit_) && stuck()) return;
        continue;
      }
      moved();
      run_.finished_ctas.fetch_add(1, std::memory_order_relaxed);
      idle_.push_back(std::move(resident_[i]));
      resident_.erase(resident_.begin() + ptrdiff_t(i));
    }
  }

  /// Called when everything resident only spins and no block can be added: true when the launch cannot go on.
  bool stuck() {
    constexpr uint64_t kPatience = 256;  // rounds before the accesses are watched
    const double limit = run_.machine.options.livelock_seconds, seconds = run_.machine.observer ? std::min(limit, 2.0) : limit;
    if (!alone_ || seconds <= 0 || ++idle_rounds_ < kPatience) return false;
    const auto now = std::chrono::steady_clock::now();
    if (!run_.polling) run_.polling = std::make_shared<Polling>(false);
    Polling& p = *run_.polling;
    if (!p.spinning || p.changes != changes_ || running_launches > 1) {
      p.spinning = true;
      p.restart();
      changes_ = p.changes;
      still_since_ = now;
      return false;
    }
    if (now - still_since_ < std::chrono::duration<double>(seconds) || !p.looks_in_vain(*run_.machine.memory)) return false;
    std::vector<const CtaContext*> blocks;
    for (const auto& unit : resident_)
      if (blocks.size() < 64) unit->add_blocks(blocks);
    run_.record(make_hang(run_, blocks));
    return true;
  }

  /// A warp got on: nothing is watched any more, except in a launch that is watched from its start.
  void moved() {
    idle_rounds_ = 0;
    if (!run_.polling || !run_.polling->spinning) return;
    run_.polling->spinning = false;
    if (!run_.machine.observer) run_.polling.reset();
  }

  void loop() {
    if (random_) return random_loop();
    bool more = true;
    while (!run_.stop) {
      if (resident_.empty() && !(more = more && claim())) break;
      bool finished = false;
      for (size_t i = 0; i < resident_.size() && !run_.stop; i++) {
        running_ = resident_[i].get();
        const Unit::Progress progress = running_->advance(nullptr);
        settle_stores();
        if (progress == Unit::Progress::fault) return;
        if (progress != Unit::Progress::finished) continue;
        finished_++;
        finished_native_ += running_->native();
        finished = true;
        idle_.push_back(std::move(resident_[i]));
        resident_.erase(resident_.begin() + ptrdiff_t(i--));
      }
      if (poll(run_)) return;
      if (finished) {
        moved();
        continue;
      }
      // Everything resident waits for other blocks: start one more, else let other workers run.
      if (more && resident_.size() < limit_) more = claim();
      else if (stuck()) return;
      else if (idle_rounds_ > 16) sched_yield();
    }
  }

  RunState& run_;
  const LaunchContext& launch_;
  const uint64_t units_, limit_;
  std::vector<std::unique_ptr<Unit>> resident_, idle_;
  Unit* running_ = nullptr;
  uint64_t batch_ = 1;           // blocks taken at a time
  uint64_t next_ = 0, end_ = 0;  // blocks taken but not started
  uint64_t finished_ = 0, finished_native_ = 0;
  std::optional<std::mt19937_64> random_;
  const bool alone_;             // no other worker runs blocks of this launch
  uint64_t idle_rounds_ = 0, changes_ = 0;
  std::chrono::steady_clock::time_point still_since_;
};

}  // namespace

uint32_t blocks_per_sm(const GpuFacts& gpu, uint32_t threads, uint32_t registers, uint32_t shared_bytes) {
  return blocks_of_sm({gpu.max_warps_per_sm, gpu.max_blocks_per_sm, gpu.registers_per_sm, gpu.shared_per_sm, gpu.reserved_shared}, threads, registers, shared_bytes).blocks;
}

namespace {

/// Seconds that a launch takes the interpreter if every instruction runs once, in loops eight times: a guess from below.
double interpreted_seconds(const lower::Program& p, const Launch& launch) {
  constexpr double kInstruction = 0.2e-6;  // of a warp
  double instructions = 0;
  for (const lower::Block& b : p.blocks) instructions += double(b.last - b.first) * (b.loop_header == lower::kNone ? 1 : 8);
  return instructions * kInstruction * double(launch.grid.count()) * double((launch.block.count() + 31) / 32);
}

/// What compilation takes, about.
double compilation_seconds(const lower::Program& p) { return 0.1 + 0.7e-3 * double(p.code.size()); }

/// Compiled code, if there is some. A block that has begun in the interpreter is there for a while, so a launch waits for its code
/// where the interpreter would take longer than the compilation.
std::shared_ptr<const NativeCode> compiled(CodeProvider& provider, const lower::Program& p, const Launch& launch) {
  if (auto code = provider.code_for(p, launch.block)) return code;
  return interpreted_seconds(p, launch) < compilation_seconds(p) ? nullptr : provider.wait_for_code(p, launch.block);
}

}  // namespace

LaunchResult execute(Machine& machine, const Launch& launch) {
  const auto start = std::chrono::steady_clock::now();
  PreparedLaunch prepared(machine, launch);
  RunState& run = prepared.run;
  const lower::Program& p = *launch.kernel->entry->program;
  run.start = start;
  if (machine.code && !machine.options.interpret_only && !machine.options.seed) {
    run.may_compile = true;
    run.native_owner = compiled(*machine.code, p, launch);
    run.native = run.native_owner.get();
  }
  if (machine.options.timeout_seconds > 0)  // of the kernel: what compilation takes depends on what else the host does
    run.deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(int64_t(machine.options.timeout_seconds * 1e6));

  const uint64_t units = launch.grid.count() / launch.cluster.count();
  unsigned workers = machine.options.threads ? machine.options.threads : default_workers();
  if (machine.options.seed || (p.order_sensitive && !machine.options.parallel_atomics) ||
      (machine.observer && machine.observer->serial()))
    workers = 1;
  workers = unsigned(std::min<uint64_t>(workers, units));
  const uint64_t limit = residency(run, workers);
  if (machine.observer) {
    run.polling = std::make_shared<Polling>(true);
    machine.observer->launch_begin(run);
  }
  running_launches++;
  run_workers(workers, [&](unsigned) { Worker(run, prepared.context, units, limit, workers).work(); });
  running_launches--;

  LaunchResult result;
  result.fault = run.fault;
  result.warp_instructions = run.instructions;
  result.native_blocks = run.native_ctas * launch.cluster.count();
  result.interpreted_blocks = (run.finished_ctas - run.native_ctas) * launch.cluster.count();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (machine.observer) machine.observer->launch_end(run, result);
  return result;
}

// ---- what compiled code calls ----

namespace {

uint32_t execute_one(WarpContext* w, uint32_t inst, uint32_t mask) {
  RunState& run = *w->cta->launch->run;
  Stepper s{*w, *w->cta, run, run.kernel.entry.get(), w->frame, nullptr, nullptr, inst, mask};
  w->at_inst = inst;
  w->at_address = 0;
  const Decoded& d = run.kernel.entry->code[inst];
  if (run.polling) run.polling->before(s, d);
  const Next next = d.run(s, d);
  if (run.polling) run.polling->after(s, d);
  return next == Next::fault ? 1 : next == Next::block ? RuntimeCalls::kMustWait : 0;
}

uint32_t execute_memory(WarpContext* w, uint32_t inst, uint32_t mask, const uint64_t*) { return execute_one(w, inst, mask); }

uint32_t should_stop(WarpContext* w) { return poll(*w->cta->launch->run); }

}  // namespace

const RuntimeCalls& runtime_calls() {
  static const RuntimeCalls calls{execute_one, execute_memory, should_stop};
  return calls;
}

}  // namespace orrery::exec
