// Division by a number that the host knows and the device would pay some 200 cycles for.
#pragma once
#include <cstdint>

namespace orrery::kernels {

/// Division of n in [0, 2^31) by a number known at launch: a multiplication instead of some 200 cycles.
struct FastDivide {
  uint32_t divisor = 1, multiplier = 1, shift = 0;
  FastDivide() = default;
  explicit FastDivide(uint32_t d) : divisor(d) {
    while ((uint64_t(1) << shift) < d) shift++;
    multiplier = uint32_t(((uint64_t(1) << 32) * ((uint64_t(1) << shift) - d)) / d + 1);
  }
#ifdef __CUDACC__
  __device__ __forceinline__ uint32_t divide(uint32_t n) const { return (__umulhi(n, multiplier) + n) >> shift; }
#endif
};

}  // namespace orrery::kernels
