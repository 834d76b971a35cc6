// jit/park.cc: see park.h. A signal handler in the thread looks where it was interrupted: in libLLVM it stays; in malloc, say, it
// returns and is sent again, since the rest of the process would wait for malloc's lock.
#include "jit/park.h"

#include <link.h>
#include <llvm/IR/Verifier.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace orrery::jit {

namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
};

constexpr pthread_t kNobody = 0, kDone = ~pthread_t{0};

// Who is to stay; it answers kDone. A handler that comes late finds another's name, or nobody's, and returns. What follows is
// written before a name is. (No variables of the thread: their first use allocates, which a handler must not.)
std::atomic<pthread_t> wanted{kNobody};
std::atomic<const std::atomic<bool>*> in_llvm{nullptr};
Range llvm_code;  // the same at every call
static_assert(std::atomic<pthread_t>::is_always_lock_free && std::atomic<const std::atomic<bool>*>::is_always_lock_free);

void stay(int, siginfo_t*, void* context) {
  pthread_t me = pthread_self();
  if (wanted != me || !*in_llvm.load()) return;
  const auto at = uintptr_t(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (at < llvm_code.begin || at >= llvm_code.end || !wanted.compare_exchange_strong(me, kDone)) return;
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

bool park(pthread_t thread, const std::atomic<bool>& compiling) {
  using namespace std::chrono_literals;
  constexpr int kTries = 200;  // a millisecond each
  const int number = SIGRTMAX;
  static const bool found = (llvm_code = find_llvm()).end != 0;
  if (!found) return false;
  struct sigaction action {}, before {};
  action.sa_sigaction = stay;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);
  if (sigaction(number, &action, &before) != 0) return false;
  in_llvm = &compiling;
  wanted = thread;
  for (int i = 0; i < kTries && compiling && wanted != kDone; i++) {
    if (pthread_kill(thread, number) != 0) break;
    std::this_thread::sleep_for(1ms);
  }
  if (before.sa_handler != SIG_DFL) sigaction(number, &before, nullptr);  // (one may still be under way, and the default ends the process)
  return wanted.exchange(kNobody) == kDone;
}

}  // namespace orrery::jit
