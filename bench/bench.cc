// bench/bench.cc: the speed of Orrery's compiled kernels against plain C++, PoCL and the limits of the machine.
//
// One table: for every kernel the CPU time (user + system of the process, all threads) of one run on two threads,
// median of several after one to warm up, of Orrery, of the same computation in plain C++ (-O3 -march=native, two
// threads) and of PoCL. Rates are per wall-clock second that two busy threads would need: CPU time / 2. Floors are the
// project's promises (docs/performance.md).
//
//   orrery_bench [--quick] [kernel ...]
#include <fmt/format.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "exec/launch.h"
#include "jit/compiler.h"
#include "lower/program.h"
#include "opencl.h"
#include "plain.h"
#include "ptx/module.h"

#ifdef ORRERY_HAVE_OPENBLAS
extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
extern "C" void openblas_set_num_threads(int);
#endif

namespace {

using namespace orrery;
constexpr int kThreads = 2;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

int repeats = 7;

/// Median CPU seconds of one call.
double measure(const std::function<void()>& f) {
  f();
  std::vector<double> times;
  for (int i = 0; i < repeats; i++) {
    const double start = cpu_seconds();
    f();
    times.push_back(cpu_seconds() - start);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Splits [0, n) between the threads in multiples of `unit`.
void on_threads(int n, int unit, const std::function<void(int, int, int)>& f) {
  std::vector<std::thread> threads;
  const int part = (n / unit + kThreads - 1) / kThreads * unit;
  for (int t = 0; t < kThreads; t++) threads.emplace_back([=, &f] { f(std::min(n, t * part), std::min(n, (t + 1) * part), t); });
  for (auto& t : threads) t.join();
}

struct Case {
  std::string name;
  exec::Dim3 grid, block;
  std::vector<Argument> args;
  std::function<void()> plain;
  double flops = 0, bytes = 0;      // of one run
  int result = -1;                  // argument to compare with the plain result, -1: none
  void* expected = nullptr;
  bool floats = true, sum = false;
};

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

class Runner {
 public:
  Runner() : compiler_(jit::mode_from_environment(jit::Mode::synchronous)) {
    std::vector<ptx::Diagnostic> diagnostics;
    module_ = ptx::parse(read_file(ORRERY_BENCH_PTX), diagnostics);
    for (const auto& d : diagnostics) fmt::print(stderr, "{}: {}\n", d.loc.line, d.message);
    machine_.memory = &memory_;
    machine_.code = &compiler_;
    machine_.options.threads = kThreads;
    machine_.options.parallel_atomics = true;
  }

  exec::DeviceMemory& memory() { return memory_; }

  void load(const Case& c) {
    for (uint32_t f = 0; f < module_.functions.size(); f++) {
      if (module_.functions[f].name != c.name) continue;
      lower::Addresses addresses;
      addresses.var.assign(module_.vars.size(), 0);
      addresses.function.assign(module_.functions.size(), 0);
      const lower::KernelPrograms programs = lower::lower_kernel(module_, f, addresses);
      launch_ = {};
      launch_.kernel = exec::make_kernel(programs, addresses);
      launch_.grid = c.grid;
      launch_.block = c.block;
      launch_.params.resize(programs.entry->param_bytes);
      for (size_t i = 0; i < c.args.size(); i++) {
        std::byte* to = launch_.params.data() + programs.entry->params[i].offset;
        if (c.args[i].host) std::memcpy(to, &c.args[i].host, 8);
        else std::memcpy(to, &c.args[i].value, 4);
      }
      instructions_ = programs.entry->code.size();
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
  }
  size_t instructions() const { return instructions_; }
  jit::Compiler::Timing timing() const { return compiler_.last_timing(); }

 private:
  ptx::Module module_;
  exec::DeviceMemory memory_;
  exec::Machine machine_;
  exec::Launch launch_;
  jit::Compiler compiler_;
  size_t instructions_ = 0;
};

/// Buffers live in device memory, which is host memory: plain C++ uses the same ones.
struct Buffers {
  exec::DeviceMemory& memory;
  std::mt19937 random{1};
  template <class T>
  T* make(size_t n) {
    T* p = reinterpret_cast<T*>(memory.allocate(n * sizeof(T), exec::MemoryKind::device, 0));
    if (!p) throw std::bad_alloc();
    return p;
  }
  float* floats(size_t n) {
    float* p = make<float>(n);
    for (size_t i = 0; i < n; i++) p[i] = float(random() % 2001) / 1000.0f - 1.0f;
    return p;
  }
};

template <class T>
Argument buffer(T* p, size_t n) { return {const_cast<std::remove_const_t<T>*>(p), n * sizeof(T), 0}; }
Argument number(int v) { return {nullptr, 0, v}; }

std::vector<Case> make_cases(Buffers& b, bool quick) {
  std::vector<Case> cases;
  auto blocks = [](int n, int per) { return uint32_t((n + per - 1) / per); };
  {
    const int n = quick ? 4 << 20 : 64 << 20;
    float *x = b.floats(size_t(n)), *y = b.floats(size_t(n)), *z = b.floats(size_t(n)), *r = b.make<float>(size_t(n));
    cases.push_back({"vadd", {blocks(n, 256)}, {256}, {buffer(x, n), buffer(y, n), buffer(z, n), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::vadd(x, y, r, f, l); }); }, 0, 12.0 * n, 2, r});
    const size_t parts = size_t(n) / 4096;
    float* part = b.make<float>(parts + 2);
    cases.push_back({"reduce", {uint32_t(parts)}, {256}, {buffer(x, n), buffer(part, parts), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int t) { part[parts + size_t(t)] = plain::reduce(x, f, l); }); }, 0, 4.0 * n});
  }
  {
    const int n = quick ? 512 : 1024;
    float *x = b.floats(size_t(n) * n), *y = b.floats(size_t(n) * n), *z = b.make<float>(size_t(n) * n), *r = b.make<float>(size_t(n) * n);
    auto plain_gemm = [=] { on_threads(n, 1, [=](int f, int l, int) { plain::sgemm(x, y, r, n, f, l); }); };
    const double flops = 2.0 * n * n * n;
    const std::vector<Argument> args{buffer(x, size_t(n) * n), buffer(y, size_t(n) * n), buffer(z, size_t(n) * n), number(n)};
    cases.push_back({"sgemm_naive", {uint32_t(n / 16), uint32_t(n / 16)}, {16, 16}, args, plain_gemm, flops, 0, 2, r});
    cases.push_back({"sgemm_tiled", {uint32_t(n / 32), uint32_t(n / 32)}, {32, 32}, args, plain_gemm, flops, 0, 2, r});
  }
  {
    const int n = quick ? 512 : 2048, limit = 256;
    int *z = b.make<int>(size_t(n) * n), *r = b.make<int>(size_t(n) * n);
    cases.push_back({"mandelbrot", {uint32_t(n / 16), uint32_t(n / 16)}, {16, 16}, {buffer(z, size_t(n) * n), number(n), number(limit)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::mandelbrot(r, n, limit, f, l); }); }});
  }
  {
    const int n = quick ? 1024 : 4096;
    const size_t all = size_t(n) * n;
    float *x = b.floats(all), *z = b.make<float>(all), *r = b.make<float>(all), *w = b.floats(25);
    const exec::Dim3 tiles{uint32_t(n / 32), uint32_t(n / 32)}, fine{uint32_t(n / 32), uint32_t(n / 8)};
    cases.push_back({"transpose", tiles, {32, 8}, {buffer(x, all), buffer(z, all), number(n)},
                     [=] { on_threads(n, 32, [=](int f, int l, int) { plain::transpose(x, r, n, f, l); }); }, 0, 8.0 * double(all), 1, r});
    cases.push_back({"stencil", fine, {32, 8}, {buffer(x, all), buffer(z, all), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::stencil(x, r, n, f, l); }); }, 0, 8.0 * double(all)});
    cases.push_back({"convolve", fine, {32, 8}, {buffer(x, all), buffer(w, 25), buffer(z, all), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::convolve(x, w, r, n, f, l); }); }, 50.0 * double(all)});
  }
  {
    const int n = quick ? 2048 : 8192;
    float *x = b.floats(4 * size_t(n)), *z = b.make<float>(4 * size_t(n)), *r = b.make<float>(4 * size_t(n));
    cases.push_back({"nbody", {uint32_t(n / 256)}, {256}, {buffer(x, 4 * size_t(n)), buffer(z, 4 * size_t(n)), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::nbody(x, r, n, f, l); }); }, 20.0 * n * n});
  }
  {
    const int n = quick ? 1 << 20 : 16 << 20;
    auto* x = b.make<unsigned char>(size_t(n));
    for (int i = 0; i < n; i++) x[i] = static_cast<unsigned char>(b.random());
    unsigned *z = b.make<unsigned>(256), *r = b.make<unsigned>(512);
    cases.push_back({"histogram", {256}, {256}, {buffer(x, size_t(n)), buffer(z, 256), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int t) { plain::histogram(x, r + 256 * t, f, l); }); }, 0, double(n)});
  }
  {
    const int n = quick ? 1 << 16 : 1 << 19, per = 16;
    int *row = b.make<int>(size_t(n) + 1), *col = b.make<int>(size_t(n) * per);
    float *val = b.floats(size_t(n) * per), *x = b.floats(size_t(n)), *z = b.make<float>(size_t(n)), *r = b.make<float>(size_t(n));
    int at = 0;
    for (int i = 0; i < n; i++) {
      row[i] = at;
      const int count = int(b.random() % (2 * per - 1));
      for (int k = 0; k < count && at < n * per; k++) col[at++] = int(std::min<int64_t>(n - 1, std::max<int64_t>(0, i + int64_t(b.random() % 2000) - 1000)));
    }
    row[n] = at;
    cases.push_back({"spmv", {blocks(n, 256)}, {256},
                     {buffer(row, size_t(n) + 1), buffer(col, size_t(n) * per), buffer(val, size_t(n) * per), buffer(x, size_t(n)), buffer(z, size_t(n)), number(n)},
                     [=] { on_threads(n, 1, [=](int f, int l, int) { plain::spmv(row, col, val, x, r, f, l); }); }, 2.0 * at, 8.0 * at});
  }
  {
    const int n = quick ? 1 << 20 : 16 << 20;
    int *x = b.make<int>(size_t(n)), *z = b.make<int>(size_t(n)), *r = b.make<int>(size_t(n));
    for (int i = 0; i < n; i++) x[i] = int(b.random() % 100);
    cases.push_back({"scan", {uint32_t(n / 256)}, {256}, {buffer(x, size_t(n)), buffer(z, size_t(n)), number(n)},
                     [=] { on_threads(n, 256, [=](int f, int l, int) { plain::scan(x, r, f, l); }); }, 0, 8.0 * n, 1, r, false});
    auto *u = reinterpret_cast<unsigned*>(x), *v = reinterpret_cast<unsigned*>(z), *e = reinterpret_cast<unsigned*>(r);
    const int m = n / 4;
    cases.push_back({"integers", {blocks(m, 256)}, {256}, {buffer(u, size_t(n)), buffer(v, size_t(n)), number(m)},
                     [=] { on_threads(m, 1, [=](int f, int l, int) { plain::integers(u, e, f, l); }); }});
  }
  return cases;
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

double fma_peak() {
  double best = 0;
  for (int i = 0; i < 3; i++) {
    float sink = 0;
    const double start = cpu_seconds(), flops = plain::multiply_add(20, &sink);
    best = std::max(best, flops / (cpu_seconds() - start));
  }
  return best * kThreads;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted;
  bool quick = false;
  for (int i = 1; i < argc; i++) {
    if (std::string(argv[i]) == "--quick") quick = true;
    else wanted.push_back(argv[i]);
  }
  if (quick) repeats = 5;
  Runner runner;
  Buffers buffers{runner.memory()};
  const std::vector<Case> cases = make_cases(buffers, quick);
  const auto cl = OpenCl::open(read_file(ORRERY_BENCH_CL));
  const double peak = fma_peak();
  fmt::print("{} threads, CPU time per run; FMA peak {:.0f} Gflop/s; {}\n\n", kThreads, peak * 1e-9, cl ? cl->name() : "no OpenCL platform");
  fmt::print("{:<12} {:>6} {:>8} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8}  {}\n", "kernel", "PTX", "compile", "Orrery", "plain", "PoCL", "vs plain",
             "vs PoCL", "of peak", "floor");
  double log_sum = 0;
  int n_pocl = 0;
  bool all_met = true;
  for (const Case& c : cases) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), c.name) == wanted.end()) continue;
    runner.load(c);
    const double ours = measure([&] { runner.run(); });
    const auto timing = runner.timing();
    const double theirs = measure(c.plain);
    double pocl = 0;
    if (cl && cl->prepare(c.name, c.args)) {
      const size_t local[2] = {c.block.x, c.block.y}, global[2] = {size_t{c.grid.x} * c.block.x, size_t{c.grid.y} * c.block.y};
      pocl = measure([&] { cl->run(global, local); });
      cl->release();
      log_sum += std::log(pocl / ours), n_pocl++;
    }
    const double of_peak = c.flops ? c.flops / (ours / kThreads) / peak : 0;
    std::string floor;
    auto check = [&](double value, double least, const char* what) {
      all_met &= value >= least;
      floor = fmt::format("{} >= {} {}", what, least, value >= least ? "met" : "MISSED");
    };
    if (c.name == "vadd" || c.name == "reduce") check(theirs / ours, 0.8, "plain");
    if (c.name == "sgemm_naive") check(of_peak, 0.10, "peak");
    if (c.name == "sgemm_tiled") check(of_peak, 0.25, "peak");
    if (c.name == "mandelbrot") check(theirs / ours, 5, "plain");
    if (!agrees(c)) floor += " WRONG RESULT", all_met = false;
    fmt::print("{:<12} {:>6} {:>6.0f}ms {:>7.1f}ms {:>7.1f}ms {:>7.1f}ms {:>7.2f}x {:>7.2f}x {:>8}  {}\n", c.name, runner.instructions(),
               timing.emit + timing.compile + timing.link, ours * 1e3, theirs * 1e3, pocl * 1e3, theirs / ours, pocl / ours,
               of_peak ? fmt::format("{:.2f}", of_peak) : "", floor);
    fflush(stdout);
  }
  if (n_pocl) {
    const double mean = std::exp(log_sum / n_pocl);
    fmt::print("\ngeometric mean of {} kernels: {:.2f}x less CPU time than PoCL (floor 5 {})\n", n_pocl, mean, mean >= 5 ? "met" : "MISSED");
    all_met &= mean >= 5 || n_pocl < 10;
  }
  return all_met ? 0 : 1;
}
