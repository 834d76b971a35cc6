// base/toml.h: toml++ as all of Orrery uses it, headers alone.
//
// Its parser asserts what it goes on to check: without NDEBUG (as Orrery is built) a table header such as `[{` would end the
// process. The assertions are therefore off; the checks behind them are not.
#pragma once
#define TOML_HEADER_ONLY 1
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace orrery::base {

/// The tables of a file. Throws Error with file, line and what is wrong when it cannot be read or is no TOML.
inline toml::table read_toml(const std::string& path) {
  if (std::filesystem::is_directory(path)) fail("{} is a folder, not a file", path);  // it would read as empty
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

}  // namespace orrery::base
