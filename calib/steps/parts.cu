// calib/steps/parts.cu: what a product by mma.sync does in a step, part by part: copies past L1 by cp.async, barriers, ldmatrix, mma; and
// bulk copies one after the other by all SMs.
#include "steps.h"

namespace {
using namespace steps;

constexpr int kCopies = 1, kBarriers = 2, kMatrices = 4, kProducts = 8;
constexpr int kStages = 3, kTile = 128 * 64;

/// Two blocks an SM of eight warps: in each step copies of two tiles of 128 rows of 64 bytes, three stages ahead; 12 ldmatrix.x4 and 32 m16n8k16 a warp. A row of
/// `wide` bytes lies together in memory (64: eight rows a warp instruction, 512: one).
template <int kParts>
__global__ void __launch_bounds__(256) mma_step(const char* from, float* out, int steps, int wide) {
  __shared__ __align__(1024) char room[2][kStages][kTile];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32, wr = warp / 4 * 64, wc = warp % 4 * 32;
  const auto place = [](int r, int q) { return uint32_t(r * 64 + ((q ^ (r >> 1)) & 3) * 16); };
  const char* own = from + size_t(blockIdx.x) * (16 * 2 * kTile);
  for (int i = t; i < int(sizeof room) / 4; i += 256) ((uint32_t*)room)[i] = 0;
  __syncthreads();
  const int lanes = wide / 16;  // of a row
  const auto fetch = [&](int s) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int piece = t + i * 256, r = piece / 4, q = piece % 4;
      const size_t at = size_t(s % 16) * (2 * kTile) + (wide == 64 ? size_t(piece) * 16 : size_t(piece / lanes) * wide + piece % lanes * 16);
      // Rows of 64 bytes lie 128 apart.
      const size_t apart = wide == 64 ? size_t(r) * 128 + q * 16 + size_t(s % 16) * (4 * kTile) : at;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(room[0][s % kStages]) + place(r, q)), "l"(own + apart) : "memory");
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(smem(room[1][s % kStages]) + place(r, q)), "l"(own + apart + kTile) : "memory");
    }
  };
  float acc[4][4][4] = {};
  uint32_t fa[4][4] = {}, fb[2][4] = {};
  if (kParts & kCopies)
    for (int s = 0; s < kStages - 1; s++) {
      fetch(s);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
#pragma unroll 1
  for (int s = 0; s < steps; s++) {
    if (kParts & kCopies) asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    if (kParts & kBarriers) __syncthreads();
    if (kParts & kCopies) {
      if (s + kStages - 1 < steps) fetch(s + kStages - 1);
      asm volatile("cp.async.commit_group;" ::: "memory");
    }
    const uint32_t sa = smem(room[0][s % kStages]), sb = smem(room[1][s % kStages]);
#pragma unroll
    for (int k = 0; k < 2; k++) {
      if (kParts & kMatrices) {
#pragma unroll
        for (int i = 0; i < 4; i++)
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3]) : "r"(sa + place(wr + i * 16 + lane % 16, k * 2 + lane / 16)));
#pragma unroll
        for (int j = 0; j < 2; j++)
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j][2]), "=r"(fb[j][3]) : "r"(sb + place(wc + j * 16 + lane % 8 + lane / 16 * 8, k * 2 + lane / 8 % 2)));
      }
      if (kParts & kProducts) {
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++)
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(acc[i][j][0]), "+f"(acc[i][j][1]), "+f"(acc[i][j][2]), "+f"(acc[i][j][3])
                         : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j / 2][j % 2 * 2]), "r"(fb[j / 2][j % 2 * 2 + 1]));
      }
    }
  }
  float sum = 0;
  for (auto& line : acc)
    for (auto& f : line)
      for (float v : f) sum += v;
  for (auto& f : fa)
    for (uint32_t v : f) sum += v;
  for (auto& f : fb)
    for (uint32_t v : f) sum += v;
  out[blockIdx.x * 256 + t] = sum;
}
template <int kParts>
Launch step_of(int blocks, int wide) {
  auto from = zeros<float>(size_t(264) * 64 * kTile / 4);
  auto out = zeros<float>(264 * 256);
  return [=] { mma_step<kParts><<<blocks, 256>>>((const char*)from.p, out, 256, wide); };
}
#define STEP(name, parts) \
  TRUTH("parts", name, {132, 264}, [](long blocks) { return step_of<(parts)>(int(blocks), 64); }); \
  TRUTH("parts", name "_wide", {264}, [](long blocks) { return step_of<(parts)>(int(blocks), 512); });
STEP("step_copies", kCopies | kBarriers)
STEP("step_matrices", kMatrices)
STEP("step_products", kProducts)
STEP("step_matrices_products", kMatrices | kProducts)
STEP("step_barriers_products", kBarriers | kMatrices | kProducts)
STEP("step_copies_matrices", kCopies | kBarriers | kMatrices)
STEP("step_all", kCopies | kBarriers | kMatrices | kProducts)

/// Bulk copies of `bytes` from memory, each waited for before the next one, by `blocks` blocks.
__global__ void serial_copies(const char* from, float* out, int bytes, int copies) {
  extern __shared__ __align__(1024) char room[];
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) {
    init_ring(&bar, 1);
    for (int i = 0; i < copies; i++) {
      bulk_load(room, from + (size_t(i) * gridDim.x + blockIdx.x) * bytes, bytes, &bar);
      wait(&bar, uint32_t(i & 1));
    }
  }
  __syncthreads();
  out[blockIdx.x] = room[threadIdx.x];
}
template <int kBytes>
Launch serial_of(int blocks) {
  constexpr int kEach = 64;
  auto from = zeros<float>(size_t(132) * kEach * kBytes / 4);
  auto out = zeros<float>(132);
  cudaFuncSetAttribute(serial_copies, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  return [=] { serial_copies<<<blocks, 32, kBytes>>>((const char*)from.p, out, kBytes, kEach); };
}
TRUTH("parts", "serial_copies4", {8, 33, 132}, [](long blocks) { return serial_of<4096>(int(blocks)); });
TRUTH("parts", "serial_copies16", {8, 33, 132}, [](long blocks) { return serial_of<16384>(int(blocks)); });
TRUTH("parts", "serial_copies64", {8, 33, 132}, [](long blocks) { return serial_of<65536>(int(blocks)); });

}  // namespace
