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

Choice LaunchChoice::next(const std::string& mangled) {
  if (!filter_.kernel.empty()) {
    const std::string name = base::function_name(base::demangled(mangled));
    if (pattern_ ? !std::regex_search(name, pattern_->expression) : name != filter_.kernel) return Choice::pass;
  }
  std::lock_guard lock(mutex_);
  const uint64_t place = seen_++;
  if (place < filter_.skip) return Choice::pass;
  if (place - filter_.skip < filter_.count) return Choice::time;
  return filter_.kill ? Choice::end : Choice::pass;
}

bool LaunchChoice::over() const {
  std::lock_guard lock(mutex_);
  return filter_.kill && seen_ > filter_.skip && seen_ - filter_.skip >= filter_.count;
}

}  // namespace orrery::timing
