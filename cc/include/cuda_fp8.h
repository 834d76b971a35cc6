// 8-bit floating point: E4M3 and E5M2 storage, conversions and wrapper types; E8M0 scales.
//
// E4M3 has no infinity and one NaN per sign (0x7f); E5M2 is IEEE-like. Conversions round to nearest even; with
// __NV_SATFINITE overflow becomes the largest finite value, with __NV_NOSAT NaN (E4M3) or infinity (E5M2).
// Source: CUDA Math API reference, "FP8 Intrinsics"; OCP 8-bit Floating Point Specification.
#ifndef ORRERY_CC_CUDA_FP8_H
#define ORRERY_CC_CUDA_FP8_H
#define __CUDA_FP8_TYPES_EXIST__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))  // as in orrery_cc.h
#endif

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

// ---- conversions ---------------------------------------------------------------------------------------------
ORRERY_HD __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                    __nv_fp8_interpretation_t format) {
  if (format == __NV_E5M2) {
    unsigned b = orrery_cc::narrow<5, 2>(x, orrery_cc::kNearest);
    if (x != x) return 0x7f;
    if ((b & 0x7f) == 0x7c && saturate == __NV_SATFINITE) b = (b & 0x80) | 0x7b;
    return (__nv_fp8_storage_t)b;
  }
  // E4M3 as IEEE's <4, 3> with one more binade: values of the top binade are found by halving.
  unsigned sign = (unsigned)(__builtin_bit_cast(unsigned long long, x) >> 63) << 7;
  double a = x < 0 ? -x : x;
  if (x != x) return 0x7f;
  if (a < 240) return (__nv_fp8_storage_t)(sign | (orrery_cc::narrow<4, 3>(a, orrery_cc::kNearest) & 0x7f));
  unsigned b = a > 1000 ? 0x80 : orrery_cc::narrow<4, 3>(a / 4, orrery_cc::kNearest) + 0x10;
  if (b >= 0x7f) b = saturate == __NV_SATFINITE ? 0x7e : 0x7f;
  return (__nv_fp8_storage_t)(sign | b);
}
ORRERY_HD __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (s == __NV_SATFINITE) {
    unsigned short r;
    if (f == __NV_E4M3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
    else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(0.0f), "f"(x));
    return (__nv_fp8_storage_t)r;
  }
#endif
  return __nv_cvt_double_to_fp8(x, s, f);
}
ORRERY_HD __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (s == __NV_SATFINITE) {
    unsigned short r;
    if (f == __NV_E4M3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(v.y), "f"(v.x));
    else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(v.y), "f"(v.x));
    return r;
  }
#endif
  return (__nv_fp8x2_storage_t)(__nv_cvt_float_to_fp8(v.x, s, f) | __nv_cvt_float_to_fp8(v.y, s, f) << 8);
}
ORRERY_HD __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 v, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return (__nv_fp8x2_storage_t)(__nv_cvt_double_to_fp8(v.x, s, f) | __nv_cvt_double_to_fp8(v.y, s, f) << 8);
}
ORRERY_HD __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t s, __nv_fp8_interpretation_t f) {
  return __nv_cvt_float_to_fp8(orrery_cc::to_float(__half(x)), s, f);
}
ORRERY_HD __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t s,
                                                          __nv_fp8_interpretation_t f) {
  return __nv_cvt_float2_to_fp8x2(__half22float2(__half2(x)), s, f);
}
ORRERY_HD __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t s,
                                                         __nv_fp8_interpretation_t f) {
  return __nv_cvt_float_to_fp8(orrery_cc::to_float(__nv_bfloat16(x)), s, f);
}
ORRERY_HD __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t s,
                                                              __nv_fp8_interpretation_t f) {
  return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(__nv_bfloat162(x)), s, f);
}
namespace orrery_cc {
ORRERY_HD float fp8_to_float(unsigned char b, __nv_fp8_interpretation_t format) {
  if (format == __NV_E5M2) return widen<5, 2>(b);
  if ((b & 0x7f) == 0x7f) return __builtin_nanf("");
  // The top exponent of E4M3 is an ordinary binade: twice the value one binade below.
  if ((b & 0x78) == 0x78) return 2.0f * widen<4, 3>(b - 8u);
  return widen<4, 3>(b);
}
}  // namespace orrery_cc
ORRERY_HD __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t f) {
  return (__half_raw)__half(orrery_cc::fp8_to_float(x, f));
}
ORRERY_HD __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t f) {
  return __half2_raw{__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)x, f).x,
                     __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(x >> 8), f).x};
}

// ---- wrapper types -------------------------------------------------------------------------------------------
#define ORRERY_FP8(N, format)                                                                                       \
  struct __nv_fp8_##N {                                                                                             \
    __nv_fp8_storage_t __x;                                                                                         \
    __nv_fp8_##N() = default;                                                                                       \
    __host__ __device__ explicit __nv_fp8_##N(float v) : __x(__nv_cvt_float_to_fp8(v, __NV_SATFINITE, format)) {}   \
    __host__ __device__ explicit __nv_fp8_##N(double v) : __x(__nv_cvt_double_to_fp8(v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8_##N(int v) : __x(__nv_cvt_double_to_fp8(v, __NV_SATFINITE, format)) {}    \
    __host__ __device__ explicit __nv_fp8_##N(unsigned v) : __x(__nv_cvt_double_to_fp8(v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8_##N(long v) : __x(__nv_cvt_double_to_fp8((double)v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8_##N(__half v) : __x(__nv_cvt_halfraw_to_fp8(v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8_##N(__nv_bfloat16 v)                                                      \
        : __x(__nv_cvt_bfloat16raw_to_fp8(v, __NV_SATFINITE, format)) {}                                            \
    __host__ __device__ explicit operator float() const { return orrery_cc::fp8_to_float(__x, format); }            \
    __host__ __device__ explicit operator double() const { return orrery_cc::fp8_to_float(__x, format); }           \
    __host__ __device__ explicit operator __half() const { return __half(orrery_cc::fp8_to_float(__x, format)); }   \
    __host__ __device__ explicit operator __nv_bfloat16() const {                                                   \
      return __nv_bfloat16(orrery_cc::fp8_to_float(__x, format));                                                   \
    }                                                                                                               \
    __host__ __device__ explicit operator int() const { return (int)orrery_cc::fp8_to_float(__x, format); }         \
    __host__ __device__ explicit operator bool() const { return (__x & 0x7f) != 0; }                                \
  };                                                                                                                \
  struct __attribute__((aligned(2))) __nv_fp8x2_##N {                                                               \
    __nv_fp8x2_storage_t __x;                                                                                       \
    __nv_fp8x2_##N() = default;                                                                                     \
    __host__ __device__ explicit __nv_fp8x2_##N(float2 v) : __x(__nv_cvt_float2_to_fp8x2(v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8x2_##N(double2 v)                                                          \
        : __x(__nv_cvt_double2_to_fp8x2(v, __NV_SATFINITE, format)) {}                                              \
    __host__ __device__ explicit __nv_fp8x2_##N(__half2 v) : __x(__nv_cvt_halfraw2_to_fp8x2(v, __NV_SATFINITE, format)) {} \
    __host__ __device__ explicit __nv_fp8x2_##N(__nv_bfloat162 v)                                                   \
        : __x(__nv_cvt_bfloat16raw2_to_fp8x2(v, __NV_SATFINITE, format)) {}                                         \
    __host__ __device__ explicit operator float2() const {                                                          \
      return make_float2(orrery_cc::fp8_to_float((unsigned char)__x, format),                                       \
                         orrery_cc::fp8_to_float((unsigned char)(__x >> 8), format));                               \
    }                                                                                                               \
    __host__ __device__ explicit operator __half2() const {                                                         \
      return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, format));                                                      \
    }                                                                                                               \
  };                                                                                                                \
  struct __attribute__((aligned(4))) __nv_fp8x4_##N {                                                               \
    __nv_fp8x4_storage_t __x;                                                                                       \
    __nv_fp8x4_##N() = default;                                                                                     \
    __host__ __device__ explicit __nv_fp8x4_##N(float4 v)                                                           \
        : __x(__nv_cvt_float2_to_fp8x2(make_float2(v.x, v.y), __NV_SATFINITE, format) |                             \
              (unsigned)__nv_cvt_float2_to_fp8x2(make_float2(v.z, v.w), __NV_SATFINITE, format) << 16) {}           \
    __host__ __device__ explicit operator float4() const {                                                          \
      return make_float4(orrery_cc::fp8_to_float((unsigned char)__x, format),                                       \
                         orrery_cc::fp8_to_float((unsigned char)(__x >> 8), format),                                \
                         orrery_cc::fp8_to_float((unsigned char)(__x >> 16), format),                               \
                         orrery_cc::fp8_to_float((unsigned char)(__x >> 24), format));                              \
    }                                                                                                               \
  };
ORRERY_FP8(e4m3, __NV_E4M3)
ORRERY_FP8(e5m2, __NV_E5M2)
#undef ORRERY_FP8
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
