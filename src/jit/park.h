// jit/park.h: what is done with a compilation that a process does not wait for at its end.
//
// A kernel of tens of thousands of instructions can be minutes in LLVM, which cannot be interrupted, and while a thread
// is in it the process cannot end: LLVM's statics are destroyed under it. So the thread is stopped for good, at a place where
// it holds nothing that anybody else needs: in LLVM's own code, while a `Compiling` exists.
//
// Not here: which threads, and when (compiler.cc).
#pragma once
#include <pthread.h>

#include <atomic>

namespace orrery::jit {

/// Says in `flag` that its thread is in LLVM, and may be parked, for as long as it exists.
class Compiling {
 public:
  explicit Compiling(std::atomic<bool>& flag) : flag_(flag) { flag_ = true; }
  ~Compiling() { flag_ = false; }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

 private:
  std::atomic<bool>& flag_;
};

/// Stops `thread`, whose flag `compiling` is, for good. False, and nothing has happened: it is not compiling, or not for long enough.
/// The thread must live until then; only one thread at a time may call this.
bool park(pthread_t thread, const std::atomic<bool>& compiling);

}  // namespace orrery::jit
