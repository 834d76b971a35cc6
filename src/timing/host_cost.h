// timing/host_cost.h: what a prediction itself takes of the machine that makes it.
#pragma once
#include <cstdint>
#include <ctime>
#include <utility>

namespace orrery::timing {

/// CPU seconds of a prediction, and memory of its process.
struct HostCost {
  double trace = 0;      // running blocks for their addresses, copies of others included
  double trace_aside = 0;  // the same on a second thread
  double lead = 0;       // leading warps through the machine code
  double simulate = 0;   // SMs, L2 and memory
  double all = 0;        // with assembling, fitting and describing
  uint64_t issued = 0;   // machine instructions simulated, in all rounds
  double peak_bytes = 0; // most memory that the process has held, the program's own included
};

inline double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Adds the CPU time from here to its end to `total`; the watch that was running waits meanwhile.
class Stopwatch {
 public:
  Stopwatch(Stopwatch*& running, double& total) : running_(running), outer_(std::exchange(running, this)), total_(total) {
    if (outer_) outer_->stop();
  }
  ~Stopwatch() {
    stop();
    running_ = outer_;
    if (outer_) outer_->begin_ = cpu_seconds();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  void stop() { total_ += cpu_seconds() - begin_; }
  Stopwatch*& running_;
  Stopwatch* const outer_;
  double& total_;
  double begin_ = cpu_seconds();
};

}  // namespace orrery::timing
