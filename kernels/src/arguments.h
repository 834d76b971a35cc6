// Argument checks shared by the host entries: each returns the Status that names the argument.
#pragma once
#include <atomic>
#include <cstdint>

#include "orrery/kernels.h"

namespace orrery::kernels {

constexpr Status bad(const char* argument, const char* reason) { return {argument, reason, cudaErrorInvalidValue}; }

inline bool aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

/// What a launch returned, as a Status.
inline Status launched(cudaError_t e) {
  if (e == cudaSuccess) return {};
  return {nullptr, cudaGetErrorString(e), e};
}

/// What the current device has of something, `otherwise` where there is none. The driver is asked once for each device.
template <cudaDeviceAttr kWhat>
int device_attribute(int otherwise) {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];
  int device = 0, value = otherwise;
  if (cudaGetDevice(&device) != cudaSuccess) return value;
  if (device < kDevices && known[device]) return known[device];
  if (cudaDeviceGetAttribute(&value, kWhat, device) == cudaSuccess && device < kDevices) known[device] = value;
  return value;
}
/// SMs, and bytes of L2; an H200's without a device.
inline int sm_count() { return device_attribute<cudaDevAttrMultiProcessorCount>(132); }
inline int l2_bytes() { return device_attribute<cudaDevAttrL2CacheSize>(60 << 20); }

/// Whether [a, a + a_bytes) and [b, b + b_bytes) share a byte.
inline bool overlap(const void* a, int64_t a_bytes, const void* b, int64_t b_bytes) {
  const auto x = reinterpret_cast<uintptr_t>(a), y = reinterpret_cast<uintptr_t>(b);
  return a && b && x < y + uintptr_t(b_bytes) && y < x + uintptr_t(a_bytes);
}

}  // namespace orrery::kernels
