// Comparison with operators and steps that were measured on a GPU (calib/model-truth/*.jsonl).
//
// A file of truth is JSON lines: the first says which GPU, driver, date and command; each further one is a
// measurement with its kind and shape. What the model has no description of (an unfused framework step, a
// group norm in a slow layout) is counted as not predicted, by kind, and never dropped in silence.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace orrery::graph {

struct Measured {
  std::string id, kind;
  double predicted = 0, measured = 0;                // seconds
  double joules_predicted = 0, joules_measured = 0;  // 0: not metered
  double bytes_predicted = 0, bytes_measured = 0;    // peak of what was allocated; 0: not recorded
};

struct Truth {
  std::string gpu, source;
  std::vector<Measured> rows;
  std::map<std::string, int> not_predicted;  // reason, rows
};

Truth compare_with_truth(const std::string& path);
// Errors by kind, the worst rows named.
std::string truth_text(const Truth& truth);

}  // namespace orrery::graph
