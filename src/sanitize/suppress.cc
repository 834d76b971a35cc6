// sanitize/suppress.cc: see suppress.h.
#include "sanitize/suppress.h"

#include "base/error.h"
#include "base/toml.h"

namespace orrery::sanitize {

bool matches(const std::string& pattern, const std::string& text) {
  size_t p = 0, t = 0, star = std::string::npos, mark = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') star = p++, mark = t;
    else if (p < pattern.size() && pattern[p] == text[t]) p++, t++;
    else if (star != std::string::npos) p = star + 1, t = ++mark;
    else return false;
  }
  while (p < pattern.size() && pattern[p] == '*') p++;
  return p == pattern.size();
}

namespace {

Rule read_rule(const toml::table& table, const std::string& path) {
  Rule rule;
  for (auto&& [name, value] : table) {
    const std::string_view key = name.str();
    std::string* const text = key == "check" ? &rule.check : key == "kind" ? &rule.kind : key == "kernel" ? &rule.kernel
                              : key == "file" ? &rule.file : key == "reason" ? &rule.reason : nullptr;
    if (text && value.is_string()) *text = value.as_string()->get();
    else if (key == "line" && value.is_integer()) rule.line = uint32_t(value.as_integer()->get());
    else base::fail("{}: line {}: a rule has check, kind, kernel, file, line and reason; not {}", path, value.source().begin.line, key);
  }
  if (rule.reason.empty()) base::fail("{}: line {}: a rule must say its reason", path, table.source().begin.line);
  return rule;
}

bool fits(const Rule& r, const Finding& f) {
  const auto any = [](const std::string& pattern, const std::string& text) { return pattern.empty() || matches(pattern, text); };
  return any(r.check, f.check) && any(r.kind, f.kind) && any(r.kernel, f.place.kernel) && any(r.file, f.place.source_file) &&
         (!r.line || r.line == f.place.source_line);
}

}  // namespace

std::vector<Rule> read_rules(const std::string& path) {
  std::vector<Rule> rules;
  for (auto&& [key, value] : base::read_toml(path)) {
    if (key.str() != "suppress" || !value.is_array_of_tables()) base::fail("{}: only [[suppress]] tables are expected", path);
    for (const toml::node& node : *value.as_array()) rules.push_back(read_rule(*node.as_table(), path));
  }
  return rules;
}

std::vector<Suppressed> suppress(const std::vector<Rule>& rules, std::vector<Finding>& findings) {
  std::vector<Suppressed> out;
  std::erase_if(findings, [&](const Finding& f) {
    for (const Rule& r : rules)
      if (fits(r, f)) return out.push_back({f, r.reason}), true;
    return false;
  });
  return out;
}

}  // namespace orrery::sanitize
