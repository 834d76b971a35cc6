// calib/steps/contention.cu: plain stores: to parts of sectors, one or several of a line at a time; by all warps to one word, to one
// line, to a few lines; and what readers of that word wait for.
#include <algorithm>

#include "steps.h"

namespace {
using namespace steps;

/// Every warp stores words `apart` words apart: 32 / apart of a sector's bytes, and 32 / apart sectors of a line at most.
__global__ void partial_store(uint32_t* p, uint32_t words, int apart, int rounds) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
#pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    const uint32_t first = (warp + uint32_t(r) * warps) * 32u * uint32_t(apart);
    p[(first + lane * uint32_t(apart)) % words] = uint32_t(r);
  }
}
/// Words apart; 8 MB stay in L2, 256 MB do not.
#define PARTIAL(name, mb) \
  TRUTH("partial", name, {1, 2, 4, 8, 16, 32}, [](long apart) { \
    auto p = zeros<uint32_t>(long(mb) << 18); \
    return [=] { partial_store<<<264, 1024>>>(p, uint32_t(mb) << 18, int(apart), 16); }; \
  });
PARTIAL("partial_store", 8) PARTIAL("partial_store_dram", 256)

/// Every lane stores to one of `words` words that lie `apart` words apart, again and again.
__global__ void store_words(uint32_t* p, uint32_t words, int apart, int rounds) {
  const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
#pragma unroll 4
  for (int r = 0; r < rounds; r++) asm volatile("st.global.u32 [%0], %1;" ::"l"(p + (warp + uint32_t(r)) % words * uint32_t(apart)), "r"(r) : "memory");
}
TRUTH("contention", "store_one_word", {1, 4, 16, 64}, [](long warps) {  // warps an SM
  auto p = zeros<uint32_t>(1 << 16);
  return [=] { store_words<<<132 * int(warps > 32 ? 2 : 1), int(std::min(warps, 32l)) * 32>>>(p, 1, 1, 64); };
});
TRUTH("contention", "store_words_line", {2, 8, 32}, [](long words) {
  auto p = zeros<uint32_t>(1 << 16);
  return [=] { store_words<<<264, 1024>>>(p, uint32_t(words), 1, 64); };
});
TRUTH("contention", "store_lines", {2, 8, 32, 1024}, [](long words) {
  auto p = zeros<uint32_t>(1 << 16);
  return [=] { store_words<<<264, 1024>>>(p, uint32_t(words), 32, 64); };
});
/// Every thread stores `parts` words of a structure of its own of eight, one after the other, with `gap` dependent steps in between, and
/// loads something in between when `load` is set: what the SM puts together before L2 sees it.
__global__ void store_parts(float* p, const float* q, int parts, int gap, int load, int rounds) {
  float w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    float* at = p + (size_t(r) * gridDim.x * blockDim.x + blockIdx.x * blockDim.x + threadIdx.x) * 8;
#pragma unroll 1
    for (int k = 0; k < parts; k++) {
      asm volatile("st.global.f32 [%0], %1;" ::"l"(at + k), "f"(w) : "memory");
      if (load) asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(w) : "l"(q + (threadIdx.x + k * 1024 + r * 8192)) : "memory");
#pragma unroll 1
      for (int i = 0; i < gap; i++) w = w * .99f + 1.f;
    }
  }
  if (w == 12345.678f) p[0] = w;
}
#define PARTS(name, warps, gap, load) \
  TRUTH("partial", name, {1, 2, 3, 6}, [](long parts) { \
    auto p = zeros<float>(8l << 20); \
    auto q = zeros<float>(1l << 20); \
    return [=] { store_parts<<<132 * (warps > 32 ? 2 : 1), (warps > 32 ? 32 : warps) * 32>>>(p, q, int(parts), gap, load, warps > 32 ? 3 : 24); }; \
  });
PARTS("store_parts", 64, 0, 0) PARTS("store_parts_slow", 64, 40, 0) PARTS("store_parts_load", 64, 0, 1) PARTS("store_parts_few", 4, 0, 0) PARTS("store_parts_few_slow", 4, 10, 0)
PARTS("store_parts_few_slower", 4, 40, 0)

/// One lane of every warp, after a load that depends on the last: as a search does that says that something has changed.
__global__ void load_and_store(const uint32_t* next, uint32_t* flag, uint32_t mask, int rounds) {
  uint32_t p = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u & mask;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(p) : "l"(next + p) : "memory");
    if (flag) asm volatile("st.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
  }
  if (p == ~0u) *flag = 0;
}
#define CHASE(name, word) \
  TRUTH("contention", name, {1, 8, 32}, [](long warps) { \
    std::vector<uint32_t> next(1 << 21); \
    for (size_t i = 0; i < next.size(); i++) next[i] = uint32_t((i * 2654435761u + 12345) & (next.size() - 1)); \
    auto d = upload(next); \
    auto o = zeros<uint32_t>(32); \
    return [=] { load_and_store<<<132, int(warps) * 32>>>(d, word, (1 << 21) - 1, 32); }; \
  });
CHASE("chase_alone", nullptr) CHASE("chase_and_store", o.p)

}  // namespace
