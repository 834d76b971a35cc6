// bench/measure.h: how the tables measure: CPU time of the process, contenders in turns, medians.
#pragma once
#include <time.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace bench {

inline double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

/// Median CPU seconds of one call of each, after one to warm up; empty functions take no part (0).
inline std::vector<double> measure(const std::vector<std::function<void()>>& candidates, int rounds) {
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = -1; round < rounds; round++)
    for (size_t i = 0; i < candidates.size(); i++) {
      if (!candidates[i]) continue;
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
