// `orrery compare`: two files of `orrery time --json`, launch by launch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/command.h"

namespace orrery::tools {
namespace {

using nlohmann::json;

json read_records(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot read " + file);
  json j = json::parse(in, nullptr, false);
  if (!j.is_array()) throw std::runtime_error(file + " is not what orrery time --json writes");
  return j;
}

double number(const json& j, const char* key) { return j.contains(key) && j[key].is_number() ? j[key].get<double>() : 0; }

void print_change(const json& a, const json& b) {
  const double before = number(a, "us"), after = number(b, "us");
  std::string name = b.value("kernel", "");
  if (name.size() > 40) name = name.substr(0, 37) + "...";
  fmt::print("{:<40} {:>11.2f} {:>11.2f} {:>+8.1f}%  {:>9} {:>9}", name, before, after, before > 0 ? 100 * (after / before - 1) : 0, a.value("bound", ""), b.value("bound", ""));
  for (const char* key : {"instructions", "dram_read", "l2_sectors", "joules"}) {
    const double x = number(a, key), y = number(b, key);
    if (x > 0 && std::fabs(y / x - 1) > 0.01) fmt::print("  {} {:+.0f}%", key, 100 * (y / x - 1));
  }
  fmt::print("\n");
}

int compare_command(const std::vector<std::string>& words) {
  CLI::App app{"Compare two files of orrery time --json, launch by launch.\nExample: orrery compare before.json after.json", "orrery compare"};
  std::string first, second;
  app.add_option("before", first, "records")->required();
  app.add_option("after", second, "records")->required();
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
    const json a = read_records(first), b = read_records(second);
    fmt::print("{:<40} {:>11} {:>11} {:>9}  {:>9} {:>9}\n", "kernel", "before us", "after us", "change", "bound", "bound");
    double before = 0, after = 0;
    for (size_t i = 0; i < std::min(a.size(), b.size()); i++) print_change(a[i], b[i]), before += number(a[i], "us"), after += number(b[i], "us");
    if (a.size() != b.size()) fmt::print("{} launches against {}: those without a partner are left out\n", a.size(), b.size());
    fmt::print("{:<40} {:>11.2f} {:>11.2f} {:>+8.1f}%\n", "all", before, after, before > 0 ? 100 * (after / before - 1) : 0);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery compare: {}\n", error.what());
    return 2;
  }
  return 0;
}

ORRERY_COMMAND(compare, "compare two sets of predicted times", compare_command);

}  // namespace
}  // namespace orrery::tools
