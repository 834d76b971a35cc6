// calib/looks.cu: how often warps look at an mbarrier that they wait for (try_wait, test_wait), by what happens meanwhile: nothing, arrivals at it or at another
// one, by the own or another block, copies whose bytes it or another one counts, in bulk, by boxes, by another block for all (multicast). By lanes that
// are together or apart, by one block of an SM or several. Looks are counted by the loop itself. A JSON line for each: looks and cycles of a wait, on average.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o looks looks.cu
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "dissect/tensor_map.h"

namespace {

constexpr int kRounds = 16, kMostBytes = 49152;
enum What { kArrivals, kOther, kRemote, kRemoteOther, kBulk, kBulkOther, kBox, kCast };
const char* const kWhatNames[] = {"arrivals", "arrivals_other", "remote", "remote_other", "bulk", "bulk_other", "box", "cast"};

__device__ inline uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void arrive_at(uint32_t bar, uint32_t rank) {
  uint32_t there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(bar), "r"(rank));
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
}
__device__ inline void arrive(uint32_t bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory"); }
__device__ inline void expect(uint32_t bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory"); }
__device__ inline void pause(long long cycles) {
  const long long from = clock64();
  while (clock64() - from < cycles) {
  }
}
template <bool kTest>
__device__ inline bool look(uint32_t bar, uint32_t parity) {
  uint32_t there;
  if (kTest) asm volatile("{ .reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p; }" : "=r"(there) : "r"(bar), "r"(parity) : "memory");
  else asm volatile("{ .reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p; }" : "=r"(there) : "r"(bar), "r"(parity) : "memory");
  return there;
}

/// Warp 0 makes `pieces` arrivals (or copies of `bytes` together), `apart` cycles from one to the next, at the barrier that all other warps wait for or at
/// another one; then, unless these end the phase, it arrives itself after `apart` cycles more.
template <What kWhat, bool kTest>
__global__ void looks(const __grid_constant__ CUtensorMap map, const char* from, unsigned* counts, long long* cycles, int pieces, int apart, int bytes) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bars[2];
  uint32_t rank, n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  const uint32_t bar = smem(&bars[0]), other = smem(&bars[1]), to = (smem(room) + 1023) / 1024 * 1024;
  constexpr bool copies = kWhat >= kBulk, counted = kWhat == kArrivals || kWhat == kRemote;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(counted ? pieces : 1));
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(other), "r"(kWhat == kBulkOther ? 1 : 4096));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  meet();
  const int warp = int(threadIdx.x / 32), warps = int(blockDim.x / 32) - 1;
  unsigned count = 0;
  long long waited = 0;
  for (int round = 0; round < kRounds; round++) {
    const uint32_t parity = uint32_t(round & 1);
    meet();
    if (warp == 0) {
      if (threadIdx.x == 0) {
        if (copies) expect(kWhat == kBulkOther ? other : bar, uint32_t(bytes));
        for (int i = 0; i < pieces; i++) {
          pause(apart);
          const int part = bytes / pieces;
          if (kWhat == kArrivals) arrive(bar);
          if (kWhat == kOther) arrive(other);
          if (kWhat == kRemote) arrive_at(bar, rank ^ 1);
          if (kWhat == kRemoteOther) arrive_at(other, rank ^ 1);
          if (kWhat == kBulk || kWhat == kBulkOther)
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to + uint32_t(i * part)), "l"(from + (long(round) * kMostBytes + i * part)), "r"(part),
                         "r"(kWhat == kBulk ? bar : other)
                         : "memory");
          if (kWhat == kBox)
            asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to + uint32_t(i * part)), "l"(&map), "r"(round * 64), "r"(i * part / 128), "r"(bar)
                         : "memory");
          if (kWhat == kCast)  // its half, for both
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to + uint32_t(i * part) + rank * uint32_t(part / 2)),
                         "l"(from + (long(round) * kMostBytes + i * part + rank * (part / 2))), "r"(part / 2), "r"(bar), "h"(uint16_t(3))
                         : "memory");
        }
        if (kWhat == kBulkOther)
          while (!look<false>(other, parity)) {
          }
        if (kWhat == kOther || kWhat == kRemoteOther || kWhat == kBulkOther) pause(apart), arrive(bar);
      }
      __syncwarp();
    } else {
      const long long begin = clock64();
      bool there;
      do there = look<kTest>(bar, parity), count++;
      while (!there);
      waited += clock64() - begin;
    }
  }
  meet();
  if (warp > 0 && threadIdx.x % 32 == 0) counts[blockIdx.x * warps + warp - 1] = count, cycles[blockIdx.x * warps + warp - 1] = waited;
}

/// Thread 0 copies, all arrive and wait: lanes of its warp are apart when they do (`kApart`: they wait in branches of their own), those of others together.
template <bool kApart>
__global__ void parted(const char* from, unsigned* counts, long long* cycles, int bytes) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full;
  const uint32_t bar = smem(&full);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(blockDim.x));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  unsigned count = 0;
  long long waited = 0;
  for (int round = 0; round < kRounds; round++) {
    const uint32_t parity = uint32_t(round & 1);
    const auto wait = [&] {
      const long long begin = clock64();
      bool there;
      do there = look<false>(bar, parity), count++;
      while (!there);
      waited += clock64() - begin;
    };
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(smem(room)), "l"(from + long(round) * kMostBytes), "r"(bytes), "r"(bar) : "memory");
      expect(bar, uint32_t(bytes));
      if (kApart) wait();
    } else {
      arrive(bar);
      if (kApart) wait();
    }
    if (!kApart) wait();
  }
  counts[blockIdx.x * blockDim.x + threadIdx.x] = count, cycles[blockIdx.x * blockDim.x + threadIdx.x] = waited;
}

/// Blocks of an SM of which each waits for an arrival of its own, after a time of its own.
template <bool kTest>
__global__ void crowd(unsigned* counts, long long* cycles) {
  __shared__ uint64_t waited_for;
  const uint32_t bar = smem(&waited_for);
  if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar));
  const int warp = int(threadIdx.x / 32), warps = int(blockDim.x / 32) - 1;
  unsigned count = 0;
  long long waited = 0;
  for (int round = 0; round < kRounds; round++) {
    __syncthreads();
    if (warp == 0) {
      if (threadIdx.x == 0) {
        uint32_t h = blockIdx.x * 16 + uint32_t(round) + 1;
        h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
        pause(500 + h % 2000);
        arrive(bar);
      }
      __syncwarp();
    } else {
      const long long begin = clock64();
      bool there;
      do there = look<kTest>(bar, uint32_t(round & 1)), count++;
      while (!there);
      waited += clock64() - begin;
    }
  }
  if (warp > 0 && threadIdx.x % 32 == 0) counts[blockIdx.x * warps + warp - 1] = count, cycles[blockIdx.x * warps + warp - 1] = waited;
}

unsigned* counts;
long long* cycles;
char* data;

template <bool kTest>
void measure_crowd(int on_sm, int waiting) {
  cudaFuncSetAttribute(crowd<kTest>, cudaFuncAttributeMaxDynamicSharedMemorySize, 120000);
  const int blocks = 132 * on_sm, room = on_sm == 1 ? 120000 : 220000 / on_sm / 1024 * 1024 - 2048;
  for (int i = 0; i < 2; i++) crowd<kTest><<<unsigned(blocks), unsigned(waiting + 1) * 32, size_t(room)>>>(counts, cycles);
  const size_t n = size_t(blocks) * size_t(waiting);
  std::vector<unsigned> c(n);
  std::vector<long long> t(n);
  cudaMemcpy(c.data(), counts, n * sizeof c[0], cudaMemcpyDeviceToHost);
  cudaMemcpy(t.data(), cycles, n * sizeof t[0], cudaMemcpyDeviceToHost);
  double looked = 0, waited = 0;
  for (size_t i = 0; i < n; i++) looked += c[i], waited += double(t[i]);
  std::printf("{\"what\":\"crowd\",\"by\":\"%s\",\"on_sm\":%d,\"waiting\":%d,\"looks\":%.2f,\"cycles\":%.1f,\"status\":\"%s\"}\n", kTest ? "test_wait" : "try_wait", on_sm, waiting, looked / double(n) / kRounds,
              waited / double(n) / kRounds, cudaGetErrorName(cudaGetLastError()));
}

template <bool kApart>
void measure_parted(int blocks, int warps, int bytes) {
  cudaFuncSetAttribute(parted<kApart>, cudaFuncAttributeMaxDynamicSharedMemorySize, 120000);
  for (int i = 0; i < 2; i++) parted<kApart><<<unsigned(blocks), unsigned(warps) * 32, 120000>>>(data, counts, cycles, bytes);
  const size_t n = size_t(blocks) * size_t(warps) * 32;
  std::vector<unsigned> c(n);
  std::vector<long long> t(n);
  cudaMemcpy(c.data(), counts, n * sizeof c[0], cudaMemcpyDeviceToHost);
  cudaMemcpy(t.data(), cycles, n * sizeof t[0], cudaMemcpyDeviceToHost);
  std::printf("{\"what\":\"%s\",\"by\":\"try_wait\",\"blocks\":%d,\"warps\":%d,\"bytes\":%d", kApart ? "apart" : "parted", blocks, warps, bytes);
  const char* const names[] = {"copies", "beside", "others"};
  for (int who = 0; who < 3; who++) {  // thread 0, thread 1, first threads of the other warps
    double looked = 0, waited = 0, with = 0;
    for (size_t i = 0; i < n; i++) {
      const size_t thread = i % (size_t(warps) * 32);
      if (who < 2 ? thread == size_t(who) : thread > 0 && thread % 32 == 0) looked += c[i], waited += double(t[i]), with++;
    }
    if (with > 0) std::printf(",\"%s\":%.2f,\"%s_cycles\":%.1f", names[who], looked / with / kRounds, names[who], waited / with / kRounds);
  }
  std::printf(",\"status\":\"%s\"}\n", cudaGetErrorName(cudaGetLastError()));
}

template <What kWhat, bool kTest>
void measure(int blocks, int waiting, int pieces, int apart, int bytes) {
  const CUtensorMap map = matrix_map(data, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, 1024, 4096, bytes ? uint32_t(bytes / pieces / 128) : 8, 64, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE);
  cudaFuncSetAttribute(looks<kWhat, kTest>, cudaFuncAttributeMaxDynamicSharedMemorySize, 120000);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(waiting + 1) * 32), config.dynamicSmemBytes = 120000;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {2, 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  for (int i = 0; i < 2; i++) cudaLaunchKernelEx(&config, looks<kWhat, kTest>, map, (const char*)data, counts, cycles, pieces, apart, bytes);  // the second finds all in L2
  const size_t n = size_t(blocks) * size_t(waiting);
  std::vector<unsigned> c(n);
  std::vector<long long> t(n);
  cudaMemcpy(c.data(), counts, n * sizeof c[0], cudaMemcpyDeviceToHost);
  cudaMemcpy(t.data(), cycles, n * sizeof t[0], cudaMemcpyDeviceToHost);
  double looked = 0, waited = 0;
  for (size_t i = 0; i < n; i++) looked += c[i], waited += double(t[i]);
  std::printf("{\"what\":\"%s\",\"by\":\"%s\",\"blocks\":%d,\"waiting\":%d,\"pieces\":%d,\"apart\":%d,\"bytes\":%d,\"looks\":%.2f,\"cycles\":%.1f,\"status\":\"%s\"}\n", kWhatNames[kWhat], kTest ? "test_wait" : "try_wait", blocks,
              waiting, pieces, apart, bytes, looked / double(n) / kRounds, waited / double(n) / kRounds, cudaGetErrorName(cudaGetLastError()));
}

template <What kWhat>
void measure_arrivals() {
  for (int apart : {25, 100, 400, 1600})
    for (int pieces : {1, 4, 16}) measure<kWhat, false>(2, 4, pieces, apart, 0), measure<kWhat, true>(2, 4, pieces, apart, 0);
  for (int waiting : {1, 8, 12}) measure<kWhat, false>(2, waiting, 4, 400, 0), measure<kWhat, true>(2, waiting, 4, 400, 0);
}
template <What kWhat>
void measure_copies() {
  for (int blocks : {2, 132})
    for (int bytes : {4096, 16384, 49152})
      for (int pieces : {1, 4}) {
        if (kWhat == kBox && bytes / pieces > 32768) continue;  // 256 rows
        measure<kWhat, false>(blocks, 4, pieces, 0, bytes), measure<kWhat, true>(blocks, 4, pieces, 0, bytes);
      }
  for (int waiting : {1, 8, 12}) measure<kWhat, false>(2, waiting, 4, 0, 16384), measure<kWhat, true>(2, waiting, 4, 0, 16384);
  measure<kWhat, false>(2, 4, 4, 1000, 16384), measure<kWhat, true>(2, 4, 4, 1000, 16384);
}

}  // namespace

int main() {
  cudaMalloc(&counts, 132 * 1024 * sizeof *counts), cudaMalloc(&cycles, 132 * 1024 * sizeof *cycles), cudaMalloc(&data, size_t(8) << 20);
  cudaMemset(data, 0, size_t(8) << 20);
  for (int apart : {200, 1000, 4000, 16000, 64000}) measure<kArrivals, false>(2, 4, 1, apart, 0), measure<kArrivals, true>(2, 4, 1, apart, 0);
  measure_arrivals<kArrivals>(), measure_arrivals<kOther>(), measure_arrivals<kRemote>(), measure_arrivals<kRemoteOther>();
  for (int on_sm : {1, 2, 4, 8, 16})
    for (int waiting : {1, 3, 15}) {
      if (on_sm * (waiting + 1) > 64) continue;
      measure_crowd<false>(on_sm, waiting), measure_crowd<true>(on_sm, waiting);
    }
  for (int blocks : {1, 132})
    for (int warps : {1, 4, 32})
      for (int bytes : {4096, 49152}) measure_parted<false>(blocks, warps, bytes), measure_parted<true>(blocks, warps, bytes);
  measure_copies<kBulk>(), measure_copies<kBulkOther>(), measure_copies<kBox>(), measure_copies<kCast>();
}
