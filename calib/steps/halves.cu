// calib/steps/halves.cu: what L2 gives when all SMs read more and more of it, each line by another SM in every sweep (but at multiples of the number
// of SMs): as long as there is room for a copy in either half, and beyond; and code that is executed once, by how many SMs fetch it.
#include "steps.h"

namespace {
using namespace steps;

constexpr int kStages = 4;
constexpr long kPiece = 16384;  // bytes
constexpr int kMine = 384;      // pieces that a block reads

/// All blocks sweep over `pieces` again and again, each taking every 132nd: a piece is another block's in every sweep. What the one thread
/// computes between two pieces is kept short, so that L2 is what takes the time.
__global__ void halves_sweep(const char* from, float* out, int pieces) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar[kStages];
  if (threadIdx.x) return;
  init_ring(bar, kStages);
  int piece = int(blockIdx.x);
  const auto fetch = [&](int stage) {
    bulk_load(room + stage * kPiece, from + piece * kPiece, kPiece, &bar[stage]);
    piece += int(gridDim.x);
    if (piece >= pieces) piece -= pieces;
  };
  for (int i = 0; i < kStages; i++) fetch(i);
  for (int i = 0; i < kMine; i++) {
    wait(&bar[i % kStages], uint32_t(i / kStages & 1));
    if (i + kStages < kMine) fetch(i % kStages);
  }
  out[blockIdx.x] = room[0];
}
TRUTH("halves", "halves_sweep", {265, 1024, 1056, 1061, 1501, 2048, 2305, 2560, 2690, 2817, 2945}, [](long pieces) {
  auto p = zeros<char>(pieces * kPiece);
  auto o = zeros<float>(132);
  cudaFuncSetAttribute(halves_sweep, cudaFuncAttributeMaxDynamicSharedMemorySize, kStages * kPiece);
  return [=] { halves_sweep<<<132, 32, kStages * kPiece>>>((const char*)p.p, o, int(pieces)); };
});

/// 4,096 instructions that do not depend on each other.
__global__ void code_over(float* out, float y) {
  float x[8];
#pragma unroll
  for (int k = 0; k < 8; k++) x[k] = threadIdx.x + k;
#pragma unroll
  for (int i = 0; i < 4096; i++) asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i % 8]) : "f"(y));
  float s = 0;
#pragma unroll
  for (int k = 0; k < 8; k++) s += x[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
TRUTH("code", "code_over", {1, 2, 16, 66, 132}, [](long blocks) {
  auto o = zeros<float>(132 * 32);
  return [=] { code_over<<<int(blocks), 32>>>(o, .99f); };
});

}  // namespace
