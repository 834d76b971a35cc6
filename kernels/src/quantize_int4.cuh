// Quantisation to int4 with a scale for every 128 columns, and back: a half-warp holds a group, eight columns a lane, which are one word of int4.
// A thread has kEach words, a block's threads apart, whose loads are under way together. Not here: how many (gemm_weight_only.cu).
#pragma once
#include <algorithm>
#include <cstdint>

#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kInt4Threads = 256, kInt4Most = 4;  // of a block; words of a thread at most

constexpr int64_t int4_blocks(int64_t words, int each) { return (words + kInt4Threads * each - 1) / (kInt4Threads * each); }

/// The word of a group's word-order index: see WeightFormat::kInt4. i counts words of eight elements in the order of k.
__device__ __forceinline__ int64_t stored_word(int64_t i) { return i / 16 * 16 + i % 4 * 4 + i / 4 % 4; }

constexpr float kRound = 12582912.f + 8.f;  // 1.5 * 2^23 and what is added to an int4 value: it ends in the value's four bits

template <class T, int kEach>
__global__ void __launch_bounds__(kInt4Threads) to_int4(uint32_t* out, T* scales, const T* in, int64_t words) {
  begin_overlapped();
  const int64_t first = blockIdx.x * int64_t(kInt4Threads * kEach) + threadIdx.x;
  uint4 raw[kEach];
#pragma unroll
  for (int e = 0; e < kEach; e++) {
    raw[e] = make_uint4(0, 0, 0, 0);
    if (first + e * kInt4Threads < words) raw[e] = __ldcs(reinterpret_cast<const uint4*>(in) + first + e * kInt4Threads);
  }
#pragma unroll
  for (int e = 0; e < kEach; e++) {
    const int64_t i = first + e * kInt4Threads;
    const T* v = reinterpret_cast<const T*>(&raw[e]);
    float x[8], top = 0.f;
#pragma unroll
    for (int k = 0; k < 8; k++) x[k] = float(v[k]), top = fmaxf(top, fabsf(x[k]));
#pragma unroll
    for (int d = 8; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    const T stored = T(top > 0.f ? top / 7.f : 1.f);  // as the product will read it
    const float inverse = float(stored) > 0.f ? 1.f / float(stored) : 0.f;
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      // Rounded to the nearest integer, ties to even, by an addition, which leaves the bits where they are wanted.
      const uint32_t bits = __float_as_uint(fminf(7.f, fmaxf(-8.f, x[k] * inverse)) + kRound);
      word |= (bits & 15) << 4 * (k / 2 + k % 2 * 4);
    }
    if (kEach == 1 && i >= words) return;  // with more words all of the warp stays for the next exchanges
    if (i < words) out[stored_word(i)] = word;
    if (i < words && i % 16 == 0) scales[i / 16] = stored;
  }
}

/// The inverse.
template <class T, int kEach>
__global__ void __launch_bounds__(kInt4Threads) from_int4(T* out, const uint32_t* in, const T* scales, int64_t words) {
  begin_overlapped();
  const int64_t first = blockIdx.x * int64_t(kInt4Threads * kEach) + threadIdx.x;
  if (kEach == 1 && first >= words) return;
  uint32_t word[kEach];
  T scale[kEach];
#pragma unroll
  for (int e = 0; e < kEach; e++) {
    const int64_t i = kEach == 1 ? first : min(first + e * kInt4Threads, words - 1);
    word[e] = __ldg(in + stored_word(i)), scale[e] = scales[i / 16];
  }
#pragma unroll
  for (int e = 0; e < kEach; e++) {
    const int64_t i = first + e * kInt4Threads;
    if (kEach > 1 && i >= words) return;
    uint4 raw;
    T* const v = reinterpret_cast<T*>(&raw);
#pragma unroll
    for (int k = 0; k < 8; k++) v[k] = T((__uint_as_float(0x4B000000u | (word[e] >> 4 * (k / 2 + k % 2 * 4) & 15)) - (8388608.f + 8.f)) * float(scale[e]));  // 2^23 and the bits
    __stcs(reinterpret_cast<uint4*>(out) + i, raw);
  }
}

}  // namespace
}  // namespace orrery::kernels
