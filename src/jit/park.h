// jit/park.h: what is done with a compilation that a process does not wait for at its end.
//
// A kernel of tens of thousands of instructions can be minutes in LLVM, which cannot be interrupted, and while a thread
// is in it the process cannot end: LLVM's statics are destroyed under it. So the thread is stopped for good, at a place where
// it holds nothing that anybody else needs: in LLVM's own code, between the calls of `Compiling`.
//
// Not here: when to stop (compiler.cc).
#pragma once
#include <thread>

namespace orrery::jit {

/// While one exists in a thread, the thread may be parked.
struct Compiling {
  Compiling();
  ~Compiling();
};

/// Stops `thread` for good and detaches it. False, and nothing has happened: it is not compiling, or not for long enough.
bool park(std::thread& thread);

}  // namespace orrery::jit
