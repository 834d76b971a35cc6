// Words that blocks of one launch publish for each other: a sum and a flag in one word, so that one load reads both and nothing else
// has to be ordered. 0: nothing yet. Not here: who waits for what (reduce.cu, scan.cu, sort.cu).
#pragma once
#include <cstdint>
#include <type_traits>

#include "launch.h"

namespace orrery::kernels {
namespace {

/// 32-bit words hold sums below 2^30, 64-bit words any of 32 bits.
template <class Word>
struct Published {
  static constexpr int kBits = sizeof(Word) == 4 ? 30 : 32;
  static constexpr Word kOwn = Word(1) << kBits, kAll = Word(2) << kBits;  // a tile's own sum; that of all tiles up to it
  __device__ static __forceinline__ uint32_t sum(Word w) { return uint32_t(w & (kOwn - 1)); }
  __device__ static __forceinline__ Word load(const Word* p) {
    Word v;
    if constexpr (sizeof(Word) == 4) asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    else asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
  }
  __device__ static __forceinline__ void store(Word* p, Word v) {
    if constexpr (sizeof(Word) == 4) asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
    else asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
  }
  /// The same by an atomic operation, which is done where the word is. While words are still being written, loads from the other half of L2 can
  /// take a microsecond longer (NOTES.md).
  __device__ static __forceinline__ Word load_there(Word* p) { return atomicAdd(reinterpret_cast<std::conditional_t<sizeof(Word) == 4, unsigned, unsigned long long>*>(p), 0); }
};

__global__ void __launch_bounds__(256) zero(uint64_t* words, int64_t count) {
  begin_overlapped();
  const int64_t i = blockIdx.x * int64_t(256) + threadIdx.x;
  if (i < count) words[i] = 0;
}

/// Zeroes `bytes` (a multiple of 8) by a launch that the next one can follow closely, as it cannot a memset.
inline cudaError_t launch_zero(void* words, size_t bytes, cudaStream_t stream) {
  const int64_t count = int64_t(bytes / 8);
  return launch_overlapped(zero, (count + 255) / 256, 256, 0, stream, static_cast<uint64_t*>(words), count);
}

}  // namespace
}  // namespace orrery::kernels
