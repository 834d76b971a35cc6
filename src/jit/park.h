// jit/park.h: what is done with a compilation that a process does not wait for at its end.
//
// A kernel of tens of thousands of instructions can be minutes in LLVM, which cannot be interrupted, and while a thread
// is in it the process cannot end: LLVM's statics are destroyed under it. So the thread is stopped for good, at a place where
// it holds nothing that anybody else needs: in LLVM's own code, between the calls of `Compiling`.
//
// Not here: when to stop (compiler.cc).
#pragma once
#include <atomic>
#include <thread>

namespace orrery::jit {

/// Says in `flag` that its thread is in LLVM, and may be parked, for as long as it exists. Null: nobody asks.
class Compiling {
 public:
  explicit Compiling(std::atomic<bool>* flag) : flag_(flag) {
    if (flag_) *flag_ = true;
  }
  ~Compiling() {
    if (flag_) *flag_ = false;
  }
  Compiling(const Compiling&) = delete;
  Compiling& operator=(const Compiling&) = delete;

 private:
  std::atomic<bool>* const flag_;
};

/// Stops `thread`, whose flag `compiling` is, for good and detaches it. False, and nothing has happened: it is not compiling, or not
/// for long enough.
bool park(std::thread& thread, const std::atomic<bool>& compiling);

}  // namespace orrery::jit
