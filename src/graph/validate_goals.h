// The goals of a comparison with measured and published figures: each is met or missed, and where a source
// disagrees with itself, the arithmetic that shows it stands beside the figure, provided that reading the
// source so meets the limit. A miss stays a miss. A figure that no row entered is no goal, and a row that
// belongs to a figure and is refused is a missed one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/truth.h"
#include "graph/validate.h"

namespace orrery::graph {

struct Goal {
  std::string what;          // the figure, and how it is written
  double value = 0;          // reached
  double limit = 0;          // at most so much, or at least
  bool least = false;        // at least
  std::string disagreement;  // why the source's own figures contradict one another; empty: they do not
  bool met() const { return least ? value >= limit : value <= limit; }
};

// Each takes what a comparison found, or reads the rows of a file (its path).
std::vector<Goal> tpot_goals(const Accuracy& tpot);
/// Predicted throughput of Llama-3.3-70B on one H200 over that on two H100s, mean over the questions asked of both.
std::optional<double> one_h200_over_two_h100(const Accuracy& throughput);
std::vector<Goal> throughput_goals(const Accuracy& throughput);
std::vector<Goal> training_goals(const Accuracy& training);
std::vector<Goal> activation_goals(const std::string& megatron);
std::vector<Goal> mlperf_goals(const std::string& mlperf);
std::vector<Goal> long_sequence_goals(const std::string& long_sequence);
std::vector<Goal> rendering_goals(const RenderAccuracy& rendering);
// Of all measurements with an energy.
std::vector<Goal> energy_goals(const std::vector<Truth>& truths);

std::string goals_text(const std::vector<Goal>& goals);

}  // namespace orrery::graph
