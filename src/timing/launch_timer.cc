// timing/launch_timer.cc: see launch_timer.h.
#include "timing/launch_timer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <compare>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/demangle.h"
#include "exec/decode.h"
#include "profile/what_if.h"
#include "timing/launch_choice.h"
#include "timing/predict.h"

namespace orrery::timing {

namespace {

// PTX warp instructions of a launch that is always run for its results, of one that is while there is time, and of all such (two cores run some
// 80 million a second).
constexpr double kAtOnce = 1e6;  // PTX warp instructions of a launch that is run whether or not anything looks at its results
constexpr double kQuick = 4e8, kLong = 4e9, kLongTogether = 1.6e10;

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

/// What a launch's time follows from where nothing in memory decides on it.
struct Arguments {
  std::shared_ptr<const exec::Kernel> kernel;  // kept, so that no other one comes to lie where it was
  std::array<uint64_t, 12> shape;
  std::vector<std::byte> params;
  Arguments(const exec::Launch& l)
      : kernel(l.kernel), shape{l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z, l.cluster.x, l.cluster.y, l.cluster.z, l.in_clusters, l.dynamic_shared, l.cooperative}, params(l.params) {}
  auto operator<=>(const Arguments&) const = default;
};

/// What was predicted for such a launch: the estimate of its instructions, and its record.
struct Known {
  double estimate = 0;
  std::vector<uint64_t> managed;  // allocations of which it touches something
  std::string line;
};

/// All that comes out of a pipe.
std::string read_all(int end) {
  std::string all;
  char piece[4096];
  for (ssize_t n; (n = read(end, piece, sizeof piece)) > 0;) all.append(piece, size_t(n));
  return all;
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

  Turn turn(const std::string& mangled) override { return choice_.next(mangled); }

  bool knows(exec::Machine& machine, const exec::Launch& launch) override {
    std::lock_guard lock(mutex_);
    return known(machine, launch) != known_.end();
  }

  Results launch(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const Turn& turn) override {
    std::unique_lock lock(mutex_);
    process_ = getpid();
    if (turn.choice == Choice::end) {  // others that came before may still be at it in other streams
      one_more_.wait(lock, [&] { return choice_.over(timed_); });
      end_program();
    }
    launches_++;
    if (turn.choice == Choice::pass) return results_ != "none" ? Results::now : Results::none;
    const Results results = time(machine, launch, profile, turn);
    timed_++;
    if (choice_.over(timed_)) end_program();
    one_more_.notify_all();
    return results;
  }

 private:
  std::map<Arguments, Known>::const_iterator known(const exec::Machine& machine, const exec::Launch& launch) const {
    const auto found = known_.find(Arguments(launch));
    return found != known_.end() && on_gpu(*machine.memory, found->second.managed) ? found : known_.end();
  }

  Results time(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const Turn& turn) {
    if (const auto again = known(machine, launch); again != known_.end()) {
      append_again(again->second, turn);
      return results_of(launch, again->second.estimate);
    }
    int ends[2];
    if (pipe(ends) != 0) return Results::now;
    const pid_t program = getpid();
    const pid_t child = machine.memory->fork_process();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for the answer of a program that has been killed
      if (getppid() != program) _exit(1);
      close(ends[0]);
      work(machine, launch, profile, turn, ends[1]);
      _exit(0);
    }
    close(ends[1]);
    const std::string answer = read_all(ends[0]);  // the estimate, and what can be told again
    close(ends[0]);
    Known found;
    const bool told = answer.size() >= sizeof found.estimate;
    if (told) take(answer, found);
    for (const uint64_t address : found.managed) machine.memory->settle(address, true);
    int status = 0;
    if (child > 0) waitpid(child, &status, 0);
    if (child < 0 || !WIFEXITED(status)) write_error(launch, turn, child < 0 ? "fork failed" : fmt::format("the model stopped (signal {})", WTERMSIG(status)));
    if (!found.line.empty() && known_.size() < kMostKnown) known_.insert_or_assign(Arguments(launch), found);
    return told ? results_of(launch, found.estimate) : results_ != "none" ? Results::now : Results::none;
  }

  static constexpr size_t kMostKnown = 4096;

  static bool on_gpu(const exec::DeviceMemory& memory, const std::vector<uint64_t>& managed) {
    return std::all_of(managed.begin(), managed.end(), [&](uint64_t address) {
      const auto a = memory.find(address);
      return a && a->on_gpu;
    });
  }
  /// What work() has written: an estimate, and as soon as all is known the managed memory, its count first, and a line.
  static void take(const std::string& answer, Known& into) {
    std::memcpy(&into.estimate, answer.data(), sizeof into.estimate);
    size_t at = sizeof into.estimate;
    uint64_t n = 0;
    if (answer.size() < at + sizeof n) return;
    std::memcpy(&n, answer.data() + at, sizeof n), at += sizeof n;
    if ((answer.size() - at) / sizeof n < n) return;
    into.managed.resize(n);
    std::memcpy(into.managed.data(), answer.data() + at, n * sizeof n);
    into.line = answer.substr(at + n * sizeof n);
  }
  static void give(int pipe_end, const void* data, size_t bytes) {
    for (size_t at = 0; at < bytes;) {
      const ssize_t n = write(pipe_end, static_cast<const char*>(data) + at, bytes - at);
      if (n <= 0) return;
      at += size_t(n);
    }
  }

  /// Is a launch of so many PTX warp instructions run for its results? Those that are not are named with what comes after.
  Results results_of(const exec::Launch& launch, double estimate) {
    if (results_ == "full" || (results_ == "auto" && estimate < kAtOnce)) return Results::now;
    if (results_ == "auto" && estimate < kQuick) return Results::when_asked;
    if (results_ == "auto" && estimate < kLong && run_long_ + estimate < kLongTogether) {
      run_long_ += estimate;
      return Results::when_asked;
    }
    if (without_results_++ == 0) first_without_ = base::demangled(launch.kernel->entry->program->name);
    return Results::none;
  }
  /// The record of a launch that was predicted before.
  void append_again(const Known& known, const Turn& turn) const {
    auto j = nlohmann::ordered_json::parse(known.line);
    j["notes"].push_back("as another launch with the same arguments: nothing in memory decides on its time; energy by the data of that one");
    j["host_seconds"] = 0.0;
    for (auto& [key, value] : j["host"].items()) value = 0;
    append(j.dump(), turn);
  }
  /// Ends the program where it is; what it has printed is kept, what it would do at its end is not done.
  [[noreturn]] static void end_program() {
    std::fflush(nullptr);
    _exit(0);
  }
  /// A record, with its place among the launches of its process (of which a child of that one writes it).
  void append(const std::string& line, const Turn& turn) const {
    const int f = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (f < 0) return std::perror(("orrery time: " + file_).c_str());
    const std::string whole = fmt::format("{{\"launch\":{},\"process\":{},{}\n", turn.number, process_, line.substr(1));
    if (write(f, whole.data(), whole.size()) < 0) std::perror("orrery time");
    close(f);
  }
  void write_error(const exec::Launch& launch, const Turn& turn, const std::string& what) const {
    nlohmann::ordered_json j;
    j["kernel"] = launch.kernel->entry->program->name;
    j["error"] = what;
    append(j.dump(), turn);
  }
  void work(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const Turn& turn, int pipe_end) const {
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
      Prediction p = predict(own, launch, changed, options_, [&](double n) {
        give(pipe_end, &n, sizeof n);
      });
      if (without_results_ > 0 && !p.by_arguments) p.notes.push_back(missing_results());
      const std::string line = to_json(p);
      if (launches_ == 1 && !options_.warm && changed.has(FieldId::timing_launch_first_l2)) {  // not of the same launch later on
        const double more = changed.timing_launch_first_l2().value() / 32;
        p.l2_sectors += more, p.fabric_sectors += more / 2;
      }
      append(launches_ == 1 || p.moved.bytes() > 0 ? to_json(with_moves(p, changed)) : line, turn);
      const uint64_t managed = p.moved.from.size();
      give(pipe_end, &managed, sizeof managed), give(pipe_end, p.moved.from.data(), managed * sizeof managed);
      if (p.by_arguments && !options_.record) give(pipe_end, line.data(), line.size());
    } catch (const std::exception& e) {
      write_error(launch, turn, e.what());
    }
  }

  std::string missing_results() const {
    return fmt::format("{} launch{} before this one ({} first) had no results: where data decide, other data did; --results full computes all", without_results_,
                       without_results_ == 1 ? "" : "es", first_without_);
  }

  const std::string file_, results_;
  double run_long_ = 0;           // PTX warp instructions of long launches that were run
  size_t launches_ = 0;           // of the program so far
  size_t without_results_ = 0;    // launches
  std::string first_without_;
  std::map<Arguments, Known> known_;
  PredictOptions options_;
  LaunchChoice choice_;
  pid_t process_ = 0;                 // that launched last
  std::mutex mutex_;                  // streams come from threads of their own
  std::condition_variable one_more_;  // has been timed
  uint64_t timed_ = 0;
};

}  // namespace

std::unique_ptr<LaunchTimer> LaunchTimer::from_environment() {
  const std::string file = setting("ORRERY_TIME", "");
  if (file.empty()) return nullptr;
  return std::make_unique<ForkingTimer>(file);
}

}  // namespace orrery::timing
