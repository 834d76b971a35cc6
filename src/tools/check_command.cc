// tools/check_command.cc: `orrery check`: runs a CUDA program as `orrery run` does, with checks, and reports mistakes.
//
// The program's process finds (src/sanitize) and appends findings to a file of this process, which prints them when the
// program has ended. Exit status: 0 nothing found and the program ended well, 1 something found, 2 wrong usage,
// 3 nothing found but the program failed; --error-exitcode changes the 1.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profile/profile.h"
#include "sanitize/collector.h"
#include "sanitize/options.h"
#include "sanitize/render.h"
#include "sanitize/suppress.h"
#include "report/report.h"
#include "tools/check_report.h"
#include "tools/command.h"
#include "tools/start_program.h"

namespace orrery::tools {
namespace {

struct CheckOptions {
  std::string checks = "all", gpu, schedule, json, sarif, html, suppress;
  double timeout = 0;
  unsigned devices = 0;
  int runs = 1, exit_code = 1;
  bool leaks = false, strict = false, copies = false, api_errors = false, numerics = false, fast = false;
};

/// A file that goes away with its owner.
struct ResultFile {
  std::string path;
  ResultFile() {
    path = (std::filesystem::temp_directory_path() / "orrery-check-XXXXXX").string();
    if (const int fd = mkstemp(path.data()); fd >= 0) close(fd);
  }
  ~ResultFile() { unlink(path.c_str()); }
};

std::string wrong(CheckOptions& o, sanitize::Options& checks) {
  if (!o.schedule.empty() && !o.schedule.starts_with("random:")) return "--schedule takes random:SEED";
  if (!sanitize::add_checks(o.checks, checks)) {
    std::string names;
    for (const std::string& name : sanitize::all_checks()) names += " " + name;
    return fmt::format("--checks takes all or names from:{}", names);
  }
  if (o.fast) checks.checks = {"memcheck"};
  if (o.numerics) checks.checks.insert("numerics");
  if (o.runs < 1) return "--runs takes a number from 1";
  if (o.runs > 1 && o.schedule.empty()) o.schedule = "random:1";
  if (!o.gpu.empty()) load_profile(o.gpu);
  return "";
}

void to_environment(const CheckOptions& o, const sanitize::Options& checks, const std::string& file) {
  std::string names, flags;
  for (const std::string& name : checks.checks) names += (names.empty() ? "" : ",") + name;
  if (o.leaks) flags += "leaks,";
  if (o.api_errors) flags += "api-errors,";
  if (o.strict) flags += "strict,";
  if (o.copies) flags += "copies,";
  if (o.fast) flags += "fast,";
  set("ORRERY_CHECK", names);
  set("ORRERY_CHECK_FLAGS", flags);
  set("ORRERY_CHECK_OUT", file);
  set("ORRERY_QUIET", "1");
  if (!o.gpu.empty()) set("ORRERY_GPU", o.gpu);
  if (o.timeout > 0) set("ORRERY_TIMEOUT", fmt::format("{}", o.timeout));
  if (o.devices) set("ORRERY_DEVICES", std::to_string(o.devices));
}

bool write(const std::string& path, const std::string& text) {
  if (path == "-") return fmt::print("{}", text), true;
  std::ofstream out(path);
  return bool(out << text);
}

int check_program(const CheckOptions& o, const sanitize::Options& checks, const std::vector<std::string>& program) {
  const auto rules = o.suppress.empty() ? std::vector<sanitize::Rule>{} : sanitize::read_rules(o.suppress);
  const uint64_t seed = o.schedule.empty() ? 0 : std::strtoull(o.schedule.c_str() + 7, nullptr, 10);
  std::vector<sanitize::Finding> findings;
  sanitize::CheckedRun run{program, 0, {checks.checks.begin(), checks.checks.end()}, o.runs};
  for (int i = 0; i < o.runs; i++) {
    ResultFile file;
    to_environment(o, checks, file.path);
    if (!o.schedule.empty()) set("ORRERY_SCHEDULE", fmt::format("random:{}", seed + uint64_t(i)));
    run.exit_status = run_and_wait(program);
    sanitize::merge(findings, sanitize::read_results(file.path));
    if (run.exit_status == 127) {
      fmt::print(stderr, "orrery check: cannot start {}\n", program[0]);
      return 127;
    }
  }
  sanitize::tidy(findings);
  const auto suppressed = sanitize::suppress(rules, findings);
  if (o.json != "-") fmt::print(stderr, "{}", sanitize::render_text(run, findings, suppressed));
  bool written = true;
  if (!o.json.empty()) written &= write(o.json, sanitize::render_json(run, findings, suppressed));
  if (!o.sarif.empty()) written &= write(o.sarif, sanitize::render_sarif(run, findings, suppressed));
  if (!o.html.empty()) written &= write(o.html, report::to_html(check_document(run, findings)));
  if (!written) {
    fmt::print(stderr, "orrery check: cannot write {} {} {}\n", o.json, o.sarif, o.html);
    return 4;
  }
  if (!findings.empty()) return o.exit_code;
  return run.exit_status ? 3 : 0;
}

int check_command(const std::vector<std::string>& words) {
  CLI::App app{"Find the mistakes in a CUDA program, without a GPU.\nExample: orrery check -- ./app 1024", "orrery check"};
  CheckOptions o;
  std::vector<std::string> program;
  app.add_option("--checks", o.checks, "all, or some of memcheck,initcheck,racecheck,synccheck,asynccheck,apicheck,numerics");
  app.add_option("--gpu", o.gpu, "GPU to stand in for (default h200)");
  app.add_option("--devices", o.devices, "number of such GPUs (default 1)");
  app.add_option("--schedule", o.schedule, "random:SEED explores another order of warps and blocks");
  app.add_option("--runs", o.runs, "run so many times, with SEED, SEED + 1, ...");
  app.add_option("--timeout", o.timeout, "stop a kernel after this many seconds");
  app.add_option("--json", o.json, "write findings to this file as JSON (- for standard output)");
  app.add_option("--sarif", o.sarif, "write findings to this file as SARIF 2.1.0");
  app.add_option("--html", o.html, "write findings to this file as one HTML page, hangs as a drawing of who waits for whom");
  app.add_option("--suppress", o.suppress, "rules for findings that are not to be reported");
  app.add_option("--error-exitcode", o.exit_code, "exit status when something is found (default 1)");
  app.add_flag("--leaks", o.leaks, "report memory that is never freed");
  app.add_flag("--api-errors", o.api_errors, "report launches that were refused, also when the program looks at the error");
  app.add_flag("--strict", o.strict, "also report races that write equal values");
  app.add_flag("--copies", o.copies, "report uninitialised bytes that are copied to the host");
  app.add_flag("--fast", o.fast, "memcheck only, at the speed of `orrery run`, with less detail");
  app.add_flag("--numerics", o.numerics, "also look for NaN, Inf and overflow in results");
  app.add_option("program", program, "the program and its arguments")->required();
  app.positionals_at_end();
  auto [own, rest] = split_at_program(words, {"--leaks", "--strict", "--copies", "--api-errors", "--numerics", "--fast", "-h", "--help"});
  if (!rest.empty()) own.push_back(rest[0]);
  sanitize::Options checks;
  try {
    app.parse(std::vector<std::string>(own.rbegin(), own.rend()));
    if (std::string text = wrong(o, checks); !text.empty()) {
      fmt::print(stderr, "orrery check: {}\n", text);
      return 2;
    }
    return check_program(o, checks, rest);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery check: {}\n", error.what());
    return 2;
  }
}

ORRERY_COMMAND(check, "find the mistakes in a CUDA program", check_command);

}  // namespace
}  // namespace orrery::tools
