// sanitize/options.h: which checks run and how; carried from `orrery check` to the program's process in the environment.
//
//   ORRERY_CHECK=memcheck,racecheck,...   the checks; `all` for those that are on by default
//   ORRERY_CHECK_FLAGS=leaks,strict,...   the flags below
//   ORRERY_CHECK_OUT=FILE                 findings are appended to this file, one JSON object a line
#pragma once
#include <set>
#include <string>
#include <vector>

namespace orrery::sanitize {

struct Options {
  std::set<std::string> checks;
  bool leaks = false;           // memory that is never freed
  bool strict = false;          // also races of equal values, reads of padding
  bool copies = false;          // uninitialised bytes copied to the host
  bool api_errors = false;      // launches that were refused, also when the program looked at the error
  bool fast = false;            // compiled code: memcheck by unmapped pages and fence bytes
  std::string out;

  bool has(const char* check) const { return checks.contains(check); }
};

/// Names of all checks, and of those that run unless told otherwise.
const std::vector<std::string>& all_checks();
const std::vector<std::string>& default_checks();

/// Adds the checks in a comma-separated list (`all`: the default ones). False when a name is unknown.
bool add_checks(const std::string& list, Options& options);
bool add_flags(const std::string& list, Options& options);

/// From the environment; no checks when ORRERY_CHECK is not set.
Options options_from_environment();

}  // namespace orrery::sanitize
