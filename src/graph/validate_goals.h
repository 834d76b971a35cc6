// The goals of a comparison with measured and published figures: each is met or missed, or its source contradicts
// itself. The last is a verdict of its own, never a goal that is met: the figure is printed with what shows it, the
// source's own numbers or its tool, and it is given only where the source read so meets the limit; otherwise the goal
// is missed. A figure that no row entered is no goal, and a row that belongs to a figure and is refused is
// a missed one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "graph/truth.h"
#include "graph/validate.h"

namespace orrery::graph {

enum class Verdict : std::uint8_t { kMet, kContradiction, kMissed };

struct Goal {
  std::string what;           // the figure, and how it is written
  double value = 0;           // reached
  double limit = 0;           // at most so much, or at least
  bool least = false;         // at least
  std::string contradiction;  // the arithmetic by which the source contradicts itself; empty: it does not
  bool met() const { return least ? value >= limit : value <= limit; }
  Verdict verdict() const {
    return met() ? Verdict::kMet : contradiction.empty() ? Verdict::kMissed : Verdict::kContradiction;
  }
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
