// Radix sort of few keys in one launch: a block an SM keeps a tile, all blocks go through the four passes of 8 bits together.
//
// In a pass a block counts its tile's digits and publishes the counts, ranks its items while the others do, waits for the counts of all tiles, and stores
// runs of a digit side by side; then all wait for all items. So all have to be resident: the launch is a cooperative one. A count is published in a
// word with the number of its pass, so that one load both waits for it and reads it. Not here: ranks (sort_rank.cuh), what is done with many keys
// (sort.cu).
#pragma once
#include "launch.h"
#include "sort_rank.cuh"

namespace orrery::kernels {
namespace {

constexpr int kFewThreads = 512;
constexpr int kFewest = 4096, kMostFew = 4 * kFewest;  // items of the smallest tile, of the largest
constexpr int kCountBits = 15;                         // kMostFew fits

/// What the counts of so many tiles take.
constexpr size_t few_counts_bytes(int64_t tiles) { return size_t(tiles) * kDigits * 2; }

/// What blocks share, beside keys and values.
struct FewState {
  uint32_t* arrived;  // blocks whose items are where the next pass reads them, counted on
  uint32_t* counts;   // [tile][two digits]: two counts of kCountBits, and which pass they are of
};

template <int kItems>
struct FewShared {
  static constexpr int kTile = kFewThreads * kItems, kHalves = kFewThreads / 16, kGroups = kFewThreads / kDigits, kParts = kFewThreads / 32;
  alignas(16) uint32_t item[kTile];
  union {
    alignas(16) uint32_t words[kHalves * kHalfRow];
    struct {
      uint32_t before[kParts][kDigits], all[kParts][kDigits];  // of every kParts-th tile
    };
  };
  uint32_t of_group[kGroups][kDigits], begin[kDigits], place[kDigits], warps[kDigits / 32];
};

/// What the block has written is for the others to see.
__device__ __forceinline__ void arrive(uint32_t* arrived) {
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
}
/// And here are so many blocks' writes.
__device__ __forceinline__ void wait_for_all(uint32_t* arrived, uint32_t target) {
  if (threadIdx.x == 0) ptx::await_count(arrived, target);
  __syncthreads();
}

/// Counts of the tile's digits out of those of the halves, which become where a half's items of a digit begin. Returns those of digit threadIdx.x % 256.
template <int kItems>
__device__ __forceinline__ uint32_t place_halves(FewShared<kItems>& shared) {
  constexpr int kGroups = FewShared<kItems>::kGroups, kEach = FewShared<kItems>::kHalves / kGroups;
  const int digit = threadIdx.x % kDigits, group = threadIdx.x / kDigits;
  uint32_t* const words = shared.words + group * kEach * kHalfRow + digit;
  uint32_t of_half[kEach], of_group = 0, total = 0, running = 0;
#pragma unroll
  for (int h = 0; h < kEach; h++) of_group += of_half[h] = words[h * kHalfRow];
  shared.of_group[group][digit] = of_group;
  __syncthreads();
#pragma unroll
  for (int g = 0; g < kGroups; g++) {
    const uint32_t c = shared.of_group[g][digit];
    total += c, running += g < group ? c : 0;
  }
  const uint32_t begin = sum_before(total, shared.warps);
  if (group == 0) shared.begin[digit] = begin;
  __syncthreads();
  running += shared.begin[digit];
#pragma unroll
  for (int h = 0; h < kEach; h++) {
    words[h * kHalfRow] = running;
    running += of_half[h];
  }
  return total;
}

/// Four words, which have the counts of eight digits.
__device__ __forceinline__ uint4 load_counts(const uint32_t* p) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}

/// Where the tile's items of each digit begin in the output, less where they begin in the tile. `tag`: in all words of this pass.
template <int kItems>
__device__ __forceinline__ void place_tile(FewShared<kItems>& shared, const uint32_t* counts, uint32_t tag) {
  constexpr int kParts = FewShared<kItems>::kParts, kAtOnce = 3, kMask = (1 << kCountBits) - 1;
  const int eight = threadIdx.x % (kDigits / 8), part = threadIdx.x / (kDigits / 8), tiles = int(gridDim.x), tile = int(blockIdx.x);
  uint32_t before[8] = {}, all[8] = {};
#pragma unroll 1
  for (int t = part; t < tiles; t += kAtOnce * kParts) {
    const uint32_t* const at = counts + t * (kDigits / 2) + 4 * eight;
    uint4 c[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; a++)
      if (t + a * kParts < tiles) c[a] = load_counts(at + a * kParts * (kDigits / 2));
#pragma unroll
    for (int a = 0; a < kAtOnce; a++) {
      if (t + a * kParts >= tiles) break;
      while (((c[a].x ^ tag) | (c[a].y ^ tag) | (c[a].z ^ tag) | (c[a].w ^ tag)) >> 2 * kCountBits) c[a] = load_counts(at + a * kParts * (kDigits / 2));
      const uint32_t of[4] = {c[a].x, c[a].y, c[a].z, c[a].w};
      const bool is_before = t + a * kParts < tile;
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const uint32_t count = of[j / 2] >> j % 2 * kCountBits & kMask;
        all[j] += count, before[j] += is_before ? count : 0;
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    reinterpret_cast<uint4*>(shared.before[part])[2 * eight + h] = make_uint4(before[4 * h], before[4 * h + 1], before[4 * h + 2], before[4 * h + 3]);
    reinterpret_cast<uint4*>(shared.all[part])[2 * eight + h] = make_uint4(all[4 * h], all[4 * h + 1], all[4 * h + 2], all[4 * h + 3]);
  }
  __syncthreads();
  const int digit = threadIdx.x % kDigits;
  uint32_t of_digit = 0, here = 0;
  if (threadIdx.x < kDigits) {
#pragma unroll 16
    for (int p = 0; p < kParts; p++) of_digit += shared.all[p][digit], here += shared.before[p][digit];
  }
  const uint32_t smaller = sum_before(of_digit, shared.warps);
  if (threadIdx.x < kDigits) shared.place[digit] = smaller + here - shared.begin[digit];
}

/// `other`: as much room as the keys and the values take.
template <int kItems, bool kValues>
__global__ void __launch_bounds__(kFewThreads, 1) sort_at_once(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, uint32_t* other_keys,
                                                               uint32_t* other_values, int n, FewState state) {
  using Shared = FewShared<kItems>;
  extern __shared__ __align__(16) uint8_t raw[];
  Shared& shared = reinterpret_cast<Shared&>(raw);
  const int tid = threadIdx.x, first_item = int(blockIdx.x) * Shared::kTile, first = first_item + first_of_half<kItems>(), left = n - first, valid = min(Shared::kTile, n - first_item);
  uint32_t* const mine = words_of_half(shared.words);
  uint32_t target = 0;
  const auto clear = [&] {
    for (int i = tid; i < Shared::kHalves * kHalfRow / 4; i += kFewThreads) reinterpret_cast<uint4*>(shared.words)[i] = make_uint4(0, 0, 0, 0);
  };
  clear();
  begin_overlapped();
  __syncthreads();
#pragma unroll 1
  for (int pass = 0; pass < kPasses; pass++) {
    const uint32_t *from = pass == 0 ? keys : pass % 2 ? other_keys : keys_out, *from_values = pass == 0 ? values : pass % 2 ? other_values : values_out;
    uint32_t *to = pass % 2 ? keys_out : other_keys, *to_values = pass % 2 ? values_out : other_values;
    const int shift = 8 * pass;
    uint32_t key[kItems], value[kValues ? kItems : 1], rank[kValues ? kItems : 1];
#pragma unroll
    for (int u = 0; u < kItems; u++) key[u] = u * 16 < left ? __ldcg(from + first + u * 16) : ~0u;
    if constexpr (kValues) {
#pragma unroll
      for (int u = 0; u < kItems; u++)
        if (u * 16 < left) value[u] = __ldcg(from_values + first + u * 16);
    }
#pragma unroll
    for (int u = 0; u < kItems; u++) atomicAdd(mine + (key[u] >> shift & 0xff), 1u);
    __syncthreads();
    const uint32_t total = place_halves(shared);
    const uint32_t tag = uint32_t(pass % 3 + 1) << 2 * kCountBits, next = __shfl_down_sync(~0u, total, 1);
    if (tid < kDigits && tid % 2 == 0)
      asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(state.counts + int(blockIdx.x) * (kDigits / 2) + tid / 2), "r"(tag | next << kCountBits | total) : "memory");
    __syncthreads();
    rank_items<kItems>(key, shift, mine, [&](int u, uint32_t r) {
      shared.item[r] = key[u];
      if constexpr (kValues) rank[u] = r;
    });
    __syncthreads();
    place_tile(shared, state.counts, tag);
    __syncthreads();
    uint32_t at[kValues ? kItems : 1];
#pragma unroll
    for (int u = 0; u < kItems; u++) {
      const int i = u * kFewThreads + tid;
      const uint32_t k = shared.item[i], place = shared.place[k >> shift & 0xff] + i;
      if (i < valid) to[place] = k;
      if constexpr (kValues) at[u] = place;
    }
    if constexpr (kValues) {
      __syncthreads();
#pragma unroll
      for (int u = 0; u < kItems; u++) shared.item[rank[u]] = value[u];
      __syncthreads();
#pragma unroll
      for (int u = 0; u < kItems; u++)
        if (const int i = u * kFewThreads + tid; i < valid) to_values[at[u]] = shared.item[i];
    }
    if (pass == kPasses - 1) break;
    if (gridDim.x > 1) arrive(state.arrived);
    clear();
    if (gridDim.x > 1) wait_for_all(state.arrived, target += gridDim.x);
    else __syncthreads();
  }
}

}  // namespace
}  // namespace orrery::kernels
