// calib/steps/memory.cu: reads, writes and copies at each level of memory by width and parallelism, random access, atomics.
#include <algorithm>

#include "steps.h"

namespace {
using namespace steps;

/// Reads `words` words of T `rounds` times, 4 loads in flight a thread.
template <class T>
__device__ void stream_read(const T* p, float* out, long n, int rounds) {
  float acc = 0;
  const long step = long(gridDim.x) * blockDim.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += step) {
      const T v = p[i];
      if constexpr (sizeof(T) == 16) acc += v.x + v.w;
      else acc += v;
    }
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void read4_block(const float* p, float* out, int n, int rounds) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 4
    for (int i = threadIdx.x; i < n; i += blockDim.x) acc += p[i];
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void read4(const float* p, float* out, long n, int rounds) { stream_read(p, out, n, rounds); }
__global__ void read16(const float4* p, float* out, long n, int rounds) { stream_read(p, out, n, rounds); }
__global__ void read_once4(const float* p, float* out, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < n && p[i] == 12345.678f) out[0] = 1;
}
__global__ void write4(float* p, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = 1;
}
__global__ void write16(float4* p, long n) {
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) p[i] = make_float4(1, 2, 3, 4);
}
__global__ void copy_loop16(const float4* a, float4* b, long n) {
#pragma unroll 4
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) b[i] = a[i];
}
__global__ void copy_loop4(const float* a, float* b, long n) {
#pragma unroll 4
  for (long i = blockIdx.x * long(blockDim.x) + threadIdx.x; i < n; i += long(gridDim.x) * blockDim.x) b[i] = a[i];
}
__global__ void random_read(const float* p, float* out, uint32_t mask, int per) {
  float acc = 0;
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) acc += p[mix(t * 64 + i) & mask];
  if (acc == 12345.678f) out[0] = acc;
}
__global__ void random_write(float* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) p[mix(t * 64 + i) & mask] = 1;
}
__global__ void random_add(uint32_t* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&p[mix(t * 64 + i) & mask], 1u);
}
__global__ void random_add_float(float* p, uint32_t mask, int per) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&p[mix(t * 64 + i) & mask], 1.f);
}
__global__ void add_uniform(uint32_t* p, int per) {  // a warp to one address
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (int i = 0; i < per; i++) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p + (warp & 1023) * 32), "r"(threadIdx.x) : "memory");
}
__global__ void add_one_address(float* p, int per) {
  for (int i = 0; i < per; i++)
    if (threadIdx.x % 32 == 0) atomicAdd(p, 1.f);
}
/// Every warp's first lane adds to one of `words` words, `apart` words from each other.
__global__ void add_words(uint32_t* p, uint32_t words, uint32_t apart, int per) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  for (int i = 0; i < per; i++)
    if (threadIdx.x % 32 == 0) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p + (warp * 7 + i) % words * apart), "r"(i) : "memory");
}
/// Every lane of every warp adds to one word, with values that differ.
__global__ void add_lanes(uint32_t* p, int per) {
  for (int i = 0; i < per; i++) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(threadIdx.x + i) : "memory");
}
__global__ void swap_random(uint32_t* p, uint32_t mask, int per, uint32_t* out) {  // compare and swap, new addresses
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t s = 0;
  for (int i = 0; i < per; i++) s += atomicCAS(&p[mix(t * 64 + i) & mask], 0u, t);
  if (s == 77) *out = s;
}
__global__ void exchange_random(uint32_t* p, uint32_t mask, int per, uint32_t* out) {
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t s = 0;
#pragma unroll 4
  for (int i = 0; i < per; i++) s += atomicExch(&p[mix(t * 64 + i) & mask], i);
  if (s == 77) *out = s;
}
__global__ void shared_add(uint32_t* out, uint32_t mask, int per) {
  __shared__ uint32_t s[1024];
  for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = 0;
  __syncthreads();
  const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 4
  for (int i = 0; i < per; i++) atomicAdd(&s[mix(t * 64 + i) & mask], 1u);
  __syncthreads();
  out[t] = s[threadIdx.x];
}

TRUTH("l1", "read4_l1", {4, 16, 64}, [](long warps) {  // every block the same 16 KB
  auto p = zeros<float>(4096);
  auto o = zeros<float>(32);
  return [=] { read4_block<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(p, o, 4096, 50); };
});
TRUTH("l2", "read4_l2", {8, 16, 24, 32, 40, 56}, [](long mb) {
  const long n = mb << 18;
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read4<<<264, 1024>>>(p, o, n, 20); };
});
TRUTH("l2", "read16_l2", {4, 8, 16, 24, 32, 40, 56}, [](long mb) {
  const long n = mb << 16;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<264, 1024>>>((const float4*)p.p, o, n, 20); };
});
TRUTH("l2", "read16_l2_few", {1, 4, 16, 64}, [](long blocks) {  // blocks of 1024 threads over 4 MB
  const long n = 4l << 16;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<int(blocks), 1024>>>((const float4*)p.p, o, n, 4); };
});
TRUTH("dram", "read16", {128, 256, 512, 1024, 2048}, [](long threads) {  // threads an SM, 1 GiB
  const long n = 1l << 26;
  auto p = zeros<float>(n * 4);
  auto o = zeros<float>(32);
  return [=] { read16<<<132 * int(threads > 1024 ? 2 : 1), int(std::min(threads, 1024l))>>>((const float4*)p.p, o, n, 1); };
});
TRUTH("dram", "read4", {256, 1024, 2048}, [](long threads) {
  const long n = 1l << 26;
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read4<<<132 * int(threads > 1024 ? 2 : 1), int(std::min(threads, 1024l))>>>(p, o, n, 1); };
});
TRUTH("dram", "read_once4", {1 << 20, 1 << 24, 1 << 27}, [](long n) {
  auto p = zeros<float>(n);
  auto o = zeros<float>(32);
  return [=] { read_once4<<<blocks_for(n, 256), 256>>>(p, o, n); };
});
TRUTH("dram", "write16", {4, 8, 16, 32, 64, 128, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { write16<<<264, 1024>>>((float4*)p.p, mb << 16); };
});
TRUTH("dram", "write4", {16, 64, 512}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { write4<<<264, 1024>>>(p, mb << 18); };
});
TRUTH("dram", "copy_loop16", {8, 32, 64, 256, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18);
  return [=] { copy_loop16<<<264, 1024>>>((const float4*)p.p, (float4*)q.p, mb << 16); };
});
TRUTH("dram", "copy_loop4", {64, 512}, [](long mb) {
  auto p = zeros<float>(mb << 18), q = zeros<float>(mb << 18);
  return [=] { copy_loop4<<<264, 1024>>>(p, q, mb << 18); };
});
TRUTH("random", "random_read", {1, 8, 24, 48, 128, 1024, 8192}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  auto o = zeros<float>(32);
  return [=] { random_read<<<264, 1024>>>(p, o, uint32_t((mb << 18) - 1), 32); };
});
TRUTH("random", "random_write", {8, 128, 1024}, [](long mb) {
  auto p = zeros<float>(mb << 18);
  return [=] { random_write<<<264, 1024>>>(p, uint32_t((mb << 18) - 1), 16); };
});
TRUTH("atomic", "random_add", {1, 8, 1024}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10);
  return [=] { random_add<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "random_add_float", {4, 1024}, [](long kwords) {
  auto p = zeros<float>(kwords << 10);
  return [=] { random_add_float<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "add_uniform", {1, 16}, [](long per) {
  auto p = zeros<uint32_t>(32768);
  return [=] { add_uniform<<<264, 1024>>>(p, int(per) * 16); };
});
TRUTH("atomic", "add_one_address", {1, 16}, [](long per) {
  auto p = zeros<float>(32);
  return [=] { add_one_address<<<264, 1024>>>(p, int(per)); };
});
TRUTH("atomic", "add_words_line", {1, 2, 8, 32}, [](long words) {
  auto p = zeros<uint32_t>(1 << 20);
  return [=] { add_words<<<264, 1024>>>(p, uint32_t(words), 1, 16); };
});
TRUTH("atomic", "add_words_apart", {8, 64, 1024}, [](long words) {
  auto p = zeros<uint32_t>(1 << 20);
  return [=] { add_words<<<264, 1024>>>(p, uint32_t(words), 1024, 16); };
});
TRUTH("atomic", "add_lanes", {1, 16}, [](long per) {
  auto p = zeros<uint32_t>(1 << 10);
  return [=] { add_lanes<<<264, 1024>>>(p, int(per)); };
});
TRUTH("atomic", "random_add_lines", {2, 16, 64, 256}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10);
  return [=] { random_add<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16); };
});
TRUTH("atomic", "swap_random", {1024, 4096, 65536}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10), o = zeros<uint32_t>(32);
  return [=] { swap_random<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 8, o); };
});
TRUTH("atomic", "exchange_random", {8, 1024}, [](long kwords) {
  auto p = zeros<uint32_t>(kwords << 10), o = zeros<uint32_t>(32);
  return [=] { exchange_random<<<264, 1024>>>(p, uint32_t((kwords << 10) - 1), 16, o); };
});
TRUTH("atomic", "shared_add", {1, 32, 256, 1024}, [](long words) {
  auto o = zeros<uint32_t>(264 * 1024);
  return [=] { shared_add<<<264, 1024>>>(o, uint32_t(words - 1), 64); };
});

}  // namespace
