// calib/steps/drift.cu: how far SMs that do the same drift apart, by what they do between loads and by how they load: what all blocks read
// comes to L2 once for SMs that are together and once for each that is not.
//
// All blocks read the same. Sectors that the profiler counts (lts__t_sectors_srcunit_tex) over those that arrive at SMs
// (l1tex__m_xbar2l1tex_read_sectors) say how many requests became one. With clocks (kClocks) each block writes when it began each step,
// for a program that includes this file with DRIFT_CLOCKS. Not here: how far apart two requests may be (together.cu).
#include <cuda_fp16.h>

#include "steps.h"

namespace drift {
using namespace steps;

enum Work { kFma, kShared, kRoot, kExp, kMma, kDouble };
enum Path { kLoad, kAsync, kBulk };  // a tile at a time; ahead by cp.async; ahead by the copy engine
constexpr int kTile = 256;           // float4 of a step
struct Steps {
  int steps, rounds, room;   // room: float4, then again from the start
  int groups;                // different data, by blocks in turn
  long long* clocks;         // of each block and step
};

/// `rounds` of arithmetic on a tile in shared memory.
template <Work work>
__device__ void work_on(const float4* tile, float (&s)[8], int rounds) {
  if (work == kMma) {
    const uint32_t at = smem(tile) + threadIdx.x % 32 * 16;
    float(&c)[4] = *(float(*)[4])&s[0];
    float(&d)[4] = *(float(*)[4])&s[4];
#pragma unroll 4
    for (int w = 0; w < rounds; w++) {
      uint32_t a[4], b[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at + w % 8 * 512));
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3]) : "r"(at + (w + 3) % 8 * 512));
#pragma unroll
      for (int q = 0; q < 2; q++) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[q]), "r"(b[q + 1]));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[q + 1]), "r"(b[q + 2]));
      }
    }
    return;
  }
  if (work == kRoot) return attract<kTile>(tile, s, rounds);
  if (work == kDouble) {
    double d[2] = {double(s[0]), double(s[1])};
#pragma unroll 4
    for (int w = 0; w < rounds; w++) d[0] = d[0] * 1.25 + tile[w % kTile].x, d[1] = d[1] * 1.25 + 1;
    s[0] = float(d[0]), s[1] = float(d[1]);
    return;
  }
  const float4 v = tile[threadIdx.x];
#pragma unroll 2
  for (int w = 0; w < rounds; w++) {
    if (work == kShared) {
      const float4 o = tile[(w * 5) % kTile];
      s[0] = s[0] * v.x + o.x, s[1] = s[1] * v.y + o.y, s[2] = s[2] * v.z + o.z, s[3] = s[3] * v.w + o.w;
    } else {
#pragma unroll
      for (int k = 0; k < 8; k++) {
        s[k] = s[k] * v.x + v.y;
        if (work == kExp && k % 2) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(s[k]));
      }
    }
  }
}

template <Path path, Work work, bool kClocks>
__global__ void __launch_bounds__(288) drift(const float4* from, float* out, Steps m) {
  __shared__ __align__(128) float4 tile[4][kTile];
  __shared__ uint64_t full[4], empty[4];
  constexpr int kStages = path == kLoad ? 1 : 4;
  float s[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float4* own = from + long(int(blockIdx.x) % m.groups) * m.room;
  const auto stamp = [&](int i) {
    if (kClocks && threadIdx.x == 0) m.clocks[long(blockIdx.x) * m.steps + i] = clock64();
  };
  if constexpr (path == kBulk) {
    if (threadIdx.x == 0)
      for (int i = 0; i < kStages; i++)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nmbarrier.init.shared::cta.b64 [%1], 8;" ::"r"(smem(&full[i])), "r"(smem(&empty[i])));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 256)
      for (int i = 0; i < m.steps; i++) {
        wait(&empty[i % kStages], uint32_t(i / kStages & 1) ^ 1);
        bulk_load(tile[i % kStages], own + long(i) * kTile % m.room, kTile * 16, &full[i % kStages]);
      }
    if (threadIdx.x < 256)
      for (int i = 0; i < m.steps; i++) {
        wait(&full[i % kStages], uint32_t(i / kStages & 1));
        stamp(i);
        work_on<work>(tile[i % kStages], s, m.rounds);
        __syncwarp();
        if (threadIdx.x % 32 == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(smem(&empty[i % kStages])) : "memory");
      }
  } else {
    const auto fetch = [&](int i) {
      if (i < m.steps) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(&tile[i % kStages][threadIdx.x])), "l"(own + (long(i) * kTile + threadIdx.x) % m.room) : "memory");
      asm volatile("cp.async.commit_group;" ::: "memory");
    };
    if (path == kAsync)
      for (int i = 0; i < kStages - 1; i++) fetch(i);
    for (int i = 0; i < m.steps; i++) {
      if (path == kAsync) {
        asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
        __syncthreads();
        stamp(i);
        fetch(i + kStages - 1);
      } else {
        stamp(i);
        tile[0][threadIdx.x] = own[(long(i) * kTile + threadIdx.x) % m.room];
        __syncthreads();
      }
      work_on<work>(tile[i % kStages], s, m.rounds);
      if (path == kLoad) __syncthreads();
    }
  }
  float sum = 0;
  for (float x : s) sum += x;
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = sum;
}

template <Path path, Work work, bool kClocks>
truth::Launch launch(int blocks, Steps m) {
  auto p = zeros<float4>(size_t(m.room) * size_t(m.groups));
  auto o = zeros<float>(size_t(blocks) * 288);
  return [=] { drift<path, work, kClocks><<<blocks, path == kBulk ? 288 : 256>>>((const float4*)p.p, o.p, m); };
}

// Rounds of a step; the last two are what makes 2,000 and 8,000 cycles of it.
constexpr int kAgain = 1 << 14;  // float4: 256 KB, from the second turn on found in L2
#ifndef DRIFT_CLOCKS
#define DRIFT(name, path, work, list, blocks, steps, rounds, room, groups) \
  TRUTH("drift", name, list, [](long n) { \
    (void)n; \
    return launch<path, work, false>(int(blocks), {int(steps), int(rounds), int(room), int(groups), nullptr}); \
  });
#define ROUNDS(a, b) (std::vector<long>{a, b})
#define DRIFT_ALL(path, tag) \
  DRIFT("drift_fma_" tag, path, kFma, ROUNDS(100, 400), 132, 512, n, kAgain, 1) \
  DRIFT("drift_shared_" tag, path, kShared, ROUNDS(64, 256), 132, 512, n, kAgain, 1) \
  DRIFT("drift_root_" tag, path, kRoot, ROUNDS(32, 128), 132, 512, n, kAgain, 1) \
  DRIFT("drift_exp_" tag, path, kExp, ROUNDS(24, 96), 132, 512, n, kAgain, 1) \
  DRIFT("drift_mma_" tag, path, kMma, ROUNDS(24, 96), 132, 512, n, kAgain, 1) \
  DRIFT("drift_double_" tag, path, kDouble, ROUNDS(24, 96), 132, 512, n, kAgain, 1) \
  DRIFT("drift_fma_dram_" tag, path, kFma, ROUNDS(100, 400), 132, 512, n, 512 * kTile, 1) \
  DRIFT("drift_root_dram_" tag, path, kRoot, ROUNDS(32, 128), 132, 512, n, 512 * kTile, 1) \
  DRIFT("drift_mma_dram_" tag, path, kMma, ROUNDS(24, 96), 132, 512, n, 512 * kTile, 1) \
  DRIFT("drift_root_steps_" tag, path, kRoot, (std::vector<long>{4, 16, 64, 256, 1024}), 132, n, 64, kAgain, 1) \
  DRIFT("drift_mma_steps_" tag, path, kMma, (std::vector<long>{4, 16, 64, 256, 1024}), 132, n, 48, kAgain, 1) \
  DRIFT("drift_blocks_" tag, path, kRoot, (std::vector<long>{16, 33, 64, 96, 264, 528, 1056}), n, 256, 64, kAgain, 1) \
  DRIFT("drift_blocks_dram_" tag, path, kRoot, (std::vector<long>{16, 33, 64, 96, 264, 528, 1056}), n, 256, 64, 256 * kTile, 1)
DRIFT_ALL(kLoad, "load")
DRIFT_ALL(kAsync, "async")
DRIFT_ALL(kBulk, "bulk")
#endif

}  // namespace drift
