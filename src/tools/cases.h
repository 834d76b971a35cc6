// tools/cases.h: the cases of a program made with calib/truth/truth.cu, and what is known of them: measured or predicted.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/time_command.h"

namespace orrery::tools {

/// Names of a program's cases that hold `pattern`, in the order in which it launches them.
std::vector<std::string> case_names(const std::string& program, const std::string& pattern);

/// Measurements by case (JSON lines of calib/truth/collect); empty when the file cannot be read.
std::map<std::string, nlohmann::json> read_truth(const std::string& file);

/// The predicted record of one case of `names`, none when the program launches nothing.
std::optional<nlohmann::json> predict_case(const TimeOptions& options, const std::string& program, const std::string& name, const std::vector<std::string>& names);

/// time_program with what the program itself prints kept in `output`.
std::pair<int, std::vector<nlohmann::json>> time_quietly(const TimeOptions& options, const std::vector<std::string>& program, const std::string& output = "/dev/null");

/// Writes a whole file; throws std::runtime_error that names it when that fails.
void write_or_throw(const std::string& file, const std::string& text);
/// Throws where the file could not be written: before the work whose results are to go there. An empty name is none.
void require_writable(const std::string& file);

}  // namespace orrery::tools
