// bench/bench.cc: the speed of Orrery's compiled kernels against plain C++, PoCL, OpenBLAS and the limits of the machine.
//
// One table: for every kernel the CPU time (user + system of the process, all threads) of one run on two threads, of
// Orrery, of the same computation in plain C++ (-O3 -march=native, two threads), of PoCL and (matrix products) of
// OpenBLAS. They take turns, and the median over the turns is shown, so that other load on the machine meets all of them
// alike. Rates are per second that two busy threads would need: CPU time / 2. Floors are the project's promises
// (docs/performance.md).
//
// The columns memcheck and checks: CPU time of a run under `orrery check`, with memcheck alone and with all checks, as
// multiples of the run without.
//
//   orrery_bench [--quick] [--ptx FILE] [kernel ...]
//
// --ptx: the kernels as another compiler made them (`nvcc -ptx`), instead of those that clang made when this was built.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>

#include "cases.h"
#include "exec/launch.h"
#include "jit/compiler.h"
#include "limits.h"
#include "lower/program.h"
#include "measure.h"
#include "opencl.h"
#include "ptx/module.h"
#include "sanitize/checker.h"

namespace {

using namespace orrery;
using bench::cpu_seconds;
using bench::measure;
using bench::Case;
using bench::kThreads;

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

class Runner {
 public:
  /// `checks`: as `orrery check --checks` has them; null: none.
  Runner(exec::DeviceMemory& memory, const std::string& ptx, const char* checks) : memory_(memory) {
    std::vector<ptx::Diagnostic> diagnostics;
    module_ = ptx::parse(read_file(ptx), diagnostics);
    for (const auto& d : diagnostics) fmt::print(stderr, "{}: {}\n", d.loc.line, d.message);
    if (checks) {
      sanitize::Options options;
      sanitize::add_checks(checks, options);
      checker_ = std::make_unique<sanitize::Checker>(options, memory);
      machine_.observer = checker_.get();
    }
    observe_ = checker_ ? checker_->wants() : 0;
    compiler_ = std::make_unique<jit::Compiler>(jit::mode_from_environment(jit::Mode::synchronous), observe_);
    machine_.memory = &memory_;
    machine_.code = compiler_.get();
    machine_.options.threads = kThreads;
    machine_.options.parallel_atomics = true;
  }

  void load(const Case& c) {
    for (uint32_t f = 0; f < module_.functions.size(); f++) {
      if (module_.functions[f].name != c.name) continue;
      lower::Addresses addresses;
      addresses.var.assign(module_.vars.size(), 0);
      addresses.function.assign(module_.functions.size(), 0);
      const lower::KernelPrograms programs = lower::lower_kernel(module_, f, addresses);
      launch_ = {};
      launch_.kernel = exec::make_kernel(programs, addresses, observe_);
      launch_.grid = c.grid;
      launch_.block = c.block;
      launch_.params.resize(programs.entry->param_bytes);
      for (size_t i = 0; i < c.args.size(); i++) {
        std::byte* to = launch_.params.data() + programs.entry->params[i].offset;
        if (c.args[i].host) std::memcpy(to, &c.args[i].host, 8);
        else std::memcpy(to, &c.args[i].value, 4);
      }
      instructions_ = programs.entry->code.size();
      if (checker_) tell_of_buffers(c);
      return;
    }
    fmt::print(stderr, "no kernel {}\n", c.name);
    std::exit(1);
  }
  void run() {
    const exec::LaunchResult r = exec::execute(machine_, launch_);
    if (r.fault) {
      fmt::print(stderr, "{}\n", r.fault->message);
      std::exit(1);
    }
    compiled_ = r.native_blocks > 0;
  }
  bool compiled() const { return compiled_; }
  size_t instructions() const { return instructions_; }
  jit::Compiler::Timing timing() const { return compiler_->last_timing(); }
  size_t findings() { return checker_ ? checker_->findings().size() : 0; }

 private:
  /// The buffers were made and filled before anybody listened.
  void tell_of_buffers(const Case& c) {
    for (const Argument& a : c.args) {
      if (!a.host) continue;
      exec::Allocation made;
      made.address = reinterpret_cast<uint64_t>(a.host);
      made.size = a.bytes;
      checker_->allocated(made);
      exec::HostWork fill;
      fill.op = exec::HostOp::fill;
      fill.destination = made.address;
      fill.width = a.bytes;
      checker_->performed(fill);
    }
  }

  ptx::Module module_;
  exec::DeviceMemory& memory_;
  exec::Machine machine_;
  exec::Launch launch_;
  std::unique_ptr<sanitize::Checker> checker_;
  std::unique_ptr<jit::Compiler> compiler_;
  unsigned observe_ = 0;
  size_t instructions_ = 0;
  bool compiled_ = false;
};

/// CPU seconds of one checked run, after one to warm up where that is short.
double cost_of(Runner& runner, const Case& c) {
  runner.load(c);
  double seconds = 0;
  for (int round = 0; round < 2 && seconds < 2; round++) {
    const double start = cpu_seconds();
    runner.run();
    seconds = cpu_seconds() - start;
  }
  return seconds;
}

bool agrees(const Case& c) {
  if (c.result < 0) return true;
  const Argument& a = c.args[size_t(c.result)];
  if (!c.floats) return std::memcmp(a.host, c.expected, a.bytes) == 0;
  const float *x = static_cast<const float*>(a.host), *y = static_cast<const float*>(c.expected);
  for (size_t i = 0; i < a.bytes / 4; i++)
    if (std::fabs(x[i] - y[i]) > 1e-3f * (1 + std::fabs(y[i]))) return false;
  return true;
}

std::string milliseconds(double seconds) { return seconds > 0 ? fmt::format("{:.1f}ms", seconds * 1e3) : "-"; }

/// The promise for a kernel: empty when there is none.
struct Floor {
  double value = 0, least = 0;
  const char* of = "";
  bool met() const { return value >= least; }
};

Floor floor_of(const std::string& kernel, double vs_plain, double of_peak) {
  if (kernel == "vadd" || kernel == "reduce") return {vs_plain, 0.8, "plain"};
  if (kernel == "sgemm_naive") return {of_peak, 0.10, "peak"};
  if (kernel == "sgemm_tiled") return {of_peak, 0.25, "peak"};
  if (kernel == "mandelbrot") return {vs_plain, 5, "plain"};
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted;
  bool quick = false;
  std::string ptx = ORRERY_BENCH_PTX;
  for (int i = 1; i < argc; i++) {
    if (std::string(argv[i]) == "--quick") quick = true;
    else if (std::string(argv[i]) == "--ptx" && i + 1 < argc) ptx = argv[++i];
    else wanted.push_back(argv[i]);
  }
  auto is_wanted = [&](const std::string& name) { return wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end(); };
  const bench::AwakeCpus awake;
  exec::DeviceMemory memory;
  Runner runner(memory, ptx, nullptr), memcheck(memory, ptx, "memcheck"), all_checks(memory, ptx, "all");
  const std::vector<Case> cases = bench::make_cases(memory, quick, is_wanted);
  const auto cl = OpenCl::open(read_file(ORRERY_BENCH_CL));
  const double peak = limits::fma_peak(kThreads);
  fmt::print("{} threads, CPU time per run; FMA peak of {} threads together {:.0f} Gflop/s; {}\n\n", kThreads, kThreads, peak * 1e-9,
             cl ? cl->name() : "no OpenCL platform");
  fmt::print("{:<12} {:>5} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>7} {:>8} {:>8}  {}\n", "kernel", "PTX", "compile", "Orrery", "plain",
             "PoCL", "OpenBLAS", "vs plain", "vs PoCL", "of peak", "memcheck", "checks", "floor");
  double log_sum = 0;
  int n_pocl = 0;
  bool all_met = true;
  for (const Case& c : cases) {
    if (!is_wanted(c.name)) continue;
    runner.load(c);
    std::function<void()> pocl;
    if (cl && cl->prepare(c.name, c.args))
      pocl = [&] {
        const size_t local[2] = {c.block.x, c.block.y}, global[2] = {size_t{c.grid.x} * c.block.x, size_t{c.grid.y} * c.block.y};
        cl->run(global, local);
      };
    const auto t = measure({[&] { runner.run(); }, c.plain, pocl, c.blas}, quick ? 5 : 9);
    const double ours = t[0], plain = t[1];
    if (pocl) cl->release(), log_sum += std::log(t[2] / ours), n_pocl++;
    const auto timing = runner.timing();
    const double with_memcheck = cost_of(memcheck, c) / ours, with_all = cost_of(all_checks, c) / ours;
    const double of_peak = c.flops ? c.flops / (ours / kThreads) / peak : 0;
    const Floor least = floor_of(c.name, plain / ours, of_peak);
    std::string remarks = least.least > 0 ? fmt::format("{} >= {} {}", least.of, least.least, least.met() ? "met" : "MISSED") : "";
    if (!runner.compiled()) remarks += " interpreted";
    all_met &= least.met();
    if (const size_t n = memcheck.findings() + all_checks.findings()) remarks += fmt::format(" {} findings", n);
    if (!agrees(c)) remarks += " WRONG RESULT", all_met = false;
    fmt::print("{:<12} {:>5} {:>6.0f}ms {:>9} {:>9} {:>9} {:>9} {:>7.2f}x {:>8} {:>7} {:>7.1f}x {:>7.1f}x  {}\n", c.name, runner.instructions(),
               runner.compiled() ? timing.emit + timing.compile + timing.link : 0, milliseconds(ours), milliseconds(plain), milliseconds(t[2]),
               milliseconds(t[3]), plain / ours, pocl ? fmt::format("{:.2f}x", t[2] / ours) : "-",
               of_peak ? fmt::format("{:.2f}", of_peak) : "-", with_memcheck, with_all, remarks);
    fflush(stdout);
  }
  if (n_pocl) {
    const double mean = std::exp(log_sum / n_pocl);
    fmt::print("\ngeometric mean of {} kernels: {:.2f}x less CPU time than PoCL (floor 5 {})\n", n_pocl, mean, mean >= 5 ? "met" : "MISSED");
    all_met &= mean >= 5 || n_pocl < 10;
  }
  return all_met ? 0 : 1;
}
