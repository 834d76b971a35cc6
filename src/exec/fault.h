// exec/fault.h: page faults of kernels become Faults; wording of fault messages.
//
// A worker that executes kernel code keeps a recovery point; the process-wide SIGSEGV/SIGBUS handler jumps there when
// the faulting address lies in device memory's range, or in the registered host memory that the thread was last let
// into, and the thread is a worker inside kernel code. Every other fault goes to the handler that was installed before.
#pragma once
#include <setjmp.h>

#include <string>

#include "exec/run_state.h"

namespace orrery::exec {

/// Recovery point of the calling worker thread.
struct FaultTrap {
  sigjmp_buf env;
  bool armed = false;
  uint64_t base = 0, size = 0;   // of device memory
  uint64_t host_base = 0, host_size = 0;  // registered host memory that is accessed: its pages may have gone since
  uint64_t address = 0;          // filled by the handler
  int lane = -1;                 // lane whose access is in flight (interpreter)
  const DecodedProgram* code = nullptr;  // program whose instruction at_inst is in flight
  WarpContext* late = nullptr;   // the warp whose operation is carried out long after its issue (later.h)
};
FaultTrap& fault_trap();
void install_fault_handler();
/// Who is asked first about page faults of threads that run no kernel code; true: the access may be tried again. `code`
/// is the instruction. Null: nobody.
using HostFaultHook = bool (*)(uint64_t address, bool writes, const void* code);
void set_host_fault_hook(HostFaultHook hook);
void set_fault_lane(int lane);

/// Whether kernels may touch [address, address + bytes): device memory's range, where what is not mapped raises a page
/// fault, or one registration of host memory.
bool may_touch(const DeviceMemory& memory, uint64_t address, uint64_t bytes);

/// "read of 4 bytes at 0x... is 16 bytes past the end of the 1024-byte allocation at 0x...".
std::string describe_address(const DeviceMemory& memory, uint64_t address, const std::string& access);

}  // namespace orrery::exec
