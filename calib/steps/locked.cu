// calib/steps/locked.cu: which SMs ask L2 together for what several blocks read: by how many read the same, which of them lie in one GPC, how many blocks
// an SM holds, how many wait for their turn, and what they do between two loads.
//
// Sectors that the profiler counts (lts__t_sectors_srcunit_tex) over those that arrive at SMs (l1tex__m_xbar2l1tex_read_sectors) say how many requests
// became one. With LOCKED_CLOCKS each block writes when it began each step. Not here: how far apart two requests may be (together.cu); SMs that each
// hold one block and all read the same (drift.cu).
#include "steps.h"

namespace locked {
using namespace steps;

enum Work { kFma, kRoot };
struct Steps {
  int steps, rounds, again;  // again: steps after which a block begins anew
  int wide;                  // blocks of a row; 0: all read by `rows` groups
  int rows, near;            // groups: in turn, or neighbours
  long long* clocks;         // of each block and step, behind its SM
};
constexpr int kTile = 256;   // float4 of a tile

template <Work work>
__device__ void work_on(const float4* tile, float (&s)[8], int rounds) {
  if (work == kRoot) return attract<kTile>(tile, s, rounds);
  const float4 v = tile[threadIdx.x], u = tile[kTile + threadIdx.x];
#pragma unroll 1
  for (int w = 0; w < rounds; w++)
#pragma unroll
    for (int k = 0; k < 8; k++) s[k] = s[k] * v.x + u.y;
}

/// Each step a tile of a by the block's row and, of a grid of rows, one of b by its column, 4 KB each.
template <Work work>
__global__ void __launch_bounds__(256) locked(const float4* a, const float4* b, float* out, Steps m) {
  extern __shared__ float4 tile[];
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const long room = long(m.again) * kTile;
  const int block = int(blockIdx.y * gridDim.x + blockIdx.x);
  const int row = m.wide ? int(blockIdx.y) : m.near ? block * m.rows / int(gridDim.x) : block % m.rows;
  const float4 *const own_a = a + row * room, *const own_b = b + (m.wide ? int(blockIdx.x) : 0) * room;
  if (m.clocks && threadIdx.x == 0) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    m.clocks[long(block) * (m.steps + 1)] = sm;
  }
  for (int i = 0; i < m.steps; i++) {
    if (m.clocks && threadIdx.x == 0) m.clocks[long(block) * (m.steps + 1) + 1 + i] = clock64();
    const long at = long(i % m.again) * kTile + threadIdx.x;
    tile[threadIdx.x] = own_a[at];
    if (m.wide) tile[kTile + threadIdx.x] = own_b[at];
    __syncthreads();
    work_on<work>(tile, s, m.rounds);
    __syncthreads();
  }
  float sum = 0;
  for (float x : s) sum += x;
  out[long(block) * 256 + threadIdx.x] = sum;
}

/// `held`: blocks that an SM holds.
template <Work work>
truth::Launch launch(int blocks, int held, Steps m) {
  const size_t rows = m.wide ? size_t((blocks + m.wide - 1) / m.wide) : size_t(m.rows), columns = m.wide ? size_t(m.wide) : 1;
  auto a = zeros<float4>(rows * size_t(m.again) * kTile), b = zeros<float4>(columns * size_t(m.again) * kTile);
  auto o = zeros<float>(size_t(blocks) * 256);
  const int shared = (227 << 10) / held - 1024 - 128 * held;
  cudaFuncSetAttribute(locked<work>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  const dim3 grid = m.wide ? dim3(unsigned(m.wide), unsigned(rows)) : dim3(unsigned(blocks));
  return [=] { locked<work><<<grid, 256, size_t(std::min(shared, 200 << 10))>>>(a.p, b.p, o.p, m); };
}

#ifndef LOCKED_CLOCKS
#define GROUPS (std::vector<long>{1, 2, 4, 8, 16, 33})
#define WORK (std::vector<long>{0, 16, 64, 256})
// From L2 but for the first 16 of 256 steps.
#define LOCKED(name, work, list, blocks, held, ...) TRUTH("locked", name, list, [](long n) { return launch<work>(int(blocks), held, {__VA_ARGS__}); });
LOCKED("locked_turns", kFma, GROUPS, 132, 1, 256, 100, 16, 0, int(n), 0, nullptr)
LOCKED("locked_near", kFma, GROUPS, 132, 1, 256, 100, 16, 0, int(n), 1, nullptr)
LOCKED("locked_turns_root", kRoot, GROUPS, 132, 1, 256, 32, 16, 0, int(n), 0, nullptr)
LOCKED("locked_near_root", kRoot, GROUPS, 132, 1, 256, 32, 16, 0, int(n), 1, nullptr)
LOCKED("locked_turns_dram", kFma, GROUPS, 132, 1, 256, 100, 256, 0, int(n), 0, nullptr)
LOCKED("locked_held2", kFma, (std::vector<long>{132, 264, 528, 1056}), n, 2, 256, 100, 16, 0, 1, 0, nullptr)
LOCKED("locked_held4", kFma, (std::vector<long>{132, 264, 528, 1056}), n, 4, 256, 100, 16, 0, 1, 0, nullptr)
LOCKED("locked_held1", kFma, (std::vector<long>{264, 528, 1056}), n, 1, 256, 100, 16, 0, 1, 0, nullptr)
// Tiles of a product: 64 steps of data of their own, cold from memory.
LOCKED("locked_tiles1", kFma, WORK, 256, 1, 64, int(n), 64, 16, 0, 0, nullptr)
LOCKED("locked_tiles2", kFma, WORK, 256, 2, 64, int(n), 64, 16, 0, 0, nullptr)
LOCKED("locked_tiles4", kFma, WORK, 256, 4, 64, int(n), 64, 16, 0, 0, nullptr)
LOCKED("locked_square1", kFma, (std::vector<long>{4, 8, 11, 16, 32}), n * n, 1, 64, 32, 64, int(n), 0, 0, nullptr)
LOCKED("locked_square2", kFma, (std::vector<long>{4, 8, 11, 16, 32}), n * n, 2, 64, 32, 64, int(n), 0, 0, nullptr)
LOCKED("locked_square4", kFma, (std::vector<long>{4, 8, 11, 16, 32}), n * n, 4, 64, 32, 64, int(n), 0, 0, nullptr)
LOCKED("locked_square2_again", kFma, (std::vector<long>{8, 16, 32}), n * n, 2, 256, 32, 64, int(n), 0, 0, nullptr)  // from L2 from the second turn on
LOCKED("locked_square2_root", kRoot, (std::vector<long>{8, 16, 32}), n * n, 2, 64, 16, 64, int(n), 0, 0, nullptr)
#endif

}  // namespace locked
