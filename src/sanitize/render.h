// sanitize/render.h: findings as text for people, as one JSON document, and as SARIF 2.1.0 for code hosts.
#pragma once
#include <string>
#include <vector>

#include "sanitize/finding.h"

namespace orrery::sanitize {

/// What the findings came from.
struct CheckedRun {
  std::vector<std::string> program;  // words of the command line
  int exit_status = 0;               // of the program (of the last run)
  std::vector<std::string> checks;
  int runs = 1;
};

/// What a rule file kept from being reported.
struct Suppressed {
  Finding finding;
  std::string reason;
};

std::string render_text(const CheckedRun& run, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed);
/// Schema orrery-check-1 (docs/check.md).
std::string render_json(const CheckedRun& run, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed);
/// Source: SARIF 2.1.0 (OASIS).
std::string render_sarif(const CheckedRun& run, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed);

}  // namespace orrery::sanitize
