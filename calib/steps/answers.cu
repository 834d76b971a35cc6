// calib/steps/answers.cu: atomic operations that answer and those that do not, by how many SMs make them: whether SMs or L2 set their pace.
#include "steps.h"

namespace {
using namespace steps;

/// 32 operations a thread at random places of a table of so many words: added without and with an answer, exchanged, compared and swapped.
template <int kWhat>
__global__ void __launch_bounds__(1024) answers(uint32_t* table, uint32_t mask, uint32_t* out) {
  uint32_t h = (blockIdx.x * blockDim.x + threadIdx.x) * 0x85ebca6bu, sum = 0;
#pragma unroll 4
  for (int i = 0; i < 32; i++) {
    h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    uint32_t* const at = &table[h & mask];
    if (kWhat == 0) atomicAdd(at, 1);
    if (kWhat == 1) sum += atomicAdd(at, 1);
    if (kWhat == 2) sum += atomicCAS(at, 0u, h | 1);
    if (kWhat == 3) sum += *(volatile uint32_t*)at;
  }
  if (kWhat && sum == 0x12345678) out[threadIdx.x % 32] = sum;
}
#define ANSWERS(name, what) \
  TRUTH("atomic", name, {1, 8, 33, 66, 132}, [](long blocks) { \
    auto t = zeros<uint32_t>(2 << 20), o = zeros<uint32_t>(32); \
    return [=] { answers<what><<<int(blocks), 1024>>>(t, (2 << 20) - 1, o); }; \
  });
ANSWERS("add_silent", 0) ANSWERS("add_answered", 1) ANSWERS("swap_answered", 2) ANSWERS("read_answered", 3)

/// The same of whole sectors: eight lanes on a sector each time, so that a warp has four.
template <int kWhat>
__global__ void __launch_bounds__(1024) sector_answers(uint32_t* table, uint32_t mask, uint32_t* out) {
  uint32_t h = ((blockIdx.x * blockDim.x + threadIdx.x) / 8 + 1) * 0x85ebca6bu, sum = 0;
#pragma unroll 4
  for (int i = 0; i < 32; i++) {
    h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    uint32_t* const at = &table[(h & mask & ~7u) + threadIdx.x % 8];
    if (kWhat == 0) atomicAdd(at, 1);
    else sum += atomicAdd(at, 1);
  }
  if (kWhat && sum == 0x12345678) out[threadIdx.x % 32] = sum;
}
#define SECTOR_ANSWERS(name, what) \
  TRUTH("atomic", name, {1, 33, 132}, [](long blocks) { \
    auto t = zeros<uint32_t>(2 << 20), o = zeros<uint32_t>(32); \
    return [=] { sector_answers<what><<<int(blocks), 1024>>>(t, (2 << 20) - 1, o); }; \
  });
SECTOR_ANSWERS("sector_silent", 0) SECTOR_ANSWERS("sector_answered", 1)

/// 256 KB of floats of which each block reads its 16 KB from L1, one load at a time and its address found from the one before: by warps.
__global__ void one_at_a_time(const float* p, float* out, int rounds) {
  float acc = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll 1
    for (int i = threadIdx.x; i < 4096; i += blockDim.x) acc += p[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
TRUTH("l1", "one_at_a_time", {1, 4, 8, 16, 32}, [](long warps) {
  auto p = zeros<float>(4096), o = zeros<float>(132 * 1024);
  return [=] { one_at_a_time<<<132, int(warps) * 32>>>(p, o, int(std::min(50l, warps * 8))); };
});
}  // namespace
