// calib/steps/flight.cu: how long a batch of loads takes by how many bytes are under way: few warps an SM, each waits for its batch before it
// asks for the next one. Not here: what all of memory gives (memory.cu).
#include "steps.h"

namespace {
using namespace steps;

/// Batches of kBatch loads of T. kOwn: each block reads a piece of its own, else a batch of all blocks lies together.
template <class T, int kBatch, bool kOwn>
__global__ void flight(const T* p, float* out, long n, int sweeps) {
  const long all = long(gridDim.x) * blockDim.x;
  float sum = 0;
#pragma unroll 1
  for (int s = 0; s < sweeps; s++) {
    const long batches = n / (all * kBatch);
#pragma unroll 1
    for (long b = 0; b < batches; b++) {
      T v[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; k++) {
        const long at = kOwn ? (long(blockIdx.x) * batches + b) * kBatch * blockDim.x + k * blockDim.x + threadIdx.x
                             : (b * kBatch + k) * all + blockIdx.x * long(blockDim.x) + threadIdx.x;
        if constexpr (sizeof(T) == 16) {
          asm volatile("ld.global.cg.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v[k].x), "=f"(v[k].y), "=f"(v[k].z), "=f"(v[k].w) : "l"(p + at));
        } else {
          asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v[k]) : "l"(p + at));
        }
      }
#pragma unroll
      for (int k = 0; k < kBatch; k++) {
        if constexpr (sizeof(T) == 16) sum += v[k].x + v[k].w;
        else sum += v[k];
      }
    }
  }
  if (sum == 12345.678f) out[0] = sum;
}
template <class T, int kBatch, bool kOwn>
Launch flight_of(long threads, long mb, int blocks) {
  auto p = zeros<float>(mb << 18);
  auto o = zeros<float>(32);
  return [=] { flight<T, kBatch, kOwn><<<blocks, int(threads)>>>((const T*)p.p, o, (mb << 20) / long(sizeof(T)), mb > 64 ? 1 : 4); };
}
#define FLIGHT(name, type, batch, own, mb, blocks, ...) \
  TRUTH("flight", name, {__VA_ARGS__}, [](long threads) { return flight_of<type, batch, own>(threads, mb, blocks); });
FLIGHT("flight_4x1", float, 1, false, 128, 132, 32, 128, 512, 1024)
FLIGHT("flight_4x4", float, 4, false, 128, 132, 32, 128, 512, 1024)
FLIGHT("flight_16x1", float4, 1, false, 256, 132, 32, 128, 512, 1024)
FLIGHT("flight_16x4", float4, 4, false, 256, 132, 32, 64, 128, 256, 512, 1024)
FLIGHT("flight_16x8", float4, 8, false, 256, 132, 32, 128, 512)
FLIGHT("flight_own_4x4", float, 4, true, 128, 132, 32, 128, 512)
FLIGHT("flight_own_16x4", float4, 4, true, 256, 132, 32, 128, 512)
FLIGHT("flight_few_16x4", float4, 4, false, 256, 16, 32, 128, 512)
FLIGHT("flight_one_16x4", float4, 4, false, 128, 1, 128, 1024)
FLIGHT("flight_l2_4x4", float, 4, false, 16, 132, 32, 128, 512)
FLIGHT("flight_l2_16x4", float4, 4, false, 16, 132, 32, 128, 512)
FLIGHT("flight_l2_own_16x4", float4, 4, true, 16, 132, 32, 128, 512)

}  // namespace
