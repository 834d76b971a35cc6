// What attention with e4m3 operands needs beside attention_kernel.cuh: the product of weights in registers with e4m3 values,
// and the order of keys that it wants.
//
// An fp8 product takes both operands along their common dimension only, so V is turned round, [dim][key], by a kernel ahead.
// The weights of a thread are pairs of keys 8 apart, where the operand wants four in a row: within 16 keys place 4 q + r of V
// has key 2 q + r of the first eight (r < 2) or of the second. Weights are kept 2^kFp8Lift times too large, for e4m3 has
// few bits below 1.
#pragma once
#include "attention_params.h"
#include "wgmma.cuh"

namespace orrery::kernels {

constexpr int kFp8Lift = 8;  // weights up to 256, of 448

/// Which of 16 keys is at a place of turned values.
__host__ __device__ constexpr int fp8_key_at(int place) { return place % 4 < 2 ? place / 4 * 2 + place % 4 : 8 + place / 4 * 2 + place % 4 - 2; }

/// Where turned values of sequence `number` begin, whose own begin at row `start`, where sequences have their own lengths: a multiple of 16, behind those of
/// the sequence before it.
__host__ __device__ constexpr int fp8_base(int start, int number) { return (start + 15) / 16 * 16 + 16 * number; }

/// What scores are multiplied by, in units of log2.
template <class S>
__device__ __forceinline__ float scale_of(const AttentionParams& p) {
  float scale = p.scale_log2;
  if (S::kFp8 && p.scale_q) scale *= __ldg(p.scale_q);
  if (S::kFp8 && p.scale_k) scale *= __ldg(p.scale_k);
  return scale;
}

/// d += a b, a 64 by 32 in registers, b kN rows of 32 bytes.
template <int kN>
__device__ __forceinline__ void wgmma_rs_e4m3(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b) {
#define ORK_RS_E4M3(n, r, p0, p1, p2, p3, p4)                                                                                                      \
  if constexpr (kN == n)                                                                                                                           \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" ORK_L##r "}, {%" p0 ", %" p1 ", %" p2 ", %" p3 "}, %" p4 ", 1, 1, 1;" \
                 : ORK_REGS##r                                                                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  ORK_RS_E4M3(64, 32, "32", "33", "34", "35", "36")
  ORK_RS_E4M3(128, 64, "64", "65", "66", "67", "68")
  ORK_RS_E4M3(192, 96, "96", "97", "98", "99", "100")
  ORK_RS_E4M3(256, 128, "128", "129", "130", "131", "132")
#undef ORK_RS_E4M3
}

}  // namespace orrery::kernels
