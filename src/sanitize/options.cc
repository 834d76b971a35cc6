// sanitize/options.cc: see options.h.
#include "sanitize/options.h"

#include <algorithm>
#include <cstdlib>
#include <functional>

namespace orrery::sanitize {

const std::vector<std::string>& all_checks() {
  static const std::vector<std::string> names{"memcheck", "initcheck", "racecheck", "synccheck", "asynccheck", "apicheck", "numerics"};
  return names;
}

const std::vector<std::string>& default_checks() {
  static const std::vector<std::string> names{"memcheck", "initcheck", "racecheck", "synccheck", "asynccheck", "apicheck"};
  return names;
}

namespace {

bool for_words(const std::string& list, const std::function<bool(const std::string&)>& f) {
  for (size_t at = 0; at <= list.size();) {
    const size_t end = std::min(list.find(',', at), list.size());
    if (end > at && !f(list.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

}  // namespace

bool add_checks(const std::string& list, Options& options) {
  return for_words(list, [&](const std::string& word) {
    if (word == "all") return options.checks.insert(default_checks().begin(), default_checks().end()), true;
    if (std::ranges::find(all_checks(), word) == all_checks().end()) return false;
    options.checks.insert(word);
    return true;
  });
}

bool add_flags(const std::string& list, Options& options) {
  return for_words(list, [&](const std::string& word) {
    if (word == "leaks") return options.leaks = true;
    if (word == "strict") return options.strict = true;
    if (word == "fast") return options.fast = true;
    if (word == "api-errors") return options.api_errors = true;
    if (word == "copies") return options.copies = true;
    return false;
  });
}

Options options_from_environment() {
  Options options;
  const auto setting = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
  add_checks(setting("ORRERY_CHECK"), options);
  add_flags(setting("ORRERY_CHECK_FLAGS"), options);
  options.out = setting("ORRERY_CHECK_OUT");
  return options;
}

}  // namespace orrery::sanitize
