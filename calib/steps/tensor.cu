// calib/steps/tensor.cu: tensor cores and the clock under them, rings of bulk copies.
#include "steps.h"

namespace {
using namespace steps;

__global__ void hmma(float* out, int rounds, int pause) {
  float c[4][4] = {};
  uint32_t a[4], b[2];
  for (int i = 0; i < 4; i++) a[i] = 0x3c003800u + threadIdx.x * 0x00010003u * (i + 1);
  b[0] = 0x34003a00u + threadIdx.x * 77, b[1] = 0x38003400u + threadIdx.x * 131;
  float w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int k = 0; k < 4; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#pragma unroll 1
    for (int i = 0; i < pause; i++) w = w * .99f + 1;
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = c[0][0] + c[1][1] + c[2][2] + c[3][3] + w;
}
/// Products of 64 x 256 x 16 from shared memory by every warpgroup; a pause of `pause` dependent steps after each 8.
__global__ void __launch_bounds__(256) wgmma256(float* out, int rounds, int pause, int random) {
  extern __shared__ __align__(1024) uint32_t tile[];
  for (int i = threadIdx.x; i < 12288; i += blockDim.x) tile[i] = random ? random_halves(i * 77 + blockIdx.x) : 0;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  float d[128];
  for (int i = 0; i < 128; i++) d[i] = 0;
  const uint64_t a = matrix_at(tile + 2048 * (threadIdx.x / 128)), b = matrix_at(tile + 4096);
  float w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    multiply(d, a, b);
#pragma unroll 1
    for (int i = 0; i < pause; i++) w = w * .99f + 1;
  }
  float s = w;
  for (int i = 0; i < 128; i++) s += d[i];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
/// A ring of bulk copies into shared memory: `stages` of `bytes`, one thread, over `total` bytes for all blocks.
__global__ void bulk_ring(const char* from, float* out, uint32_t bytes, int stages, long total, int rounds) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[16];
  if (threadIdx.x) return;
  init_ring(bar, stages);
  const long pieces = total / bytes, mine = (pieces - blockIdx.x + gridDim.x - 1) / gridDim.x * rounds;
  const auto fetch = [&](long i) {
    const int s = int(i % stages);
    bulk_load(room + s * bytes, from + (blockIdx.x + i * gridDim.x) % pieces * bytes, bytes, &bar[s]);
  };
  for (long i = 0; i < stages && i < mine; i++) fetch(i);
  for (long i = 0; i < mine; i++) {
    const int s = int(i % stages);
    wait(&bar[s], uint32_t(i / stages & 1));
    if (i + stages < mine) fetch(i + stages);
  }
  out[blockIdx.x] = room[0];
}

TRUTH("tensor", "hmma", {4, 8, 16, 32}, [](long warps) {
  auto o = zeros<float>(132 * 2048);
  return [=] { hmma<<<132, int(warps) * 32>>>(o, 1000, 0); };
});
TRUTH("clock", "hmma_paused", {10, 40, 200}, [](long pause) {
  auto o = zeros<float>(132 * 2048);
  return [=] { hmma<<<132, 512>>>(o, 1000, int(pause)); };
});
#define WGMMA(name, groups, data) \
  TRUTH("clock", name, {0, 50, 200, 800}, [](long pause) { \
    auto o = zeros<float>(132 * 256); \
    cudaFuncSetAttribute(wgmma256, cudaFuncAttributeMaxDynamicSharedMemorySize, 50176); \
    return [=] { wgmma256<<<132, groups * 128, 50176>>>(o, 150, int(pause), data); }; \
  });
WGMMA("wgmma_two_random", 2, 1) WGMMA("wgmma_two_zero", 2, 0) WGMMA("wgmma_one_random", 1, 1)
TRUTH("clock", "wgmma_long", {100, 1000, 4000}, [](long rounds) {
  auto o = zeros<float>(132 * 256);
  cudaFuncSetAttribute(wgmma256, cudaFuncAttributeMaxDynamicSharedMemorySize, 50176);
  return [=] { wgmma256<<<132, 256, 50176>>>(o, int(rounds), 0, 1); };
});
TRUTH("bulk", "bulk_dram", {2, 4, 8}, [](long stages) {
  auto p = zeros<float>(1l << 28);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 1l << 30, 1); };
});
TRUTH("bulk", "bulk_l2", {1, 2, 4, 8}, [](long stages) {
  auto p = zeros<float>(4l << 20);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 16l << 20, 20); };
});
TRUTH("bulk", "bulk_shared_read", {4, 8}, [](long stages) {  // every SM the same 2 MB
  auto p = zeros<float>(1l << 19);
  auto o = zeros<float>(1024);
  cudaFuncSetAttribute(bulk_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, 131072);
  return [=] { bulk_ring<<<132, 32, 16384 * int(stages)>>>((const char*)p.p, o, 16384, int(stages), 2l << 20, 100); };
});

}  // namespace
