// timing/launch_choice.cc: see launch_choice.h.
#include "timing/launch_choice.h"

#include <regex>
#include <stdexcept>

#include "base/demangle.h"

namespace orrery::timing {

namespace {

constexpr std::string_view kExpression = "regex:";

}  // namespace

struct LaunchChoice::Pattern {
  std::regex expression;
};

LaunchChoice::LaunchChoice(const LaunchFilter& filter) : filter_(filter) {
  if (!filter.kernel.starts_with(kExpression)) return;
  try {
    pattern_ = std::make_unique<Pattern>(std::regex(filter.kernel.substr(kExpression.size())));
  } catch (const std::regex_error& e) {
    throw std::runtime_error("'" + filter.kernel.substr(kExpression.size()) + "' is not a regular expression (ECMAScript): " + e.what());
  }
}

LaunchChoice::~LaunchChoice() = default;

Turn LaunchChoice::next(const std::string& mangled) {
  std::lock_guard lock(mutex_);
  if (!filter_.kernel.empty()) {
    const std::string name = base::function_name(base::demangled(mangled));
    if (pattern_ ? !std::regex_search(name, pattern_->expression) : name != filter_.kernel) return {seen_, Choice::pass};
  }
  const uint64_t number = seen_++;
  if (number < filter_.skip) return {number, Choice::pass};
  return {number, number - filter_.skip < filter_.count ? Choice::time : filter_.kill ? Choice::end : Choice::pass};
}

}  // namespace orrery::timing
