// The document as text: facts one a line, tables aligned.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/report.h"

namespace orrery::report {
namespace {

std::string grouped(double whole) {
  std::string digits = fmt::format("{:.0f}", std::fabs(whole)), out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return whole < 0 ? "-" + out : out;
}

std::string number(double v) {
  double magnitude = std::fabs(v);
  if (magnitude < 1e15 && (v == std::floor(v) || magnitude >= 1000)) return grouped(v);
  if (magnitude >= 1000) return fmt::format("{:.4g}", v);
  if (magnitude >= 100) return fmt::format("{:.1f}", v);
  if (magnitude >= 0.01) return fmt::format("{:.4g}", v);
  return fmt::format("{:.3g}", v);
}

std::string cell(const Json& v) {
  if (v.is_string()) return v.get<std::string>();
  if (v.is_boolean()) return v.get<bool>() ? "yes" : "no";
  if (v.is_number()) return number(v.get<double>());
  if (v.is_null()) return "-";
  return v.dump();
}

std::string table(const Json& section) {
  std::vector<std::vector<std::string>> grid;
  std::vector<std::string> head;
  for (const Json& column : section["columns"]) {
    std::string unit = column["unit"].get<std::string>();
    head.push_back(column["name"].get<std::string>() + (unit.empty() ? "" : " [" + unit + "]"));
  }
  grid.push_back(head);
  for (const Json& row : section["rows"]) {
    std::vector<std::string> line;
    for (const Json& value : row) line.push_back(cell(value));
    grid.push_back(line);
  }
  std::vector<std::size_t> width;
  std::vector<bool> left;
  for (std::size_t c = 0; c < head.size(); ++c) {
    std::size_t w = 0;
    for (const auto& line : grid) w = std::max(w, c < line.size() ? line[c].size() : 0);
    width.push_back(w);
    left.push_back(section["rows"].empty() ||
                   (c < section["rows"][0].size() && section["rows"][0][c].is_string()));
  }
  std::string out;
  for (const auto& line : grid) {
    std::string text = "  ";
    for (std::size_t c = 0; c < line.size(); ++c)
      text +=
          left[c] ? fmt::format("{:<{}}  ", line[c], width[c]) : fmt::format("{:>{}}  ", line[c], width[c]);
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  }
  return out;
}

}  // namespace

std::string to_text(const Json& d) {
  std::string out = d["title"].get<std::string>() + "\n";
  std::size_t width = 0;
  for (const Json& fact : d["facts"])
    width = std::max(width, fact["name"].get_ref<const std::string&>().size());
  for (const Json& fact : d["facts"]) {
    std::string unit = fact["unit"].get<std::string>();
    out += fmt::format("  {:<{}}  {}{}", fact["name"].get<std::string>(), width, cell(fact["value"]),
                       unit.empty() ? "" : " " + unit);
    if (fact.contains("note")) out += "  (" + fact["note"].get<std::string>() + ")";
    out += "\n";
  }
  for (const Json& section : d["sections"]) {
    if (section.contains("model") || section.contains("timeline") || section.contains("chart"))
      continue;  // drawn in HTML and traces only
    out += "\n" + section["title"].get<std::string>() + "\n";
    if (section.contains("columns")) out += table(section);
    if (section.contains("notes"))
      for (const Json& note : section["notes"]) out += "  " + note.get<std::string>() + "\n";
  }
  if (!d["assumptions"].empty()) {
    out += "\nAssumed\n";
    for (const Json& text : d["assumptions"]) out += "  " + text.get<std::string>() + "\n";
  }
  return out;
}

}  // namespace orrery::report
