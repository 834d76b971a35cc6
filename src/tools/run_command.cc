// `orrery run`; see run_command.h.
#include "tools/run_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "profile/profile.h"
#include "tools/command.h"
#include "tools/start_program.h"

namespace orrery::tools {
namespace {

namespace fs = std::filesystem;

struct RunOptions {
  std::string gpu, schedule, numerics, json;
  double timeout = 0;
  unsigned threads = 0, devices = 0;
  bool interpret = false, quiet = false;
};

void to_environment(const RunOptions& options) {
  if (!options.gpu.empty()) set("ORRERY_GPU", options.gpu);
  if (!options.schedule.empty()) set("ORRERY_SCHEDULE", options.schedule);
  if (!options.numerics.empty()) set("ORRERY_NUMERICS", options.numerics);
  if (!options.json.empty()) set("ORRERY_JSON", fs::absolute(options.json).string());
  if (options.timeout > 0) set("ORRERY_TIMEOUT", fmt::format("{}", options.timeout));
  if (options.threads) set("ORRERY_THREADS", std::to_string(options.threads));
  if (options.devices) set("ORRERY_DEVICES", std::to_string(options.devices));
  if (options.interpret) set("ORRERY_INTERPRET", "1");
  if (options.quiet) set("ORRERY_QUIET", "1");
}

std::string check(const RunOptions& options) {
  if (!options.schedule.empty() && !options.schedule.starts_with("random:")) return "--schedule takes random:SEED";
  if (!options.numerics.empty() && options.numerics != "exact" && options.numerics != "fast") return "--numerics takes exact or fast";
  if (!options.gpu.empty()) load_profile(options.gpu);
  return "";
}

int start(const std::vector<std::string>& program) {
  if (!use_own_libraries()) {
    fmt::print(stderr, "orrery run: liborrery_cuda.so is not in ../lib beside the program orrery\n");
    return 4;
  }
  become(program);
  fmt::print(stderr, "orrery run: cannot start {}: {}\n", program[0], std::strerror(errno));
  return 127;
}

}  // namespace

int run_command(const std::vector<std::string>& words) {
  CLI::App app{"Run a CUDA program on a simulated GPU.\nExample: orrery run --gpu h200 -- ./app 1024", "orrery run"};
  RunOptions options;
  std::vector<std::string> program;
  app.add_option("--gpu", options.gpu, "GPU to stand in for (`orrery gpus` lists them; default h200)");
  app.add_option("--devices", options.devices, "number of such GPUs (default 1)");
  app.add_option("--schedule", options.schedule, "random:SEED explores another order of warps and blocks");
  app.add_option("--timeout", options.timeout, "stop a kernel after this many seconds");
  app.add_option("--threads", options.threads, "worker threads (default: one per core)");
  app.add_option("--numerics", options.numerics, "exact (as the GPU) or fast");
  app.add_option("--json", options.json, "write a record of the run to this file");
  app.add_flag("--interpret", options.interpret, "do not compile kernels");
  app.add_flag("--quiet", options.quiet, "no fidelity line");
  app.add_option("program", program, "the program and its arguments")->required();
  app.positionals_at_end();
  auto [own, rest] = split_at_program(words, {"--interpret", "--quiet", "-h", "--help"});
  if (!rest.empty()) own.push_back(rest[0]);
  std::vector<std::string> reversed(own.rbegin(), own.rend());
  try {
    app.parse(reversed);
    if (std::string wrong = check(options); !wrong.empty()) {
      fmt::print(stderr, "orrery run: {}\n", wrong);
      return 2;
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "orrery run: {}\n", error.what());
    return 2;
  }
  to_environment(options);
  return start(rest);
}

ORRERY_COMMAND(run, "run a CUDA program on a simulated GPU", run_command);

}  // namespace orrery::tools
