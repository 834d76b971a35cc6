// 16-byte vectors of any element type, and the conversions to f32 and back: what memory-bound kernels share.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "orrery/kernels.h"

namespace orrery::kernels {

__device__ __forceinline__ float to_float(float v) { return v; }
__device__ __forceinline__ float to_float(__half v) { return __half2float(v); }
__device__ __forceinline__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
template <class T>
__device__ __forceinline__ T from_float(float v) {
  if constexpr (sizeof(T) == 4) return v;
  else if constexpr (std::is_same_v<T, __half>) return __float2half_rn(v);
  else return __float2bfloat16_rn(v);
}

template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / int(sizeof(T));
  T v[kCount];
};

/// 16 bytes at a time, without cache hints: what is read once gains nothing from .cs, and loads lose up to a tenth (NOTES.md).
template <class T>
__device__ __forceinline__ Pack<T> load_whole(const T* p) {
  const uint4 raw = *reinterpret_cast<const uint4*>(p);
  return reinterpret_cast<const Pack<T>&>(raw);
}
template <class T>
__device__ __forceinline__ void store_whole(T* p, const Pack<T>& v) {
  *reinterpret_cast<uint4*>(p) = reinterpret_cast<const uint4&>(v);
}

/// With the hint that the line will not be needed again: where a line is touched in parts (transpose).
template <class T>
__device__ __forceinline__ Pack<T> load_hinted(const T* p) {
  const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(p));
  return reinterpret_cast<const Pack<T>&>(raw);
}
template <class T>
__device__ __forceinline__ void store_hinted(T* p, const Pack<T>& v) {
  __stcs(reinterpret_cast<uint4*>(p), reinterpret_cast<const uint4&>(v));
}

/// Calls body with a value of the element type of `t` (f32, f16, bf16); false for the others.
template <class Body>
bool with_element(DType t, Body body) {
  switch (t) {
    case DType::kF32: body(float{}); return true;
    case DType::kF16: body(__half{}); return true;
    case DType::kBF16: body(__nv_bfloat16{}); return true;
    default: return false;
  }
}

}  // namespace orrery::kernels
