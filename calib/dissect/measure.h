// calib/dissect/measure.h: how a microbenchmark of the suite is written, named and reported.
//
// Every measurement prints one JSON line: name, value, unit, how it was taken, and the samples behind the value (the
// value is their median). Names are dotted and stable: they are the keys of a GPU profile's raw data. A measurement
// that the device refuses prints "error" instead of "value". Clocks are left alone; cycles are read on the SM itself.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
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

template <class T>
struct Buffer {
  T* p = nullptr;
  size_t n;
  explicit Buffer(size_t count) : n(count) {
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) p = nullptr;
    else cudaMemset(p, 0, n * sizeof(T));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(p); }
  operator T*() const { return p; }
};

/// Runs `launch(cycles)` `repeats` times (after one warm-up); each run writes the cycles of its timed section.
inline std::vector<double> cycles_of(int repeats, double per, const std::function<void(long long*)>& launch) {
  Buffer<long long> cycles(1);
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

int sm_count();
void measure_instructions();
void measure_memory();
void measure_synchronisation();
void measure_bulk_copies();
void measure_tensor_cores();
void measure_launches();
void measure_power();
void measure_spread();

}  // namespace dissect
