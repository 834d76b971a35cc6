// bfloat16: __nv_bfloat16, __nv_bfloat162 and their functions.
// Source: CUDA Math API reference, "Bfloat16 Precision Intrinsics".
#ifndef ORRERY_CC_CUDA_BF16_H
#define ORRERY_CC_CUDA_BF16_H
#define __CUDA_BF16_H__
#define __CUDA_BF16_TYPES_EXIST__
#include <orrery/narrow_float.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))  // as in orrery_cc.h
#endif

struct __nv_bfloat16_raw { unsigned short x; };
struct __attribute__((aligned(4))) __nv_bfloat162_raw { unsigned short x, y; };

struct __nv_bfloat16;
namespace orrery_cc {
ORRERY_HD float to_float(__nv_bfloat16 a);
ORRERY_HD __nv_bfloat16 from_float(float x, __nv_bfloat16);
template <Rounding R> ORRERY_HD unsigned short bfloat_bits(double x) { return (unsigned short)narrow<8, 7>(x, R); }
ORRERY_HD unsigned short bfloat_bits_of_float(float x) {
#if defined(__CUDA_ARCH__)
  unsigned short r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r) : "f"(x));
  return r;
#else
  return bfloat_bits<kNearest>(x);
#endif
}
}  // namespace orrery_cc

struct __attribute__((aligned(2))) __nv_bfloat16 {
  unsigned short __x;
  __nv_bfloat16() = default;
  __host__ __device__ constexpr __nv_bfloat16(const __nv_bfloat16_raw& r) : __x(r.x) {}
#define ORRERY_FROM(T) \
  __host__ __device__ __nv_bfloat16(T v) : __x(orrery_cc::bfloat_bits<orrery_cc::kNearest>((double)v)) {}
  __host__ __device__ __nv_bfloat16(float v) : __x(orrery_cc::bfloat_bits_of_float(v)) {}
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
  __host__ __device__ constexpr operator __nv_bfloat16_raw() const { return __nv_bfloat16_raw{__x}; }
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
struct __attribute__((aligned(4))) __nv_bfloat162 {
  __nv_bfloat16 x, y;
  __nv_bfloat162() = default;
  __host__ __device__ __nv_bfloat162(const __nv_bfloat16& a, const __nv_bfloat16& b) : x(a), y(b) {}
  __host__ __device__ __nv_bfloat162(const __nv_bfloat162_raw& r)
      : x(__nv_bfloat16_raw{r.x}), y(__nv_bfloat16_raw{r.y}) {}
  __host__ __device__ operator __nv_bfloat162_raw() const { return __nv_bfloat162_raw{x.__x, y.__x}; }
};
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

namespace orrery_cc {
ORRERY_HD float to_float(__nv_bfloat16 a) { return __builtin_bit_cast(float, (unsigned)a.__x << 16); }
ORRERY_HD __nv_bfloat16 from_float(float x, __nv_bfloat16) { return __nv_bfloat16(x); }
}  // namespace orrery_cc

#define H __nv_bfloat16
#define H2 __nv_bfloat162
#define HPTX "bf16"
#include <orrery/narrow_float.inc>
#undef H
#undef H2
#undef HPTX

// ---- conversions ---------------------------------------------------------------------------------------------
#define ORRERY_ROUNDED(S, mode)                                                                      \
  ORRERY_HD __nv_bfloat16 __float2bfloat16_##S(float x) {                                            \
    return __nv_bfloat16_raw{orrery_cc::bfloat_bits<orrery_cc::mode>(x)};                            \
  }                                                                                                  \
  ORRERY_HD __nv_bfloat16 __int2bfloat16_##S(int x) {                                                \
    return __nv_bfloat16_raw{orrery_cc::bfloat_bits<orrery_cc::mode>(x)};                            \
  }                                                                                                  \
  ORRERY_HD __nv_bfloat16 __uint2bfloat16_##S(unsigned x) {                                          \
    return __nv_bfloat16_raw{orrery_cc::bfloat_bits<orrery_cc::mode>(x)};                            \
  }
ORRERY_ROUNDED(rz, kZero)
ORRERY_ROUNDED(ru, kUp)
ORRERY_ROUNDED(rd, kDown)
ORRERY_ROUNDED(rn, kNearest)
#undef ORRERY_ROUNDED
#ifdef __CUDA__
#define ORRERY_TO_INTEGER(T, N, f)                                                                     \
  ORRERY_DEV T __bfloat162##N##_rn(__nv_bfloat16 a) { return (T)f##_rn(orrery_cc::to_float(a)); }       \
  ORRERY_DEV T __bfloat162##N##_rz(__nv_bfloat16 a) { return (T)f##_rz(orrery_cc::to_float(a)); }       \
  ORRERY_DEV T __bfloat162##N##_ru(__nv_bfloat16 a) { return (T)f##_ru(orrery_cc::to_float(a)); }       \
  ORRERY_DEV T __bfloat162##N##_rd(__nv_bfloat16 a) { return (T)f##_rd(orrery_cc::to_float(a)); }
ORRERY_TO_INTEGER(int, int, __float2int)
ORRERY_TO_INTEGER(unsigned, uint, __float2uint)
ORRERY_TO_INTEGER(long long, ll, __float2ll)
ORRERY_TO_INTEGER(unsigned long long, ull, __float2ull)
#undef ORRERY_TO_INTEGER
#endif
ORRERY_HD __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
ORRERY_HD __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
ORRERY_HD float __bfloat162float(__nv_bfloat16 a) { return orrery_cc::to_float(a); }
ORRERY_HD __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
  return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y));
}
ORRERY_HD __nv_bfloat162 __float22bfloat162_rn(float2 v) { return __floats2bfloat162_rn(v.x, v.y); }
ORRERY_HD __nv_bfloat162 __float2bfloat162_rn(float x) { return __floats2bfloat162_rn(x, x); }
ORRERY_HD float2 __bfloat1622float2(__nv_bfloat162 v) {
  return make_float2(orrery_cc::to_float(v.x), orrery_cc::to_float(v.y));
}
ORRERY_HD __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return __nv_bfloat162(x, y); }
ORRERY_HD __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
ORRERY_HD __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
ORRERY_HD __nv_bfloat16 __low2bfloat16(__nv_bfloat162 v) { return v.x; }
ORRERY_HD __nv_bfloat16 __high2bfloat16(__nv_bfloat162 v) { return v.y; }
ORRERY_HD float __low2float(__nv_bfloat162 v) { return orrery_cc::to_float(v.x); }
ORRERY_HD float __high2float(__nv_bfloat162 v) { return orrery_cc::to_float(v.y); }
ORRERY_HD __nv_bfloat162 __low2bfloat162(__nv_bfloat162 v) { return __nv_bfloat162(v.x, v.x); }
ORRERY_HD __nv_bfloat162 __high2bfloat162(__nv_bfloat162 v) { return __nv_bfloat162(v.y, v.y); }
ORRERY_HD __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 v) { return __nv_bfloat162(v.y, v.x); }
ORRERY_HD __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
ORRERY_HD __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }
ORRERY_HD short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.__x; }
ORRERY_HD unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.__x; }
ORRERY_HD __nv_bfloat16 __short_as_bfloat16(short a) { return __nv_bfloat16_raw{(unsigned short)a}; }
ORRERY_HD __nv_bfloat16 __ushort_as_bfloat16(unsigned short a) { return __nv_bfloat16_raw{a}; }
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7F80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7FFF)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7F7F)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3F80)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#ifdef __clang__
#pragma clang attribute pop
#endif
#endif
