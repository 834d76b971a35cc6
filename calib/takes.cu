// calib/takes.cu: what rounds take in which blocks of a cluster meet, read a word of each other's shared memory and meet again, as sums over clusters do: by the
// cluster's size, blocks of an SM, warps of a block, by who reads (all threads, one warp, one thread, a lane of the first warp for each block) and in which order.
// The same without barriers. A JSON line for each: cycles of a round, on average.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o takes takes.cu
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int kRounds = 32;
enum Who { kAll, kWarp, kThread, kLanes, kNobody };
const char* const kWhoNames[] = {"all", "warp", "thread", "lanes", "nobody"};

__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline float take(uint32_t own, uint32_t rank) {
  uint32_t there;
  float v;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
  return v;
}

/// `turned`: each block begins with the one behind it, so that not all read the same block's. `meets`: barriers around.
template <Who kWho, int kSize, bool kTurned, bool kMeets>
__global__ void takes(long long* cycles, float* out) {
  __shared__ float part[32];
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  part[threadIdx.x % 32] = 1;
  const uint32_t own = uint32_t(__cvta_generic_to_shared(part));
  const int warp = int(threadIdx.x / 32);
  float sum = 0;
  meet();
  const long long begin = clock64();
#pragma unroll 1
  for (int round = 0; round < kRounds; round++) {
    if (kMeets) meet();
    if (kWho == kAll || (kWho == kWarp && warp == 0) || (kWho == kThread && threadIdx.x == 0)) {
      float s = 0;
#pragma unroll
      for (uint32_t r = 0; r < kSize; r++) s += take(own, kTurned ? (rank + r) % kSize : r);
      sum += s;
    }
    if (kWho == kLanes && threadIdx.x < kSize) sum += take(own, threadIdx.x);
    if (kMeets) meet();
    else if (sum == 12345) out[0] = sum;
  }
  const long long end = clock64();
  if (threadIdx.x % 32 == 0) cycles[blockIdx.x * (blockDim.x / 32) + warp] = end - begin;
  if (sum == 12345) out[blockIdx.x] = sum;
  meet();
}

long long* cycles;
float* out;

template <Who kWho, int kSize, bool kTurned, bool kMeets>
void measure(int on_sm, int warps) {
  const int blocks = (kSize == 2 ? 132 : kSize == 4 ? 120 : 120) / kSize * kSize * on_sm, n = blocks * warps;
  const int bytes = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 2048;
  cudaFuncSetAttribute(takes<kWho, kSize, kTurned, kMeets>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(warps * 32)), config.dynamicSmemBytes = size_t(bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(kSize), 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  for (int i = 0; i < 2; i++) cudaLaunchKernelEx(&config, takes<kWho, kSize, kTurned, kMeets>, cycles, out);
  std::vector<long long> t(n);
  cudaMemcpy(t.data(), cycles, t.size() * sizeof t[0], cudaMemcpyDeviceToHost);
  double sum = 0;
  for (long long c : t) sum += double(c);
  std::printf("{\"who\":\"%s\",\"size\":%d,\"turned\":%d,\"meets\":%d,\"on_sm\":%d,\"warps\":%d,\"cycles\":%.1f,\"status\":\"%s\"}\n", kWhoNames[kWho], kSize, kTurned, kMeets, on_sm, warps, sum / n / kRounds,
              cudaGetErrorName(cudaGetLastError()));
}
template <Who kWho, int kSize, bool kTurned, bool kMeets>
void of_all() {
  for (int on_sm : {1, 2, 4, 8})
    for (int warps : {1, 4, 8}) measure<kWho, kSize, kTurned, kMeets>(on_sm, warps);
}
template <int kSize>
void of_size() {
  of_all<kNobody, kSize, false, true>(), of_all<kAll, kSize, false, true>(), of_all<kAll, kSize, true, true>(), of_all<kWarp, kSize, false, true>(), of_all<kThread, kSize, false, true>(), of_all<kLanes, kSize, false, true>();
  of_all<kAll, kSize, false, false>(), of_all<kAll, kSize, true, false>();
}

}  // namespace

int main() {
  cudaMalloc(&cycles, 132 * 64 * sizeof *cycles), cudaMalloc(&out, 1 << 20);
  of_size<2>(), of_size<4>(), of_size<8>();
}
