// calib/steps/free.cu: which SMs ask L2 together for what several blocks read, where warps meet at no barrier or fetch ahead: warps that all read
// the same lines, each its own, a row's words and a column's lines as products without tiles do, or fragments of matrices; and tiles of a product
// that cp.async fetches some steps ahead.
//
// Sectors that the profiler counts (lts__t_sectors_srcunit_tex) over those that arrive at SMs (l1tex__m_xbar2l1tex_read_sectors) say how many requests
// became one. With FREE_CLOCKS each warp writes when it began each `every`th step. Not here: blocks that meet at barriers each step (locked.cu, drift.cu).
#include "steps.h"

namespace free_warps {
using namespace steps;

enum Pattern { kAll, kOwn, kNaive, kFragments };
struct Steps {
  int steps, rounds, again;  // again: steps after which a block begins anew
  int wide;                  // blocks of a row; 0: all read by `rows` groups of neighbours
  int rows;
  long long* clocks;         // of each block, warp and `every`th step, behind its SM
  int every;
};

__device__ inline void sum_up(float (&s)[8], float x, int rounds) {
#pragma unroll 1
  for (int w = 0; w < rounds; w++)
#pragma unroll
    for (int k = 0; k < 8; k++) s[k] = s[k] * x + 1.0f;
}

/// A step of a warp reads a line or two of a's row and, of a grid of rows, b's column.
/// kAll: one line of each, the same for all warps. kOwn: a line of its own of each. kNaive: one word of a, its own row, and a line of b for all.
/// kFragments: 32 bytes of each of 16 lines of a, by the warp's quarter, and of b, by what is left.
template <Pattern pattern, int kUnrolled>
__global__ void __launch_bounds__(1024) roam(const float* a, const float* b, float* out, Steps m) {
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const int warp = int(threadIdx.x / 32), lane = int(threadIdx.x % 32), warps = int(blockDim.x / 32);
  const int block = int(blockIdx.y * gridDim.x + blockIdx.x), row = m.wide ? int(blockIdx.y) : block * m.rows / int(gridDim.x);
  const int per_step = pattern == kAll || pattern == kNaive ? 32 : pattern == kOwn ? 32 * warps : 0;
  const long room = pattern == kFragments ? long(64) * m.again * 8 : long(m.again) * per_step, room_a = pattern == kNaive ? long(warps) * m.again : room;
  const float* const own_a = a + row * room_a;
  const float* const own_b = b + (m.wide ? int(blockIdx.x) : 0) * room;
  long long* const told = m.clocks ? m.clocks + (long(block) * warps + warp) * (m.steps / m.every + 1) : nullptr;
  if (told && lane == 0) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    told[0] = sm;
  }
#pragma unroll kUnrolled
  for (int i = 0; i < m.steps; i++) {
    if (told && lane == 0 && i % m.every == 0) told[1 + i / m.every] = clock64();
    const int at = i % m.again;
    float x, y = 0;
    if (pattern == kAll) {
      x = own_a[long(at) * 32 + lane];
      if (m.wide) y = own_b[long(at) * 32 + lane];
    } else if (pattern == kOwn) {
      x = own_a[long(at) * 32 * warps + warp * 32 + lane];
      if (m.wide) y = own_b[long(at) * 32 * warps + warp * 32 + lane];
    } else if (pattern == kNaive) {
      x = own_a[long(warp) * m.again + at], y = own_b[long(at) * 32 + lane];
    } else {  // rows of again x 8 words; lanes of four read 16 bytes each of two rows' pieces
      const long line = long(m.again) * 8;
      x = own_a[(warp % 4 * 16 + lane / 8) * line + at * 8 + lane % 8] + own_a[(warp % 4 * 16 + 4 + lane / 8) * line + at * 8 + lane % 8];
      if (m.wide) y = own_b[(warp / 4 % 4 * 16 + lane / 8) * line + at * 8 + lane % 8] + own_b[(warp / 4 % 4 * 16 + 4 + lane / 8) * line + at * 8 + lane % 8];
    }
    s[0] += x * y;
    sum_up(s, x, m.rounds);
  }
  float sum = 0;
  for (float x : s) sum += x;
  out[(long(block) * warps + warp) * 32 + lane] = sum;
}

/// `held`: blocks that an SM holds.
template <Pattern pattern, int kUnrolled>
truth::Launch roaming(int blocks, int warps, int held, Steps m) {
  const size_t step = pattern == kAll || pattern == kNaive ? 32 : pattern == kOwn ? size_t(32 * warps) : 512;
  const size_t rows = m.wide ? size_t((blocks + m.wide - 1) / m.wide) : size_t(m.rows), columns = m.wide ? size_t(m.wide) : 1;
  const size_t step_a = pattern == kNaive ? size_t(warps) : step;
  auto a = zeros<float>(rows * step_a * size_t(m.again)), b = zeros<float>(columns * step * size_t(m.again));
  auto o = zeros<float>(size_t(blocks) * size_t(warps) * 32);
  const int shared = std::min(200 << 10, (227 << 10) / held - 1024 - 128 * held);
  cudaFuncSetAttribute(roam<pattern, kUnrolled>, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  const dim3 grid = m.wide ? dim3(unsigned(m.wide), unsigned(rows)) : dim3(unsigned(blocks));
  return [=] { roam<pattern, kUnrolled><<<grid, unsigned(warps * 32), size_t(shared)>>>(a.p, b.p, o.p, m); };
}

/// Tiles of kTile x 32 halves of a's row and b's column, fetched kStages - 1 steps ahead; `rounds` products of 16 x 8 x 16 a warp and step.
template <int kTile, int kStages>
__global__ void __launch_bounds__(256) ahead(const char* a, const char* b, float* out, Steps m) {
  extern __shared__ __align__(128) char stage[];
  constexpr int kBytes = kTile * 64;
  float c[8][4] = {};
  const int block = int(blockIdx.y * gridDim.x + blockIdx.x), row = m.wide ? int(blockIdx.y) : block * m.rows / int(gridDim.x);
  const long line = long(m.again) * 64;
  const char* const own_a = a + row * line * kTile;
  const char* const own_b = b + (m.wide ? int(blockIdx.x) : row) * line * kTile;
  const auto fetch = [&](int i) {
    if (i < m.steps) {
#pragma unroll
      for (int piece = int(threadIdx.x); piece < 2 * kTile * 4; piece += 256) {
        const int r = piece / 4 % kTile;
        const char* const from = (piece < kTile * 4 ? own_a : own_b) + r * line + i % m.again * 64 + piece % 4 * 16;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(stage) + uint32_t(i % kStages * 2 * kBytes + piece * 16)), "l"(from) : "memory");
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  for (int i = 0; i < kStages - 1; i++) fetch(i);
  for (int i = 0; i < m.steps; i++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();
    fetch(i + kStages - 1);
    const uint32_t at = smem(stage) + uint32_t(i % kStages * 2 * kBytes) + threadIdx.x % 32 * 16;
    for (int w = 0; w < m.rounds; w += 8) {
      uint32_t x[4], y[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at + w % 16 * 64));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3]) : "r"(at + kBytes + w % 16 * 64));
#pragma unroll
      for (int q = 0; q < 8; q++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(c[q][0]), "+f"(c[q][1]), "+f"(c[q][2]), "+f"(c[q][3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[q % 2]), "r"(y[2 + q % 2]));
    }
  }
  float sum = 0;
  for (auto& x : c) sum += x[0] + x[1] + x[2] + x[3];
  out[long(block) * 256 + threadIdx.x] = sum;
}
template <int kTile, int kStages>
truth::Launch running_ahead(int blocks, int held, Steps m) {
  const size_t rows = m.wide ? size_t((blocks + m.wide - 1) / m.wide) : size_t(m.rows), columns = m.wide ? size_t(m.wide) : size_t(m.rows);
  auto a = zeros<char>(rows * kTile * size_t(m.again) * 64), b = zeros<char>(columns * kTile * size_t(m.again) * 64);
  auto o = zeros<float>(size_t(blocks) * 256);
  const int shared = std::max(kStages * 2 * kTile * 64, std::min(200 << 10, (227 << 10) / held - 1024 - 128 * held));
  cudaFuncSetAttribute(ahead<kTile, kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10);
  const dim3 grid = m.wide ? dim3(unsigned(m.wide), unsigned(rows)) : dim3(unsigned(blocks));
  return [=] { ahead<kTile, kStages><<<grid, 256, size_t(shared)>>>(a.p, b.p, o.p, m); };
}

/// Rows that blocks of a row of the grid read twice, once shifted by the block's column times `shift` words.
__global__ void __launch_bounds__(128) shifted(const float* a, float* out, int steps, int shift) {
  const float* const own = a + long(blockIdx.y) * steps * 128;
  const int by = int(blockIdx.x) * shift;
  float s = 0;
#pragma unroll 4
  for (int i = int(threadIdx.x); i < steps * 128; i += 128) s += own[i] * own[i + by];
  out[long(blockIdx.y * gridDim.x + blockIdx.x) * 128 + threadIdx.x] = s;
}
truth::Launch shifting(int wide, int rows, int held, int steps, int shift) {
  auto a = zeros<float>(size_t(rows) * size_t(steps) * 128 + size_t(wide) * size_t(shift) + 128), o = zeros<float>(size_t(wide) * size_t(rows) * 128);
  const int shared = held == 16 ? 0 : std::min(200 << 10, (227 << 10) / held - 1024 - 128 * held);
  cudaFuncSetAttribute(shifted, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10);
  return [=] { shifted<<<dim3(unsigned(wide), unsigned(rows)), 128, size_t(shared)>>>(a.p, o.p, steps, shift); };
}

#ifndef FREE_CLOCKS
#define WORK (std::vector<long>{0, 16, 64})
// From L2 but for the first turn: what L1 holds beside 200 KB of shared memory is passed over in a turn.
#define ROAM(name, pattern, unrolled, list, blocks, warps, held, ...) \
  TRUTH("free", name, list, [](long n) { return roaming<pattern, unrolled>(int(blocks), int(warps), held, {__VA_ARGS__, nullptr, 1}); });
#define PATTERN(tag, pattern, again8, again32) \
  ROAM("free_" tag "8", pattern, 4, WORK, 132, 8, 1, 1024, int(n), again8, 0, 1) \
  ROAM("free_" tag "32", pattern, 4, WORK, 132, 32, 1, 1024, int(n), again32, 0, 1) \
  ROAM("free_" tag "8_one", pattern, 1, WORK, 132, 8, 1, 1024, int(n), again8, 0, 1) \
  ROAM("free_" tag "8_held4", pattern, 4, WORK, 528, 8, 4, 512, int(n), again8, 0, 1) \
  ROAM("free_" tag "8_tiles", pattern, 4, WORK, 256, 8, 2, 512, int(n), again8, 16, 0) \
  ROAM("free_" tag "32_tiles", pattern, 4, WORK, 256, 32, 2, 512, int(n), again32, 16, 0)
PATTERN("all", kAll, 1024, 1024)
PATTERN("own", kOwn, 512, 128)
PATTERN("fragments", kFragments, 256, 256)
ROAM("free_naive8_tiles", kNaive, 4, WORK, 1024, 8, 4, 512, int(n), 512, 32, 0)
ROAM("free_naive32_tiles", kNaive, 4, WORK, 1024, 32, 2, 512, int(n), 512, 32, 0)
ROAM("free_naive8_square", kNaive, 4, (std::vector<long>{8, 16, 64}), n * n, 8, 8, 512, 0, 512, int(n), 0)
#define WARPS (std::vector<long>{4, 12, 16, 24})
ROAM("free_own_warps_0", kOwn, 4, WARPS, 132, n, 1, 1024, 0, int(4096 / n), 0, 1)
ROAM("free_own_warps_16", kOwn, 4, WARPS, 132, n, 1, 1024, 16, int(4096 / n), 0, 1)
ROAM("free_own_warps_64", kOwn, 4, WARPS, 132, n, 1, 1024, 64, int(4096 / n), 0, 1)
ROAM("free_own32_steps", kOwn, 4, (std::vector<long>{16, 32, 64, 256}), 132, 32, 1, int(n), 16, 1024, 0, 1)
ROAM("free_own16_steps", kOwn, 4, (std::vector<long>{16, 64, 256}), 132, 16, 1, int(n), 16, 1024, 0, 1)
ROAM("free_own32_one", kOwn, 1, WORK, 132, 32, 1, 512, int(n), 128, 0, 1)
#define SHIFTS (std::vector<long>{0, 1, 4, 8, 32})
#define SHIFTED(name, wide, rows, held, steps) TRUTH("free", name, SHIFTS, [](long n) { return shifting(wide, rows, held, steps, int(n)); });
SHIFTED("free_shifted_16", 64, 32, 16, 128)
SHIFTED("free_shifted_4", 64, 8, 4, 256)
SHIFTED("free_shifted_1", 132, 1, 1, 512)
SHIFTED("free_shifted_short", 32, 32, 16, 32)
#define PRODUCTS (std::vector<long>{8, 32, 64})
#define AHEAD(name, tile, stages, list, blocks, held, ...) TRUTH("free", name, list, [](long n) { return running_ahead<tile, stages>(int(blocks), held, {__VA_ARGS__, nullptr, 1}); });
AHEAD("free_ahead_tiles64_2", 64, 2, PRODUCTS, 256, 2, 128, int(n), 128, 16, 0)
AHEAD("free_ahead_tiles64_4", 64, 4, PRODUCTS, 256, 2, 128, int(n), 128, 16, 0)
AHEAD("free_ahead_tiles128_2", 128, 2, PRODUCTS, 256, 2, 128, int(n), 128, 16, 0)
AHEAD("free_ahead_tiles128_3", 128, 3, PRODUCTS, 256, 2, 128, int(n), 128, 16, 0)
AHEAD("free_ahead_tiles128_4_alone", 128, 4, PRODUCTS, 256, 1, 128, int(n), 128, 16, 0)
AHEAD("free_ahead_square128_3", 128, 3, (std::vector<long>{4, 8, 11, 32}), n * n, 2, 128, 32, 128, int(n), 0)
AHEAD("free_ahead_rows64_2", 64, 2, PRODUCTS, 256, 2, 128, int(n), 128, 0, 16)  // groups of 16 neighbours read the same
AHEAD("free_ahead_rows64_3_held4", 64, 3, PRODUCTS, 512, 4, 128, int(n), 128, 0, 32)
#endif

}  // namespace free_warps
