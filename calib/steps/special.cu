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
TRUTH("special", "short_blocks", (std::vector<long>{32, 64, 128, 256, 512}), [](long n) {
  constexpr int kThreads = 1 << 22;
  auto o = zeros<unsigned>(kThreads / 8);
  return truth::Launch([=] { short_blocks<<<dim3(unsigned(kThreads / n)), dim3(unsigned(n))>>>(o.p, kThreads / 8); });
});

}  // namespace special
