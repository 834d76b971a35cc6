// base/demangle.h: names of C++ functions as the source has them.
// Not here: what of a name a table shows (tools/time_command.cc).
#pragma once
#include <cxxabi.h>

#include <cstdlib>
#include <string>

namespace orrery::base {

/// The name as the source has it; the name itself when it is not a mangled one.
inline std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string out = status == 0 && text ? text : name;
  std::free(text);
  return out;
}

}  // namespace orrery::base
