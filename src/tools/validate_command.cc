// `orrery validate`: predicts the kernels of calib/truth and compares with what a GPU measured. The truth is only
// compared with, never used: the model's figures come from microbenchmarks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/cases.h"
#include "tools/command.h"
#include "tools/time_command.h"

namespace orrery::tools {
namespace {

using nlohmann::json;

struct Row {
  std::string name, family, bound, note;
  double measured = 0, predicted = 0, instructions = 0, dram = 0;  // the last two: relative errors
  double low = 0, high = 0;
  double error() const { return predicted / measured - 1; }
};

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
  app.add_option("--program", program, "the program that launches them (calib/truth/build makes it)")->required();
  app.add_option("--cache", options.cache, "cold or warm")->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--gpu", options.gpu, "GPU (default h200)");
  app.add_flag("--no-ptxas", options.no_ptxas, "as on a machine without ptxas: a schedule of our own stands in");
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
  std::vector<Row> rows;
  json all = json::array();
  size_t failed = 0;
  fmt::print("{:<30} {:>12} {:>12} {:>8}  {}\n", "case", "measured us", "predicted us", "error", "instructions");
  for (const std::string& name : names) {
    const auto found = truth.find(name);
    if (found == truth.end() || !found->second.contains(options.cache + "_us")) continue;
    const json& t = found->second;
    if (!t[options.cache + "_us"].is_number()) continue;
    const auto record = predict_case(options, program, name, names);
    if (!record || record->contains("error")) {
      failed++;
      fmt::print("{:<30} not timed: {}\n", name, record ? (*record)["error"].get<std::string>() : "the program launched nothing");
      continue;
    }
    Row r{name, t.value("family", std::string("other")), (*record)["bound"], "", t[options.cache + "_us"], (*record)["us"], 0, 0, (*record)["low_us"], (*record)["high_us"]};
    if (t.contains("instructions") && t["instructions"].is_number()) r.instructions = (*record)["instructions"].get<double>() / std::max(1.0, t["instructions"].get<double>()) - 1;
    if (t.value(options.cache + "_dram_read", 0.0) > 1e6) r.dram = (*record)["dram_read"].get<double>() / t[options.cache + "_dram_read"].get<double>() - 1;
    if (!(*record)["notes"].empty()) r.note = (*record)["notes"][0];
    fmt::print("{:<30} {:>12.2f} {:>12.2f} {:>+7.1f}%  {:>+7.1f}%\n", r.name, r.measured, r.predicted, 100 * r.error(), 100 * r.instructions);
    std::fflush(stdout);
    rows.push_back(r);
    all.push_back({{"case", r.name}, {"measured_us", r.measured}, {"predicted_us", r.predicted}, {"error", r.error()}, {"instructions_error", r.instructions}, {"dram_read_error", r.dram}, {"prediction", *record}});
  }
  fmt::print("\n");
  try {
    if (!json_file.empty()) write_or_throw(json_file, all.dump(1) + "\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery validate: {}\n", error.what());
    return 2;
  }
  if (rows.empty()) {
    fmt::print(stderr, "orrery validate: no case was timed ({} tried): nothing to compare\n", failed);
    return 1;
  }
  print_rows(rows);
  std::vector<double> errors, counts;
  for (const Row& r : rows) errors.push_back(r.error()), counts.push_back(r.instructions);
  const Summary s = summarise(errors), c = summarise(counts);
  std::vector<double> reads;
  size_t inside = 0;
  for (const Row& r : rows) {
    if (r.dram != 0) reads.push_back(r.dram);
    inside += r.measured >= r.low && r.measured <= r.high;
  }
  const Summary d = summarise(reads);
  std::vector<double> tensor;
  for (const Row& r : rows)
    if (r.family == "wgmma" || r.family == "attention") tensor.push_back(r.error());
  const Summary t = summarise(tensor);
  fmt::print("\n{} cases, {} caches: time error mean {:.1f}% (goal 10), median {:.1f}% (goal 6), 90th percentile {:.1f}% (goal 20)\n", s.n, options.cache, 100 * s.mean,
             100 * s.median, 100 * s.p90);
  if (t.n) fmt::print("tensor cores with TMA (wgmma, attention), {} cases: mean {:.1f}% (goal 5), median {:.1f}%\n", t.n, 100 * t.mean, 100 * t.median);
  fmt::print("instructions: mean {:.1f}% (goal 5), median {:.1f}%; bytes read from memory: mean {:.1f}% (goal 5), median {:.1f}% of {} cases\n", 100 * c.mean, 100 * c.median, 100 * d.mean, 100 * d.median, d.n);
  fmt::print("{:.0f}% of the cases lie inside the predicted interval; {} cases not timed\n", 100.0 * double(inside) / double(rows.size()), failed);
  const bool time_met = s.mean <= .10 && s.median <= .06 && s.p90 <= .20 && t.mean <= .05, counts_met = c.mean <= .05 && d.mean <= .05;
  return time_met && counts_met && failed == 0 ? 0 : 1;
}

ORRERY_COMMAND(validate, "compare predicted times with measured ones", validate_command);

}  // namespace
}  // namespace orrery::tools
