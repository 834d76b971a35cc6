// calib/dissect/launches_power.cu: cost of launches and graphs; power of one kind of work at a time through NVML.
#include <dlfcn.h>

#include <chrono>

#include "measure.h"

namespace dissect {
namespace {

/// The four calls of NVML that are needed, found at run time so that the suite builds without NVML's header.
struct Nvml {
  void* device = nullptr;
  int (*power_usage)(void*, unsigned*) = nullptr;
  int (*clock_info)(void*, int, unsigned*) = nullptr;

  bool open() {
    void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!library) return false;
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    const auto handle = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
    power_usage = reinterpret_cast<decltype(power_usage)>(dlsym(library, "nvmlDeviceGetPowerUsage"));
    clock_info = reinterpret_cast<decltype(clock_info)>(dlsym(library, "nvmlDeviceGetClockInfo"));
    return init && handle && power_usage && clock_info && init() == 0 && handle(0, &device) == 0;
  }
};
constexpr int kSmClock = 1;

__global__ void empty() {}
__global__ void spin_alu(int rounds, int* sink) {
  int x = threadIdx.x;
  for (int i = 0; i < rounds; i++)
#pragma unroll
    for (int k = 0; k < 64; k++) asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(x));
  if (x == 1) *sink = x;
}
template <class T, bool kRandom>
__global__ void spin_fma(int rounds, T* sink) {
  T x[8];
  for (int k = 0; k < 8; k++) x[k] = kRandom ? T(1.0 + 1e-3 * (threadIdx.x * 37 % 101) + k) : T(0);
  const T y = kRandom ? T(0.999 - 1e-6 * threadIdx.x) : T(rounds < 0);  // zero, but the compiler cannot know
  for (int i = 0; i < rounds; i++)
#pragma unroll
    for (int k = 0; k < 64; k++) x[k % 8] = x[k % 8] * y + y;
  T sum = 0;
  for (int k = 0; k < 8; k++) sum += x[k];
  if (sum == T(123456)) *sink = sum;
}
__global__ void spin_shared(int rounds, uint32_t* sink) {
  __shared__ uint32_t data[2048];
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) data[i] = i * 2654435761u;
  __syncthreads();
  uint32_t sum = 0, p = shared_address(data + threadIdx.x);
  for (int i = 0; i < rounds; i++)
#pragma unroll
    for (int k = 0; k < 64; k++) {
      uint32_t v;
      asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(p + (k % 8) * 128) : "memory");
      sum ^= v;
    }
  if (sum == 1) *sink = sum;
}
__global__ void stream(const uint4* p, size_t n, int rounds, uint4* sink) {
  uint4 acc = make_uint4(0, 0, 0, 0);
  for (int r = 0; r < rounds; r++)
    for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
      uint4 v;
      asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p + i) : "memory");
      acc.x ^= v.x, acc.y ^= v.y, acc.z ^= v.z, acc.w ^= v.w;
    }
  if (acc.x == 1) *sink = acc;
}

/// Repeats `launch` for about `seconds` and reports mean board power and SM clock of the second half, and work a second.
void power_of(const std::string& name, const Nvml& nvml, double work, const char* unit, const std::function<void()>& launch) {
  using Clock = std::chrono::steady_clock;
  const double seconds = 2.0;
  launch();
  cudaDeviceSynchronize();
  const auto start = Clock::now();
  std::vector<double> watts, megahertz;
  double launches = 0;
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  while (elapsed() < seconds) {
    for (int i = 0; i < 4; i++) launch();
    if (cudaDeviceSynchronize() != cudaSuccess) break;
    launches += 4;
    unsigned milliwatts = 0, clock = 0;
    if (elapsed() < seconds / 2) continue;
    if (nvml.power_usage(nvml.device, &milliwatts) == 0) watts.push_back(milliwatts * 1e-3);
    if (nvml.clock_info(nvml.device, kSmClock, &clock) == 0) megahertz.push_back(clock);
  }
  const double rate = launches * work / elapsed();
  report("power." + name + ".watts", watts, "W", "NVML board power, second half of two seconds");
  report("power." + name + ".clock", megahertz, "MHz", "NVML SM clock, second half of two seconds");
  report("power." + name + ".rate", {rate}, unit, "work a second over the whole run, host clock");
}

/// When each block began and ended by the clock of its SM, and where it was.
__global__ void note_times(long long* times, int spin) {
  const long long a = clock_now();
  float x = threadIdx.x;
  for (int i = 0; i < spin; i++) x = x * .99f + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t sm;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    times[blockIdx.x * 3] = sm | (x == 1.5f) << 16, times[blockIdx.x * 3 + 1] = a;
    times[blockIdx.x * 3 + 2] = clock_now();
  }
}

/// Cycles from the end of a block to the start of the next one in its place, where an SM has room for one block.
std::vector<double> block_gaps(int threads, int shared, int spin) {
  const int n = sm_count() * 16;
  Buffer<long long> times(size_t(n) * 3);
  cudaFuncSetAttribute(note_times, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  for (int r = 0; r < 3; r++) note_times<<<n, threads, shared>>>(times, spin);
  std::vector<long long> host(size_t(n) * 3);
  if (cudaMemcpy(host.data(), times, host.size() * 8, cudaMemcpyDeviceToHost) != cudaSuccess) return {};
  std::vector<std::vector<std::pair<long long, long long>>> by_sm(1024);
  for (int b = 0; b < n; b++) by_sm[size_t(host[b * 3] & 1023)].push_back({host[b * 3 + 1], host[b * 3 + 2]});
  std::vector<double> gaps;
  for (auto& list : by_sm) {
    std::sort(list.begin(), list.end());
    for (size_t i = 1; i < list.size(); i++) gaps.push_back(double(list[i].first - list[i - 1].second));
  }
  return gaps;
}

/// Blocks that an SM holds one of, in clusters: when each began and ended.
__global__ void stay(long long* times, long long nanoseconds) {
  long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin)::"memory");
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
  while (now < begin + nanoseconds);
  times[blockIdx.x * 2] = begin, times[blockIdx.x * 2 + 1] = now;
}

/// How many clusters of `size` begin before the first one ends, and how many the runtime says there can be.
void measure_clusters_at_once(int size) {
  constexpr int kRoom = 200 << 10;
  cudaFuncSetAttribute(stay, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom);
  cudaFuncSetAttribute(stay, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  const int blocks = 2 * sm_count() / size * size;
  Buffer<long long> times(size_t(blocks) * 2);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(32), config.dynamicSmemBytes = kRoom;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  int told = 0;
  if (cudaOccupancyMaxActiveClusters(&told, stay, &config) != cudaSuccess) told = 0;
  const std::string tail = std::to_string(size) + "ctas";
  report("clusters.told." + tail, {double(told)}, "clusters", "cudaOccupancyMaxActiveClusters, one block an SM");
  if (predicted() || told == 0) return;
  std::vector<double> counts;
  for (int repeat = 0; repeat < 3; repeat++) {
    std::vector<long long> host(size_t(blocks) * 2);
    if (cudaLaunchKernelEx(&config, stay, times.p, 200000ll) != cudaSuccess) break;
    if (cudaMemcpy(host.data(), times, host.size() * sizeof(long long), cudaMemcpyDeviceToHost) != cudaSuccess) break;
    long long first_end = host[1];
    for (int b = 0; b < blocks; b++) first_end = std::min(first_end, host[size_t(b) * 2 + 1]);
    int at_once = 0;
    for (int c = 0; c < blocks / size; c++) at_once += host[size_t(c) * size * 2] < first_end;
    counts.push_back(at_once);
  }
  report("clusters.seen." + tail, counts, "clusters", "clusters that begin before the first of them ends, one block an SM");
}

}  // namespace

void measure_clusters() {
  for (int size = 1; size <= 16; size++) measure_clusters_at_once(size);
}

void measure_launches() {
  for (int threads : {32, 128, 256, 512, 1024})
    for (int spin : {0, 2000}) {
      if (predicted()) break;
      report("launch.block_gap." + std::to_string(threads) + "threads." + std::to_string(spin), block_gaps(threads, 200 << 10, spin), "cycles",
             "last reading of the clock in a block to the first in the next one of its SM, one block at a time, after so many steps");
    }
  const auto micro = [](double s) { return s * 1e6; };
  report("launch.back_to_back", scaled(seconds_of(9, 1000, [] { empty<<<1, 32>>>(); }), micro), "us", "1000 empty kernels in one stream");
  report("launch.full_grid", scaled(seconds_of(9, 200, [] { empty<<<sm_count() * 16, 128>>>(); }), micro), "us", "empty kernels of 16 blocks an SM");
  for (int blocks : {1024, 16384, 131072}) report("launch.blocks" + std::to_string(blocks), scaled(seconds_of(7, 20, [=] { empty<<<blocks, 32>>>(); }), micro), "us", "empty kernels of one-warp blocks");
  for (int nodes : {1, 10, 100}) {
    cudaStream_t s;
    cudaStreamCreate(&s);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    for (int i = 0; i < nodes; i++) empty<<<1, 32, 0, s>>>();
    cudaStreamEndCapture(s, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    report("launch.graph" + std::to_string(nodes), scaled(seconds_of(9, 50, [&] { cudaGraphLaunch(exec, 0); }), micro), "us", "a chain of empty kernels in one graph");
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
    cudaStreamDestroy(s);
  }
}

void measure_power() {
  Nvml device;
  if (predicted()) {
    Buffer<uint4> few(size_t(16) << 16);
    const auto seconds = seconds_of(1, 1, [&] { stream<<<sm_count() * 2, 1024>>>(few, few.n, 64, few); });
    return report("power.l2_read.rate", scaled(seconds, [&](double s) { return double(few.n) * 16 * 64 / s; }), "B/s", "work a second");
  }
  if (!device.open()) {
    std::printf("{\"name\":\"power\",\"error\":\"NVML is not available\"}\n");
    return;
  }
  Buffer<double> sink(64);
  Buffer<uint4> data((size_t(1) << 30) / 16);
  cudaMemset(data, 0x5A, size_t(1) << 30);
  const int blocks = sm_count() * 2, rounds = 4000;
  const double lanes = double(blocks) * 1024 * rounds * 64;
  power_of("idle", device, 0, "1/s", [] { empty<<<1, 32>>>(); });
  power_of("imad", device, lanes, "lane instructions/s", [&] { spin_alu<<<blocks, 1024>>>(rounds, reinterpret_cast<int*>(sink.p)); });
  power_of("ffma.random", device, lanes, "lane instructions/s", [&] { spin_fma<float, true><<<blocks, 1024>>>(rounds, reinterpret_cast<float*>(sink.p)); });
  power_of("ffma.zero", device, lanes, "lane instructions/s", [&] { spin_fma<float, false><<<blocks, 1024>>>(rounds, reinterpret_cast<float*>(sink.p)); });
  power_of("dfma.random", device, lanes, "lane instructions/s", [&] { spin_fma<double, true><<<blocks, 1024>>>(rounds, sink.p); });
  power_of("lds", device, lanes, "lane loads/s", [&] { spin_shared<<<blocks, 1024>>>(rounds, reinterpret_cast<uint32_t*>(sink.p)); });
  const size_t l2 = (size_t(16) << 20) / 16, dram = data.n;
  power_of("l2_read", device, double(l2) * 16 * 64, "B/s", [&] { stream<<<blocks, 1024>>>(data, l2, 64, data); });
  power_of("dram_read", device, double(dram) * 16, "B/s", [&] { stream<<<blocks, 1024>>>(data, dram, 1, data); });
}

}  // namespace dissect
