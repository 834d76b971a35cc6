// Half precision: __half, __half2 and their functions.
// Source: CUDA Math API reference, "Half Precision Intrinsics".
#ifndef ORRERY_CC_CUDA_FP16_H
#define ORRERY_CC_CUDA_FP16_H
#define __CUDA_FP16_H__
#define __CUDA_FP16_TYPES_EXIST__
#include <orrery/narrow_float.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))  // as in orrery_cc.h
#endif

struct __half_raw { unsigned short x; };
struct __attribute__((aligned(4))) __half2_raw { unsigned short x, y; };

struct __half;
namespace orrery_cc {
ORRERY_HD float to_float(__half a);
ORRERY_HD __half from_float(float x, __half);
template <Rounding R> ORRERY_HD unsigned short half_bits(double x) { return (unsigned short)narrow<5, 10>(x, R); }
// The conversion of a float in the default rounding is one instruction.
ORRERY_HD unsigned short half_bits_of_float(float x) {
#if defined(__CUDA_ARCH__)
  unsigned short r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#else
  return half_bits<kNearest>(x);
#endif
}
}  // namespace orrery_cc

struct __attribute__((aligned(2))) __half {
  unsigned short __x;
  __half() = default;
  __host__ __device__ constexpr __half(const __half_raw& r) : __x(r.x) {}
#define ORRERY_FROM(T) __host__ __device__ __half(T v) : __x(orrery_cc::half_bits<orrery_cc::kNearest>((double)v)) {}
  __host__ __device__ __half(float v) : __x(orrery_cc::half_bits_of_float(v)) {}
  ORRERY_FROM(double)
  ORRERY_FROM(short)
  ORRERY_FROM(unsigned short)
  ORRERY_FROM(int)
  ORRERY_FROM(unsigned)
  ORRERY_FROM(long)
  ORRERY_FROM(unsigned long)
  ORRERY_FROM(long long)
  ORRERY_FROM(unsigned long long)
#undef ORRERY_FROM
  __host__ __device__ operator float() const { return orrery_cc::to_float(*this); }
  __host__ __device__ constexpr operator __half_raw() const { return __half_raw{__x}; }
#define ORRERY_TO(T) __host__ __device__ explicit operator T() const { return (T)orrery_cc::to_float(*this); }
  ORRERY_TO(signed char)
  ORRERY_TO(unsigned char)
  ORRERY_TO(char)
  ORRERY_TO(short)
  ORRERY_TO(unsigned short)
  ORRERY_TO(int)
  ORRERY_TO(unsigned)
  ORRERY_TO(long)
  ORRERY_TO(unsigned long)
  ORRERY_TO(long long)
  ORRERY_TO(unsigned long long)
#undef ORRERY_TO
  __host__ __device__ explicit operator bool() const { return (__x & 0x7fff) != 0; }
};
struct __attribute__((aligned(4))) __half2 {
  __half x, y;
  __half2() = default;
  __host__ __device__ __half2(const __half& a, const __half& b) : x(a), y(b) {}
  __host__ __device__ __half2(const __half2_raw& r) : x(__half_raw{r.x}), y(__half_raw{r.y}) {}
  __host__ __device__ operator __half2_raw() const { return __half2_raw{x.__x, y.__x}; }
};
typedef __half half;
typedef __half2 half2;
typedef __half nv_half;
typedef __half2 nv_half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;

namespace orrery_cc {
ORRERY_HD float to_float(__half a) {
#if defined(__CUDA_ARCH__)
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(a.__x));
  return r;
#else
  return widen<5, 10>(a.__x);
#endif
}
ORRERY_HD __half from_float(float x, __half) { return __half(x); }
}  // namespace orrery_cc

#define H __half
#define H2 __half2
#define HPTX "f16"
#include <orrery/narrow_float.inc>
#undef H
#undef H2
#undef HPTX

// ---- conversions ---------------------------------------------------------------------------------------------
#define ORRERY_ROUNDED(S, mode)                                                                                     \
  ORRERY_HD __half __float2half_##S(float x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>(x)}; }       \
  ORRERY_HD __half __int2half_##S(int x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>(x)}; }           \
  ORRERY_HD __half __uint2half_##S(unsigned x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>(x)}; }     \
  ORRERY_HD __half __short2half_##S(short x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>(x)}; }       \
  ORRERY_HD __half __ushort2half_##S(unsigned short x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>(x)}; } \
  ORRERY_HD __half __ll2half_##S(long long x) { return __half_raw{orrery_cc::half_bits<orrery_cc::mode>((double)x)}; }  \
  ORRERY_HD __half __ull2half_##S(unsigned long long x) {                                                           \
    return __half_raw{orrery_cc::half_bits<orrery_cc::mode>((double)x)};                                            \
  }
ORRERY_ROUNDED(rz, kZero)
ORRERY_ROUNDED(ru, kUp)
ORRERY_ROUNDED(rd, kDown)
ORRERY_ROUNDED(rn, kNearest)
#undef ORRERY_ROUNDED
#ifdef __CUDA__
#define ORRERY_TO_INTEGER(T, N, f)                                                    \
  ORRERY_DEV T __half2##N##_rn(__half a) { return (T)f##_rn(orrery_cc::to_float(a)); } \
  ORRERY_DEV T __half2##N##_rz(__half a) { return (T)f##_rz(orrery_cc::to_float(a)); } \
  ORRERY_DEV T __half2##N##_ru(__half a) { return (T)f##_ru(orrery_cc::to_float(a)); } \
  ORRERY_DEV T __half2##N##_rd(__half a) { return (T)f##_rd(orrery_cc::to_float(a)); }
ORRERY_TO_INTEGER(int, int, __float2int)
ORRERY_TO_INTEGER(unsigned, uint, __float2uint)
ORRERY_TO_INTEGER(long long, ll, __float2ll)
ORRERY_TO_INTEGER(unsigned long long, ull, __float2ull)
#undef ORRERY_TO_INTEGER
namespace orrery_cc {
ORRERY_DEV int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
}  // namespace orrery_cc
#define ORRERY_TO_SHORT(R)                                                                                          \
  ORRERY_DEV short __half2short_##R(__half a) {                                                                     \
    return (short)orrery_cc::clamp(__float2int_##R(orrery_cc::to_float(a)), -32768, 32767);                         \
  }                                                                                                                 \
  ORRERY_DEV unsigned short __half2ushort_##R(__half a) {                                                           \
    return (unsigned short)orrery_cc::clamp(__float2int_##R(orrery_cc::to_float(a)), 0, 65535);                     \
  }
ORRERY_TO_SHORT(rn)
ORRERY_TO_SHORT(rz)
ORRERY_TO_SHORT(ru)
ORRERY_TO_SHORT(rd)
#undef ORRERY_TO_SHORT
#endif
ORRERY_HD __half __float2half(float x) { return __half(x); }
ORRERY_HD __half __double2half(double x) { return __half(x); }
ORRERY_HD float __half2float(__half a) { return orrery_cc::to_float(a); }
ORRERY_HD __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
ORRERY_HD __half2 __float22half2_rn(float2 v) { return __floats2half2_rn(v.x, v.y); }
ORRERY_HD __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
ORRERY_HD float2 __half22float2(__half2 v) { return make_float2(orrery_cc::to_float(v.x), orrery_cc::to_float(v.y)); }
ORRERY_HD __half2 make_half2(__half x, __half y) { return __half2(x, y); }
ORRERY_HD __half2 __half2half2(__half a) { return __half2(a, a); }
ORRERY_HD __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
ORRERY_HD __half __low2half(__half2 v) { return v.x; }
ORRERY_HD __half __high2half(__half2 v) { return v.y; }
ORRERY_HD float __low2float(__half2 v) { return orrery_cc::to_float(v.x); }
ORRERY_HD float __high2float(__half2 v) { return orrery_cc::to_float(v.y); }
ORRERY_HD __half2 __low2half2(__half2 v) { return __half2(v.x, v.x); }
ORRERY_HD __half2 __high2half2(__half2 v) { return __half2(v.y, v.y); }
ORRERY_HD __half2 __lowhigh2highlow(__half2 v) { return __half2(v.y, v.x); }
ORRERY_HD __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
ORRERY_HD __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
ORRERY_HD short __half_as_short(__half a) { return (short)a.__x; }
ORRERY_HD unsigned short __half_as_ushort(__half a) { return a.__x; }
ORRERY_HD __half __short_as_half(short a) { return __half_raw{(unsigned short)a}; }
ORRERY_HD __half __ushort_as_half(unsigned short a) { return __half_raw{a}; }
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7C00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7FFF)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7BFF)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3C00)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
