// exec/run_state.h: one launch while it runs: what all its workers share.
#pragma once
#include <atomic>
#include <chrono>
#include <mutex>

#include "exec/decode.h"
#include "exec/launch.h"

namespace orrery::exec {

struct RunState {
  RunState(Machine& m, const Launch& l) : machine(m), launch(l), kernel(*l.kernel) {}

  Machine& machine;
  const Launch& launch;
  const Kernel& kernel;
  std::atomic<const NativeCode*> native{nullptr};  // blocks that start, and those that get a turn, take it up
  std::atomic<const NativeCode*> resumable{nullptr};  // with entries in loops, for blocks that are long in the interpreter
  std::shared_ptr<const NativeCode> native_owner, resumable_owner;  // of these; under fault_mutex
  std::atomic<uint64_t> next_cta{0};
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> instructions{0}, finished_ctas{0}, native_ctas{0};  // these count clusters where there are clusters
  std::mutex fault_mutex;
  std::optional<Fault> fault;
  std::chrono::steady_clock::time_point start, deadline = std::chrono::steady_clock::time_point::max();
  uint64_t param_address = 0;             // device copy of the parameter buffer, for generic addresses
  bool may_compile = false;
  bool copies_data = true;                // false: tensor loads only look whether they may; whoever traces a launch asks when and what, not for data
  uint32_t thread_local_bytes = 0;        // local memory per thread
  std::shared_ptr<class Polling> polling; // what threads look at, when that is watched (exec/polling.h)

  /// Compiled code that has become ready since the launch began.
  void look_for_code() {
    if (native.load(std::memory_order_relaxed) || !may_compile) return;
    keep(native, native_owner, machine.code->code_for(*kernel.entry->program, launch.block));
  }
  void look_for_resumable() {
    if (resumable.load(std::memory_order_relaxed) || !may_compile) return;
    keep(resumable, resumable_owner, machine.code->resumable_code_for(*kernel.entry->program, launch.block));
  }
  /// For a block that is long in the interpreter: first the code whose entries are where warps meet; if that finds it
  /// still there, the code that can be entered in its loops.
  void take_up_code(CtaContext& cta) {
    if (!cta.native) {
      look_for_code();
      cta.native = native.load(std::memory_order_acquire);
    } else if (cta.native == native.load(std::memory_order_relaxed)) {
      look_for_resumable();
      if (const NativeCode* code = resumable.load(std::memory_order_acquire)) cta.native = code;
    }
  }

  void keep(std::atomic<const NativeCode*>& at, std::shared_ptr<const NativeCode>& owner, std::shared_ptr<const NativeCode> code) {
    if (!code) return;
    std::lock_guard lock(fault_mutex);
    if (owner) return;
    owner = std::move(code);
    at.store(owner.get(), std::memory_order_release);
  }

  /// Keeps the first fault and stops all workers.
  void record(Fault f) {
    std::lock_guard lock(fault_mutex);
    if (!fault) fault = std::move(f);
    stop = true;
  }
};

/// LaunchContext as warp.h names it: reachable from compiled code's WarpContext.
struct LaunchContext {
  RunState* run = nullptr;
  uint64_t memory_base = 0, memory_size = 0;
  uint64_t streaming_threads = 0;  // of the grid; 0 where two of its pointers are one, so that what it stores is what it reads
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, cluster[3] = {1, 1, 1};
};

/// CTAs of one cluster, which reach each other's shared memory.
struct ClusterContext {
  CtaContext* ctas[16] = {};
  uint32_t n = 1;
  uint32_t arrived = 0, expected = 0, phase = 0;  // barrier.cluster, in threads
  uint32_t live_threads = 0;
  class Later* later = nullptr;           // operations put off; null: carried out at issue (exec/later.h)
  class WgmmaQueue* wgmma = nullptr;      // issued and not carried out (exec/wgmma_queue.h)
  class MbarrierStore* mbarriers = nullptr;  // their words (exec/mbarrier_store.h)
  class WaitLog* log = nullptr;           // what happened to the mbarriers of these blocks (exec/wait_log.h)
};

/// Executes the instruction at the group's pc for JIT'd code (RuntimeCalls) or the interpreter loop.
Fault make_fault(const RunState& run, const WarpContext& w, const DecodedProgram& code, uint32_t pc, FaultKind kind,
                 int lane, uint64_t address, std::string what);

}  // namespace orrery::exec
