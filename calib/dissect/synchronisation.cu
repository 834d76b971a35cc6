// calib/dissect/synchronisation.cu: bar.sync, mbarrier, barrier.cluster, distributed shared memory, fences.
#include "measure.h"

namespace dissect {
namespace {

constexpr int kRounds = 256;

__global__ void block_barrier(long long* cycles) {
  for (int i = 0; i < 8; i++) __syncthreads();
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++) __syncthreads();
  const long long b = clock_now();
  if (threadIdx.x == 0) *cycles = b - a;
}

/// All threads arrive, all wait: the cost of one phase.
__global__ void mbarrier_phase(long long* cycles) {
  __shared__ alignas(8) uint64_t bar;
  if (threadIdx.x == 0) init(shared_address(&bar), blockDim.x);
  __syncthreads();
  const uint32_t p = shared_address(&bar);
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(p) : "memory");
    wait(p, i & 1);
  }
  const long long b = clock_now();
  if (threadIdx.x == 0) *cycles = b - a;
}

__global__ void mbarrier_arrive_latency(long long* cycles, uint64_t* sink) {
  __shared__ alignas(8) uint64_t bar;
  init(shared_address(&bar), 1 << 19);
  const uint32_t p = shared_address(&bar);
  uint64_t state = 0;
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++) {
    uint64_t s;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(s) : "r"(p + uint32_t(state & 1) * 0) : "memory");
    state += s;
  }
  *cycles = clock_now() - a;
  *sink = state;
}

__global__ void mbarrier_test_latency(long long* cycles, uint32_t* sink) {
  __shared__ alignas(8) uint64_t bar;
  init(shared_address(&bar), 1);
  const uint32_t p = shared_address(&bar);
  uint32_t ok = 0;
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 1; @p add.u32 %0, %0, 1; }" : "+r"(ok) : "r"(p) : "memory");
  *cycles = clock_now() - a;
  *sink = ok;
}

__global__ void cluster_barrier(long long* cycles) {
  for (int i = 0; i < 4; i++) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  const long long b = clock_now();
  if (blockIdx.x == 0 && threadIdx.x == 0) *cycles = b - a;
}

/// CTA 0 chases pointers in the shared memory of the CTA of rank `peer`.
__global__ void remote_chase(long long* cycles, uint32_t peer, uint32_t* sink) {
  __shared__ uint32_t next[256];
  // Every CTA links its own array with addresses that name this CTA's place in the cluster.
  uint32_t rank, own;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(own) : "r"(shared_address(next)), "r"(rank));
  for (int i = threadIdx.x; i < 256; i += blockDim.x) next[i] = own + 4 * ((i * 17 + 5) % 256);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 0 && threadIdx.x == 0) {
    uint32_t p;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(p) : "r"(shared_address(next)), "r"(peer));
    for (int i = 0; i < 32; i++) asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(p)::"memory");
    const long long a = clock_now();
    for (int i = 0; i < kRounds; i++) asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(p)::"memory");
    *cycles = clock_now() - a;
    *sink = p;
  }
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

/// Every CTA reads its neighbour's shared memory, 16 bytes a thread: bytes per cycle and SM.
__global__ void remote_read(long long* cycles, uint4* sink) {
  extern __shared__ uint4 tile[];
  uint32_t rank, size, p;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(p) : "r"(shared_address(tile)), "r"((rank + 1) % size));
  for (int i = threadIdx.x; i < 2048; i += blockDim.x) tile[i] = make_uint4(i, i, i, i);
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  uint4 acc = make_uint4(0, 0, 0, 0);
  const long long a = clock_now();
#pragma unroll 8
  for (int i = 0; i < 64; i++) {
    uint4 v;
    asm volatile("ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(p + (threadIdx.x + i * 32) % 2048 * 16) : "memory");
    acc.x ^= v.x, acc.y ^= v.y;
  }
  __syncthreads();
  const long long b = clock_now();
  if (blockIdx.x == 0 && threadIdx.x == 0) *cycles = b - a;
  sink[threadIdx.x] = acc;
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

template <class... Args, class... Given>
void launch_cluster(void (*kernel)(Args...), int blocks, int threads, int cluster, size_t shared, Given... given) {
  cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared));
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, Args(given)...);
}

template <int kScope>
__global__ void fences(long long* cycles) {
  const long long a = clock_now();
  for (int i = 0; i < kRounds; i++) {
    if (kScope == 0) asm volatile("fence.acq_rel.cta;" ::: "memory");
    if (kScope == 1) asm volatile("fence.acq_rel.cluster;" ::: "memory");
    if (kScope == 2) asm volatile("fence.acq_rel.gpu;" ::: "memory");
    if (kScope == 3) asm volatile("fence.acq_rel.sys;" ::: "memory");
    if (kScope == 4) asm volatile("fence.proxy.async;" ::: "memory");
  }
  *cycles = clock_now() - a;
}

}  // namespace

void measure_synchronisation() {
  Buffer<uint64_t> sink(4096);
  for (int warps : {1, 2, 4, 8, 16, 32}) {
    const std::string tail = "." + std::to_string(warps) + "warps";
    report("barrier.block" + tail, cycles_of(5, kRounds, [&](long long* c) { block_barrier<<<1, warps * 32>>>(c); }), "cycles", "bar.sync back to back");
    report("mbarrier.phase" + tail, cycles_of(5, kRounds, [&](long long* c) { mbarrier_phase<<<1, warps * 32>>>(c); }), "cycles", "every thread arrives and waits");
  }
  report("mbarrier.arrive.latency", cycles_of(5, kRounds, [&](long long* c) { mbarrier_arrive_latency<<<1, 1>>>(c, sink); }), "cycles", "arrivals whose state is used");
  report("mbarrier.test_wait.latency", cycles_of(5, kRounds, [&](long long* c) { mbarrier_test_latency<<<1, 1>>>(c, reinterpret_cast<uint32_t*>(sink.p)); }), "cycles", "test_wait.parity whose predicate is used");
  const std::pair<const char*, void (*)(long long*)> scopes[] = {{"cta", fences<0>}, {"cluster", fences<1>}, {"gpu", fences<2>}, {"sys", fences<3>}, {"proxy_async", fences<4>}};
  for (const auto& [name, fence] : scopes) report(std::string("fence.") + name, cycles_of(5, kRounds, [&](long long* c) { fence<<<1, 1>>>(c); }), "cycles", "fences back to back, nothing in flight");
  for (int size : {2, 4, 8, 16}) {
    const std::string tail = "." + std::to_string(size) + "ctas";
    report("barrier.cluster" + tail, cycles_of(5, kRounds, [&](long long* c) { launch_cluster(cluster_barrier, size, 128, size, 0, c); }), "cycles", "arrive and wait, 4 warps a CTA");
    for (int peer : {1, size - 1})
      report("latency.dsmem" + tail + ".peer" + std::to_string(peer), cycles_of(5, kRounds, [&](long long* c) { launch_cluster(remote_chase, size, 32, size, 0, c, uint32_t(peer), reinterpret_cast<uint32_t*>(sink.p)); }), "cycles", "pointer chase, ld.shared::cluster");
    const int blocks = sm_count() / size * size;
    report("bandwidth.dsmem.read" + tail, scaled(cycles_of(5, 1, [&](long long* c) { launch_cluster(remote_read, blocks, 512, size, 32768, c, reinterpret_cast<uint4*>(sink.p)); }), [](double c) { return 64.0 * 512 * 16 / c; }), "B/cycle/SM", "every CTA reads its neighbour, 16 B a thread");
  }
}

}  // namespace dissect
