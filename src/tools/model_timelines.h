// Timelines of a report: the operators of a step, of a micro-batch of training, and what follows what in an iteration, on
// the resources that they hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/model_ledgers.h"

namespace orrery::tools {

// A line as the sections show it: `line.times` counts all stages, `time` what nothing hides.
struct Shown {
  const graph::ProgramOp& op;
  graph::Line line;
  graph::LineTime time;
  graph::LineJoules joules;
  graph::Elsewhere away;
  std::string_view pass;  // of training; empty otherwise
  bool layer = true;
};

// An operator's name with what it exchanges, narrows or passes over.
std::string line_name(const graph::Program& program, const graph::ProgramOp& op);

// Every operator of a step in its order, layer after layer of one stage; transfers from other tiers beside them.
Json step_timeline(const graph::Program& program, const graph::Rates& rates, const char* title, const std::vector<Shown>& lines);
// One micro-batch of training, forward and backward.
Json micro_batch_timeline(const graph::TrainAnswer& answer, double micro_batches);
// What follows what in an iteration of the fullest stage.
Json iteration_timeline(const graph::TrainAnswer& answer);

}  // namespace orrery::tools
