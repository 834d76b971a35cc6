// calib/steps/joined.cu: stores of several warps, or of one after the other, that fill the same sectors between them: which of them leave their SM as one.
//
// Sectors that the profiler counts (lts__t_sectors_srcunit_tex_op_write) over those of all stores say how many did. Not here: stores to the same words
// (same_stores.cu).
#include "steps.h"

namespace joined {
using namespace steps;

// What the compiler may not leave out or put together.
template <class T>
__device__ inline T load(const T* at) {
  T v;
  if constexpr (sizeof(T) == 2) asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(at) : "memory");
  if constexpr (sizeof(T) == 4) asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  if constexpr (sizeof(T) == 8) asm volatile("ld.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}
template <class T>
__device__ inline void store(T* at, T v) {
  if constexpr (sizeof(T) == 2) asm volatile("st.global.u16 [%0], %1;" ::"l"(at), "h"(v) : "memory");
  if constexpr (sizeof(T) == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
  if constexpr (sizeof(T) == 8) asm volatile("st.global.u64 [%0], %1;" ::"l"(at), "l"(v) : "memory");
}

/// A block of 8 x 8 elements, or wide x tall: warp after warp of a thread block stores tiles side by side, as filters of images do. `kBarrier`: all
/// warps store behind a barrier; `kLoad`: behind a load.
template <class T, int kWide, int kTall, bool kBarrier, bool kLoad>
__global__ void tiles(T* out, const T* in, int width) {
  constexpr int kEach = kWide * kTall;
  const int tile = int(threadIdx.x) / kEach, at = int(threadIdx.x) % kEach, tiles = int(blockDim.x) / kEach;
  const long x = (long(blockIdx.x) * tiles + tile) * kWide + at % kWide, y = long(blockIdx.y) * kTall + at / kWide;
  T v = T(threadIdx.x);
  if (kLoad) v = in[y * width + x];
  if (kBarrier) __syncthreads();
  out[y * width + x] = T(v + T(1));
}
template <class T, int kWide, int kTall, bool kBarrier, bool kLoad>
Launch tiling(long threads) {
  constexpr long kWidth = 2048, kHeight = 2048;
  auto in = zeros<T>(kWidth * kHeight), out = zeros<T>(kWidth * kHeight);
  const dim3 grid(unsigned(kWidth / (threads / (kWide * kTall)) / kWide), unsigned(kHeight / kTall));
  return [=] { tiles<T, kWide, kTall, kBarrier, kLoad><<<grid, unsigned(threads)>>>(out.p, in.p, int(kWidth)); };
}
#define TILES(name, ...) TRUTH("joined", name, {128, 256, 512, 1024}, [](long n) { return tiling<__VA_ARGS__>(n); });
TILES("tiles_8x8_2", uint16_t, 8, 8, false, false)
TILES("tiles_8x8_2_load", uint16_t, 8, 8, false, true)
TILES("tiles_8x8_2_barrier", uint16_t, 8, 8, true, true)
TILES("tiles_8x8_1_barrier", uint8_t, 8, 8, true, true)
TILES("tiles_8x8_1_load", uint8_t, 8, 8, false, true)
TILES("tiles_16x8_1_barrier", uint8_t, 16, 8, true, true)
TILES("tiles_16x4_1_load", uint8_t, 16, 4, false, true)
TILES("tiles_4x8_4_barrier", uint32_t, 4, 8, true, true)
TILES("tiles_4x8_4_load", uint32_t, 4, 8, false, true)
TILES("tiles_4x16_4_load", uint32_t, 4, 16, false, true)

/// A lane's `kEach` words next to each other, stored one after the other, and loaded so; `busy` of the grid's blocks do it.
template <class T, int kEach, bool kShared>
__global__ void blocked(T* out, const T* in, int busy) {
  __shared__ T room[kShared ? kEach * 256 : 1];
  if (int(blockIdx.x) >= busy) return;
  const long first = (long(blockIdx.x) * blockDim.x + threadIdx.x) * kEach;
  T v[kEach];
#pragma unroll
  for (int i = 0; i < kEach; i++) v[i] = load(in + first + i);
  if (kShared) {
    T* const own = room + threadIdx.x / 32 * 32 * kEach;
#pragma unroll
    for (int i = 0; i < kEach; i++) own[threadIdx.x % 32 * kEach + i] = v[i];
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kEach; i++) v[i] = own[i * 32 + threadIdx.x % 32];
  }
#pragma unroll
  for (int i = 0; i < kEach; i++) store(out + first + i, v[i]);
}
template <class T, int kEach, bool kShared>
Launch blocking(long blocks, long all) {
  auto in = zeros<T>(size_t(blocks) * 256 * kEach), out = zeros<T>(size_t(blocks) * 256 * kEach);
  return [=] { blocked<T, kEach, kShared><<<unsigned(blocks * all), 256>>>(out.p, in.p, int(blocks)); };
}
#define BLOCKED(name, all, ...) TRUTH("joined", name, {264, 1056, 4096}, [](long n) { return blocking<__VA_ARGS__>(n, all); });
BLOCKED("blocked_2", 1, uint32_t, 2, false)
BLOCKED("blocked_4", 1, uint32_t, 4, false)
BLOCKED("blocked_4_idle", 4, uint32_t, 4, false)
BLOCKED("blocked_4_shared", 1, uint32_t, 4, true)
BLOCKED("blocked_4_shared_idle", 4, uint32_t, 4, true)
BLOCKED("blocked_8", 1, uint32_t, 8, false)
BLOCKED("blocked_2_8", 1, uint64_t, 2, false)
BLOCKED("blocked_4_2", 1, uint16_t, 4, false)

/// A grid of which one block in four has nothing to do, or has only to look.
__global__ void idle(float* out, int busy) {
  if (int(blockIdx.x) >= busy) return;
  out[long(blockIdx.x) * blockDim.x + threadIdx.x] = 1;
}
TRUTH("joined", "idle", {1, 264, 1056, 4096}, [](long n) {
  auto out = zeros<float>(16384 * 256);
  return [=] { idle<<<16384, 256>>>(out, int(n)); };
});

/// Fields of a structure of `kFields` words, written one by one by each lane.
template <int kFields>
__global__ void fields(float* out, const float* in) {
  const long t = long(blockIdx.x) * blockDim.x + threadIdx.x;
  float* const at = out + t * kFields;
  const float v = in[t];
#pragma unroll
  for (int i = 0; i < kFields; i++) store(reinterpret_cast<uint32_t*>(at + i), __float_as_uint(v * float(i + 1)));
}
template <int kFields>
Launch fielding(long blocks) {
  auto in = zeros<float>(size_t(blocks) * 128), out = zeros<float>(size_t(blocks) * 128 * kFields);
  return [=] { fields<kFields><<<unsigned(blocks), 128>>>(out.p, in.p); };
}
#define FIELDS(n) TRUTH("joined", "fields_" #n, {66, 528, 4096}, [](long b) { return fielding<n>(b); });
FIELDS(2) FIELDS(3) FIELDS(4) FIELDS(6) FIELDS(8)

}  // namespace joined
