// bench/measure.h: how the tables measure: CPU time of the process, contenders in turns, medians.
#pragma once
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>
#include <vector>

namespace bench {

/// While it lives, every CPU of a virtual machine has something to do, at the lowest priority. A hypervisor wakes an
/// idle virtual CPU on any free hardware thread, also on the second one of the core that its sibling runs on, and takes
/// half a second to move it: two threads then have one core between them, and CPU time, which cannot see that, doubles.
class AwakeCpus {
 public:
  AwakeCpus() {
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); i++) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (nice(19) == -1) _exit(1);
        for (volatile unsigned n = 0;;) n = n + 1;
      }
      if (child > 0) children_.push_back(child);
    }
  }
  ~AwakeCpus() {
    for (pid_t c : children_) kill(c, SIGKILL), waitpid(c, nullptr, 0);
  }
  AwakeCpus(const AwakeCpus&) = delete;
  AwakeCpus& operator=(const AwakeCpus&) = delete;

 private:
  std::vector<pid_t> children_;  // processes of their own: their time is not the process's
};

inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

/// Waits until no thread of the process works any more: what a contender's threads do after its call is not the next one's.
inline void settle() {
  for (int i = 0; i < 100; i++) {
    const double before = cpu_seconds();
    usleep(1000);
    if (cpu_seconds() - before < 100e-6) return;
  }
}

/// Median CPU seconds of one call of each, after one to warm up; empty functions take no part (0).
inline std::vector<double> measure(const std::vector<std::function<void()>>& candidates, int rounds) {
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = -1; round < rounds; round++)
    for (size_t i = 0; i < candidates.size(); i++) {
      if (!candidates[i]) continue;
      settle();
      const double start = cpu_seconds();
      candidates[i]();
      if (round >= 0) times[i].push_back(cpu_seconds() - start);
    }
  std::vector<double> medians;
  for (auto& t : times) {
    std::sort(t.begin(), t.end());
    medians.push_back(t.empty() ? 0 : t[t.size() / 2]);
  }
  return medians;
}

}  // namespace bench
