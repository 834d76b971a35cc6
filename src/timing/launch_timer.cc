// timing/launch_timer.cc: see launch_timer.h.
#include "timing/launch_timer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "exec/decode.h"
#include "profile/what_if.h"
#include "timing/launch_choice.h"
#include "timing/predict.h"

namespace orrery::timing {

namespace {

constexpr double kTooLong = 4e8;  // PTX warp instructions that are not worth running for results alone

std::string setting(const char* name, const char* otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? v : otherwise;
}

/// A number from the environment; what is none is told and passed over.
uint64_t number(const char* name, uint64_t otherwise) {
  const std::string text = setting(name, "");
  if (text.empty()) return otherwise;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  fmt::print(stderr, "orrery time: {}={} is not a number: {} is taken\n", name, text, otherwise);
  return otherwise;
}

/// Of PTX warp instructions; there is always one.
uint64_t budget(const char* name, uint64_t otherwise) { return std::max<uint64_t>(number(name, otherwise), 1); }

LaunchFilter filter_from_environment() {
  LaunchFilter filter;
  filter.kernel = setting("ORRERY_TIME_KERNEL", "");
  filter.skip = number("ORRERY_TIME_SKIP", filter.skip);
  filter.count = number("ORRERY_TIME_COUNT", filter.count);
  filter.kill = setting("ORRERY_TIME_KILL", "0") == std::string("1");
  return filter;
}

class ForkingTimer : public LaunchTimer {
 public:
  ForkingTimer(std::string file) : file_(std::move(file)), results_(setting("ORRERY_TIME_RESULTS", "auto")), choice_(filter_from_environment()) {
    options_.warm = setting("ORRERY_TIME_CACHE", "cold") == "warm";
    options_.exact = setting("ORRERY_TIME_EXACT", "0") == "1";
    options_.record = setting("ORRERY_TIME_RECORD", "0") == "1";
    options_.slope_budget = budget("ORRERY_TIME_SLOPE_BUDGET", options_.slope_budget);
    options_.trace_budget = budget("ORRERY_TIME_TRACE_BUDGET", options_.trace_budget);
    options_.detail_budget = budget("ORRERY_TIME_DETAIL_BUDGET", options_.detail_budget);
    options_.step_budget = budget("ORRERY_TIME_STEP_BUDGET", options_.step_budget);
  }

  bool launch(exec::Machine& machine, const exec::Launch& launch, const Profile& profile) override {
    const Choice choice = choice_.next(launch.kernel->entry->program->name);
    if (choice == Choice::end) end_program();
    if (choice == Choice::pass) return results_ != "none";
    int ends[2];
    if (pipe(ends) != 0) return true;
    const pid_t program = getpid();
    const pid_t child = machine.memory->fork_process();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for the answer of a program that has been killed
      if (getppid() != program) _exit(1);
      close(ends[0]);
      work(machine, launch, profile, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    double estimate = 0;
    const bool told = read(ends[0], &estimate, sizeof estimate) == ssize_t(sizeof estimate);
    close(ends[0]);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (child < 0 || !WIFEXITED(status)) write_error(launch, child < 0 ? "fork failed" : fmt::format("the model stopped (signal {})", WTERMSIG(status)));
    if (choice_.over()) end_program();
    if (results_ == "none") return false;
    return results_ == "full" || !told || estimate < kTooLong;
  }

 private:
  /// Ends the program where it is; what it has printed is kept, what it would do at its end is not done.
  [[noreturn]] static void end_program() {
    std::fflush(nullptr);
    _exit(0);
  }
  void append(const std::string& line) const {
    const int f = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (f < 0) return std::perror(("orrery time: " + file_).c_str());
    const std::string whole = line + "\n";
    if (write(f, whole.data(), whole.size()) < 0) std::perror("orrery time");
    close(f);
  }
  void write_error(const exec::Launch& launch, const std::string& what) const {
    nlohmann::ordered_json j;
    j["kernel"] = launch.kernel->entry->program->name;
    j["error"] = what;
    append(j.dump());
  }
  void work(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, int pipe_end) const {
    exec::Machine own = machine;
    own.code = nullptr;
    own.print = own.print_error = [](std::string_view) {};
    try {
      Profile changed = profile;
      const std::string settings = setting("ORRERY_TIME_SET", "");  // KEY=VALUE;KEY=VALUE
      for (size_t at = 0; at < settings.size();) {
        const size_t end = std::min(settings.find(';', at), settings.size());
        set_from_text(changed, std::string_view(settings).substr(at, end - at));
        at = end + 1;
      }
      const Prediction p = predict(own, launch, changed, options_, [&](double n) {
        if (write(pipe_end, &n, sizeof n) < 0) return;
      });
      append(to_json(p));
    } catch (const std::exception& e) {
      write_error(launch, e.what());
    }
  }

  const std::string file_, results_;
  PredictOptions options_;
  LaunchChoice choice_;
};

}  // namespace

std::unique_ptr<LaunchTimer> LaunchTimer::from_environment() {
  const std::string file = setting("ORRERY_TIME", "");
  if (file.empty()) return nullptr;
  return std::make_unique<ForkingTimer>(file);
}

}  // namespace orrery::timing
