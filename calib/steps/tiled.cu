// calib/steps/tiled.cu: products of matrices as textbooks write them: square tiles of A and B in shared memory between two barriers, by plain loads or
// by asynchronous copies of 4 or 16 bytes, in one stage or in two; and tiles of 64 x 64 with several sums a thread.
//
// What SMs ask L2 for together depends on how far apart they are. Not here: products of what L1 holds (plain.cu).
#include "steps.h"

namespace tiled {
using namespace steps;

__device__ inline void copy4(void* to, const void* from) { asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(smem(to)), "l"(from) : "memory"); }
__device__ inline void copy16(void* to, const void* from) { asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(to)), "l"(from) : "memory"); }
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ inline void wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory"); }

template <int kTile>
__global__ void loads(float* c, const float* a, const float* b, int n) {
  __shared__ float as[kTile][kTile], bs[kTile][kTile];
  const int x = int(threadIdx.x), y = int(threadIdx.y), row = int(blockIdx.y) * kTile + y, column = int(blockIdx.x) * kTile + x;
  float sum = 0;
  for (int k = 0; k < n; k += kTile) {
    as[y][x] = a[size_t(row) * n + k + x], bs[y][x] = b[size_t(k + y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i++) sum += as[y][i] * bs[i][x];
    __syncthreads();
  }
  c[size_t(row) * n + column] = sum;
}
template <int kTile, int kStages>
__global__ void copies(float* c, const float* a, const float* b, int n) {
  __shared__ float as[kStages][kTile][kTile], bs[kStages][kTile][kTile];
  const int x = int(threadIdx.x), y = int(threadIdx.y), row = int(blockIdx.y) * kTile + y, column = int(blockIdx.x) * kTile + x;
  const auto fill = [&](int s, int k) {
    if (k < n) copy4(&as[s][y][x], a + size_t(row) * n + k + x), copy4(&bs[s][y][x], b + size_t(k + y) * n + column);
    commit();
  };
  float sum = 0;
  for (int s = 0; s < kStages - 1; s++) fill(s, s * kTile);
  int s = 0;
  for (int k = 0; k < n; k += kTile) {
    fill((s + kStages - 1) % kStages, k + (kStages - 1) * kTile);
    wait_group<kStages - 1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile; i++) sum += as[s][y][i] * bs[s][i][x];
    __syncthreads();
    s = (s + 1) % kStages;
  }
  c[size_t(row) * n + column] = sum;
}
/// Tiles of 64 x 64 by 256 threads of 4 x 4 sums; slabs of 16 of k, loaded or copied by 16 bytes.
template <bool kCopies>
__global__ void blocks64(float* c, const float* a, const float* b, int n) {
  __shared__ __align__(16) float as[2][64][20], bs[2][16][68];
  const int t = int(threadIdx.x), tx = t % 16, ty = t / 16;
  const int row = int(blockIdx.y) * 64, column = int(blockIdx.x) * 64;
  const auto fill = [&](int s, int k) {
    if (k < n) {
      const float* from_a = a + size_t(row + t / 4) * n + k + t % 4 * 4;
      const float* from_b = b + size_t(k + t / 16) * n + column + t % 16 * 4;
      if (kCopies) copy16(&as[s][t / 4][t % 4 * 4], from_a), copy16(&bs[s][t / 16][t % 16 * 4], from_b);
      else *(float4*)&as[s][t / 4][t % 4 * 4] = *(const float4*)from_a, *(float4*)&bs[s][t / 16][t % 16 * 4] = *(const float4*)from_b;
    }
    if (kCopies) commit();
  };
  float sum[4][4] = {};
  fill(0, 0);
  int s = 0;
  for (int k = 0; k < n; k += 16, s ^= 1) {
    fill(s ^ 1, k + 16);
    if (kCopies) wait_group<1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; i++) {
      float u[4], v[4];
#pragma unroll
      for (int j = 0; j < 4; j++) u[j] = as[s][ty * 4 + j][i], v[j] = bs[s][i][tx * 4 + j];
#pragma unroll
      for (int j = 0; j < 4; j++)
#pragma unroll
        for (int l = 0; l < 4; l++) sum[j][l] += u[j] * v[l];
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int l = 0; l < 4; l++) c[size_t(row + ty * 4 + j) * n + column + tx * 4 + l] = sum[j][l];
}

template <class Kernel>
Launch square(long n, Kernel kernel, int tile, dim3 threads) {
  auto a = zeros<float>(size_t(n) * size_t(n)), b = zeros<float>(size_t(n) * size_t(n)), c = zeros<float>(size_t(n) * size_t(n));
  return [=] { kernel<<<dim3(unsigned(n / tile), unsigned(n / tile)), threads>>>(c.p, a.p, b.p, int(n)); };
}
#define SIZES (std::vector<long>{256, 512, 1024, 1536, 2048})
TRUTH("tiled", "tiled_16", SIZES, [](long n) { return square(n, loads<16>, 16, dim3(16, 16)); });
TRUTH("tiled", "tiled_32", SIZES, [](long n) { return square(n, loads<32>, 32, dim3(32, 32)); });
TRUTH("tiled", "tiled_copies_16", SIZES, [](long n) { return square(n, copies<16, 1>, 16, dim3(16, 16)); });
TRUTH("tiled", "tiled_copies_16_2", SIZES, [](long n) { return square(n, copies<16, 2>, 16, dim3(16, 16)); });
TRUTH("tiled", "tiled_copies_16_4", SIZES, [](long n) { return square(n, copies<16, 4>, 16, dim3(16, 16)); });
TRUTH("tiled", "tiled_copies_32_2", SIZES, [](long n) { return square(n, copies<32, 2>, 32, dim3(32, 32)); });
TRUTH("tiled", "tiled_64", SIZES, [](long n) { return square(n, blocks64<false>, 64, dim3(256)); });
TRUTH("tiled", "tiled_64_copies", SIZES, [](long n) { return square(n, blocks64<true>, 64, dim3(256)); });

}  // namespace tiled
