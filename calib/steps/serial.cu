// calib/steps/serial.cu: blocks that add up what they have one after the other: block k of a tile waits until a word in global memory says that block k - 1
// has added its part. By tiles, by blocks of a tile, by how they look at the word, by work before it; grids of which not all blocks run at once.
#include "steps.h"

namespace {
using namespace steps;

enum class Look { add, load, acquire };

/// Tile blockIdx.x, part blockIdx.y of it: `work` turns of arithmetic, then its turn, then kWords words a thread are added to the tile's in memory (the last
/// part writes the sum and clears the word for the next launch).
template <Look kLook, int kWords>
__global__ void __launch_bounds__(256) serial(uint32_t* turn, float* sums, float* out, int work) {
  extern __shared__ float unused[];
  float x = float(threadIdx.x);
  for (int i = 0; i < work; i++) x = x * .99f + 1;
  uint32_t* const word = turn + blockIdx.x * 32;
  const uint32_t part = blockIdx.y;
  if (threadIdx.x == 0) {
    if constexpr (kLook == Look::add) while (atomicAdd(word, 0) != part) {}
    if constexpr (kLook == Look::load) while (*(volatile uint32_t*)word != part) {}
    if constexpr (kLook == Look::acquire) {
      uint32_t now;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(word) : "memory");
      while (now != part);
    }
  }
  __syncthreads();
  float* const mine = sums + (size_t(blockIdx.x) * kWords) * 256 + threadIdx.x;
  const bool last = part + 1 == gridDim.y;
#pragma unroll
  for (int k = 0; k < kWords; k++) {
    const float sum = x + float(k) + (part ? __ldcg(mine + k * 256) : 0);
    if (last) out[(size_t(blockIdx.x) * kWords + k) * 256 + threadIdx.x] = sum;
    else __stcg(mine + k * 256, sum);
  }
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    if (last) *word = 0;
    else atomicAdd(word, 1);
  }
}
/// As many blocks of an SM as `room` bytes of shared memory leave.
template <Look kLook, int kWords>
Launch serial_of(int tiles, int parts, int work, int room) {
  auto turn = zeros<uint32_t>(tiles * 32);
  auto sums = zeros<float>(size_t(tiles) * kWords * 256), out = zeros<float>(size_t(tiles) * kWords * 256);
  cudaFuncSetAttribute(serial<kLook, kWords>, cudaFuncAttributeMaxDynamicSharedMemorySize, room);
  return [=] { serial<kLook, kWords><<<dim3(unsigned(tiles), unsigned(parts)), 256, size_t(room)>>>(turn, sums, out, work); };
}
constexpr int kAlone = 120000;  // bytes of shared memory with which a block is alone on its SM
TRUTH("serial", "serial_8", {1, 2, 4, 8, 16}, [](long parts) { return serial_of<Look::add, 16>(8, int(parts), 0, kAlone); });
TRUTH("serial", "serial_work_8", {1, 2, 4, 8, 16}, [](long parts) { return serial_of<Look::add, 16>(8, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_33", {1, 2, 4}, [](long parts) { return serial_of<Look::add, 16>(33, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_66", {1, 2, 4, 8}, [](long parts) { return serial_of<Look::add, 16>(66, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_264", {1, 4}, [](long parts) { return serial_of<Look::add, 16>(264, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_many_264", {1, 4, 8}, [](long parts) { return serial_of<Look::add, 16>(264, int(parts), 4000, 0); });
TRUTH("serial", "serial_load_33", {2, 4}, [](long parts) { return serial_of<Look::load, 16>(33, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_acquire_33", {2, 4}, [](long parts) { return serial_of<Look::acquire, 16>(33, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_few_33", {2, 4}, [](long parts) { return serial_of<Look::add, 1>(33, int(parts), 4000, kAlone); });
TRUTH("serial", "serial_wide_33", {2, 4}, [](long parts) { return serial_of<Look::add, 64>(33, int(parts), 4000, kAlone); });

}  // namespace
