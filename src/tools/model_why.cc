// `why`: the ledger lines behind a number of a report.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "tools/model_documents.h"

namespace orrery::tools {

namespace {

std::string lower(std::string s) {
  std::transform(s.begin(), s.end(), s.begin(), [](unsigned char c) { return std::tolower(c); });
  return s;
}

std::string explained(const Json& document, const Json& fact) {
  const Json& why = fact["why"];
  std::string name = fact["name"].get<std::string>(), unit = fact["unit"].get<std::string>(),
              column = why["column"].get<std::string>();
  for (const Json& section : document["sections"]) {
    if (section["title"] != why["table"] || !section.contains("columns")) continue;
    std::size_t at = 0;
    while (section["columns"][at]["name"] != column) ++at;
    double sum = 0;
    for (const Json& row : section["rows"])
      if (row[at].is_number()) sum += row[at].get<double>();
    std::string value = fact["value"].is_number() ? fmt::format("{:.6g}", fact["value"].get<double>())
                                                  : fact["value"].get<std::string>();
    Json small = report::document(fmt::format("{} = {}{}{}", name, value, unit.empty() ? "" : " ", unit));
    small["sections"].push_back(section);
    for (const Json& other : document["sections"])
      if (other["title"] == "decode step" && (name == "TPOT" || name == "energy"))
        small["sections"].push_back(other);
    std::string out = report::to_text(small);
    if (why.contains("formula")) return out + "  " + why["formula"].get<std::string>() + "\n";
    return out + fmt::format("  sum of {}: {:.6g}\n", column, sum);
  }
  base::fail("the report has no table '{}'", why["table"].get<std::string>());
}

}  // namespace

std::string why(const Json& document, const std::string& what) {
  std::string names;
  const Json* found = nullptr;
  for (const Json& fact : document["facts"]) {
    std::string name = fact["name"].get<std::string>();
    if (fact.contains("why")) names += (names.empty() ? "" : ", ") + name;
    bool same = lower(name) == lower(what);
    if (same || (!found && fact.contains("why") && lower(name).find(lower(what)) != std::string::npos))
      found = &fact;
    if (same) break;
  }
  if (!found)
    base::fail("no number '{}' with ledger lines in the last report ({}); it has: {}", what,
               document["title"].get<std::string>(), names.empty() ? "none" : names);
  if (!found->contains("why"))
    base::fail("'{}' is not made of ledger lines: {} {}; these are: {}", (*found)["name"].get<std::string>(),
               (*found)["value"].dump(), (*found)["unit"].get<std::string>(), names);
  return explained(document, *found);
}

}  // namespace orrery::tools
