// calib/steps/carved.cu: how much of an SM is left to L1 by kernels that want shared memory, whether or not their grids fill the SMs.
//
// A block goes over a table of its own again and again, and says by what it finds how large L1 is. Not here: what L1 keeps (kept.cu).
#include "steps.h"

namespace carved {
using namespace steps;

template <int kShared>
__global__ void over(float* out, const float* in, int words, int passes) {
  __shared__ float room[kShared / 4];
  for (int i = int(threadIdx.x); i < kShared / 4; i += int(blockDim.x)) room[i] = float(i);
  __syncthreads();
  const float* const own = in + long(blockIdx.x) * words;
  float sum = 0;
  for (int pass = 0; pass < passes; pass++)
#pragma unroll 4
    for (int i = int(threadIdx.x); i < words; i += int(blockDim.x)) {
      float v;
      asm volatile("ld.global.f32 %0, [%1];" : "=f"(v) : "l"(own + i) : "memory");
      sum += v;
    }
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = sum + room[(int(threadIdx.x) + int(sum)) % (kShared / 4)];
}
template <int kShared>
Launch tables(long kib, int blocks, int threads) {
  auto in = zeros<float>(size_t(blocks) * size_t(kib) * 256), out = zeros<float>(size_t(blocks) * size_t(threads));
  return [=] { over<kShared><<<unsigned(blocks), unsigned(threads)>>>(out, in.p, int(kib * 256), 4); };
}
#define TABLES (std::vector<long>{16, 32, 48, 64, 96, 128, 160, 192})
#define CARVED(kib) \
  TRUTH("carved", "carved_" #kib, TABLES, [](long n) { return tables<kib * 1024>(n, 132, 128); }); \
  TRUTH("carved", "carved_wide_" #kib, TABLES, [](long n) { return tables<kib * 1024>(n, 132, 1024); });
CARVED(1) CARVED(4) CARVED(8) CARVED(16) CARVED(24) CARVED(40)

}  // namespace carved
