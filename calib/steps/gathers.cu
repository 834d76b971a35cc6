// calib/steps/gathers.cu: words that lanes read at random of tables that L1 holds in part or L2 holds: by the table's size, the words' width and whether where to
// read next depends on what was read; binary searches, whose first steps all threads share; and lanes that read 32 lines, which L1 has, so many bytes apart.
#include "steps.h"

namespace {
using namespace steps;

template <class T>
__device__ uint32_t first_word(const T& v) {
  return *reinterpret_cast<const uint32_t*>(&v);
}

/// Each thread reads kTimes words of a table of `words`, a power of two.
template <class T, bool kChain>
__global__ void __launch_bounds__(256) gather(const T* table, uint32_t mask, uint32_t* out) {
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  uint32_t h = mix(t), sum = 0;
#pragma unroll 8
  for (int i = 0; i < 32; i++) {
    const uint32_t v = first_word(table[h & mask]);
    h = h * 1664525u + 1013904223u + (kChain ? v : 0);
    h ^= h >> 15;
    sum += v;
  }
  out[t] = sum;
}
template <class T, bool kChain>
truth::Launch gathers(long kib) {
  const size_t words = (size_t(kib) << 10) / sizeof(T);
  auto table = zeros<T>(words);
  auto out = zeros<uint32_t>(2112 * 256);
  return [=] { gather<T, kChain><<<2112, 256>>>(table.p, uint32_t(words - 1), out.p); };
}
#define GATHERS(name, type, chain) TRUTH("gather", name, {32, 128, 512, 4096, 16384}, [](long kib) { return gathers<type, chain>(kib); });
GATHERS("gather4", uint32_t, false) GATHERS("gather4_chain", uint32_t, true) GATHERS("gather8", uint2, false) GATHERS("gather16", uint4, false)

/// Each lane reads a line of its own again and again, another word of it each time.
__global__ void __launch_bounds__(256) apart(const uint32_t* lines, uint32_t words_apart, uint32_t* out) {
  const uint32_t* const own = lines + threadIdx.x % 32 * words_apart;
  uint32_t sum = 0;
#pragma unroll 8
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t v;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(own + (i + threadIdx.x) % 32));
    sum += v;
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
truth::Launch lines_apart(long bytes) {
  auto lines = zeros<uint32_t>(std::max(size_t(bytes) * 8 + 64, size_t(1) << 21)), out = zeros<uint32_t>(528 * 256);
  return [=] { apart<<<528, 256>>>(lines.p, uint32_t(bytes / 4), out.p); };
}
TRUTH("gather", "apart", {128, 132, 256, 260, 384, 512, 516, 640, 1024, 1152, 2048, 2176, 4096, 4224, 8192, 12288, 16384, 32768, 65536, 131072}, lines_apart);
std::vector<long> odd_lines() {
  std::vector<long> all;
  for (long n = 1; n < 128; n += 2) all.push_back(n);
  for (long n : {257, 259, 385, 513, 515, 769, 1025, 1027, 1537, 2049, 2051, 3073, 4097}) all.push_back(n);
  return all;
}
TRUTH("gather", "odd_lines_apart", odd_lines(), [](long lines) { return lines_apart(128 * lines); });

/// The place of a thread's own key among `words` in order.
__global__ void __launch_bounds__(256) search(const float* table, uint32_t words, uint32_t* out) {
  const uint32_t t = blockIdx.x * 256 + threadIdx.x;
  const float key = float(mix(t) >> 8) * (float(words) / 16777216.f);
  uint32_t low = 0, high = words;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    if (key < table[middle]) high = middle;
    else low = middle;
  }
  out[t] = low;
}
truth::Launch searches(long kib) {
  const size_t words = size_t(kib) << 8;
  Array<float> table(words);
  std::vector<float> host(words);
  for (size_t i = 0; i < words; i++) host[i] = float(i);
  cudaMemcpy(table.p, host.data(), words * 4, cudaMemcpyHostToDevice);
  auto out = zeros<uint32_t>(4224 * 256);
  return [=] { search<<<4224, 256>>>(table.p, uint32_t(words), out.p); };
}
TRUTH("gather", "search", {16, 64, 256, 1024, 4096, 16384}, searches);
}  // namespace
