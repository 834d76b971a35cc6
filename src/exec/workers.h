// exec/workers.h: the threads that run blocks: one pool for the process, made at the first parallel launch.
#pragma once
#include <functional>

namespace orrery::exec {

/// Runs `work(0)` on the calling thread and `work(1)` .. `work(n-1)` on pool threads; returns when all have returned.
/// Several callers may run at once.
void run_workers(unsigned n, const std::function<void(unsigned)>& work);

/// Cores that this process may use, or ORRERY_THREADS.
unsigned default_workers();

}  // namespace orrery::exec
