// exec/prepared_launch.h: what every way to run the blocks of a launch needs before the first of them: a handler of page
// faults, the device's heap, parameters where kernels find them, and the context of their warps.
//
// Used by execute() and by the timing model's tracer, so that a kernel meets the same machine in both.
// Not here: which block runs when (scheduler.cc), units (unit.h).
#pragma once
#include "exec/fault.h"
#include "exec/run_state.h"

namespace orrery::exec {

class Unit;

class PreparedLaunch {
 public:
  /// `machine` gets a heap when it has none. Both must outlive this. Throws base::Error when the launch has fewer bytes of
  /// parameters than the kernel takes.
  PreparedLaunch(Machine& machine, const Launch& launch);
  ~PreparedLaunch();
  PreparedLaunch(const PreparedLaunch&) = delete;
  PreparedLaunch& operator=(const PreparedLaunch&) = delete;

  RunState run;
  LaunchContext context;
};

/// Arms the calling thread's fault trap for kernel code that uses `memory`, with the floating-point modes that kernels compute
/// in; puts both back at its end. The caller sets the recovery point: sigsetjmp(fault_trap().env, 0), then `armed`.
class KernelCode {
 public:
  explicit KernelCode(const DeviceMemory& memory);
  ~KernelCode();
  KernelCode(const KernelCode&) = delete;
  KernelCode& operator=(const KernelCode&) = delete;

 private:
  const unsigned outer_modes_;
  const FaultTrap outer_;
};

/// Records the page fault that came back to the recovery point while `unit` ran.
void record_page_fault(RunState& run, const Unit& unit);

}  // namespace orrery::exec
