// calib/fences.cu: what barriers of memory take by what else an SM does: warps of one block that fence (or meet with a cluster of two) again and again beside
// warps of another block of the SM that load, store or rest. A JSON line for each: cycles of a round, for each warp that fences on average, and accesses
// of the others in 1,000 cycles meanwhile.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o fences fences.cu
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int kRounds = 32, kSms = 132;
enum Others { kRest, kLoadL2, kLoadMemory, kStoreL2, kFences };
enum Fence { kFence, kStoreFence, kLoadFence, kRelease, kAcquire, kMeet, kStoreMeet };
const char* const kOthers[] = {"rest", "load_l2", "load_memory", "store_l2", "fence"};
const char* const kFenceNames[] = {"fence", "store_fence", "load_fence", "arrive_release", "wait_acquire", "meet", "store_meet"};

/// Warps below `fencing` do rounds; of the others each goes on until those have done: accesses of 128 bytes, four at a time, over `words` of its own.
template <Fence kKind>
__global__ void mixed(long long* cycles, unsigned* counts, float* data, int fencing, Others others, unsigned words) {
  __shared__ int done;
  if (threadIdx.x == 0) done = 0;
  __syncthreads();
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32), warps = int(blockDim.x / 32);
  float* own = data + (size_t(blockIdx.x) * warps + warp) * words;
  // Barriers of a cluster need all threads: then all warps fence.
  const bool fences = kKind >= kRelease || warp < fencing;
  if (fences) {
    const long long begin = clock64();
#pragma unroll 1
    for (int r = 0; r < kRounds; r++) {
      float v = 0;
      if (kKind == kStoreFence || kKind == kStoreMeet) own[(r * 32 + lane) % words] = float(r);
      if (kKind == kLoadFence) asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v) : "l"(own + (r * 32 + lane) % words) : "memory");
      if (kKind <= kLoadFence) asm volatile("fence.acq_rel.gpu;" ::: "memory");
      if (kKind == kRelease) asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
      if (kKind == kAcquire) asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
      if (kKind >= kMeet) asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
      if (v == 12345) own[0] = v;
    }
    const long long end = clock64();
    if (lane == 0) {
      cycles[blockIdx.x * warps + warp] = end - begin;
      atomicAdd(&done, 1);
    }
  } else {
    unsigned n = 0;
    float sum = 0;
    unsigned at = 0;
    const int wanted = fencing;
    while (*reinterpret_cast<volatile int*>(&done) < wanted) {
      if (others == kRest) __nanosleep(200);
      if (others == kLoadL2 || others == kLoadMemory) {
        float v[4];
#pragma unroll
        for (int k = 0; k < 4; k++) asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[k]) : "l"(own + (at + k * 32 + lane) % words) : "memory");
        sum += v[0] + v[1] + v[2] + v[3];
      }
      if (others == kStoreL2)
#pragma unroll
        for (int k = 0; k < 4; k++) own[(at + k * 32 + lane) % words] = sum;
      at += 128, n += 4;
    }
    if (lane == 0) counts[blockIdx.x * warps + warp] = n;
    if (sum == 12345) own[0] = sum;
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

long long* cycles;
unsigned* counts;
float* data;

template <Fence kKind>
void measure(int blocks, int on_sm, int fencing, int warps, Others others) {
  // What all blocks go through: 8 MB stay in L2, a gigabyte does not.
  const size_t room = others == kLoadMemory ? size_t(1) << 28 : size_t(2) << 20;
  const int n = blocks * on_sm * warps;
  unsigned words = unsigned(room / size_t(n) / 128 * 128);
  if (others == kLoadMemory) words = words < (1u << 20) ? words : 1u << 20;
  if (words < 128) words = 128;
  const int bytes = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 1024;
  cudaFuncSetAttribute(mixed<kKind>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks * on_sm)), config.blockDim = dim3(unsigned(warps * 32)), config.dynamicSmemBytes = size_t(bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {2, 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  for (int i = 0; i < 2; i++) {
    cudaMemset(counts, 0, sizeof(unsigned) * size_t(n));
    cudaMemset(cycles, 0, sizeof(long long) * size_t(n));
    cudaLaunchKernelEx(&config, mixed<kKind>, cycles, counts, data, fencing, others, words);
  }
  std::vector<long long> t(n);
  std::vector<unsigned> c(n);
  cudaMemcpy(t.data(), cycles, t.size() * sizeof t[0], cudaMemcpyDeviceToHost);
  cudaMemcpy(c.data(), counts, c.size() * sizeof c[0], cudaMemcpyDeviceToHost);
  double sum = 0, accesses = 0;
  int with = 0;
  for (int i = 0; i < n; i++) sum += double(t[i]), with += t[i] > 0, accesses += c[i];
  const double round = sum / (with > 0 ? with : 1) / kRounds;
  std::printf("{\"kind\":\"%s\",\"others\":\"%s\",\"blocks\":%d,\"on_sm\":%d,\"fencing\":%d,\"warps\":%d,\"cycles\":%.1f,\"accesses\":%.1f,\"status\":\"%s\"}\n", kFenceNames[kKind], kOthers[others], blocks, on_sm,
              kKind >= kRelease ? warps : fencing, warps, round, accesses / (round * kRounds) / blocks * 1000, cudaGetErrorName(cudaGetLastError()));
}

}  // namespace

int main() {
  cudaMalloc(&cycles, 132 * 64 * sizeof *cycles), cudaMalloc(&counts, 132 * 64 * sizeof *counts), cudaMalloc(&data, size_t(1) << 30);
  for (int blocks : {2, kSms}) {
    for (int fencing : {1, 4, 16})
      for (Others o : {kRest, kLoadL2, kLoadMemory, kStoreL2}) {
        measure<kFence>(blocks, 1, fencing, 24, o), measure<kStoreFence>(blocks, 1, fencing, 24, o), measure<kLoadFence>(blocks, 1, fencing, 24, o);
      }
    for (int on_sm : {1, 2, 4, 8}) {
      if (on_sm > 1 && blocks < kSms) break;  // they would spread
      for (int warps : {1, 4, 8}) {
        measure<kFence>(blocks, on_sm, warps, warps, kRest), measure<kStoreFence>(blocks, on_sm, warps, warps, kRest), measure<kLoadFence>(blocks, on_sm, warps, warps, kRest);
        measure<kRelease>(blocks, on_sm, warps, warps, kRest), measure<kAcquire>(blocks, on_sm, warps, warps, kRest), measure<kMeet>(blocks, on_sm, warps, warps, kRest);
        measure<kStoreMeet>(blocks, on_sm, warps, warps, kRest);
      }
    }
  }
}
