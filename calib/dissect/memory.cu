// calib/dissect/memory.cu: latency and bandwidth of shared memory, caches and DRAM; bank conflicts; atomics; TLB reach.
//
// Latency is pointer chasing by one thread: each load's result is the next address. A working set of S bytes is chased
// in a random cyclic order of its 128-byte lines (every eighth line, 1024 bytes apart, for sets beyond 128 MB), after one pass to fill the caches.
#include <algorithm>
#include <numeric>
#include <random>

#include "measure.h"

namespace dissect {
namespace {

constexpr int kSteps = 2048;

template <int kKind>  // 0: cached in L1 (ca), 1: L2 only (cg)
__global__ void chase(long long* cycles, uint64_t* start, int warm, uint64_t* sink) {
  uint64_t* p = start;
  const auto step = [&] {
    uint64_t v;
    if (kKind == 0) asm volatile("ld.global.ca.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    else asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    p = reinterpret_cast<uint64_t*>(v);
  };
  for (int i = 0; i < warm; i++) step();
  const long long a = clock_now();
  for (int i = 0; i < kSteps; i++) step();
  const long long b = clock_now();
  *cycles = b - a;
  *sink = reinterpret_cast<uint64_t>(p);
}

/// Links the lines of [base, base+bytes) into one random cycle.
void link(uint64_t* base, size_t bytes, size_t stride, uint32_t seed) {
  const size_t n = bytes / stride;
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(seed));
  std::vector<uint64_t> host(bytes / 8, 0);
  const uint64_t address = reinterpret_cast<uint64_t>(base);
  for (size_t i = 0; i < n; i++) host[order[i] * stride / 8] = address + uint64_t(order[(i + 1) % n]) * stride;
  cudaMemcpy(base, host.data(), bytes, cudaMemcpyHostToDevice);
}

void measure_latency() {
  Buffer<uint64_t> sink(1);
  for (size_t kb : {16, 64, 128, 192, 224, 256, 512, 1024, 4096, 8192, 16384, 20480, 24576, 28672, 32768, 40960, 49152, 57344, 65536, 98304, 131072, 262144, 524288}) {
    if (predicted() && kb > 65536) break;
    const size_t bytes = kb << 10, stride = bytes > (128u << 20) ? 1024 : 128;
    Buffer<uint64_t> data(bytes / 8);
    if (!data.p) continue;
    link(data, bytes, stride, 1);
    const int warm = int(std::min<size_t>(bytes / stride, 1000000));
    report("latency.global.ca." + std::to_string(kb) + "KB", cycles_of(3, kSteps, [&](long long* c) { chase<0><<<1, 1>>>(c, data, warm, sink); }), "cycles", "random pointer chase, ld.ca");
    if (kb >= 1024)
      report("latency.global.cg." + std::to_string(kb) + "KB", cycles_of(3, kSteps, [&](long long* c) { chase<1><<<1, 1>>>(c, data, warm, sink); }), "cycles", "random pointer chase, ld.cg");
  }
}

__global__ void shared_chase(long long* cycles, uint32_t* sink) {
  __shared__ uint32_t next[1024];
  for (int i = 0; i < 1024; i++) next[i] = shared_address(&next[(i * 17 + 5) % 1024]);
  uint32_t p = shared_address(next);
  for (int i = 0; i < 64; i++) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(p)::"memory");
  const long long a = clock_now();
#pragma unroll 64
  for (int i = 0; i < kSteps; i++) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(p)::"memory");
  *cycles = clock_now() - a;
  *sink = p;
}

__constant__ uint32_t constants[4096];
__global__ void constant_chase(long long* cycles, uint32_t* sink, int lines) {
  uint32_t i = 0;
  for (int k = 0; k < lines; k++) i = constants[i];
  const long long a = clock_now();
  for (int k = 0; k < 512; k++) i = constants[i];
  *cycles = clock_now() - a;
  *sink = i;
}

/// 32 lanes, stride in words: degree of bank conflict; 8 loads in flight.
__global__ void shared_conflict(long long* cycles, uint32_t* sink, int stride) {
  __shared__ uint32_t data[8192];
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) data[i] = i;
  __syncthreads();
  const uint32_t p = shared_address(data + (threadIdx.x % 32) * stride % 8192);
  uint32_t sum = 0;
  const long long a = clock_now();
#pragma unroll 8
  for (int i = 0; i < 512; i++) {
    uint32_t v;
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(v) : "r"(p) : "memory");
    sum += v;
  }
  __syncthreads();
  if (threadIdx.x == 0) *cycles = clock_now() - a;
  sink[threadIdx.x] = sum;
}

void measure_shared() {
  Buffer<uint32_t> sink(1024);
  report("latency.shared", cycles_of(7, kSteps, [&](long long* c) { shared_chase<<<1, 1>>>(c, sink); }), "cycles", "pointer chase, ld.shared.u32");
  for (int lines : {1, 64, 1024, 4096}) {
    std::vector<uint32_t> host(4096);
    for (int i = 0; i < 4096; i++) host[i] = uint32_t((i + 16) % std::max(16, lines * 16 > 4096 ? 4096 : lines * 16));
    cudaMemcpyToSymbol(constants, host.data(), sizeof constants);
    report("latency.constant." + std::to_string(lines * 64 > 16384 ? 16384 : lines * 64) + "B", cycles_of(5, 512, [&](long long* c) { constant_chase<<<1, 1>>>(c, sink, lines); }), "cycles", "indexed constant loads");
  }
  for (int stride : {0, 1, 2, 4, 8, 16, 32})
    report("interval.shared.stride" + std::to_string(stride), scaled(cycles_of(5, 512 * 8, [&](long long* c) { shared_conflict<<<1, 256>>>(c, sink, stride); }), [](double c) { return c; }), "cycles/warp load/SM", "8 warps, ld.shared.u32, word stride");
}

template <int kOp>
__global__ void atomics(long long* cycles, uint32_t* p, int spread, int rounds) {
  __shared__ uint32_t local[1024];
  local[threadIdx.x] = 0;
  __syncthreads();
  uint32_t v = threadIdx.x, *q = p + (blockIdx.x * blockDim.x + threadIdx.x) * spread;
  const uint32_t s = shared_address(&local[threadIdx.x * spread % 1024]);
  const long long a = clock_now();
  for (int i = 0; i < rounds; i++) {
    if (kOp == 0) asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(v) : "l"(q) : "memory");
    if (kOp == 1) asm volatile("red.global.add.u32 [%1], %0;" ::"r"(v), "l"(q) : "memory");
    if (kOp == 2) asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(v) : "r"(s) : "memory");
    if (kOp == 3) asm volatile("atom.global.cas.b32 %0, [%1], %0, %0;" : "+r"(v) : "l"(q) : "memory");
    if (kOp == 4) asm volatile("{ .reg .f32 f; mov.b32 f, %0; atom.global.add.f32 f, [%1], f; mov.b32 %0, f; }" : "+r"(v) : "l"(q) : "memory");
  }
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) *cycles = clock_now() - a;
  p[(1 << 20) + threadIdx.x] = v;
}

void measure_atomics() {
  Buffer<uint32_t> data((1 << 20) + 1024);
  const auto run = [&](const char* name, auto kernel, int blocks, int threads, int spread, int rounds) {
    report(name, cycles_of(5, rounds, [&](long long* c) { kernel<<<blocks, threads>>>(c, data, spread, rounds); }), "cycles/round", "one atomic a thread and round");
  };
  run("atomic.latency.global.add", atomics<0>, 1, 1, 1, 256);
  run("atomic.latency.global.cas", atomics<3>, 1, 1, 1, 256);
  run("atomic.latency.global.add_f32", atomics<4>, 1, 1, 1, 256);
  run("atomic.latency.shared.add", atomics<2>, 1, 1, 1, 256);
  run("atomic.warp.global.add.same_address", atomics<0>, 1, 32, 0, 256);
  run("atomic.warp.global.add.consecutive", atomics<0>, 1, 32, 1, 256);
  run("atomic.warp.global.add.lines", atomics<0>, 1, 32, 32, 256);
  run("atomic.warp.shared.add.same_address", atomics<2>, 1, 32, 0, 256);
  run("atomic.warp.shared.add.consecutive", atomics<2>, 1, 32, 1, 256);
  run("atomic.gpu.red.same_address", atomics<1>, sm_count(), 256, 0, 64);
  run("atomic.gpu.red.consecutive", atomics<1>, sm_count(), 256, 1, 64);
  run("atomic.gpu.atom.consecutive", atomics<0>, sm_count(), 256, 1, 64);
}

__global__ void read_stream(const uint4* p, size_t n, uint4* sink) {
  uint4 acc = make_uint4(0, 0, 0, 0);
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) {
    const uint4 v = p[i];
    acc.x ^= v.x, acc.y ^= v.y, acc.z ^= v.z, acc.w ^= v.w;
  }
  if (acc.x == 0x12345678) *sink = acc;
}
__global__ void copy_stream(const uint4* p, uint4* q, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) q[i] = p[i];
}
__global__ void write_stream(uint4* q, size_t n) {
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += step) q[i] = make_uint4(i, 1, 2, 3);
}

void measure_bandwidth() {
  const size_t most = size_t(1) << 30;
  Buffer<uint4> a(most / 16), b(most / 16);
  const int blocks = sm_count() * 8;
  for (size_t mb : {1, 4, 8, 16, 24, 32, 48, 64, 128, 256, 1024}) {
    if (predicted() && mb > 64) break;
    const size_t bytes = mb << 20, n = bytes / 16;
    const int inner = int(std::max<size_t>(2, (size_t(2) << 30) / bytes / 8));
    const auto gbs = [&](double factor) { return [=](double s) { return factor * double(bytes) / s * 1e-9; }; };
    report("bandwidth.read." + std::to_string(mb) + "MB", scaled(seconds_of(7, inner, [&] { read_stream<<<blocks, 256>>>(a, n, b); }), gbs(1)), "GB/s", "16-byte loads, grid stride, warm, launch gaps included");
    report("bandwidth.copy." + std::to_string(mb) + "MB", scaled(seconds_of(7, inner, [&] { copy_stream<<<blocks, 256>>>(a, b, n); }), gbs(2)), "GB/s", "bytes read plus bytes written");
    report("bandwidth.write." + std::to_string(mb) + "MB", scaled(seconds_of(7, inner, [&] { write_stream<<<blocks, 256>>>(b, n); }), gbs(1)), "GB/s", "16-byte stores");
  }
}

}  // namespace

void measure_memory() {
  measure_shared();
  measure_latency();
  measure_atomics();
  measure_bandwidth();
}

}  // namespace dissect
