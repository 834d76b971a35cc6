// `orrery validate`: predicts the kernels of calib/truth and compares with what a GPU measured. The truth is only
// compared with, never used: the model's figures come from microbenchmarks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/cases.h"
#include "tools/command.h"
#include "tools/time_command.h"

namespace orrery::tools {
namespace {

using nlohmann::json;

constexpr double kLeastBytes = 1e6;  // of a case whose traffic is compared

struct Row {
  std::string name, family, bound, note, reason;
  double measured = 0, predicted = 0, instructions = 0;  // the last: a relative error, as those of the counters below
  std::optional<double> read, written, moved, sectors, joules, clock;
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

/// Why a kernel misses, as far as it is known: misses.json beside the truth.
json known_misses(const std::string& truth_file) {
  std::ifstream in(std::filesystem::path(truth_file).parent_path() / "misses.json");
  return in ? json::parse(in, nullptr, false) : json();
}
std::string reason_of(const json& misses, const std::string& name) {
  if (!misses.is_object()) return "";
  for (const std::string& key : {name, name.substr(0, name.find('/'))})
    if (const auto found = misses.find(key); found != misses.end() && found->is_string()) return *found;
  return "no reason known";
}

/// By how much what was predicted differs from what was measured, where that is above `least`.
std::optional<double> error_of(double predicted, const json& truth, const std::string& key, double least) {
  const double measured = truth.contains(key) && truth[key].is_number() ? truth[key].get<double>() : 0;
  return measured > least ? std::optional(predicted / measured - 1) : std::nullopt;
}

/// "(goal 5)", or "(goal 5: MISSED)", where the figure may look the same when it is rounded.
std::string against(double value, double goal) { return fmt::format("(goal {:.0f}{})", 100 * goal, value <= goal ? "" : ": MISSED"); }

/// Prints the mean of the errors that there are; true when it is within the goal.
bool judge(const std::vector<Row>& rows, std::optional<double> Row::*error, const char* what, double goal) {
  std::vector<double> errors;
  for (const Row& r : rows)
    if (r.*error) errors.push_back(*(r.*error));
  if (errors.empty()) return true;
  const Summary s = summarise(errors);
  fmt::print("{}: mean {:.1f}% {}, median {:.1f}% of {} cases\n", what, 100 * s.mean, against(s.mean, goal), 100 * s.median, s.n);
  return s.mean <= goal;
}

void print_rows(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return std::fabs(a.error()) > std::fabs(b.error()); });
  fmt::print("worst ten\n{:<30} {:>12} {:>12} {:>8}  {}\n", "case", "measured us", "predicted us", "error", "bound and reason");
  for (size_t i = 0; i < rows.size() && i < 10; i++)
    fmt::print("{:<30} {:>12.2f} {:>12.2f} {:>+7.1f}%  {} {}\n", rows[i].name, rows[i].measured, rows[i].predicted, 100 * rows[i].error(), rows[i].bound, rows[i].reason.empty() ? rows[i].note : rows[i].reason);
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
  try {
    require_writable(json_file);
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery validate: {}\n", error.what());
    return 2;
  }
  const auto truth = read_truth(truth_file);
  const std::vector<std::string> names = case_names(program, pattern);
  if (truth.empty() || names.empty()) {
    fmt::print(stderr, "orrery validate: {} holds no measurements, or {} no such case\n", truth_file, program);
    return 2;
  }
  const json misses = known_misses(truth_file);
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
    const auto told = [&](const char* key) { return (*record)[key].get<double>(); };
    Row r{name, t.value("family", std::string("other")), (*record)["bound"], "", reason_of(misses, name), t[options.cache + "_us"], told("us")};
    r.low = told("low_us"), r.high = told("high_us");
    r.instructions = error_of(told("instructions"), t, "instructions", 0).value_or(0);
    r.read = error_of(told("dram_read"), t, options.cache + "_dram_read", kLeastBytes);
    r.written = error_of(told("dram_write"), t, options.cache + "_dram_write", kLeastBytes);
    if (t.contains(options.cache + "_dram_write"))
      r.moved = error_of(told("dram_read") + told("dram_write"), {{"all", t.value(options.cache + "_dram_read", 0.0) + t.value(options.cache + "_dram_write", 0.0)}}, "all", kLeastBytes);
    r.sectors = error_of(told("l2_sectors"), t, options.cache + "_l2_sectors", kLeastBytes / 32);
    if (const double rate = t.value("launches_per_s", 0.0); rate > 0) {
      r.joules = error_of(told("joules") * rate, t, "energy_watts", 0);
      r.clock = error_of(told("sustained_mhz"), t, "clock_mhz", 0);  // measured over seconds
    }
    if (!(*record)["notes"].empty()) r.note = (*record)["notes"][0];
    fmt::print("{:<30} {:>12.2f} {:>12.2f} {:>+7.1f}%  {:>+7.1f}%\n", r.name, r.measured, r.predicted, 100 * r.error(), 100 * r.instructions);
    std::fflush(stdout);
    rows.push_back(r);
    all.push_back({{"case", r.name}, {"measured_us", r.measured}, {"predicted_us", r.predicted}, {"error", r.error()}, {"instructions_error", r.instructions}, {"dram_read_error", r.read.value_or(0)}, {"prediction", *record}});
    const std::pair<const char*, std::optional<double> Row::*> more[] = {{"dram_write_error", &Row::written}, {"l2_sectors_error", &Row::sectors}, {"joules_error", &Row::joules}, {"clock_error", &Row::clock}};
    for (const auto& [key, member] : more)
      if (r.*member) all.back()[key] = *(r.*member);
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
  size_t inside = 0;
  for (const Row& r : rows) inside += r.measured >= r.low && r.measured <= r.high;
  std::vector<double> tensor;
  for (const Row& r : rows)
    if (r.family == "wgmma" || r.family == "attention") tensor.push_back(r.error());
  const Summary t = summarise(tensor);
  fmt::print("\n{} cases, {} caches: time error mean {:.1f}% {}, median {:.1f}% {}, 90th percentile {:.1f}% {}\n", s.n, options.cache, 100 * s.mean, against(s.mean, .10),
             100 * s.median, against(s.median, .06), 100 * s.p90, against(s.p90, .20));
  if (t.n) fmt::print("tensor cores with TMA (wgmma, attention), {} cases: mean {:.1f}% {}, median {:.1f}%\n", t.n, 100 * t.mean, against(t.mean, .05), 100 * t.median);
  fmt::print("instructions: mean {:.1f}% {}, median {:.1f}%\n", 100 * c.mean, against(c.mean, .05), 100 * c.median);
  bool met = s.mean <= .10 && s.median <= .06 && s.p90 <= .20 && t.mean <= .05 && c.mean <= .05;
  met &= judge(rows, &Row::read, "bytes read from memory", .05);
  met &= judge(rows, &Row::moved, "bytes read and written", .05);
  met &= judge(rows, &Row::sectors, "sectors of L2 (lts__t_sectors.sum)", .05);
  met &= judge(rows, &Row::joules, "energy of a launch", .10);
  met &= judge(rows, &Row::clock, "clock under the power limit", .03);
  fmt::print("{:.0f}% of the cases lie inside the predicted interval; {} cases not timed\n", 100.0 * double(inside) / double(rows.size()), failed);
  return met && failed == 0 ? 0 : 1;
}

ORRERY_COMMAND(validate, "compare predicted times with measured ones", validate_command);

}  // namespace
}  // namespace orrery::tools
