// `orrery time`; see time_command.h. The program runs with Orrery's libraries, which predict each launch in a process of
// its own and append one JSON line to a file; this command reads the file when the program has ended.
#include "tools/time_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <map>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/demangle.h"
#include "profile/profile.h"
#include "profile/what_if.h"
#include "report/kernel_page.h"
#include "tools/cases.h"
#include "tools/command.h"
#include "tools/start_program.h"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string short_name(const std::string& mangled) {
  std::string name = base::demangled(mangled);
  if (const size_t at = name.find("(anonymous namespace)::"); at != std::string::npos) name.erase(0, at + 23);
  return base::without_parameters(name);
}

std::string shape(const json& j, const char* key) {
  const auto& d = j.at(key);
  std::string text = std::to_string(d[0].get<uint64_t>());
  const uint64_t y = d[1], z = d[2];
  if (y > 1 || z > 1) text += "x" + std::to_string(y);
  if (z > 1) text += "x" + std::to_string(z);
  return text;
}

void print_table(const std::vector<json>& records) {
  fmt::print("{:<32} {:>12} {:>9} {:>10} {:>19} {:>8} {:>5} {:>6} {:<9} {:>6} {:>5} {:>6} {:>9}\n", "kernel", "grid", "block", "us", "from .. to", "bound", "%",
             "occ.", "limiter", "waves", "regs", "MHz", "mJ");
  for (const json& j : records) {
    const std::string name = short_name(j.at("kernel"));
    if (j.contains("error")) {
      fmt::print("{:<32} not timed: {}\n", base::brief(name, 64), j.at("error").get<std::string>());
      continue;
    }
    fmt::print("{:<32} {:>12} {:>9} {:>10.2f} {:>8.2f} .. {:<8.2f} {:>8} {:>5.0f} {:>5.0f}% {:<9} {:>6.2f} {:>5} {:>6.0f} {:>9.3f}\n", name.substr(0, 32), shape(j, "grid"),
               shape(j, "block"), j.at("us").get<double>(), j.at("low_us").get<double>(), j.at("high_us").get<double>(), j.at("bound").get<std::string>(),
               100 * j.at("fraction").get<double>(), 100 * j.at("occupancy").get<double>(), j.at("limiter").get<std::string>(), j.at("waves").get<double>(),
               j.at("registers").get<int>(), j.at("clock_mhz").get<double>(), 1e3 * j.at("joules").get<double>());
  }
}

void print_notes(const std::vector<json>& records) {
  std::map<std::string, int> seen;
  for (const json& j : records)
    if (j.contains("notes"))
      for (const json& n : j.at("notes")) seen[n.get<std::string>()]++;
  for (const auto& [note, n] : seen) fmt::print("note ({} launches): {}\n", n, note);
}

void print_csv(const std::string& program, const std::vector<json>& records) {
  fmt::print("program,kernel,grid,block,us,cycles,instructions,dram_read,dram_write,l2_sectors,registers\n");
  for (const json& j : records) {
    if (j.contains("error")) {
      fmt::print("{},\"{}\",,,,,,,,,\n", program, short_name(j.at("kernel")));
      continue;
    }
    fmt::print("{},\"{}\",{},{},{:.3f},{:.0f},{:.0f},{:.0f},{:.0f},{:.0f},{}\n", program, short_name(j.at("kernel")), shape(j, "grid"), shape(j, "block"),
               j.at("us").get<double>(), j.at("cycles").get<double>(), j.at("instructions").get<double>(), j.at("dram_read").get<double>(),
               j.at("dram_write").get<double>(), j.at("l2_sectors").get<double>(), j.at("registers").get<int>());
  }
}

/// Says on stderr what could not be timed; true when there is something.
bool report_untimed(const std::vector<json>& records, bool chosen) {
  if (records.empty()) fmt::print(stderr, "orrery time: the program launched no kernel{}\n", chosen ? " that was asked for" : "");
  size_t untimed = 0;
  std::string first;
  for (const json& j : records)
    if (j.contains("error") && untimed++ == 0) first = fmt::format("{}: {}", base::brief(short_name(j.at("kernel"))), j.at("error").get<std::string>());
  if (untimed > 0) fmt::print(stderr, "orrery time: {} of {} launches not timed; the first: {}\n", untimed, records.size(), first);
  return untimed > 0;
}

int time_command(const std::vector<std::string>& words) {
  CLI::App app{"Predict the time of every kernel that a CUDA program launches.\nExample: orrery time --gpu h200 --cache warm -- ./app 1024", "orrery time"};
  TimeOptions options;
  bool csv = false;
  std::string json_file, report_file, trace_file;
  std::vector<std::string> program;
  app.add_option("--gpu", options.gpu, "GPU to predict for (default h200)");
  app.add_option("--cache", options.cache, "cold (flushed before each launch, the default) or warm (as the same launch left them)")
      ->check(CLI::IsMember({"cold", "warm"}));
  app.add_option("--results", options.results, "also run the kernels for their results: full, none, auto (long ones when something may look at them, and not when it would take minutes; launches after it then say so)")
      ->check(CLI::IsMember({"full", "none", "auto"}));
  app.add_option("--set", options.set, "what if: change a field of the GPU's profile, for example sm.count=144 or memory.bandwidth=8TB/s (repeatable)");
  app.add_option("--json", json_file, "write all records to this file");
  app.add_option("--report", report_file, "write a page that shows each launch: roofline, waits by line, traffic, timeline of one SM (one HTML file)");
  app.add_option("--trace", trace_file, "write the timeline of one SM of each launch as a trace that Perfetto opens");
  app.add_flag("--csv", csv, "one line of comma-separated values per launch");
  app.add_option("-k,--kernel-name", options.launches.kernel, "time launches of this kernel only: the function's name, or regex:EXPRESSION that matches in it");
  app.add_option("-s,--launch-skip", options.launches.skip, "pass over the first N launches (of such kernels)");
  app.add_option("-c,--launch-count", options.launches.count, "time N launches at most");
  app.add_flag("--kill", options.launches.kill, "end the program when as many have been timed");
  app.add_flag("--exact", options.exact, "no sampling: every block of the simulated SMs, every page of memory");
  app.add_flag("--no-ptxas", options.no_ptxas, "as on a machine without ptxas: a schedule of our own stands in, and the interval is wider");
  app.add_option("program", program, "the program and its arguments")->required();
  app.positionals_at_end();
  auto [own, rest] = split_at_program(words, {"--csv", "--exact", "--kill", "--no-ptxas", "-h", "--help"});
  if (!rest.empty()) own.push_back(rest[0]);
  std::vector<std::string> reversed(own.rbegin(), own.rend());
  try {
    app.parse(reversed);
    Profile profile = load_profile(options.gpu.empty() ? "h200" : options.gpu);
    for (const std::string& setting : options.set) set_from_text(profile, setting);
    timing::LaunchChoice{options.launches};
    for (const std::string& file : {json_file, report_file, trace_file}) require_writable(file);
    if (options.launches.count == 0) throw std::runtime_error("--launch-count 0 times nothing");
    if (options.launches.kill && options.launches.count == UINT64_MAX) throw std::runtime_error("--kill needs --launch-count: after how many launches?");
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery time: {}\n", error.what());
    return 2;
  }
  options.record = !report_file.empty() || !trace_file.empty();
  const Patience patience;
  auto [status, records] = time_program(options, rest);
  if (status > 128 && status < 160) fmt::print(stderr, "orrery time: the program was ended by signal {}; what follows was timed before\n", status - 128);
  if (status == 127) fmt::print(stderr, "orrery time: cannot start {}\n", rest[0]);
  if (csv) print_csv(fs::path(rest[0]).filename(), records);
  else print_table(records), print_notes(records);
  const report::Json all = report::Json::parse(json(records).dump());
  try {
    if (!report_file.empty()) write_or_throw(report_file, report::kernel_page(all));
    if (!trace_file.empty()) write_or_throw(trace_file, report::kernel_trace(all));
    if (!json_file.empty()) write_or_throw(json_file, json(records).dump(1) + "\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery time: {}\n", error.what());
    return 2;
  }
  if (status != 0) return 3;
  return report_untimed(records, !options.launches.kernel.empty() || options.launches.skip > 0) ? 1 : 0;
}

ORRERY_COMMAND(time, "predict how long a CUDA program's kernels take", time_command);

}  // namespace

std::pair<int, std::vector<json>> time_program(const TimeOptions& options, const std::vector<std::string>& program) {
  const fs::path file = fs::temp_directory_path() / fmt::format("orrery-time-{}.jsonl", getpid());
  fs::remove(file);
  if (!use_own_libraries()) return {127, {}};
  set("ORRERY_TIME", file.string());
  set("ORRERY_TIME_CACHE", options.cache);
  set("ORRERY_TIME_RESULTS", options.results);
  set("ORRERY_TIME_RECORD", options.record ? "1" : "0");
  set("ORRERY_TIME_EXACT", options.exact ? "1" : "0");
  std::string settings;
  for (const std::string& setting : options.set) settings += (settings.empty() ? "" : ";") + setting;
  set("ORRERY_TIME_SET", settings);
  set("ORRERY_TIME_KERNEL", options.launches.kernel);
  set("ORRERY_TIME_SKIP", std::to_string(options.launches.skip));
  set("ORRERY_TIME_COUNT", std::to_string(options.launches.count));
  set("ORRERY_TIME_KILL", options.launches.kill ? "1" : "0");
  set("ORRERY_QUIET", "1");
  if (!options.gpu.empty()) set("ORRERY_GPU", options.gpu);
  if (options.no_ptxas) set("ORRERY_PTXAS", "none");
  const int status = run_and_wait(program);
  std::vector<json> records;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (json j = json::parse(line, nullptr, false); !j.is_discarded()) records.push_back(std::move(j));
  fs::remove(file);
  // In the order of each program's calls: streams run side by side.
  std::stable_sort(records.begin(), records.end(), [](const json& a, const json& b) {
    return std::pair(a.value("process", 0), a.value("launch", 0)) < std::pair(b.value("process", 0), b.value("launch", 0));
  });
  for (json& j : records) j.erase("process");
  return {status, std::move(records)};
}

}  // namespace orrery::tools
