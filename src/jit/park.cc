// jit/park.cc: see park.h. A signal handler in the thread looks where it was interrupted: in libLLVM it stays; in malloc, say, it
// returns and is sent again, since the rest of the process would wait for malloc's lock.
#include "jit/park.h"

#include <link.h>
#include <llvm/IR/Verifier.h>
#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace orrery::jit {

namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
};

Range llvm_code;  // written before the signal is sent
std::atomic<bool> parked{false};
static_assert(std::atomic<bool>::is_always_lock_free);
thread_local volatile bool compiling = false;

void stay(int, siginfo_t*, void* context) {
  const auto at = uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (!compiling || at < llvm_code.begin || at >= llvm_code.end) return;
  parked = true;
  for (;;) pause();  // with every signal blocked
}

/// The executable segment that holds LLVM.
Range find_llvm() {
  Range found{reinterpret_cast<uintptr_t>(&llvm::verifyModule), 0};
  dl_iterate_phdr([](dl_phdr_info* info, size_t, void* data) {
    Range& r = *static_cast<Range*>(data);
    for (int i = 0; i < info->dlpi_phnum; i++) {
      const auto& segment = info->dlpi_phdr[i];
      const uintptr_t begin = info->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
      if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || r.begin < begin || r.begin >= end) continue;
      r = {begin, end};
      return 1;
    }
    return 0;
  }, &found);
  return found;
}

}  // namespace

Compiling::Compiling() { compiling = true; }
Compiling::~Compiling() { compiling = false; }

bool park(std::thread& thread) {
  using namespace std::chrono_literals;
  constexpr int kTries = 200;  // a millisecond each
  const int number = SIGRTMAX;
  llvm_code = find_llvm();
  if (!llvm_code.end) return false;
  struct sigaction action {}, before {};
  action.sa_sigaction = stay;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  if (sigaction(number, &action, &before) != 0) return false;
  for (int i = 0; i < kTries && !parked; i++) {
    if (pthread_kill(thread.native_handle(), number) != 0) break;
    std::this_thread::sleep_for(1ms);
  }
  if (before.sa_handler != SIG_DFL) sigaction(number, &before, nullptr);  // (one may still be under way, and the default ends the process)
  if (!parked.exchange(false)) return false;
  thread.detach();
  return true;
}

}  // namespace orrery::jit
