// tools/time_command.h: `orrery time`: predicts the time of every kernel that a CUDA program launches.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "timing/launch_choice.h"

namespace orrery::tools {

struct TimeOptions {
  std::string gpu, cache = "cold", results = "auto";
  std::vector<std::string> set;  // KEY=VALUE: changes of the GPU's profile
  timing::LaunchFilter launches;  // which are timed
  bool exact = false, no_ptxas = false, record = false;
};

/// Runs `program` with its launches timed. Returns its exit status and one record per launch, in order.
std::pair<int, std::vector<nlohmann::json>> time_program(const TimeOptions& options, const std::vector<std::string>& program);

}  // namespace orrery::tools
