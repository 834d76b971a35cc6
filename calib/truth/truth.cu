// calib/truth/truth.cu: the program around the judged kernels.
//
//   truth list                 names of all cases
//   truth once [PATTERN] [R]   launches every case whose name contains PATTERN (or one of several, by commas) R times (default once); for a profiler
//                              or the simulated GPU; prints the name of each launch in order
//   truth events [PATTERN]     times each case by events, L2 warm and cold; JSON lines
//   truth energy [PATTERN [S]] repeats each case for S (1.2) seconds and reports board power, clock and rate of the second half through NVML
//   truth fresh_energy         the same of launches whose operands are put back before each
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "truth.h"

namespace truth {

std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}
std::vector<std::pair<void*, size_t>>& taken() {
  static std::vector<std::pair<void*, size_t>> all;
  return all;
}

namespace {

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

struct Timer {
  cudaEvent_t a, b;
  Timer() { cudaEventCreate(&a), cudaEventCreate(&b); }
  ~Timer() { cudaEventDestroy(a), cudaEventDestroy(b); }
  /// Microseconds between events around `launches` launches.
  double operator()(const Launch& launch, int launches) {
    cudaEventRecord(a);
    for (int i = 0; i < launches; i++) launch();
    cudaEventRecord(b);
    cudaEventSynchronize(b);
    float ms = 0;
    cudaEventElapsedTime(&ms, a, b);
    return ms * 1e3;
  }
};

void events(const Case& c, void* flush, size_t flush_bytes) {
  const Launch launch = c.prepare();
  Timer time;
  launch();
  const double first = time(launch, 1);
  const int samples = int(std::clamp(60000.0 / (first + 1), 5.0, 40.0));
  std::vector<double> warm, chain, cold;
  for (int i = 0; i < samples; i++) warm.push_back(time(launch, 1));
  for (int i = 0; i < 5; i++) chain.push_back(time(launch, 10) / 10);
  for (int i = 0; i < std::min(samples, 15); i++) {
    cudaMemsetAsync(flush, i, flush_bytes);
    cold.push_back(time(launch, 1));
  }
  const cudaError_t e = cudaDeviceSynchronize();
  std::printf("{\"case\":\"%s\",\"family\":\"%s\",\"events_warm_us\":%.4f,\"events_chain_us\":%.4f,\"events_cold_us\":%.4f,\"samples\":%d,\"min_us\":%.4f,\"max_us\":%.4f,\"status\":\"%s\"}\n",
              c.name().c_str(), c.family.c_str(), median(warm), median(chain), median(cold), samples,
              *std::min_element(warm.begin(), warm.end()), *std::max_element(warm.begin(), warm.end()), cudaGetErrorName(e));
  std::fflush(stdout);
}

struct Nvml {
  void* device = nullptr;
  int (*power)(void*, unsigned*) = nullptr;
  int (*clock)(void*, int, unsigned*) = nullptr;
  int (*energy)(void*, unsigned long long*) = nullptr;
  bool open() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return false;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto handle = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    power = reinterpret_cast<decltype(power)>(dlsym(library, "nvmlDeviceGetPowerUsage"));
    clock = reinterpret_cast<decltype(clock)>(dlsym(library, "nvmlDeviceGetClockInfo"));
    energy = reinterpret_cast<decltype(energy)>(dlsym(library, "nvmlDeviceGetTotalEnergyConsumption"));
    return init && handle && power && clock && energy && init() == 0 && handle(0, &device) == 0;
  }
};

struct Power {
  double watts = 0, energy_watts = 0, megahertz = 0, launches_per_s = 0;
};
/// Over the second half of `seconds`.
Power power_of(const Launch& launch, const Nvml& nvml, double seconds_all) {
  using Clock = std::chrono::steady_clock;
  Timer time;
  launch();
  const int batch = std::max(1, int(20000 / (time(launch, 1) + 1)));
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<double> watts, megahertz;
  double launches = 0, from = 0;
  unsigned long long joules0 = 0, joules1 = 0;
  while (elapsed() < seconds_all) {
    for (int i = 0; i < batch; i++) launch();
    cudaDeviceSynchronize();
    if (elapsed() < seconds_all / 2) continue;
    unsigned mw = 0, mhz = 0;
    if (from == 0) from = elapsed(), nvml.energy(nvml.device, &joules0);
    else launches += batch;
    nvml.power(nvml.device, &mw), nvml.clock(nvml.device, 1, &mhz);
    watts.push_back(mw * 1e-3), megahertz.push_back(mhz);
  }
  nvml.energy(nvml.device, &joules1);
  const double seconds = elapsed() - from;
  return {median(watts), double(joules1 - joules0) * 1e-3 / seconds, median(megahertz), launches / seconds};
}
void energy(const Case& c, const Nvml& nvml, double seconds) {
  const Power p = power_of(c.prepare(), nvml, seconds);
  std::printf("{\"case\":\"%s\",\"watts\":%.2f,\"energy_watts\":%.2f,\"clock_mhz\":%.0f,\"launches_per_s\":%.5g}\n", c.name().c_str(), p.watts, p.energy_watts, p.megahertz, p.launches_per_s);
  std::fflush(stdout);
}
/// The same of a launch whose operands are put back before each: what both take less what putting back takes. For kernels that work in
/// place, which otherwise soon work on zeros, infinities or NaNs.
void fresh_energy(const Case& c, const Nvml& nvml, double seconds) {
  const Launch launch = c.prepare();
  struct Copy {
    void *to, *from;
    size_t bytes;
  };
  std::vector<Copy> copies;
  for (const auto& [p, bytes] : std::vector(taken())) {
    void* kept = nullptr;
    if (cudaMalloc(&kept, bytes) != cudaSuccess) return;
    cudaMemcpy(kept, p, bytes, cudaMemcpyDeviceToDevice);
    copies.push_back({p, kept, bytes});
  }
  const auto put_back = [&] {
    for (const Copy& k : copies) cudaMemcpyAsync(k.to, k.from, k.bytes, cudaMemcpyDeviceToDevice);
  };
  const Power both = power_of([&] { put_back(), launch(); }, nvml, seconds), copy = power_of(put_back, nvml, seconds);
  for (const Copy& k : copies) cudaFree(k.from);
  const double time = 1 / both.launches_per_s - 1 / copy.launches_per_s, joules = both.energy_watts / both.launches_per_s - copy.energy_watts / copy.launches_per_s;
  std::printf("{\"case\":\"%s\",\"put_back\":true,\"energy_watts\":%.2f,\"clock_mhz\":%.0f,\"launches_per_s\":%.5g,\"both_watts\":%.2f,\"both_per_s\":%.5g,\"copy_watts\":%.2f,\"copy_per_s\":%.5g}\n",
              c.name().c_str(), joules / time, both.megahertz, 1 / time, both.energy_watts, both.launches_per_s, copy.energy_watts, copy.launches_per_s);
  std::fflush(stdout);
}

/// Does the name hold one of the comma-separated words (none: any)?
bool chosen(const std::string& name, const std::string& words) {
  for (size_t at = 0, end; at <= words.size(); at = end + 1) {
    end = std::min(words.find(',', at), words.size());
    if (name.find(words.substr(at, end - at)) != std::string::npos) return true;
  }
  return false;
}

int run(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "list", pattern = argc > 2 ? argv[2] : "";
  const int repeats = argc > 3 ? std::atoi(argv[3]) : 1;
  Nvml nvml;
  if (mode.ends_with("energy") && !nvml.open()) return 1;
  void* flush = nullptr;
  const size_t flush_bytes = size_t(256) << 20;
  if (mode == "events") cudaMalloc(&flush, flush_bytes);
  for (const Case& c : cases()) {
    if (!chosen(c.name(), pattern)) continue;
    if (mode == "list") std::printf("%s %s\n", c.family.c_str(), c.name().c_str());
    if (mode == "events") events(c, flush, flush_bytes);
    if (mode == "energy") energy(c, nvml, argc > 3 ? std::atof(argv[3]) : 1.2);
    if (mode == "fresh_energy") fresh_energy(c, nvml, argc > 3 ? std::atof(argv[3]) : 1.2);
    if (mode != "once") continue;
    const Launch launch = c.prepare();
    for (int i = 0; i < repeats; i++) {
      std::printf("case %s\n", c.name().c_str());
      launch();
    }
    if (cudaError_t e = cudaDeviceSynchronize(); e != cudaSuccess) {
      std::printf("error %s %s\n", c.name().c_str(), cudaGetErrorName(e));
      return 1;
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace truth

int main(int argc, char** argv) { return truth::run(argc, argv); }
