// sanitize/render.cc: see render.h.
#include "sanitize/render.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace orrery::sanitize {

using nlohmann::ordered_json;

namespace {

constexpr auto kReplace = ordered_json::error_handler_t::replace;

/// The line of the source file, without the blanks around it; empty when the file is not there.
std::string source_text(const Place& p) {
  static std::map<std::string, std::vector<std::string>> files;
  if (p.source_file.empty() || !p.source_line) return "";
  auto [it, fresh] = files.try_emplace(p.source_file);
  if (fresh) {
    std::ifstream in(p.source_file);
    for (std::string line; std::getline(in, line);) it->second.push_back(line);
  }
  if (p.source_line > it->second.size()) return "";
  const std::string& line = it->second[p.source_line - 1];
  const size_t first = line.find_first_not_of(" \t"), last = line.find_last_not_of(" \t\r");
  return first == std::string::npos ? "" : line.substr(first, last - first + 1);
}

std::string who(const Place& p) {
  if (p.kernel.empty()) return "";
  std::string s = fmt::format("kernel {}", p.kernel);
  if (!p.function.empty()) s += fmt::format(", function {}", p.function);
  if (p.in_kernel)
    s += fmt::format(", block ({},{},{}), thread ({},{},{})", p.block[0], p.block[1], p.block[2], p.thread[0], p.thread[1], p.thread[2]);
  return s;
}

/// A path as seen from the current folder.
std::string shown(const std::string& path) {
  std::error_code none;
  const std::string here = std::filesystem::current_path(none).string() + "/";
  return path.starts_with(here) ? path.substr(here.size()) : path;
}

std::string place_lines(const Place& p, const std::string& indent) {
  std::string s;
  if (const std::string name = who(p); !name.empty()) s += indent + name + "\n";
  if (p.source_line) s += fmt::format("{}{}:{}{}\n", indent, p.source_file.empty() ? "source line" : shown(p.source_file), p.source_line,
                                      source_text(p).empty() ? "" : "    " + source_text(p));
  for (const Place::Call& c : p.called_from) s += fmt::format("{}  inlined into {}:{}\n", indent, shown(c.file), c.line);
  if (p.ptx_line) s += fmt::format("{}PTX line {}{}\n", indent, p.ptx_line, p.instruction.empty() ? "" : "    " + p.instruction);
  return s;
}

std::string text_of(const Finding& f, size_t number) {
  std::string s = fmt::format("{}. {}: {}{}", number, f.check, f.kind, f.severity == "error" ? "" : " (" + f.severity + ")");
  if (f.count > 1) s += fmt::format(", {} times", f.count);
  s += fmt::format("\n   {}\n", f.message) + place_lines(f.place, "     ");
  for (const Party& o : f.waits.empty() ? f.others : std::vector<Party>{}) {  // of a hang the message tells all
    s += fmt::format("   {}{}\n", o.what, o.value.empty() ? "" : ": " + o.value);
    s += place_lines(o.place, "     ");
  }
  if (!f.remedy.empty()) s += fmt::format("   To make it right: {}\n", f.remedy);
  if (!f.seed.empty()) s += fmt::format("   Seen with --schedule {}\n", f.seed);
  return s;
}

}  // namespace

std::string render_text(const CheckedRun& run, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed) {
  std::string s;
  for (size_t i = 0; i < findings.size(); i++) s += text_of(findings[i], i + 1) + "\n";
  uint64_t times = 0;
  for (const Finding& f : findings) times += f.count;
  std::string names;
  for (const std::string& check : run.checks) names += (names.empty() ? "" : ", ") + check;
  if (findings.empty()) s += fmt::format("orrery check: nothing found ({})", names);
  else s += fmt::format("orrery check: {} found, {} {} in all ({})", findings.size(), times, times == 1 ? "time" : "times", names);
  if (!suppressed.empty()) s += fmt::format(", {} suppressed by rule", suppressed.size());
  if (run.runs > 1) s += fmt::format(", {} runs", run.runs);
  if (run.exit_status) s += fmt::format("; the program ended with status {}", run.exit_status);
  return s + "\n";
}

std::string render_json(const CheckedRun& run, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed) {
  ordered_json j;
  j["schema"] = "orrery-check-1";
  j["program"] = run.program;
  j["exit_status"] = run.exit_status;
  j["checks"] = run.checks;
  j["runs"] = run.runs;
  j["findings"] = ordered_json::array();
  for (const Finding& f : findings) j["findings"].push_back(ordered_json::parse(to_json(f)));
  j["suppressed"] = ordered_json::array();
  for (const Suppressed& s : suppressed) {
    ordered_json one = ordered_json::parse(to_json(s.finding));
    one["reason"] = s.reason;
    j["suppressed"].push_back(one);
  }
  return j.dump(2, ' ', false, kReplace) + "\n";
}

namespace {

ordered_json location(const Place& p, const std::string& message) {
  ordered_json l;
  if (p.source_line && !p.source_file.empty())
    l["physicalLocation"] = {{"artifactLocation", {{"uri", p.source_file}}}, {"region", {{"startLine", p.source_line}}}};
  if (!p.kernel.empty()) l["logicalLocations"] = {{{"fullyQualifiedName", p.kernel}, {"kind", "function"}}};
  if (!message.empty()) l["message"] = {{"text", message}};
  return l;
}

ordered_json result(const Finding& f) {
  ordered_json r;
  r["ruleId"] = f.check + "/" + f.kind;
  r["level"] = f.severity == "error" ? "error" : "warning";
  std::string text = f.message;
  if (const std::string name = who(f.place); !name.empty()) text += " (" + name + ")";
  if (!f.remedy.empty()) text += ". To make it right: " + f.remedy;
  r["message"] = {{"text", text}};
  r["locations"] = ordered_json::array();
  if (ordered_json l = location(f.place, ""); !l.empty()) r["locations"].push_back(l);
  for (size_t i = 0; i < f.others.size(); i++) {
    ordered_json l = location(f.others[i].place, f.others[i].what + (f.others[i].value.empty() ? "" : ": " + f.others[i].value));
    l["id"] = i;
    r["relatedLocations"].push_back(l);
  }
  r["occurrenceCount"] = f.count;
  r["partialFingerprints"] = {{"orrery/v1", fmt::format("{:016x}", std::hash<std::string>()(f.key()))}};
  return r;
}

}  // namespace

std::string render_sarif(const CheckedRun&, const std::vector<Finding>& findings, const std::vector<Suppressed>& suppressed) {
  ordered_json rules = ordered_json::array(), results = ordered_json::array();
  std::map<std::string, bool> known;
  const auto add = [&](const Finding& f) -> ordered_json& {
    const std::string id = f.check + "/" + f.kind;
    if (known.emplace(id, true).second) rules.push_back({{"id", id}, {"shortDescription", {{"text", f.check + ": " + f.kind}}}});
    results.push_back(result(f));
    return results.back();
  };
  for (const Finding& f : findings) add(f);
  for (const Suppressed& s : suppressed) add(s.finding)["suppressions"] = {{{"kind", "external"}, {"justification", s.reason}}};
  ordered_json j;
  j["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  j["version"] = "2.1.0";
  j["runs"] = {{{"tool", {{"driver", {{"name", "orrery check"}, {"rules", rules}}}}}, {"results", results}}};
  return j.dump(2, ' ', false, kReplace) + "\n";
}

}  // namespace orrery::sanitize
