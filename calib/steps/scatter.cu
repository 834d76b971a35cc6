// calib/steps/scatter.cu: copies of four, eight and 16 bytes a lane to shared memory (cp.async), by how far the lanes' places lie from each
// other there; and the way through registers (a load and a store) to the same places.
//
// What is copied lies side by side and stays in L1 or L2, so that only the places differ: tiles that are transposed on their way.
#include "steps.h"

namespace {
using namespace steps;

/// `rounds` tiles of 4 x kBytes a lane, two under way. Lane l's chunk k goes to word l * apart + k.
template <int kBytes, bool kRegisters>
__global__ void __launch_bounds__(256) scatter(const char* from, float* out, int rounds, int apart) {
  extern __shared__ __align__(1024) char room[];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const uint32_t words = kBytes / 4, to = smem(room) + 4u * uint32_t((lane * apart + warp * 4 * int(words)) % 4096);
  const char* own = from + size_t(blockIdx.x) * 4 * 256 * kBytes + threadIdx.x * kBytes;
  const auto fetch = [&](int r) {
    if (r < rounds) {
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const uint32_t at = to + uint32_t(k) * kBytes + uint32_t(r % 2) * 20480u;
        const char* source = own + k * 256 * kBytes;
        if (kRegisters) {
          uint32_t v[4];
          if (kBytes == 4) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v[0]) : "l"(source));
          if (kBytes == 16) asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3]) : "l"(source));
          if (kBytes == 4) asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v[0]) : "memory");
          if (kBytes == 16) asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
        } else {
          asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(source), "n"(kBytes) : "memory");
        }
      }
    }
    if (!kRegisters) asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  float sum = 0;
  for (int r = 0; r < rounds; r++) {
    fetch(r + 1);
    if (!kRegisters) asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    sum += *reinterpret_cast<const float*>(room + threadIdx.x * 4 + r % 2 * 20480);
    __syncthreads();
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}
template <int kBytes, bool kRegisters>
truth::Launch copies(long apart) {
  auto from = zeros<char>(size_t(132) * 4 * 256 * kBytes);
  auto out = zeros<float>(132 * 256);
  cudaFuncSetAttribute(scatter<kBytes, kRegisters>, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536);
  return [=] { scatter<kBytes, kRegisters><<<132, 256, 65536>>>(from.p, out.p, 200, int(apart)); };
}
TRUTH("scatter", "scatter_async_4", {1, 2, 4, 8, 16, 32, 33, 36, 128}, [](long apart) { return copies<4, false>(apart); });
TRUTH("scatter", "scatter_async_8", {2, 4, 8, 32, 34, 128}, [](long apart) { return copies<8, false>(apart); });
TRUTH("scatter", "scatter_async_16", {4, 8, 16, 32, 36, 128}, [](long apart) { return copies<16, false>(apart); });
TRUTH("scatter", "scatter_registers_4", {1, 2, 8, 32, 33, 128}, [](long apart) { return copies<4, true>(apart); });
TRUTH("scatter", "scatter_registers_16", {4, 8, 32, 128}, [](long apart) { return copies<16, true>(apart); });
}  // namespace
