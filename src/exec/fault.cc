// exec/fault.cc: see fault.h.
#include "exec/fault.h"

#include <fmt/format.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

#include "base/demangle.h"
#include "exec/stepper.h"

namespace orrery::exec {

namespace {

thread_local FaultTrap trap;
struct sigaction previous_segv, previous_bus;
std::atomic<HostFaultHook> host_fault_hook{nullptr};

[[noreturn]] void go_back(uint64_t address) {
  trap.armed = false;
  trap.address = address;
#ifdef __SANITIZE_THREAD__
  // Its own handler calls ours with every signal blocked, SA_NODEFER or not: the next fault would end the process.
  sigset_t faults;
  sigemptyset(&faults), sigaddset(&faults, SIGSEGV), sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
#endif
  siglongjmp(trap.env, 1);
}

void on_signal(int number, siginfo_t* info, void* context) {
  const uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (trap.armed && address - trap.base < trap.size) go_back(address);
  if (const HostFaultHook hook = host_fault_hook) {
    constexpr uint64_t kWrite = 2;  // of the page fault's error code
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    if (hook(address, registers[REG_ERR] & kWrite, reinterpret_cast<const void*>(registers[REG_RIP]))) return;
  }
  if (trap.armed && address - trap.host_base < trap.host_size) go_back(address);
  const struct sigaction& old = number == SIGSEGV ? previous_segv : previous_bus;
  if (old.sa_flags & SA_SIGINFO) old.sa_sigaction(number, info, context);
  else if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) sigaction(number, &old, nullptr);  // fault again, fatally
  else old.sa_handler(number);
}

std::string where(const Fault& f) {
  std::string s = fmt::format("kernel {}", base::brief(base::demangled(f.kernel)));
  if (f.function != f.kernel) s += fmt::format(", function {}", base::brief(base::demangled(f.function)));
  s += fmt::format(", block ({},{},{})", f.ctaid[0], f.ctaid[1], f.ctaid[2]);
  if (f.thread_known) s += fmt::format(", thread ({},{},{})", f.tid[0], f.tid[1], f.tid[2]);
  else s += fmt::format(", a thread of warp {} (--interpret tells which)", f.warp);
  s += fmt::format(", PTX line {}", f.loc.line);
  if (f.loc.source_line) s += fmt::format(", {}:{}", f.source_file.empty() ? "source line" : f.source_file, f.loc.source_line);
  return s;
}

const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::illegal_address: return "illegal address";
    case FaultKind::misaligned_address: return "misaligned address";
    case FaultKind::illegal_instruction: return "illegal instruction";
    case FaultKind::stack_overflow: return "stack overflow";
    case FaultKind::trap: return "trap";
    case FaultKind::assertion: return "assertion failed";
    case FaultKind::hang: return "hang";
    case FaultKind::timeout: return "timeout";
    case FaultKind::interrupted: return "interrupted";
    case FaultKind::unsupported: return "unsupported instruction";
    case FaultKind::invalid_pc: return "call of an invalid function pointer";
    default: return "fault";
  }
}

}  // namespace

FaultTrap& fault_trap() { return trap; }
void set_host_fault_hook(HostFaultHook hook) { host_fault_hook = hook; }
void set_fault_lane(int lane) { trap.lane = lane; }

void install_fault_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

bool may_touch(const DeviceMemory& memory, uint64_t address, uint64_t bytes) {
  if (bytes <= memory.size() && address - memory.base() <= memory.size() - bytes) return true;
  const auto a = memory.find_registered(address);
  if (!a || bytes > a->size - (address - a->address)) return false;
  trap.host_base = a->address;
  trap.host_size = a->size;
  return true;
}

std::string describe_address(const DeviceMemory& memory, uint64_t address, const std::string& access) {
  if (address < 4096) return fmt::format("{} at {:#x}, a null pointer plus {}", access, address, address);
  if (!memory.contains(address) && memory.find_registered(address))
    return fmt::format("{} at {:#x}, registered host memory that ends here or has been unmapped since", access, address);
  if (!memory.contains(address))
    return fmt::format("{} at {:#x}, which is not device memory (a host pointer, or an uninitialised one)", access, address);
  bool freed = false;
  const auto a = memory.nearest(address, &freed);
  if (!a) return fmt::format("{} at {:#x}, where nothing is allocated", access, address);
  if (freed) return fmt::format("{} at {:#x}, inside the {}-byte allocation at {:#x} that was freed", access, address, a->size, a->address);
  if (address < a->address)
    return fmt::format("{} at {:#x}, {} bytes before the {}-byte allocation at {:#x}", access, address, a->address - address, a->size, a->address);
  return fmt::format("{} at {:#x}, {} bytes past the end of the {}-byte allocation at {:#x}", access, address,
                     address - a->address - a->size, a->size, a->address);
}

Fault make_fault(const RunState& run, const WarpContext& w, const DecodedProgram& code, uint32_t pc, FaultKind kind, int lane,
                 uint64_t address, std::string what) {
  Fault f;
  f.kind = kind;
  f.kernel = run.kernel.entry->program->name;
  f.function = lower::function_of(*code.program, pc).name;
  f.inst = pc;
  f.address = address;
  if (pc < code.program->code.size()) f.loc = code.program->code[pc].loc;
  const auto& files = code.program->module->files;
  if (f.loc.file < files.size()) f.source_file = files[f.loc.file];
  for (int i = 0; i < 3; i++) f.ctaid[i] = w.cta->ctaid[i];
  f.warp = w.warp_id;
  f.thread_known = lane >= 0;
  if (lane >= 0) f.tid[0] = w.tid_x[lane], f.tid[1] = w.tid_y[lane], f.tid[2] = w.tid_z[lane];
  f.message = fmt::format("{}: {}\n  at {}", name_of(kind), what, where(f));
  if (pc < code.program->code.size())
    f.message += fmt::format("\n  {}", lower::text_of(*code.program, pc));
  return f;
}

}  // namespace orrery::exec
