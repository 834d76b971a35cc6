// `orrery validate`: predicts the kernels of calib/truth and compares with what a GPU measured. The truth is only
// compared with, never used: the model's figures come from microbenchmarks.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/time_command.h"

namespace orrery::tools {
namespace {

using nlohmann::json;

struct Row {
  std::string name, family, bound, note;
  double measured = 0, predicted = 0, instructions = 0, dram = 0;  // the last two: relative errors
  double error() const { return predicted / measured - 1; }
};

/// Names of a truth program's cases in the order in which it launches them.
std::vector<std::string> case_names(const std::string& program, const std::string& pattern) {
  std::vector<std::string> names;
  FILE* p = popen(("'" + program + "' list").c_str(), "r");
  char line[512];
  while (p && std::fgets(line, sizeof line, p)) {
    const std::string text = line;
    const size_t space = text.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = text.substr(space + 1, text.find_last_not_of("\n") - space);
    if (name.find(pattern) != std::string::npos) names.push_back(name);
  }
  if (p) pclose(p);
  return names;
}

std::map<std::string, json> read_truth(const std::string& file) {
  std::map<std::string, json> truth;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (json j = json::parse(line, nullptr, false); !j.is_discarded() && j.contains("case")) truth[j["case"]] = j;
  return truth;
}

struct Summary {
  double mean = 0, median = 0, p90 = 0;
  size_t n = 0;
};

Summary summarise(std::vector<double> errors) {
  Summary s;
  s.n = errors.size();
  if (errors.empty()) return s;
  for (double& e : errors) e = std::fabs(e), s.mean += e / double(errors.size());
  std::sort(errors.begin(), errors.end());
  s.median = errors[errors.size() / 2], s.p90 = errors[std::min(errors.size() - 1, errors.size() * 9 / 10)];
  return s;
}

void print_rows(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return std::fabs(a.error()) > std::fabs(b.error()); });
  fmt::print("worst ten\n{:<30} {:>12} {:>12} {:>8}  {}\n", "case", "measured us", "predicted us", "error", "bound and notes");
  for (size_t i = 0; i < rows.size() && i < 10; i++)
    fmt::print("{:<30} {:>12.2f} {:>12.2f} {:>+7.1f}%  {} {}\n", rows[i].name, rows[i].measured, rows[i].predicted, 100 * rows[i].error(), rows[i].bound, rows[i].note);
  std::map<std::string, std::vector<double>> families;
  for (const Row& r : rows) families[r.family].push_back(r.error());
  fmt::print("\n{:<12} {:>5} {:>8} {:>8} {:>8}\n", "family", "n", "mean", "median", "p90");
  for (const auto& [family, errors] : families) {
    const Summary s = summarise(errors);
    fmt::print("{:<12} {:>5} {:>7.1f}% {:>7.1f}% {:>7.1f}%\n", family, s.n, 100 * s.mean, 100 * s.median, 100 * s.p90);
  }
}

int validate_command(const std::vector<std::string>& words) {
  CLI::App app{"Predict measured kernels and compare.\nExample: orrery validate --truth calib/truth/h200-2026-11-21.jsonl --program build-truth/truth saxpy", "orrery validate"};
  TimeOptions options;
  std::string truth_file, program, pattern, json_file;
  options.results = "none";
  app.add_option("--truth", truth_file, "measurements (JSON lines)")->required();
  app.add_option("--program", program, "the program that launches them (calib/truth/run.sh builds it)")->required();
  app.add_option("--cache", options.cache, "cold or warm")->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--gpu", options.gpu, "GPU (default h200)");
  app.add_flag("--no-ptxas", options.no_ptxas, "do without machine code");
  app.add_option("--json", json_file, "write all rows to this file");
  app.add_option("pattern", pattern, "only cases whose name holds this");
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto truth = read_truth(truth_file);
  const std::vector<std::string> names = case_names(program, pattern);
  if (truth.empty() || names.empty()) {
    fmt::print(stderr, "orrery validate: {} holds no measurements, or {} no such case\n", truth_file, program);
    return 2;
  }
  const int out = dup(1), nowhere = open("/dev/null", O_WRONLY);
  std::fflush(stdout);
  dup2(nowhere, 1);
  const auto [status, records] = time_program(options, {program, "once", pattern});
  dup2(out, 1);
  close(out), close(nowhere);
  std::vector<Row> rows;
  json all = json::array();
  size_t failed = 0;
  for (size_t i = 0; i < std::min(names.size(), records.size()); i++) {
    const auto found = truth.find(names[i]);
    if (found == truth.end()) continue;
    const json& t = found->second;
    if (records[i].contains("error")) {
      failed++;
      fmt::print("{}: not timed: {}\n", names[i], records[i]["error"].get<std::string>());
      continue;
    }
    Row r{names[i], t["family"], records[i]["bound"], "", t[options.cache + "_us"], records[i]["us"], 0, 0};
    r.instructions = records[i]["instructions"].get<double>() / std::max(1.0, t["instructions"].get<double>()) - 1;
    if (!records[i]["notes"].empty()) r.note = records[i]["notes"][0];
    rows.push_back(r);
    all.push_back({{"case", r.name}, {"measured_us", r.measured}, {"predicted_us", r.predicted}, {"error", r.error()}, {"instructions_error", r.instructions}, {"prediction", records[i]}});
  }
  if (!json_file.empty()) std::ofstream(json_file) << all.dump(1) << "\n";
  print_rows(rows);
  std::vector<double> errors, counts;
  for (const Row& r : rows) errors.push_back(r.error()), counts.push_back(r.instructions);
  const Summary s = summarise(errors), c = summarise(counts);
  fmt::print("\n{} cases, {} caches: time error mean {:.1f}% (goal 10), median {:.1f}% (goal 6), 90th percentile {:.1f}% (goal 20)\n", s.n, options.cache, 100 * s.mean,
             100 * s.median, 100 * s.p90);
  fmt::print("instructions: mean {:.1f}% (goal 5), median {:.1f}%; {} cases not timed\n", 100 * c.mean, 100 * c.median, failed + (names.size() - std::min(names.size(), records.size())));
  return s.mean <= .10 && s.median <= .06 && s.p90 <= .20 && failed == 0 ? 0 : 1;
}

ORRERY_COMMAND(validate, "compare predicted times with measured ones", validate_command);

}  // namespace
}  // namespace orrery::tools
