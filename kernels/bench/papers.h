// What the benchmarks of papers' kernels share (papers_bench.cc): memory, races, energy as NVML counts it.
#pragma once
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "measure.h"
#include "orrery/kernels.h"

namespace bench {

using Launch = std::function<void()>;

/// Joules since the driver was loaded, or nothing where NVML is not there.
class Energy {
 public:
  Energy() {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto handle = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    read_ = reinterpret_cast<int (*)(void*, unsigned long long*)>(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
    if (!init || !handle || !read_ || init() || handle(0, &device_)) read_ = nullptr;
  }
  double joules() const {
    unsigned long long mj = 0;
    return read_ && !read_(device_, &mj) ? double(mj) * 1e-3 : NAN;
  }

 private:
  int (*read_)(void*, unsigned long long*) = nullptr;
  void* device_ = nullptr;
};

struct Bench {
  Device device;
  Energy energy;
  const char* only = "";
  cudaStream_t stream() { return device.stream; }
  bool wants(const char* name) const { return !std::strncmp(name, only, std::strlen(only)); }

  /// Bytes of device memory that last as long as the program; from a vector where given.
  template <class T>
  T* memory(const std::vector<T>& host) {
    T* p = memory<T>(host.size());
    BENCH_OK(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
  }
  template <class T>
  T* memory(size_t count) {
    void* p;
    BENCH_OK(cudaMalloc(&p, count * sizeof(T)));
    BENCH_OK(cudaMemset(p, 0, count * sizeof(T)));
    return static_cast<T*>(p);
  }
  template <class T>
  std::vector<T> host(const T* p, size_t count) {
    std::vector<T> v(count);
    BENCH_OK(cudaDeviceSynchronize());
    BENCH_OK(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }
  void did(const orrery::kernels::Status& s) {
    if (!s.ok()) std::exit((std::fprintf(stderr, "%s %s\n", s.argument ? s.argument : "", s.reason), 1));
  }

  /// Times `ours` and `theirs` (may be empty) in turns; `units` of work a launch, `unit` a microsecond's worth in words. each: how many there are of what
  /// energy is to be told for; 0: it is not.
  void race(const char* name, const std::string& size, const Launch& ours, const char* rival, const Launch& theirs, double units, const char* unit, double each = 0) {
    const auto timed = [&](const Launch& l) { return std::make_unique<Replay>(device, 4, [&](int) { l(); }); };
    const auto a = timed(ours);
    std::unique_ptr<Replay> b;
    std::vector<Replay*> all = {a.get()};
    if (theirs) all.push_back((b = timed(theirs)).get());
    const auto us = bench::race(all, 11, false);
    std::printf("%s,%s,%.2f,%s,", name, size.c_str(), us[0], rival);
    if (theirs) std::printf("%.2f", us[1]);
    std::printf(",%.4g %s", units / us[0], unit);
    if (each && !std::isnan(energy.joules())) {
      std::printf("; %s each", told(spent(*a, each)).c_str());
      if (theirs) std::printf(" (beside it %s)", told(spent(*b, each)).c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  static std::string told(double joules) {
    char text[32];
    std::snprintf(text, sizeof text, joules < 1e-10 ? "%.3g pJ" : "%.3g nJ", joules * (joules < 1e-10 ? 1e12 : 1e9));
    return text;
  }
  /// Joules for one of `each` in a launch.
  double spent(Replay& replay, double each) {
    using Clock = std::chrono::steady_clock;
    const auto keep = [&](double seconds) {
      int64_t launches = 0;
      for (const auto start = Clock::now(); std::chrono::duration<double>(Clock::now() - start).count() < seconds;) replay.once(false), launches += 4;
      return launches;
    };
    keep(0.3);
    const double before = energy.joules();
    const int64_t launches = keep(1.5);
    return (energy.joules() - before) / (double(launches) * each);
  }
  void wrong(const char* name, double worst, double bound) {
    if (!(worst <= bound)) std::printf("# WRONG %s: off by %g\n", name, worst);
  }
};

inline double farthest(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const double e = std::fabs(a[i] - b[i]) / std::max(1., std::fabs(b[i]));
    if (!(e <= worst)) worst = e;
  }
  return worst;
}

/// The cases of papers_networks.cc, and of papers_moe.cc.
void papers_networks(Bench& b);
void papers_moe(Bench& b);

}  // namespace bench
