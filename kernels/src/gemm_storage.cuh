// How the operands of direct products (gemm_direct.cuh) are stored, and how a piece of 16 bytes becomes pairs of 16-bit operands of
// the warp-wide product. Each storage says how many elements a piece has and whether a scale goes with every 128 of k; its `widen`
// leaves the four pairs of one of the piece's octets of elements, in the order of k that its pieces are read in. Widening is exact:
// fp8 and int4 values are f16 and bf16 values.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace orrery::kernels {

/// 16 bits as they are.
struct Plain16 {
  static constexpr int kElements = 8;
  static constexpr bool kScaled = false;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[4], const uint4& p, int) {
    out[0] = p.x, out[1] = p.y, out[2] = p.z, out[3] = p.w;
  }
};

/// e4m3, to f16; to bf16 by way of it, four instructions a pair instead of one.
struct PlainE4M3 {
  static constexpr int kElements = 16;
  static constexpr bool kScaled = false;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[4], const uint4& p, int octet) {
    const uint32_t w[4] = {p.x, p.y, p.z, p.w};
#pragma unroll
    for (int i = 0; i < 2; i++)
      asm("{ .reg .b16 lo, hi;\n\tmov.b32 {lo, hi}, %2;\n\tcvt.rn.f16x2.e4m3x2 %0, lo;\n\tcvt.rn.f16x2.e4m3x2 %1, hi; }"
          : "=r"(out[2 * i]), "=r"(out[2 * i + 1])
          : "r"(w[2 * octet + i]));
    if constexpr (std::is_same_v<T, __nv_bfloat16>)
#pragma unroll
      for (int i = 0; i < 4; i++)
        to_bf16(out[i]);
  }
  /// The same of two elements.
  template <class T>
  __device__ static __forceinline__ uint32_t pair(uint16_t two) {
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(two));
    if constexpr (std::is_same_v<T, __nv_bfloat16>) to_bf16(r);
    return r;
  }

 private:
  __device__ static __forceinline__ void to_bf16(uint32_t& pair) {
    asm("{ .reg .b16 lo, hi;\n\t.reg .f32 x, y;\n\tmov.b32 {lo, hi}, %0;\n\tcvt.f32.f16 x, lo;\n\tcvt.f32.f16 y, hi;\n\tcvt.rn.bf16x2.f32 %0, y, x; }" : "+r"(pair));
  }
};

/// Two's complement plus 8. Of the eight values of a word, nibble p holds element 2p and nibble p + 4 element 2p + 1, so
/// that a shift and a mask give a pair in its two halves. Of the sixteen words of a group of 128, word 4 t + q holds
/// elements 32 q + 8 t onwards: piece t of the group and piece q of X meet in one lane.
struct Int4 {
  static constexpr int kElements = 32;
  static constexpr bool kScaled = true;
  template <class T>
  __device__ static __forceinline__ void widen(uint32_t (&out)[4], const uint4& p, int octet) {
    const uint32_t w[4] = {p.x, p.y, p.z, p.w};
    widen_word<T>(out, w[octet]);
  }
  /// The four pairs of a word.
  template <class T>
  __device__ static __forceinline__ void widen_word(uint32_t (&out)[4], uint32_t w) {
#pragma unroll
    for (int q = 0; q < 4; q++) {
      if (std::is_same_v<T, __half> && q % 2) out[q] = upper_pair(w >> (4 * q - 4));
      else out[q] = pair<T>(w >> (4 * q));
    }
  }
  template <class T>
  __device__ static __forceinline__ uint32_t pair(uint32_t shifted) {
    uint32_t r;
    if constexpr (std::is_same_v<T, __half>) {  // 0x6400 is 1024: the low bits count ones
      asm("lop3.b32 %0, %1, 0x000F000F, 0x64006400, 0xEA;" : "=r"(r) : "r"(shifted));
      asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(r) : "r"(0x64086408u));
    } else {  // 0x4300 is 128
      asm("lop3.b32 %0, %1, 0x000F000F, 0x43004300, 0xEA;" : "=r"(r) : "r"(shifted));
      asm("sub.rn.bf16x2 %0, %0, %1;" : "+r"(r) : "r"(0x43084308u));
    }
    return r;
  }
  /// The pair four bits higher, without a shift: 1024 and sixteen times the nibble, over 16, less 72. All of it is exact.
  __device__ static __forceinline__ uint32_t upper_pair(uint32_t shifted) {
    uint32_t r;
    asm("lop3.b32 %0, %1, 0x00F000F0, 0x64006400, 0xEA;" : "=r"(r) : "r"(shifted));
    asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(r) : "r"(0x2C002C00u), "r"(0xD480D480u));
    return r;
  }
};

}  // namespace orrery::kernels
