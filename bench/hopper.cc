// bench/hopper.cc: the speed of Hopper's instructions: matrix products with TMA, mbarriers and wgmma in exact and in fast
// numerics against OpenBLAS's sgemm of the same size, and copies by TMA against memcpy.
//
// CPU time (user + system of the process, all threads) of one run on two threads, the median over rounds in which the
// contenders take turns. Floors are the project's promises (docs/performance.md). Results are compared with sums in
// double precision.
//
// --checks: what `orrery check` costs on the same kernels instead, as multiples of the CPU time of a plain run.
//
//   orrery_bench_hopper [--quick] [--checks]
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "exec/launch.h"
#include "exec/tensor_map.h"
#include "jit/compiler.h"
#include "limits.h"
#include "lower/program.h"
#include "measure.h"
#include "ptx/module.h"
#include "sanitize/checker.h"

namespace {

using namespace orrery;
using bench::measure;

constexpr unsigned kThreads = 2;
constexpr uint32_t kTypeU8 = 0, kTypeBf16 = 9, kSwizzle128 = 3;  // of the driver API

void on_threads(int n, const std::function<void(int, int)>& f) {
  std::thread other([&] { f(n / 2, n); });
  f(0, n / 2);
  other.join();
}

class Runner {
 public:
  /// `checks`: as `orrery check --checks` has them; null: none.
  explicit Runner(const char* checks = nullptr) {
    if (checks) {
      sanitize::Options options;
      sanitize::add_checks(checks, options);
      checker_ = std::make_unique<sanitize::Checker>(options, memory_);
      machine_.observer = checker_.get();
      observe_ = checker_->wants();
    }
    compiler_ = std::make_unique<jit::Compiler>(jit::mode_from_environment(jit::Mode::synchronous), observe_);
    std::ifstream in(ORRERY_BENCH_PTX);
    std::stringstream text;
    text << in.rdbuf();
    std::vector<ptx::Diagnostic> diagnostics;
    module_ = ptx::parse(text.str(), diagnostics);
    for (const auto& d : diagnostics) fmt::print(stderr, "{}: {}\n", d.loc.line, d.message);
    machine_.memory = &memory_;
    machine_.code = compiler_.get();
    machine_.options.threads = kThreads;
  }
  template <class T>
  T* make(size_t n) {
    T* p = reinterpret_cast<T*>(memory_.allocate(n * sizeof(T), exec::MemoryKind::device, 0));
    if (!p) throw std::bad_alloc();
    if (checker_) tell_of(p, n * sizeof(T));
    return p;
  }
  /// A map of rows of `columns` elements, copied in boxes of `rows_in_box` rows of 128 bytes.
  exec::TensorMap* map(uint32_t type, void* base, uint64_t columns, uint64_t rows, uint32_t rows_in_box) {
    exec::TensorMap* m = make<exec::TensorMap>(1);
    const uint64_t dims[2] = {columns, rows}, strides[1] = {columns * exec::tensor_element_bytes(type)};
    const uint32_t box[2] = {128 / exec::tensor_element_bytes(type), rows_in_box}, steps[2] = {1, 1};
    exec::TensorSpec spec;
    spec.type = type, spec.rank = 2, spec.address = reinterpret_cast<uint64_t>(base);
    spec.dims = dims, spec.strides = strides, spec.element_strides = steps, spec.swizzle = kSwizzle128;
    if (exec::encode_tiled(m, spec, box) != exec::EncodeStatus::ok) throw std::runtime_error("tensor map refused");
    return m;
  }
  void run(const char* name, exec::Dim3 grid, exec::Dim3 block, uint32_t shared, const std::vector<uint64_t>& args, bool fast) {
    exec::Launch& l = find(name);
    machine_.options.fast_numerics = fast;
    l.grid = grid, l.block = block, l.dynamic_shared = shared;
    for (size_t i = 0; i < args.size(); i++) std::memcpy(l.params.data() + offsets_[name][i], &args[i], sizes_[name][i]);
    const exec::LaunchResult r = exec::execute(machine_, l);
    if (r.fault) throw std::runtime_error(r.fault->message);
  }

 public:
  size_t findings() { return checker_ ? checker_->findings().size() : 0; }

 private:
  /// The memory was made before anybody listened, and the host writes it.
  void tell_of(void* p, size_t bytes) {
    exec::Allocation made;
    made.address = reinterpret_cast<uint64_t>(p);
    made.size = bytes;
    checker_->allocated(made);
    exec::HostWork fill;
    fill.op = exec::HostOp::fill;
    fill.destination = made.address;
    fill.width = bytes;
    checker_->performed(fill);
  }
  exec::Launch& find(const std::string& name) {
    if (const auto it = launches_.find(name); it != launches_.end()) return it->second;
    for (uint32_t f = 0; f < module_.functions.size(); f++) {
      if (module_.functions[f].name != name) continue;
      lower::Addresses addresses;
      addresses.var.assign(module_.vars.size(), 0);
      addresses.function.assign(module_.functions.size(), 0);
      const lower::KernelPrograms programs = lower::lower_kernel(module_, f, addresses);
      exec::Launch l;
      l.kernel = exec::make_kernel(programs, addresses, observe_);
      l.params.resize(programs.entry->param_bytes);
      for (const auto& p : programs.entry->params) offsets_[name].push_back(p.offset);
      for (size_t i = 0; i < offsets_[name].size(); i++)
        sizes_[name].push_back((i + 1 < offsets_[name].size() ? offsets_[name][i + 1] : l.params.size()) - offsets_[name][i] >= 8 ? 8 : 4);
      return launches_[name] = std::move(l);
    }
    throw std::runtime_error("no kernel " + name);
  }

  ptx::Module module_;
  exec::DeviceMemory memory_;
  exec::Machine machine_;
  std::unique_ptr<sanitize::Checker> checker_;
  unsigned observe_ = 0;
  std::unique_ptr<jit::Compiler> compiler_;
  std::map<std::string, exec::Launch> launches_;
  std::map<std::string, std::vector<size_t>> offsets_, sizes_;
};

float value_of_e4m3(uint8_t v) {
  const int x = v >> 3 & 15, man = v & 7;
  const float f = x ? std::ldexp(1 + float(man) / 8, x - 7) : std::ldexp(float(man) / 8, -6);
  return v & 0x80 ? -f : f;
}

/// A product of n x n matrices: its data in both formats, and what is right.
struct Product {
  const char* kernel;
  int n;
  std::vector<float> a, b;
  exec::TensorMap *map_a = nullptr, *map_b = nullptr;
  float* out = nullptr;

  Product(Runner& r, const char* name, int size, bool fp8) : kernel(name), n(size), a(size_t(size) * size_t(size)), b(a.size()) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& values) -> void* {
      uint16_t* wide = fp8 ? nullptr : r.make<uint16_t>(values.size());
      uint8_t* narrow = fp8 ? r.make<uint8_t>(values.size()) : nullptr;
      for (size_t i = 0; i < values.size(); i++) {
        if (fp8) {
          uint8_t v = uint8_t(random());
          if ((v & 0x7f) > 0x60) v &= 0xbf;  // ordinary sizes, no NaN
          values[i] = value_of_e4m3(narrow[i] = v);
        } else {
          wide[i] = uint16_t(std::bit_cast<uint32_t>(normal(random)) >> 16);
          values[i] = std::bit_cast<float>(uint32_t(wide[i]) << 16);
        }
      }
      return fp8 ? static_cast<void*>(narrow) : wide;
    };
    const uint32_t type = fp8 ? kTypeU8 : kTypeBf16;
    map_a = r.map(type, fill(a), uint64_t(n), uint64_t(n), 128);
    map_b = r.map(type, fill(b), uint64_t(n), uint64_t(n), 128);
    out = r.make<float>(a.size());
  }
  void run(Runner& r, bool fast) const {
    const uint32_t tiles = uint32_t(n) / 128;
    r.run(kernel, {tiles, tiles}, {384}, 4 * 32768 + 1024, {uint64_t(map_a), uint64_t(map_b), uint64_t(out), uint64_t(n)}, fast);
  }
  /// Largest error of some outputs, relative to the sum of the products' sizes.
  double error() const {
    double worst = 0;
    for (int i = 0; i < 997; i++) {
      const size_t row = size_t(i) * 37 % size_t(n), column = size_t(i) * 101 % size_t(n);
      double sum = 0, size = 0;
      for (size_t k = 0; k < size_t(n); k++) {
        const double p = double(a[row * size_t(n) + k]) * b[column * size_t(n) + k];
        sum += p, size += std::fabs(p);
      }
      worst = std::max(worst, std::fabs(out[row * size_t(n) + column] - sum) / size);
    }
    return worst;
  }
};

bool promise(const char* what, double value, bool met) {
  fmt::print("  {:<44} {:>6.2f}  {}\n", what, value, met ? "met" : "MISSED");
  return met;
}

bool products(Runner& r, int n, int rounds) {
  bool all = true;
  std::vector<float> x(size_t(n) * size_t(n), 0.5f), y(x), z(x);
  const bool have_blas = limits::blas_sgemm(x.data(), y.data(), z.data(), n, 0, 0);
  for (const bool fp8 : {false, true}) {
    const Product p(r, fp8 ? "gemm_e4m3" : "gemm_bf16", n, fp8);
    double errors[2];
    for (const bool fast : {false, true}) p.run(r, fast), errors[fast] = p.error();
    const auto blas = [&] { on_threads(n, [&](int first, int last) { limits::blas_sgemm(x.data(), y.data(), z.data(), n, first, last); }); };
    const auto t = measure({[&] { p.run(r, false); }, [&] { p.run(r, true); }, blas}, rounds);
    const double flops = 2.0 * n * n * n;
    fmt::print("{} {}^3: exact {:.1f} ms ({:.1f} Gflop/s a thread), fast {:.1f} ms ({:.1f}), OpenBLAS sgemm {:.1f} ms ({:.1f}); errors {:.1e}, {:.1e}\n", p.kernel, n,
               t[0] * 1e3, flops / t[0] * 1e-9, t[1] * 1e3, flops / t[1] * 1e-9, have_blas ? t[2] * 1e3 : 0.0, have_blas ? flops / t[2] * 1e-9 : 0.0, errors[0], errors[1]);
    if (have_blas) all &= promise("fast, of OpenBLAS (at least 0.5)", t[2] / t[1], t[2] / t[1] >= 0.5);
    all &= promise("exact, times fast (at most 6)", t[0] / t[1], t[0] / t[1] <= 6);
    all &= errors[0] < (fp8 ? 1e-2 : 1e-5) && errors[1] < 1e-5;
  }
  return all;
}

/// Copies of 32 KB boxes: into shared memory, out of it, and both, against memcpy of as many bytes into and out of 64 KB.
bool copies(Runner& r, size_t megabytes, int rounds) {
  const size_t bytes = megabytes << 20, rows = bytes / 128, box = 32768;
  const uint64_t boxes = 32;
  uint8_t *from = r.make<uint8_t>(bytes), *to = r.make<uint8_t>(bytes), *other = r.make<uint8_t>(bytes);
  for (size_t i = 0; i < bytes; i++) from[i] = uint8_t(i * 7 + i / 251);
  exec::TensorMap *map_from = r.map(kTypeU8, from, 128, rows, 256), *map_to = r.map(kTypeU8, to, 128, rows, 256);
  const exec::Dim3 grid{uint32_t(rows / 256 / boxes)};
  const uint32_t shared = 2 * uint32_t(box) + 1024;
  const auto plain = [&](const std::function<void(size_t, std::vector<uint8_t>&)>& move) {
    on_threads(int(bytes / box), [&](int first, int last) {
      std::vector<uint8_t> near(2 * box);
      for (int i = first; i < last; i++) move(size_t(i), near);
    });
  };
  const auto t = measure({[&] { r.run("fetch", grid, {32}, shared, {uint64_t(map_from), boxes}, false); },
                          [&] { plain([&](size_t i, auto& near) { std::memcpy(&near[i % 2 * box], from + i * box, box); }); },
                          [&] { r.run("spill", grid, {32}, shared, {uint64_t(map_to), boxes}, false); },
                          [&] { plain([&](size_t i, auto& near) { std::memcpy(other + i * box, &near[0], box); }); },
                          [&] { r.run("copy", grid, {32}, shared, {uint64_t(map_from), uint64_t(map_to), boxes}, false); },
                          [&] { on_threads(int(bytes / box), [&](int first, int last) { std::memcpy(other + size_t(first) * box, from + size_t(first) * box, size_t(last - first) * box); }); }},
                         rounds);
  const bool right = !std::memcmp(from, to, bytes);
  const char* const names[] = {"load", "store", "load and store"};
  bool met = right;
  for (size_t i = 0; i < 3; i++) {
    fmt::print("TMA {} of {} MB: {:.1f} ms ({:.1f} GB/s a thread), memcpy {:.1f} ms ({:.1f}); {}\n", names[i], megabytes, t[2 * i] * 1e3, double(bytes) / t[2 * i] * 1e-9,
               t[2 * i + 1] * 1e3, double(bytes) / t[2 * i + 1] * 1e-9, right ? "right" : "WRONG RESULT");
    met &= promise("TMA, of memcpy (at least 0.7)", t[2 * i + 1] / t[2 * i], t[2 * i + 1] / t[2 * i] >= 0.7);
  }
  return met;
}

/// CPU seconds of the second of two runs.
double seconds_of(const std::function<void()>& run) {
  run();
  const double start = bench::cpu_seconds();
  run();
  return bench::cpu_seconds() - start;
}

/// The products and the copies under `orrery check`: memcheck, all checks.
int checked(int n, size_t megabytes) {
  fmt::print("{:<12} {:>10} {:>10} {:>10}\n", "kernel", "run", "memcheck", "all checks");
  std::map<std::string, std::vector<double>> seconds;
  size_t findings = 0;
  for (const char* checks : {static_cast<const char*>(nullptr), "memcheck", "all"}) {
    Runner r(checks);
    for (const bool fp8 : {false, true}) {
      const Product p(r, fp8 ? "gemm_e4m3" : "gemm_bf16", n, fp8);
      seconds[p.kernel].push_back(seconds_of([&] { p.run(r, false); }));
    }
    const size_t rows = (megabytes << 20) / 128;
    exec::TensorMap *from = r.map(kTypeU8, r.make<uint8_t>(rows * 128), 128, rows, 256), *to = r.map(kTypeU8, r.make<uint8_t>(rows * 128), 128, rows, 256);
    const exec::Dim3 grid{uint32_t(rows / 256 / 32)};
    const uint32_t shared = 2 * 32768 + 1024;
    seconds["fetch"].push_back(seconds_of([&] { r.run("fetch", grid, {32}, shared, {uint64_t(from), 32}, false); }));
    seconds["spill"].push_back(seconds_of([&] { r.run("spill", grid, {32}, shared, {uint64_t(to), 32}, false); }));
    seconds["copy"].push_back(seconds_of([&] { r.run("copy", grid, {32}, shared, {uint64_t(from), uint64_t(to), 32}, false); }));
    findings += r.findings();
  }
  bool met = true;
  for (const auto& [name, t] : seconds) {
    fmt::print("{:<12} {:>8.1f}ms {:>9.1f}x {:>9.1f}x\n", name, t[0] * 1e3, t[1] / t[0], t[2] / t[0]);
    met &= t[1] <= 3 * t[0] && t[2] <= 15 * t[0];
  }
  fmt::print("memcheck at most 3x, all checks at most 15x: {}; {} findings\n", met ? "met" : "MISSED", findings);
  return met && !findings ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  const bench::AwakeCpus awake;
  const auto has = [&](const char* option) { return std::find(argv + 1, argv + argc, std::string(option)) != argv + argc; };
  const bool quick = has("--quick");
  if (has("--checks")) return checked(quick ? 512 : 1024, quick ? 32 : 256);
  Runner runner;
  bool met = products(runner, quick ? 512 : 1024, quick ? 3 : 9);
  met &= copies(runner, quick ? 32 : 256, quick ? 3 : 9);
  return met ? 0 : 1;
} catch (const std::exception& e) {
  fmt::print(stderr, "orrery_bench_hopper: {}\n", e.what());
  return 2;
}
