// sanitize/collector.h: where checks leave their findings.
//
// A finding is written to the result file the moment it is first seen, so that nothing is lost when the program crashes
// or is killed; the counts follow when the process ends. Threads: any.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "sanitize/finding.h"

namespace orrery::sanitize {

class Collector {
 public:
  explicit Collector(std::string file) : file_(std::move(file)) {}

  /// Adds a finding, or counts one more of a known one.
  void add(Finding finding);
  /// True when so many different findings of this check exist that more of them would help nobody.
  bool full(const std::string& check);
  /// Writes the counts.
  void finish();
  /// What was found so far, in the order in which it was found.
  std::vector<Finding> findings();

 private:
  void write(const std::string& line);

  const std::string file_;
  std::mutex mutex_;
  std::map<std::string, size_t> by_key_;
  std::vector<Finding> found_;
  std::map<std::string, int> per_check_;
};

/// Reads a result file, several processes' findings merged.
std::vector<Finding> read_results(const std::string& file);

/// Adds `more` to `all`; findings that are one are counted together.
void merge(std::vector<Finding>& all, std::vector<Finding> more);

/// Puts causes before consequences: findings by kind of check, and without reads of unwritten memory at a line that a
/// race names too (the race explains them).
void tidy(std::vector<Finding>& findings);

}  // namespace orrery::sanitize
