// How kernel time is measured: a CUDA graph of several launches between two events, replayed; the time of a
// launch is the event time over their number, the figure reported is the median over replays.
//
//   warm     every launch uses the same operands
//   flushed  every launch uses operands of its own, and before each replay (outside the events) 512 MiB are
//            overwritten: nothing of them is left in L2
//
// Launches in a graph follow each other without host work between them, but the drain of one and the start of the
// next (about a microsecond) are part of the time, for the library and for its rival alike.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

namespace bench {

#define BENCH_OK(call)                                                                               \
  do {                                                                                               \
    if (auto e_ = (call); int(e_) != 0) {                                                            \
      std::fprintf(stderr, "%s:%d: %s: error %d\n", __FILE__, __LINE__, #call, int(e_));             \
      std::exit(1);                                                                                  \
    }                                                                                                \
  } while (0)

constexpr size_t kFlushBytes = 512u << 20;

inline float median(std::vector<float> v) {
  std::nth_element(v.begin(), v.begin() + v.size() / 2, v.end());
  return v[v.size() / 2];
}

struct Device {
  cudaStream_t stream;
  cudaEvent_t start, stop;
  void* flush;
  Device() {
    BENCH_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    BENCH_OK(cudaEventCreate(&start));
    BENCH_OK(cudaEventCreate(&stop));
    BENCH_OK(cudaMalloc(&flush, kFlushBytes));
  }
};

/// Launches captured once, replayed many times. `launch(i)` enqueues launch i on device.stream.
class Replay {
 public:
  Replay(Device& device, int launches, const std::function<void(int)>& launch) : device_(device), launches_(launches) {
    cudaGraph_t graph;
    BENCH_OK(cudaStreamBeginCapture(device.stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < launches; i++) launch(i);
    BENCH_OK(cudaStreamEndCapture(device.stream, &graph));
    BENCH_OK(cudaGraphInstantiate(&exec_, graph, 0));
    BENCH_OK(cudaGraphDestroy(graph));
    BENCH_OK(cudaGraphUpload(exec_, device.stream));
  }
  Replay(const Replay&) = delete;
  ~Replay() { cudaGraphExecDestroy(exec_); }
  /// Microseconds of one launch.
  float once(bool flushed) {
    if (flushed) BENCH_OK(cudaMemsetAsync(device_.flush, 0x5A, kFlushBytes, device_.stream));
    BENCH_OK(cudaEventRecord(device_.start, device_.stream));
    BENCH_OK(cudaGraphLaunch(exec_, device_.stream));
    BENCH_OK(cudaEventRecord(device_.stop, device_.stream));
    BENCH_OK(cudaEventSynchronize(device_.stop));
    float ms = 0;
    BENCH_OK(cudaEventElapsedTime(&ms, device_.start, device_.stop));
    return ms * 1000 / launches_;
  }

 private:
  Device& device_;
  int launches_;
  cudaGraphExec_t exec_;
};

/// Medians of several rivals measured in turns, so that clocks and temperature are the same for all.
inline std::vector<float> race(std::vector<Replay*> rivals, int rounds, bool flushed) {
  std::vector<std::vector<float>> times(rivals.size());
  for (int r = -1; r < rounds; r++)
    for (size_t i = 0; i < rivals.size(); i++) {
      const float t = rivals[i]->once(flushed);
      if (r >= 0) times[i].push_back(t);
    }
  std::vector<float> out;
  for (auto& t : times) out.push_back(median(t));
  return out;
}

}  // namespace bench
