// calib/dissect/measure.h: how a microbenchmark of the suite is written, named and reported.
//
// Every measurement prints one JSON line: name, value, unit, how it was taken, and the samples behind the value (the
// value is their median). Names are dotted and stable: they are the keys of a GPU profile's raw data. A measurement
// that the device refuses prints "error" instead of "value". Clocks are left alone; cycles are read on the SM itself.
//
// On the simulated GPU (`orrery dissect`) a kernel's clock is the model's: each launch is predicted once, and its record, the
// last line of the file that $ORRERY_TIME names, says what the kernel would have read and how long it took.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace dissect {

inline void report(const std::string& name, std::vector<double> samples, const char* unit, const char* how) {
  const cudaError_t e = cudaDeviceSynchronize();
  if (e != cudaSuccess || samples.empty()) {
    std::printf("{\"name\":\"%s\",\"error\":\"%s\"}\n", name.c_str(), cudaGetErrorName(e));
    return;
  }
  std::vector<double> sorted = samples;
  std::sort(sorted.begin(), sorted.end());
  std::printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\",\"how\":\"%s\",\"min\":%.6g,\"max\":%.6g,\"n\":%zu}\n", name.c_str(),
              sorted[sorted.size() / 2], unit, how, sorted.front(), sorted.back(), sorted.size());
  std::fflush(stdout);
}

/// Is this the simulated GPU, timed by its model?
inline bool predicted() { return std::getenv("ORRERY_TIME") != nullptr; }

/// What a kernel's readings of the clock come to: those of one warp, pair by pair, or from the first to the last of all warps.
enum class Clock { first_warp, fifth_warp, span };

/// Numbers after `key` in the record of the last launch.
inline std::vector<double> of_last_record(const char* key) {
  cudaDeviceSynchronize();
  std::ifstream in(std::getenv("ORRERY_TIME"));
  std::string line, last;
  while (std::getline(in, line)) last = line;
  const size_t at = last.find("\"" + std::string(key) + "\":");
  std::vector<double> out;
  if (at == std::string::npos) return out;
  const char* p = last.c_str() + at + std::string(key).size() + 3;
  const bool list = *p == '[';
  p += list;
  for (char* end; *p && *p != ']'; p = end + (*end == ',')) {
    out.push_back(std::strtod(p, &end));
    if (end == p || !list) break;
  }
  return out;
}
inline std::vector<double> predicted_cycles(Clock clock, double per) {
  const std::vector<double> v = of_last_record(clock == Clock::span ? "clock_span" : "clocks");
  const size_t warp = clock == Clock::fifth_warp ? 4 : 0;
  return v.size() > warp ? std::vector<double>{v[warp] / per} : std::vector<double>{};
}

template <class T>
struct Buffer {
  T* p = nullptr;
  size_t n;
  explicit Buffer(size_t count) : n(count) {
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) p = nullptr;
    else if (n * sizeof(T) < (size_t(2) << 30)) cudaMemset(p, 0, n * sizeof(T));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(p); }
  operator T*() const { return p; }
};

/// Pairs of halves of random sign, 1/8 to 2 in size; the same every time.
inline void fill_with_halves(Buffer<uint32_t>& to) {
  std::mt19937 engine(7);
  const auto half = [&] { return uint32_t((engine() & 0x8000) | (0x3000 + engine() % 0x1000)); };
  std::vector<uint32_t> host(to.n);
  for (uint32_t& v : host) v = half(), v |= half() << 16;
  cudaMemcpy(to, host.data(), to.n * sizeof(uint32_t), cudaMemcpyHostToDevice);
}

/// Runs `launch(cycles)` `repeats` times (after one warm-up); each run writes the cycles of its timed section.
inline std::vector<double> cycles_of(int repeats, double per, const std::function<void(long long*)>& launch, Clock clock = Clock::first_warp) {
  Buffer<long long> cycles(1);
  if (predicted()) return launch(cycles), predicted_cycles(clock, per);
  std::vector<double> out;
  for (int r = -1; r < repeats; r++) {
    long long c = 0;
    launch(cycles);
    if (cudaMemcpy(&c, cycles, sizeof c, cudaMemcpyDeviceToHost) != cudaSuccess) return {};
    if (r >= 0) out.push_back(double(c) / per);
  }
  return out;
}

/// Seconds of one `launch()` by events, `repeats` samples of `inner` launches each.
inline std::vector<double> seconds_of(int repeats, int inner, const std::function<void()>& launch) {
  if (predicted()) {
    launch();
    const std::vector<double> us = of_last_record("us");
    return us.empty() ? us : std::vector<double>{us[0] * 1e-6};
  }
  cudaEvent_t a, b;
  cudaEventCreate(&a);
  cudaEventCreate(&b);
  launch();
  std::vector<double> out;
  for (int r = 0; r < repeats; r++) {
    cudaEventRecord(a);
    for (int i = 0; i < inner; i++) launch();
    cudaEventRecord(b);
    if (cudaEventSynchronize(b) != cudaSuccess) return {};
    float ms = 0;
    cudaEventElapsedTime(&ms, a, b);
    out.push_back(double(ms) * 1e-3 / inner);
  }
  cudaEventDestroy(a);
  cudaEventDestroy(b);
  return out;
}

inline std::vector<double> scaled(std::vector<double> v, const std::function<double(double)>& f) {
  for (double& x : v) x = f(x);
  return v;
}

__device__ inline long long clock_now() {
  long long c;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c)::"memory");
  return c;
}
__device__ inline uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

__device__ inline void init(uint32_t bar, uint32_t count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory"); }
__device__ inline void expect(uint32_t bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
__device__ inline void wait(uint32_t bar, uint32_t parity) {
  asm volatile("{ .reg .pred p;\nAGAIN:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(bar), "r"(parity) : "memory");
}

/// Launches blocks of `threads` in clusters.
template <class... P, class... A>
void launch_clusters(void (*kernel)(P...), int cluster, int blocks, int threads, size_t shared, A... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(threads), config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(cluster), 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, arguments...);
}

int sm_count();
void measure_instructions();
void measure_memory();
void measure_synchronisation();
void measure_bulk_copies();
void measure_tensor_cores();
void measure_launches();
void measure_clusters();
void measure_power();
void measure_spread();
void measure_overlap();
void measure_products();
void measure_boxes();
void measure_box_rows();
void measure_translation();
void measure_turns();
void measure_queues();
void measure_fills();
void measure_forms();
void measure_lane_lines();

}  // namespace dissect
