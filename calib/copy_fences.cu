// calib/copy_fences.cu: what barriers of memory take beside bulk copies of another warp.
//
// `shot`: one warp of a block makes some copies at once (from L2 or memory; for itself or for all of its cluster; to L2), another one fences so many cycles
// later or earlier, a third one perhaps so many cycles behind it; or a block fences beside another one of its SM. Before that a copy may have come, or lines have been stored, since the last fence. A JSON line
// for each: when the copies were issued and had come, and when the fences began and ended, in cycles from the first copy on.
// `ring`: one warp copies into a ring for as long as the launch lasts, others fence again and again, or arrive at an mbarrier, their own or another block's,
// with or without releasing to the cluster. A JSON line for each: cycles of a fence (or arrival), of a copy.
//
// Build: nvcc -O3 -std=c++20 -arch=sm_90a -o copy_fences copy_fences.cu
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int kShots = 8, kRing = 256;

__device__ inline uint32_t smem(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }
__device__ inline void meet() { asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ inline void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ inline void init(uint64_t* bar) { asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(smem(bar))); }
__device__ inline void expect(uint64_t* bar, uint32_t bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory"); }
__device__ inline void wait(uint64_t* bar, uint32_t parity) {
  asm volatile("{ .reg .pred p;\nW: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra D;\nbra W;\nD: }" ::"r"(smem(bar)), "r"(parity) : "memory");
}
__device__ inline void copy(uint32_t to, const char* from, uint32_t bytes, uint64_t* bar, uint32_t mask) {
  if (mask)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(bytes), "r"(smem(bar)), "h"(uint16_t(mask)) : "memory");
  else asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(smem(bar)) : "memory");
}
__device__ inline void until(long long when) {
  while (clock64() < when) {
  }
}

enum Way { kLoad, kCast, kPeer, kStore };  // each block for itself; each a part for all; the first block for all, while the others fence; to memory
const char* const kWays[] = {"load", "cast", "peer", "store"};
enum Before { kNothing, kCopied, kStored };
const char* const kBefore[] = {"nothing", "copied", "stored"};
constexpr int kNone = 1 << 20, kAhead = 1000;  // cycles from the beginning to the first copy
struct Shot {
  float issued = 0, came = 0, fences = 0, fenced = 0, fences2 = 0, fenced2 = 0;
};
struct Plan {
  int copies, bytes, later, second;
  Before before;
  long apart;
};

template <Way kWay>
__global__ void shot(char* data, Shot* shots, Plan plan) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full, early;
  __shared__ long long start, issued, came, fences, fenced, fences2, fenced2;
  uint32_t rank, n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  const uint32_t bytes = uint32_t(plan.bytes), part = kWay == kCast ? bytes / n : bytes, all = (1u << n) - 1, mine = kWay == kCast ? rank * part : 0;
  if (threadIdx.x == 0) {
    init(&full), init(&early);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  Shot sum;
  const bool makes = kWay != kPeer || rank == 0;
  for (int round = 0; round < kShots; round++) {
    char* own = data + long(round) * plan.copies * plan.bytes + long(blockIdx.x) * plan.apart;
    if (threadIdx.x == 0 && kWay != kStore) expect(&full, uint32_t(plan.copies) * bytes);
    if (threadIdx.x == 0) issued = came = fences2 = fenced2 = 0;
    meet();
    if (plan.before == kCopied && threadIdx.x == 0) {
      expect(&early, 49152);
      copy(smem(room), data + long(round) * 49152, 49152, &early, 0);
      wait(&early, uint32_t(round & 1));
    }
    if (plan.before == kStored && threadIdx.x / 32 == 1)
      for (int i = 0; i < 8; i++) reinterpret_cast<volatile int*>(data)[(512l << 18) + (long(blockIdx.x) * 8 + i) * 1024 + long(threadIdx.x % 32) * 32] = round;
    if (threadIdx.x == 0) start = clock64() + 2000;
    __syncthreads();
    const long long first = start + kAhead;
    if (threadIdx.x == 0) {
      until(first);
      for (int i = 0; i < plan.copies && makes; i++) {
        const uint32_t to = smem(room) + uint32_t(i) * bytes + mine;
        if (kWay == kStore) asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(own + long(i) * bytes), "r"(to), "r"(bytes) : "memory");
        else copy(to, own + long(i) * bytes + mine, part, &full, kWay == kLoad ? 0 : all);
      }
      if (kWay == kStore) asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      issued = clock64() - first;
      if (kWay == kStore) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
      else wait(&full, uint32_t(round & 1));
      came = clock64() - first;
    } else if (threadIdx.x == 32) {
      until(first + plan.later);
      fences = clock64() - first;
      fence();
      fenced = clock64() - first;
    } else if (threadIdx.x == 64 && plan.second != kNone) {
      until(first + plan.later + plan.second);
      fences2 = clock64() - first;
      fence();
      fenced2 = clock64() - first;
    }
    __syncthreads();
    if (round > 0 && threadIdx.x == 0) sum.issued += float(issued), sum.came += float(came), sum.fences += float(fences), sum.fenced += float(fenced), sum.fences2 += float(fences2), sum.fenced2 += float(fenced2);
  }
  meet();
  if (threadIdx.x == 0) shots[blockIdx.x] = sum;
}

/// Of two blocks of an SM one copies and the other one fences. `starts` of each SM and round and `roles` of each SM begin as zeros.
__global__ void neighbours(const char* data, Shot* shots, long long* starts, int* roles, Plan plan) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full;
  if (threadIdx.x > 0) return;
  uint32_t sm;
  asm("mov.u32 %0, %%smid;" : "=r"(sm));
  const int role = atomicAdd(&roles[sm], 1);
  volatile long long* start = starts + sm * kShots;
  init(&full);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  for (int round = 0; round < kShots; round++) {
    if (role == 0) {
      expect(&full, uint32_t(plan.copies * plan.bytes));
      const long long first = clock64() + 10000;
      start[round] = first;
      until(first);
      for (int i = 0; i < plan.copies; i++) copy(smem(room) + uint32_t(i * plan.bytes), data + (long(round) * plan.copies + i) * plan.bytes, uint32_t(plan.bytes), &full, 0);
      const long long issued = clock64();
      wait(&full, uint32_t(round & 1));
      if (round > 0) shots[sm].issued += float(issued - first), shots[sm].came += float(clock64() - first);
    } else if (role == 1) {
      while (start[round] == 0) {
      }
      const long long first = start[round];
      until(first + plan.later);
      const long long fences = clock64();
      fence();
      const long long fenced = clock64();
      if (round > 0) shots[sm].fences += float(fences - first), shots[sm].fenced += float(fenced - first);
    }
  }
}

enum Kind { kFence, kFenceCluster, kRelease, kReleaseRemote, kRemote };
const char* const kKinds[] = {"fence.gpu", "fence.cluster", "arrive.release", "arrive.release.remote", "arrive.remote"};

/// Warp 0 makes kRing copies, `stages` under way; the others fence until it has done, `rest` cycles from one to the next.
template <Kind kKind>
__global__ void ring(const char* from, long long* cycles, unsigned* counts, int stages, uint32_t bytes, int rest) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t full[8], told;
  __shared__ int done;
  uint32_t rank, n;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  if (threadIdx.x == 0) {
    for (int i = 0; i < 8; i++) init(&full[i]);
    init(&told);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    done = 0;
  }
  __syncthreads();
  meet();
  const int warp = int(threadIdx.x / 32), warps = int(blockDim.x / 32), slot = int(blockIdx.x) * warps + warp;
  if (threadIdx.x == 0) {
    const long long begin = clock64();
    int stage = 0;
    uint32_t phase = 1;
    for (int i = 0; i < kRing + stages; i++) {
      if (i >= stages) wait(&full[stage], phase);
      if (i < kRing) {
        expect(&full[stage], bytes);
        copy(smem(room) + uint32_t(stage) * bytes, from + uint32_t(i & 15) * bytes, bytes, &full[stage], 0);
      }
      if (++stage == stages) stage = 0, phase ^= 1;
    }
    cycles[slot] = clock64() - begin, counts[slot] = kRing;
    *reinterpret_cast<volatile int*>(&done) = 1;
  } else if (warp > 0 && threadIdx.x % 32 == 0) {
    unsigned count = 0;
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(smem(&told)), "r"(n > 1 ? rank ^ 1 : rank));
    long long fenced = 0;
    while (*reinterpret_cast<volatile int*>(&done) == 0) {
      const long long before = clock64();
      if (kKind == kFence) fence();
      if (kKind == kFenceCluster) asm volatile("fence.acq_rel.cluster;" ::: "memory");
      if (kKind == kRelease) asm volatile("mbarrier.arrive.release.cluster.shared::cta.b64 _, [%0];" ::"r"(smem(&told)) : "memory");
      if (kKind == kReleaseRemote) asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      if (kKind == kRemote) asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(there) : "memory");
      const long long after = clock64();
      fenced += after - before, count++;
      until(after + rest);
    }
    cycles[slot] = fenced, counts[slot] = count;
  }
  __syncthreads();
  meet();
}

constexpr int kRoom = 200'000, kSms = 132;
char* data;
Shot* shots;
long long* cycles;
unsigned* counts;

template <class Kernel, class... Args>
void launch(Kernel kernel, int size, int blocks, int threads, Args... args) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kRoom);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks)), config.blockDim = dim3(unsigned(threads)), config.dynamicSmemBytes = kRoom;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension, attribute.val.clusterDim = {unsigned(size), 1, 1};
  config.attrs = &attribute, config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, args...);
}

template <Way kWay>
void measure_shot(int size, int blocks, int copies, int bytes, int later, Before before = kNothing, int second = kNone, bool memory = false) {
  const int n = blocks ? blocks / size * size : size;
  const long apart = memory ? long(kShots) * copies * bytes : kWay == kStore ? long(copies) * bytes : 0;
  for (int i = 0; i < 2; i++) {  // what is to come from memory L2 has not seen for long
    if (memory) cudaMemset(data + (512l << 20), i, 256l << 20);
    launch(shot<kWay>, size, n, 96, data, shots, Plan{copies, bytes, later, second, before, apart});
  }
  std::vector<Shot> s(n);
  cudaMemcpy(s.data(), shots, s.size() * sizeof s[0], cudaMemcpyDeviceToHost);
  Shot all;
  int with = 0;
  for (int b = 0; b < n; b++)
    if (kWay != kPeer || b % size)
      with++, all.issued += s[b].issued, all.came += s[b].came, all.fences += s[b].fences, all.fenced += s[b].fenced, all.fences2 += s[b].fences2, all.fenced2 += s[b].fenced2;
  const float of = 1.f / float(with * (kShots - 1));
  std::printf("{\"way\":\"%s\",\"cluster\":%d,\"blocks\":%d,\"copies\":%d,\"bytes\":%d,\"later\":%d,\"before\":\"%s\",\"memory\":%d,\"issued\":%.1f,\"came\":%.1f,\"fences\":%.1f,\"fenced\":%.1f,", kWays[kWay], size, n, copies, bytes, later, kBefore[before],
              int(memory), all.issued * of, all.came * of, all.fences * of, all.fenced * of);
  if (second != kNone) std::printf("\"fences2\":%.1f,\"fenced2\":%.1f,", all.fences2 * of, all.fenced2 * of);
  std::printf("\"status\":\"%s\"}\n", cudaGetErrorName(cudaGetLastError()));
}

void measure_neighbours(int copies, int bytes, int later) {
  cudaFuncSetAttribute(neighbours, cudaFuncAttributeMaxDynamicSharedMemorySize, 100'000);
  Shot all;
  for (int i = 0; i < 2; i++) {
    cudaMemset(shots, 0, kSms * sizeof *shots), cudaMemset(cycles, 0, kSms * kShots * sizeof *cycles), cudaMemset(counts, 0, kSms * sizeof *counts);
    neighbours<<<2 * kSms, 32, 100'000>>>(data, shots, cycles, reinterpret_cast<int*>(counts), Plan{copies, bytes, later, kNone, kNothing, 0});
  }
  std::vector<Shot> s(kSms);
  cudaMemcpy(s.data(), shots, s.size() * sizeof s[0], cudaMemcpyDeviceToHost);
  int with = 0;
  for (const Shot& of : s)
    if (of.came > 0 && of.fenced != of.fences) with++, all.issued += of.issued, all.came += of.came, all.fences += of.fences, all.fenced += of.fenced;
  const float of = 1.f / float(with * (kShots - 1));
  std::printf("{\"way\":\"load_of_neighbour\",\"cluster\":1,\"blocks\":%d,\"copies\":%d,\"bytes\":%d,\"later\":%d,\"before\":\"nothing\",\"memory\":0,\"issued\":%.1f,\"came\":%.1f,\"fences\":%.1f,\"fenced\":%.1f,\"status\":\"%s\"}\n", 2 * with, copies, bytes,
              later, all.issued * of, all.came * of, all.fences * of, all.fenced * of, cudaGetErrorName(cudaGetLastError()));
}

template <Kind kKind>
void measure_ring(int blocks, int fencing, int stages, int bytes, int rest = 0) {
  const int warps = fencing + 1;
  for (int i = 0; i < 2; i++) launch(ring<kKind>, 2, blocks, warps * 32, (const char*)data, cycles, counts, stages, uint32_t(bytes), rest);
  std::vector<long long> t(size_t(blocks) * size_t(warps));
  std::vector<unsigned> c(t.size());
  cudaMemcpy(t.data(), cycles, t.size() * sizeof t[0], cudaMemcpyDeviceToHost);
  cudaMemcpy(c.data(), counts, c.size() * sizeof c[0], cudaMemcpyDeviceToHost);
  double copied = 0, fenced = 0, fences = 0;
  for (size_t i = 0; i < t.size(); i++)
    if (i % size_t(warps) == 0) copied += double(t[i]) / c[i];
    else fenced += double(t[i]), fences += c[i];
  std::printf("{\"kind\":\"%s\",\"blocks\":%d,\"fencing\":%d,\"stages\":%d,\"bytes\":%d,\"rest\":%d,\"fence\":%.1f,\"copy\":%.1f,\"status\":\"%s\"}\n", kKinds[kKind], blocks, fencing, stages, bytes, rest, fences > 0 ? fenced / fences : 0, copied / blocks,
              cudaGetErrorName(cudaGetLastError()));
}

template <Kind kKind>
void measure_rings() {
  for (int blocks : {2, kSms})
    for (int bytes : {1024, 16384, 49152})
      for (int stages : {1, 4})
        for (int fencing : {0, 1, 2, 8}) measure_ring<kKind>(blocks, fencing, stages, bytes);
  for (int rest : {500, 2000})
    for (int stages : {1, 4}) measure_ring<kKind>(kSms, 1, stages, 16384, rest);
}

}  // namespace

int main() {
  cudaMalloc(&data, size_t(768) << 20), cudaMalloc(&shots, kSms * sizeof *shots), cudaMalloc(&cycles, kSms * 32 * sizeof *cycles), cudaMalloc(&counts, kSms * 32 * sizeof *counts);
  cudaMemset(data, 0, size_t(768) << 20);
  for (int blocks : {1, kSms}) {
    measure_shot<kLoad>(1, blocks, 0, 1024, 0);
    for (int bytes : {1024, 4096, 8192, 16384, 32768, 49152})
      for (int copies : {1, 2, 4})
        for (int later : {0, 100, 200, 400, 800, 1600}) measure_shot<kLoad>(1, blocks, copies, bytes, later);
    for (int bytes : {16384, 49152})
      for (int copies : {1, 4})
        for (int later : {-800, -600, -400, -200, -100, 0, 200, 800}) measure_shot<kLoad>(1, blocks, copies, bytes, later, kCopied), measure_shot<kLoad>(1, blocks, copies, bytes, later, kStored);
    for (int second : {0, 50, 100, 150, 200, 300, 400, 500, 600, 800}) {
      for (Before before : {kNothing, kCopied, kStored}) measure_shot<kLoad>(1, blocks, 0, 1024, 0, before, second);
      for (int later : {-300, 100}) measure_shot<kLoad>(1, blocks, 1, 49152, later, kCopied, second), measure_shot<kLoad>(1, blocks, 4, 16384, later, kCopied, second);
    }
  }
  for (int size : {2, 4})
    for (int blocks : {0, kSms})
      for (int bytes : {4096, 16384, 49152})
        for (int copies : {1, 4})
          for (int later : {0, 200, 400, 800, 1600}) measure_shot<kCast>(size, blocks, copies, bytes, later), measure_shot<kPeer>(size, blocks, copies, bytes, later);
  for (int blocks : {1, kSms})
    for (int bytes : {4096, 16384, 49152})
      for (int copies : {1, 4})
        for (int later : {0, 200, 400, 800, 1600}) measure_shot<kLoad>(1, blocks, copies, bytes, later, kNothing, kNone, true), measure_shot<kStore>(1, blocks, copies, bytes, later);
  for (int bytes : {16384, 49152})
    for (int copies : {1, 2})
      for (int later : {-400, -200, 0, 100, 200, 400, 800, 1600}) measure_neighbours(copies, bytes, later);
  std::fflush(stdout);
  measure_rings<kFence>(), measure_rings<kFenceCluster>(), measure_rings<kRelease>(), measure_rings<kReleaseRemote>(), measure_rings<kRemote>();
}
