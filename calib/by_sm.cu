// calib/by_sm.cu: what L2's latency is on each SM, alone and beside the others, of one load and of the last of 128; and what barriers take that
// bring a word of all threads along, or have work behind them.
//
//   by_sm    prints JSON lines: by_sm.chain and by_sm.last.N (N SMs at work) for each SM that took part, cycles; barrier.sync.W, barrier.red.W and barrier.workK.W, W warps
//             (barrier.two: two blocks an SM).
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

namespace {

constexpr uint32_t kLines = 16384;  // 2 MB
constexpr int kRounds = 512;

__device__ uint32_t sm() {
  uint32_t id;
  asm volatile("mov.u32 %0, %smid;" : "=r"(id));
  return id;
}

/// Each line names the next. Cycles a load, by SM.
__global__ void chain(const uint32_t* next, float* cycles) {
  if (threadIdx.x) return;
  uint32_t at = blockIdx.x * 97 % kLines;
  for (int i = 0; i < kRounds; i++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + size_t(at) * 32) : "memory");
  const long long begin = clock64();
  for (int i = 0; i < kRounds; i++) asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + size_t(at) * 32) : "memory");
  cycles[sm()] = float(clock64() - begin) / kRounds + (at == kLines);
}

/// 128 threads load a line each and wait for all of them, again and again.
__global__ void __launch_bounds__(128) last(const uint32_t* next, float* cycles) {
  uint32_t at = (blockIdx.x * 97 + threadIdx.x * 131) % kLines;
  long long begin = 0;
  for (int i = 0; i < 2 * kRounds; i++) {
    if (i == kRounds) begin = clock64();
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(at) : "l"(next + size_t(at) * 32) : "memory");
    at += uint32_t(__syncthreads_and(int(at == kLines)));
  }
  if (threadIdx.x == 0) cycles[sm()] = float(clock64() - begin) / kRounds;
}

template <bool kRed>
__global__ void barrier(float* cycles) {
  int v = int(threadIdx.x == 2000);
  const long long begin = clock64();
#pragma unroll 1
  for (int i = 0; i < kRounds; i++) {
    if constexpr (kRed)
      v = __syncthreads_or(v);
    else
      __syncthreads();
  }
  if (threadIdx.x == 0) cycles[0] = float(clock64() - begin) / kRounds + float(v);
}

/// kWork additions after each barrier, each of which needs the one before it. Cycles a round.
template <int kWork>
__global__ void work(float* cycles) {
  float x = float(threadIdx.x);
  const long long begin = clock64();
#pragma unroll 4
  for (int i = 0; i < kRounds; i++) {
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kWork; k++) asm volatile("add.f32 %0, %0, %0;" : "+f"(x));
  }
  if (threadIdx.x == 0 && blockIdx.x == 0) cycles[0] = float(clock64() - begin) / kRounds;
  if (x == 0.5f) cycles[1] = x;
}

void print(const char* name, int number, const float* cycles, int n) {
  for (int i = 0; i < n; i++)
    if (cycles[i] > 0) std::printf("{\"name\":\"%s.%d\",\"sm\":%d,\"value\":%.2f,\"unit\":\"cycles\"}\n", name, number, i, cycles[i]);
}

}  // namespace

int main() {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, 0);
  std::vector<uint32_t> order(kLines), words(size_t(kLines) * 32);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  for (uint32_t i = 0; i < kLines; i++) words[size_t(order[i]) * 32] = order[(i + 1) % kLines];
  uint32_t* next = nullptr;
  float* cycles = nullptr;
  cudaMalloc(&next, words.size() * 4);
  cudaMallocManaged(&cycles, 4096);
  cudaMemcpy(next, words.data(), words.size() * 4, cudaMemcpyHostToDevice);
  const int sms = p.multiProcessorCount;
  const auto run = [&](const char* name, int number, auto launch) {
    for (int k = 0; k < 2; k++) {
      for (int i = 0; i < 256; i++) cycles[i] = 0;
      launch();
      cudaDeviceSynchronize();
    }
    print(name, number, cycles, 256);
  };
  const size_t whole = 200 << 10;  // a block for each SM
  cudaFuncSetAttribute(chain, cudaFuncAttributeMaxDynamicSharedMemorySize, int(whole));
  cudaFuncSetAttribute(last, cudaFuncAttributeMaxDynamicSharedMemorySize, int(whole));
  for (int n : {sms / 2, sms}) run("by_sm.chain", n, [&] { chain<<<n, 32, whole>>>(next, cycles); });
  for (int n : {1, sms / 2, sms}) run("by_sm.last", n, [&] { last<<<n, 128, whole>>>(next, cycles); });
  for (int w : {1, 2, 4, 8, 16, 32}) {
    run("barrier.sync", w, [&] { barrier<false><<<1, 32 * w>>>(cycles); });
    run("barrier.red", w, [&] { barrier<true><<<1, 32 * w>>>(cycles); });
    run("barrier.work0", w, [&] { work<0><<<1, 32 * w>>>(cycles); });
    run("barrier.work1", w, [&] { work<1><<<1, 32 * w>>>(cycles); });
    run("barrier.work2", w, [&] { work<2><<<1, 32 * w>>>(cycles); });
    run("barrier.work4", w, [&] { work<4><<<1, 32 * w>>>(cycles); });
    run("barrier.work8", w, [&] { work<8><<<1, 32 * w>>>(cycles); });
    run("barrier.work32", w, [&] { work<32><<<1, 32 * w>>>(cycles); });
    if (w < 32) run("barrier.two.work4", w, [&] { work<4><<<2 * sms, 32 * w>>>(cycles); });
    if (w < 32) run("barrier.two.work32", w, [&] { work<32><<<2 * sms, 32 * w>>>(cycles); });
  }
  if (cudaError_t e = cudaGetLastError(); e != cudaSuccess) {
    std::printf("%s\n", cudaGetErrorString(e));
    return 1;
  }
}
