// planted_gemm.h: the parts that the pipeline programs share: D (64 x 8, float) = A (64 x K) * B (8 x K), bf16, stages of
// 64 columns in shared memory with the 128-byte swizzle, filled by TMA and read by wgmma.
#pragma once
#include "planted_support.h"

constexpr int kTileA = 64 * 128, kTileB = 8 * 128, kStageBytes = kTileA + kTileB;

// One thread makes the barriers of the ring: a stage is full after one arrival and its bytes, empty after 128 arrivals.
#define GEMM_INIT(full, empty)       \
  if (threadIdx.x == 0) {            \
    for (int s = 0; s < 4; s++) {    \
      MBAR_INIT(&full[s], 1);        \
      MBAR_INIT(&empty[s], 128);     \
    }                                \
    MBAR_FENCE_INIT();               \
    FENCE_PROXY_ASYNC();             \
  }                                  \
  __syncthreads()

// Step j (16 of the 64 columns) of a stage.
#define GEMM_STEP(d, stage, j) \
  WGMMA_SS(d, matrix_descriptor(smem(stage) + (j) * 32, 16, 1024), matrix_descriptor(smem(stage) + kTileA + (j) * 32, 16, 1024))

/// Writes the accumulators of thread t of the warpgroup to the 64 x 8 result.
__device__ inline void gemm_store(float* out, const float (&d)[4], int t) {
  const int row = t / 32 * 16 + t % 32 / 4, column = 2 * (t % 4);
  _Pragma("unroll") for (int i = 0; i < 4; i++) out[(row + 8 * (i / 2)) * 8 + column + i % 2] = d[i];
}

/// Runs a pipeline over `steps` stages and compares with the product.
template <class Kernel>
bool run_gemm(Kernel kernel, int steps) {
  const int k = 64 * steps;
  std::vector<uint16_t> a(64 * k), b(8 * k);
  std::vector<float> want(64 * 8, 0);
  auto bf16 = [](int v) { float f = float(v); uint32_t u; memcpy(&u, &f, 4); return uint16_t(u >> 16); };
  auto va = [](int i) { return i * 7 % 11 - 5; };
  auto vb = [](int i) { return i * 5 % 13 - 6; };
  for (int i = 0; i < 64 * k; i++) a[i] = bf16(va(i));
  for (int i = 0; i < 8 * k; i++) b[i] = bf16(vb(i));
  for (int r = 0; r < 64; r++)
    for (int c = 0; c < 8; c++)
      for (int i = 0; i < k; i++) want[r * 8 + c] += float(va(r * k + i) * vb(c * k + i));
  Buffer<uint16_t> da(a), db(b);
  Buffer<float> out(want.size());
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 4 * kStageBytes + 1024);
  auto map = [&](void* p, int rows) { return matrix_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, p, k, rows, 64, rows, CU_TENSOR_MAP_SWIZZLE_128B); };
  kernel<<<1, 256, 4 * kStageBytes + 1024>>>(map(da, 64), map(db, 8), out, steps);
  return finished() && same(out.host(), want);
}
