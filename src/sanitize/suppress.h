// sanitize/suppress.h: rules that keep known findings from being reported, each with its reason.
//
//   [[suppress]]
//   check = "racecheck"          # each of these may be left out; * stands for any text
//   kind = "write-after-read"
//   kernel = "void histogram*"
//   file = "*/histogram.cu"
//   line = 40
//   reason = "counts are approximate by design"   # must be there
#pragma once
#include <string>
#include <vector>

#include "sanitize/render.h"

namespace orrery::sanitize {

struct Rule {
  std::string check, kind, kernel, file;  // empty: any
  uint32_t line = 0;                      // 0: any
  std::string reason;
};

/// Throws base::Error when the file cannot be read or a rule has no reason or an unknown key.
std::vector<Rule> read_rules(const std::string& path);

/// Moves the findings that a rule names out of `findings`.
std::vector<Suppressed> suppress(const std::vector<Rule>& rules, std::vector<Finding>& findings);

/// True when `text` matches `pattern`, where * stands for any text.
bool matches(const std::string& pattern, const std::string& text);

}  // namespace orrery::sanitize
