// calib/dissect/bulk_copies.cu: cp.async and cp.async.bulk (one-dimensional TMA): latency by size, bandwidth by size and
// stages in flight.
#include "measure.h"

namespace dissect {
namespace {

__device__ void load(uint32_t to, const void* from, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(bar) : "memory");
}

__global__ void latency(long long* cycles, const std::byte* from, uint32_t bytes, int rounds, uint32_t stride) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barrier;
  const uint32_t bar = shared_address(&barrier), to = shared_address(tile);
  init(bar, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  long long sum = 0;
  for (int i = 0; i < rounds; i++) {
    const long long a = clock_now();
    expect(bar, bytes);
    load(to, from + size_t(i) * stride, bytes, bar);
    wait(bar, i & 1);
    sum += clock_now() - a;
  }
  *cycles = sum;
}

/// Each CTA streams its own part of `from`, `stages` copies of `bytes` in flight.
__global__ void stream(const std::byte* from, size_t per_cta, uint32_t bytes, int stages) {
  extern __shared__ __align__(128) std::byte tile[];
  __shared__ alignas(8) uint64_t barriers[32];
  if (threadIdx.x) return;
  for (int s = 0; s < stages; s++) init(shared_address(&barriers[s]), 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  const std::byte* p = from + blockIdx.x * per_cta;
  const int n = int(per_cta / bytes);
  for (int i = 0; i < n + stages; i++) {
    const uint32_t bar = shared_address(&barriers[i % stages]);
    if (i >= stages) wait(bar, (i / stages - 1) & 1);
    if (i < n) {
      expect(bar, bytes);
      load(shared_address(tile) + (i % stages) * bytes, p + size_t(i) * bytes, bytes, bar);
    }
  }
}

}  // namespace

void measure_bulk_copies() {
  const size_t most = size_t(1) << (predicted() ? 26 : 30);
  Buffer<std::byte> data(most);
  cudaFuncSetAttribute(latency, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  cudaFuncSetAttribute(stream, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  for (uint32_t bytes : {16u, 128u, 512u, 1024u, 4096u, 16384u, 65536u}) {
    const std::string tail = "." + std::to_string(bytes) + "B";
    report("tma.bulk.latency.l2" + tail, cycles_of(5, 64, [&](long long* c) { latency<<<1, 1, 65536>>>(c, data, bytes, 64, 0); }), "cycles", "expect_tx, copy, wait; same source each time");
    report("tma.bulk.latency.dram" + tail, cycles_of(5, 64, [&](long long* c) { cudaMemsetAsync(data + (most / 2), 1, most / 4); latency<<<1, 1, 65536>>>(c, data, bytes, 64, 1 << 20); }), "cycles", "expect_tx, copy, wait; a new megabyte each time after 256 MB of writes");
  }
  for (uint32_t bytes : {1024u, 2048u, 4096u, 8192u, 16384u, 32768u})
    for (int stages : {1, 2, 4, 8}) {
      if (bytes * stages > (200u << 10) || (predicted() && bytes != 16384)) continue;
      for (int per_sm : {1, 2}) {
        if (per_sm * bytes * stages > (200u << 10)) continue;
        const int ctas = sm_count() * per_sm;
        const size_t per_cta = most / ctas / bytes * bytes;
        const std::string name = "tma.bulk.bandwidth." + std::to_string(bytes) + "B." + std::to_string(stages) + "stages." + std::to_string(per_sm) + "ctas";
        report(name, scaled(seconds_of(3, 1, [&] { stream<<<ctas, 32, bytes * stages>>>(data, per_cta, bytes, stages); }), [&](double s) { return double(per_cta) * ctas / s * 1e-9; }), "GB/s", "1 GiB from DRAM, every SM");
      }
    }
}

}  // namespace dissect
