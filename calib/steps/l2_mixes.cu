// calib/steps/l2_mixes.cu: reads and writes of what L2 holds: by how many arrays are read and written, how wide, and what of a line.
#include "steps.h"

namespace {
using namespace steps;

/// `rounds` over `bytes` of each of kReads arrays to read and kWrites to write, each lane a word of T, kStep words apart.
template <class T, int kReads, int kWrites, int kStep>
__global__ void __launch_bounds__(256) l2_mix(const T* from, T* to, uint32_t words, int rounds, uint32_t* out) {
  uint32_t sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    // Another block's part each time, so that L1 holds none of it.
    const uint32_t block = (blockIdx.x + uint32_t(r) * 37) % gridDim.x;
#pragma unroll 1
    for (uint32_t i = block * blockDim.x + threadIdx.x; i < words / kStep; i += gridDim.x * blockDim.x) {
      T v[kReads > 0 ? kReads : 1] = {};
#pragma unroll
      for (int k = 0; k < kReads; k++) v[k] = __ldcg(from + size_t(k) * words + i * kStep);
      uint32_t s = uint32_t(r);
#pragma unroll
      for (int k = 0; k < kReads; k++) s += *reinterpret_cast<uint32_t*>(&v[k]);
      *reinterpret_cast<uint32_t*>(&v[0]) = s;
#pragma unroll
      for (int k = 0; k < kWrites; k++) to[size_t(k) * words + i * kStep] = v[0];
      if (kWrites == 0) sum += s;
    }
  }
  if (kWrites == 0 && sum == 1) out[threadIdx.x] = sum;
}
template <class T, int kReads, int kWrites, int kStep>
truth::Launch mixed(long megabytes) {
  const size_t words = (size_t(megabytes) << 20) / sizeof(T);
  auto from = zeros<T>(words * std::max(1, kReads)), to = zeros<T>(words * std::max(1, kWrites));
  auto out = zeros<uint32_t>(1024);
  return [=] { l2_mix<T, kReads, kWrites, kStep><<<1056, 256>>>(from.p, to.p, uint32_t(words), 8, out.p); };
}
#define MIXED(type, reads, writes, step) TRUTH("l2", "l2_" #type "_" #reads "_" #writes "_" #step, {2, 6}, [](long n) { return mixed<type, reads, writes, step>(n); });
MIXED(float, 1, 0, 1)
MIXED(float, 1, 1, 1)
MIXED(float, 3, 1, 1)
MIXED(float, 1, 3, 1)
MIXED(float, 0, 1, 1)
MIXED(float4, 1, 1, 1)
MIXED(float4, 3, 1, 1)
MIXED(float4, 0, 1, 1)
MIXED(float, 1, 0, 8)
MIXED(float, 1, 1, 8)
MIXED(float, 0, 1, 8)
MIXED(float, 1, 1, 2)
MIXED(float, 1, 0, 2)
}  // namespace
