// `why`: the ledger lines behind a number of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>

#include "base/error.h"
#include "tools/model_documents.h"

namespace orrery::tools {

namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

std::string explained(const Json& document, const Json& fact) {
  const Json& why = fact.at("why");
  std::string name = fact.at("name").get<std::string>(), unit = fact.at("unit").get<std::string>(),
              column = why.at("column").get<std::string>();
  for (const Json& section : document.at("sections")) {
    if (section.at("title") != why.at("table") || !section.contains("columns")) continue;
    std::size_t at = 0;
    while (section.at("columns").at(at).at("name") != column) ++at;
    double sum = 0;
    for (const Json& row : section.at("rows"))
      if (row.at(at).is_number()) sum += row.at(at).get<double>();
    const Json& given = fact.at("value");
    std::string value =
        given.is_number() ? fmt::format("{:.6g}", given.get<double>()) : given.get<std::string>();
    Json small = report::document(fmt::format("{} = {}{}{}", name, value, unit.empty() ? "" : " ", unit));
    small["sections"].push_back(section);
    for (const Json& other : document.at("sections"))
      if (other.at("title") == "decode step" && (name == "TPOT" || name == "energy"))
        small["sections"].push_back(other);
    std::string out = report::to_text(small);
    if (why.contains("formula")) return out + "  " + why.at("formula").get<std::string>() + "\n";
    return out + fmt::format("  sum of {}: {:.6g}\n", column, sum);
  }
  base::fail("the report has no table '{}'", why.at("table").get<std::string>());
}

}  // namespace

std::string why(const Json& document, const std::string& what) try {
  std::string names;
  const Json* found = nullptr;
  for (const Json& fact : document.at("facts")) {
    std::string name = fact.at("name").get<std::string>();
    if (fact.contains("why")) names += (names.empty() ? "" : ", ") + name;
    bool same = lower(name) == lower(what);
    if (same || (!found && fact.contains("why") && lower(name).find(lower(what)) != std::string::npos))
      found = &fact;
    if (same) break;
  }
  if (!found)
    base::fail("no number '{}' with ledger lines in the last report ({}); it has: {}", what,
               document.at("title").get<std::string>(), names.empty() ? "none" : names);
  if (!found->contains("why"))
    base::fail("'{}' is not made of ledger lines: {} {}; these are: {}", found->at("name").get<std::string>(),
               found->at("value").dump(), found->at("unit").get<std::string>(), names);
  return explained(document, *found);
} catch (const Json::exception& error) {
  base::fail("not a report of orrery model: {}", error.what());
}

std::filesystem::path last_report() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::filesystem::path base =
      cache && *cache ? cache : std::filesystem::path(home ? home : "/tmp") / ".cache";
  return base / "orrery" / "last.json";
}

std::string why_in(const std::string& file, const std::string& what) {
  std::string path = file == "last" ? last_report().string() : file;
  std::ifstream in(path);
  if (!in) base::fail("no report at {}: run a question first", path);
  Json document = Json::parse(in, nullptr, false);
  if (!document.is_object() || !document.contains("facts")) base::fail("{} is not a report", path);
  return why(document, what);
}

}  // namespace orrery::tools
