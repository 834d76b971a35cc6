// calib/steps/special.cu: how fast an SM reads special registers, constants by an index and uniform registers, by how many warps do it, and what short
// blocks begin with.
//
// Not here: constants by words and bytes (constants.cu), launch rates of empty blocks (steps.cu).
#include "steps.h"

namespace special {
using namespace steps;

enum What { kSm, kWarp };  // those that a compiler reads again each time

template <What what>
__device__ __forceinline__ unsigned read() {
  unsigned v = 0;
  if (what == kSm) asm volatile("mov.u32 %0, %%smid;" : "=r"(v));
  if (what == kWarp) asm volatile("mov.u32 %0, %%warpid;" : "=r"(v));
  return v;
}
template <What what>
__global__ void registers(unsigned* out, int rounds) {
  unsigned v = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) v += read<what>();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
/// Registers beside a shuffle each, which go through the same queue.
__global__ void beside_shuffles(unsigned* out, int rounds) {
  unsigned v = 0, w = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) v += read<kWarp>(), w = __shfl_xor_sync(~0u, w, 1);
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v + w;
}
struct Table {
  unsigned v[64];
};
/// A word of the constant bank at a time, all lanes the same.
__global__ void constants(unsigned* out, int rounds, const __grid_constant__ Table t) {
  unsigned v = 0, at = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++) {
      asm volatile("" : "+r"(at));
      v += t.v[(at + i) & 63];
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = v;
}
/// Blocks of little work: indices of three dimensions, a test, a store by one thread in eight.
__global__ void short_blocks(unsigned* out, int n) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
  const unsigned i = (z * blockDim.y * gridDim.y + y) * blockDim.x * gridDim.x + x;
  if (i % 8 == 0 && i / 8 < unsigned(n)) out[i / 8] = i;
}

/// Blocks that read so many registers that tell where a thread is, and end.
template <int kReads>
__global__ void __launch_bounds__(1024) places(unsigned* out, unsigned n) {
  unsigned v[7] = {};
  if (kReads > 0) asm volatile("mov.u32 %0, %%tid.x;" : "=r"(v[0]));
  if (kReads > 1) asm volatile("mov.u32 %0, %%tid.y;" : "=r"(v[1]));
  if (kReads > 2) asm volatile("mov.u32 %0, %%tid.z;" : "=r"(v[2]));
  if (kReads > 3) asm volatile("mov.u32 %0, %%laneid;" : "=r"(v[3]));
  if (kReads > 4) asm volatile("mov.u32 %0, %%lanemask_lt;" : "=r"(v[4]));
  if (kReads > 5) asm volatile("mov.u32 %0, %%smid;" : "=r"(v[5]));
  if (kReads > 6) asm volatile("mov.u32 %0, %%warpid;" : "=r"(v[6]));
  unsigned sum = 0;
  for (int i = 0; i < kReads; i++) sum = sum * 3 + v[i];
  if (sum == n) out[0] = sum;
}
template <int kReads>
truth::Launch placing() {
  auto o = zeros<unsigned>(32);
  return [=] { places<kReads><<<4096, 1024>>>(o.p, 0xFFFFFFFFu); };
}
template <What what>
truth::Launch reading(int blocks, long warps) {
  auto o = zeros<unsigned>(size_t(blocks) * size_t(warps) * 32);
  return [=] { registers<what><<<unsigned(blocks), unsigned(warps) * 32>>>(o.p, 64); };
}

#define WARPS (std::vector<long>{1, 2, 4, 8, 16, 32})
TRUTH("special", "special_sm", WARPS, [](long n) { return reading<kSm>(132, n); });
TRUTH("special", "special_warp", WARPS, [](long n) { return reading<kWarp>(132, n); });
TRUTH("special", "special_shuffles", WARPS, [](long n) {
  auto o = zeros<unsigned>(132 * size_t(n) * 32);
  return truth::Launch([=] { beside_shuffles<<<132, unsigned(n) * 32>>>(o.p, 64); });
});
TRUTH("special", "special_constants", WARPS, [](long n) {
  auto o = zeros<unsigned>(132 * size_t(n) * 32);
  return truth::Launch([=] { constants<<<132, unsigned(n) * 32>>>(o.p, 64, Table{}); });
});
TRUTH("special", "special_places", (std::vector<long>{0, 1, 2, 3, 4, 5, 6, 7}), [](long n) {
  return n == 0 ? placing<0>() : n == 1 ? placing<1>() : n == 2 ? placing<2>() : n == 3 ? placing<3>() : n == 4 ? placing<4>() : n == 5 ? placing<5>() : n == 6 ? placing<6>() : placing<7>();
});
TRUTH("special", "short_blocks", (std::vector<long>{32, 64, 128, 256, 512}), [](long n) {
  constexpr int kThreads = 1 << 22;
  auto o = zeros<unsigned>(kThreads / 8);
  return truth::Launch([=] { short_blocks<<<dim3(unsigned(kThreads / n)), dim3(unsigned(n))>>>(o.p, kThreads / 8); });
});

}  // namespace special
