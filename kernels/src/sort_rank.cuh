// Ranks of a tile's items by an 8-bit digit, for the radix sort (sort.cu, sort_few.cuh).
//
// A warp takes items in two halves: each half's 16 lanes have a run of items that follow each other, and a word for every digit. In its low 16 bits
// are how many of the half's items have the digit, or where they begin in the tile; in the high ones the lanes that have it in this turn. Halves, and
// in a half turns, are in the order of items, so ranks are stable.
//
// Lanes of the same digit find each other by setting their bits in the digit's word, or by a vote on each bit of the digit. The first takes the shared
// memory some ten cycles, the second the issue slots of some 35 instructions: with a vote for every other item neither waits long for the other (NOTES.md).
#pragma once
#include <cstdint>

#include "warp_sum.cuh"

namespace orrery::kernels {
namespace {

constexpr int kDigits = 256, kPasses = 4;
/// Words from one half's to the next's: halves of a warp that have the same few digits are on other banks.
constexpr int kHalfRow = kDigits + 16;

/// The sum of the values of the threads before this one, of the first kDigits threads; by whole blocks.
__device__ __forceinline__ uint32_t sum_before(uint32_t v, uint32_t (&warps)[kDigits / 32]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t up_to = sum_up_to(v);
  if (threadIdx.x < kDigits && lane == 31) warps[warp] = up_to;
  __syncthreads();
  uint32_t before = 0;
#pragma unroll
  for (int w = 0; w < kDigits / 32; w++) before += w < warp ? warps[w] : 0;
  return before + up_to - v;
}

/// Item u of a lane is number u * 16 of its half's run from this on.
template <int kItems>
__device__ __forceinline__ int first_of_half() {
  return int(threadIdx.x / 16) * (kItems * 16) + int(threadIdx.x % 16);
}
/// The words of this lane's half.
__device__ __forceinline__ uint32_t* words_of_half(uint32_t* words) { return words + int(threadIdx.x / 16) * kHalfRow; }

/// The lanes of the warp that have the same digit as this one. Compilers take six instructions a bit for the same in C++.
__device__ __forceinline__ uint32_t same_digit(uint32_t digit) {
  uint32_t same = ~0u;
#pragma unroll
  for (int b = 0; b < 8; b++)
    asm volatile("{ .reg .pred p; .reg .b32 v; and.b32 v, %1, %2; setp.ne.u32 p, v, 0; vote.sync.ballot.b32 v, p, -1; @!p not.b32 v, v; and.b32 %0, %0, v; }" : "+r"(same) : "r"(digit), "r"(1u << b));
  return same;
}

/// Ranks of the lane's items among those of the tile: `take(u, rank)` is called for each. words: the half's, which say where its items of a digit begin.
template <int kItems, class Take>
__device__ __forceinline__ void rank_items(const uint32_t (&key)[kItems], int shift, uint32_t* words, Take take) {
  const int lane = threadIdx.x % 16;
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const bool votes = u % 2 == 0;
    const uint32_t digit = key[u] >> shift & 0xff;
    uint32_t* const at = words + digit;
    uint32_t same = 0;
    if (votes) same = same_digit(digit) >> (threadIdx.x & 16) & 0xffff;
    else atomicOr(at, 0x10000u << lane);
    if (!votes) __syncwarp();
    const uint32_t word = *at, begin = word & 0xffff;
    if (!votes) same = word >> 16;
    const uint32_t below = same & ((1u << lane) - 1);
    __syncwarp();
    if (below == 0) *at = begin + __popc(same);
    __syncwarp();
    take(u, begin + __popc(below));
  }
}

}  // namespace
}  // namespace orrery::kernels
