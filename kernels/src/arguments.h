// Argument checks shared by the host entries: each returns the Status that names the argument.
#pragma once
#include <atomic>
#include <cstdint>
#include <initializer_list>

#include "orrery/kernels.h"

namespace orrery::kernels {

constexpr Status bad(const char* argument, const char* reason) { return {argument, reason, cudaErrorInvalidValue}; }

inline bool aligned(const void* p, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

inline bool known(DType t) { return t <= DType::kI8; }
inline bool known(Activation a) { return a <= Activation::kSilu; }
/// Names the first of device vectors of f32 that is misaligned; null ones are fine.
struct Floats { const char* name; const float* data; };
inline Status check_floats(std::initializer_list<Floats> all) {
  for (const Floats& f : all)
    if (!aligned(f.data, 4)) return bad(f.name, "is not 4-byte aligned");
  return {};
}

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

constexpr int64_t kMostBytes = int64_t(1) << 47;  // of anything: what pointers of this machine reach
/// a b, both not negative, or beyond kMostBytes where that is more.
inline int64_t product(int64_t a, int64_t b) { return a == 0 || b == 0 ? 0 : a > 2 * kMostBytes / b ? 2 * kMostBytes : a * b; }

/// Where an argument lies: `bytes` at each place of three nested loops, strides in bytes, from `data` on; nowhere if null.
struct Extent {
  const char* name;
  const void* data;
  int64_t bytes;
  struct { int64_t count = 1, stride = 0; } axis[3] = {};
};
inline Extent dense(const char* name, const void* data, int64_t bytes) { return {name, data, bytes}; }
inline Extent matrix(const char* name, const void* data, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride, int size) {
  if (col_stride == 1) return {name, data, product(cols, size), {{rows, product(row_stride, size)}}};
  if (row_stride == 1) return {name, data, product(rows, size), {{}, {cols, product(col_stride, size)}}};
  return {name, data, rows && cols ? size : 0, {{rows, product(row_stride, size)}, {cols, product(col_stride, size)}}};
}
/// From its first byte to behind its last.
inline int64_t span(const Extent& e) {
  int64_t end = e.bytes;
  for (const auto& a : e.axis) {
    if (a.count <= 0 || e.bytes <= 0) return 0;
    end += product(a.count - 1, a.stride);
  }
  return end < kMostBytes ? end : kMostBytes;
}
/// Whether both have a byte in common. Axes of the same index go together: where both have several places on one, at different strides, what lies
/// between the places of one counts as its own.
bool share_bytes(const Extent& a, const Extent& b);

/// Names `written` if it has a byte in common with one of `others`. Those of `in_place` may be the very same bytes.
inline Status apart(const Extent& written, std::initializer_list<Extent> others, std::initializer_list<Extent> in_place = {}) {
  for (const Extent& o : others)
    if (share_bytes(written, o)) return bad(written.name, "overlaps another argument");
  const auto same = [&](const Extent& o) {
    for (int i = 0; i < 3; i++)
      if (o.axis[i].count != written.axis[i].count || (o.axis[i].count > 1 && o.axis[i].stride != written.axis[i].stride)) return false;
    return o.data == written.data && o.bytes == written.bytes;
  };
  for (const Extent& o : in_place)
    if (!same(o) && share_bytes(written, o)) return bad(written.name, "partly overlaps another argument");
  return {};
}

}  // namespace orrery::kernels
