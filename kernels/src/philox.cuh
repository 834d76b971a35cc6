// Philox4x32-10: 128 random bits of a counter and a key, with no state (Salmon, Moraes, Dror, Shaw: Parallel random numbers, SC 2011).
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

namespace orrery::kernels {

__host__ __device__ __forceinline__ uint4 philox(uint4 c, uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const uint64_t a = uint64_t(0xD2511F53u) * c.x, b = uint64_t(0xCD9E8D57u) * c.z;
    c = make_uint4(uint32_t(b >> 32) ^ c.y ^ key0, uint32_t(b), uint32_t(a >> 32) ^ c.w ^ key1, uint32_t(a));
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  return c;
}

}  // namespace orrery::kernels
