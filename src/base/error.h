// base/error.h: the one exception type that crosses layers, and how its text is built.
//
// A message says what is wrong, where, and what to do. The API layer turns it into an error code; the command line
// prints it. Nothing else may escape a public entry point.
#pragma once
#include <fmt/format.h>

#include <stdexcept>
#include <string>

namespace orrery::base {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace orrery::base
