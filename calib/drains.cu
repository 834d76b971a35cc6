// calib/drains.cu: what rounds take in which all warps of a block store and wait until that is done: by a barrier of memory each, by that and a barrier of the
// block, by meeting a cluster of two. By warps of a block, blocks of an SM and lines that a warp stores. A JSON line for each: cycles of a round, for each warp on
// average.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o drains drains.cu
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kRounds = 32, kSms = 132;
enum Waits { kNothing, kFence, kFenceBlock, kMeet, kMeetLeader };
const char* const kNames[] = {"bar", "fence", "fence_bar", "meet", "meet_leader"};

/// `lines` of 128 bytes a warp, new ones each round, in turn over eight rounds' worth.
template <Waits kWaits, int kLines>
__global__ void drains(long long* cycles, float* data) {
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32), warps = int(blockDim.x / 32);
  float* const own = data + (size_t(blockIdx.x) * warps + warp) * 8 * (kLines > 0 ? kLines : 1) * 32 + lane;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  const long long begin = clock64();
#pragma unroll 1
  for (int r = 0; r < kRounds; r++) {
    float* const at = own + (r & 7) * kLines * 32;
#pragma unroll
    for (int k = 0; k < kLines; k++)
      if (kWaits != kMeetLeader || warp == 0) asm volatile("st.global.f32 [%0], %1;" ::"l"(at + k * 32), "f"(float(r)) : "memory");
    if (kWaits == kFence || kWaits == kFenceBlock) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if (kWaits == kNothing || kWaits == kFenceBlock) __syncthreads();
    if (kWaits == kMeet || kWaits == kMeetLeader) asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
  const long long end = clock64();
  if (lane == 0) cycles[blockIdx.x * warps + warp] = end - begin;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

long long* cycles;
float* data;

template <Waits kWaits, int kLines>
void measure(int blocks, int on_sm, int warps) {
  const int bytes = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 1024, n = blocks * on_sm * warps;
  cudaFuncSetAttribute(drains<kWaits, kLines>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks * on_sm)), config.blockDim = dim3(unsigned(warps * 32)), config.dynamicSmemBytes = size_t(bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {2, 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  for (int i = 0; i < 2; i++) cudaLaunchKernelEx(&config, drains<kWaits, kLines>, cycles, data);
  std::vector<long long> t(n);
  cudaMemcpy(t.data(), cycles, t.size() * sizeof t[0], cudaMemcpyDeviceToHost);
  double sum = 0;
  for (long long c : t) sum += double(c);
  std::printf("{\"waits\":\"%s\",\"blocks\":%d,\"on_sm\":%d,\"warps\":%d,\"lines\":%d,\"cycles\":%.1f,\"status\":\"%s\"}\n", kNames[kWaits], blocks, on_sm, warps, kLines, sum / n / kRounds, cudaGetErrorName(cudaGetLastError()));
}
template <Waits kWaits, int kLines>
void of_all() {
  for (int blocks : {2, kSms})
    for (int on_sm : {1, 2, 4})
      for (int warps : {1, 4, 8, 12, 16, 24, 32})
        if (warps * on_sm <= 64 && (blocks == kSms || on_sm == 1)) measure<kWaits, kLines>(blocks, on_sm, warps);
}
template <Waits kWaits>
void of_lines() {
  of_all<kWaits, 0>(), of_all<kWaits, 1>(), of_all<kWaits, 2>(), of_all<kWaits, 4>(), of_all<kWaits, 16>();
}

}  // namespace

int main() {
  cudaMalloc(&cycles, 132 * 64 * sizeof *cycles), cudaMalloc(&data, size_t(132) * 64 * 8 * 16 * 32 * 4);
  of_lines<kNothing>(), of_lines<kFence>(), of_lines<kFenceBlock>(), of_lines<kMeet>(), of_lines<kMeetLeader>();
}
