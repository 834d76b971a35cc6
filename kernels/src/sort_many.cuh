// Radix sort of many keys: four passes over 8 bits, lowest first, each of which reads and writes everything once. Not here: ranks (sort_rank.cuh), few keys (sort_few.cuh).
//
// One launch counts the digits of all four passes. In a pass a block takes the next tile, counts its digits and publishes the
// counts, ranks its items (sort_rank.cuh) and puts them in order in shared memory, finds out by looking back over the published counts how many
// items of each digit lie in tiles before, and stores runs of a digit side by side. Tiles are numbered by a counter in the order in
// which blocks start: a block never waits for one that has not started.
// Source of the passes: Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
#pragma once
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "published.cuh"
#include "sort_rank.cuh"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

/// A block's items: many, for the sake of long runs of a digit, and as many as registers hold. Two such blocks share an SM.
struct SortTile {
  static constexpr int kThreads = 512, kItems = 24, kPerSm = 2, kHalves = kThreads / 16, kSize = kThreads * kItems;
};
constexpr int64_t kWide = int64_t(1) << 30;  // from so many keys on, published counts need words of 64 bits
constexpr int kCountThreads = 1024, kCountShared = kPasses * kDigits * 32 * 4;

int64_t sort_tiles(int64_t n) { return (n + SortTile::kSize - 1) / SortTile::kSize; }
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// What one sort keeps beside keys and values; all of it is zeroed first.
struct SortState {
  uint32_t* counts;  // [pass][digit]: all items, then those of smaller digits
  uint32_t* tile;    // [pass]: the next tile; after them, blocks that have counted
  void* words;       // [pass][tile][digit]: published counts
};

/// This thread's share of the keys, counted for all passes in its lane's counters.
__device__ __forceinline__ void count_share(uint32_t* mine, const uint32_t* keys, int64_t n, int head) {
  const auto count = [&](uint32_t key) {
#pragma unroll
    for (int pass = 0; pass < kPasses; pass++) atomicAdd(mine + (pass * kDigits + (key >> 8 * pass & 0xff)) * 32, 1u);
  };
  const uint4* body = reinterpret_cast<const uint4*>(keys + head);
  const int64_t packs = (n - head) / 4, stride = int64_t(gridDim.x) * kCountThreads;
  int64_t i = blockIdx.x * int64_t(kCountThreads) + threadIdx.x;
  constexpr int kAtOnce = 4;
  for (; i + (kAtOnce - 1) * stride < packs; i += kAtOnce * stride) {
    uint4 v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) v[u] = body[i + u * stride];
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) count(v[u].x), count(v[u].y), count(v[u].z), count(v[u].w);
  }
  for (; i < packs; i += stride) {
    const uint4 v = body[i];
    count(v.x), count(v.y), count(v.z), count(v.w);
  }
  if (blockIdx.x == 0) {
    if (int(threadIdx.x) < head) count(keys[threadIdx.x]);
    if (const int64_t j = head + packs * 4 + threadIdx.x; j < n) count(keys[j]);
  }
}

/// A counter for every digit and lane, as in the histogram of bytes; the block that ends last adds up over digits.
__global__ void __launch_bounds__(kCountThreads, 1) count_digits(SortState state, const uint32_t* keys, int64_t n, int head) {
  extern __shared__ __align__(16) uint32_t table[];
  __shared__ uint32_t warps[kDigits / 32];
  __shared__ bool last;
  for (int i = threadIdx.x; i < kPasses * kDigits * 8; i += kCountThreads) reinterpret_cast<uint4*>(table)[i] = make_uint4(0, 0, 0, 0);
  begin_overlapped();
  __syncthreads();
  count_share(table + threadIdx.x % 32, keys, n, head);
  __syncthreads();
  uint32_t total = 0;  // of digit threadIdx.x % 256 in pass threadIdx.x / 256
#pragma unroll 8
  for (int l = 0; l < 32; l++) total += table[threadIdx.x * 32 + (l + threadIdx.x) % 32];
  if (total) atomicAdd(state.counts + threadIdx.x, total);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicAdd(state.tile + kPasses, 1u) == gridDim.x - 1;
  __syncthreads();
  if (!last) return;
  __threadfence();
  for (int pass = 0; pass < kPasses; pass++) {
    uint32_t* const at = state.counts + pass * kDigits + threadIdx.x;
    const uint32_t v = threadIdx.x < kDigits ? __ldcg(at) : 0;
    const uint32_t before = sum_before(v, warps);
    if (threadIdx.x < kDigits) *at = before;
    __syncthreads();
  }
}

/// How many items of a digit lie in tiles before `tile`; by the thread of that digit.
template <class Word>
__device__ __forceinline__ uint32_t look_back(const Word* words, int64_t tile, int digit) {
  constexpr int kAtOnce = 8;
  using P = Published<Word>;
  uint32_t sum = 0;
  for (int64_t end = tile; end > 0; end -= kAtOnce) {
    Word word[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) word[j] = end - 1 - j >= 0 ? P::load(words + (end - 1 - j) * kDigits + digit) : P::kAll;
#pragma unroll
    for (int j = 0; j < kAtOnce; j++) {
      while (word[j] < P::kOwn) word[j] = P::load(words + (end - 1 - j) * kDigits + digit);
      sum += P::sum(word[j]);
      if (word[j] >= P::kAll) return sum;
    }
  }
  return sum;
}

/// A block's shared memory.
struct SortShared {
  alignas(16) uint32_t item[SortTile::kSize];  // in order
  alignas(16) uint32_t words[SortTile::kHalves * kHalfRow];
  uint32_t place[kDigits], warps[kDigits / 32], number;
};

/// Stores the tile's items, which are in order, and the values of the items in the order in which they came. left: of the lane's items from its first
/// on, so many at most are there; valid: of the tile's.
template <bool kValues>
__device__ __forceinline__ void store_items(SortShared& shared, const uint32_t (&rank)[SortTile::kItems], uint32_t* keys_out, uint32_t* values_out, const uint32_t* values,
                                            int left, int valid, int shift) {
  constexpr int kThreads = SortTile::kThreads, kItems = SortTile::kItems;
  const int tid = threadIdx.x;
  uint32_t to[kValues ? kItems : 1];
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const int i = u * kThreads + tid;
    const uint32_t key = shared.item[i], at = shared.place[key >> shift & 0xff] + i;
    if constexpr (kValues) to[u] = at;
    if (i < valid) keys_out[at] = key;
  }
  if constexpr (kValues) {
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kItems; u++)
      if (u * 16 < left) shared.item[rank[u]] = values[u * 16];
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kItems; u++)
      if (const int i = u * kThreads + tid; i < valid) values_out[to[u]] = shared.item[i];
  }
}

/// Items beyond the end count as the largest.
template <class Word, bool kValues>
__global__ void __launch_bounds__(SortTile::kThreads, SortTile::kPerSm) sweep(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n,
                                                                              int pass, SortState state) {
  constexpr int kThreads = SortTile::kThreads, kItems = SortTile::kItems, kHalves = SortTile::kHalves;
  extern __shared__ __align__(16) uint8_t raw[];
  SortShared& shared = reinterpret_cast<SortShared&>(raw);
  begin_overlapped();
  const int tid = threadIdx.x, shift = 8 * pass;
  if (tid == 0) shared.number = atomicAdd(state.tile + pass, 1u);
  for (int i = tid; i < kHalves * kHalfRow / 4; i += kThreads) reinterpret_cast<uint4*>(shared.words)[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  const int64_t tile = shared.number, first = tile * SortTile::kSize + first_of_half<kItems>();
  const int left = int(min(int64_t(SortTile::kSize), n - first)), valid = int(min(int64_t(SortTile::kSize), n - tile * SortTile::kSize));
  uint32_t key[kItems], rank[kItems];
#pragma unroll
  for (int u = 0; u < kItems; u++) key[u] = u * 16 < left ? keys[first + u * 16] : ~0u;
  uint32_t* const mine = words_of_half(shared.words);
#pragma unroll
  for (int u = 0; u < kItems; u++) atomicAdd(mine + (key[u] >> shift & 0xff), 1u);
  __syncthreads();
  using P = Published<Word>;
  Word* const words = static_cast<Word*>(state.words) + pass * int64_t(gridDim.x) * kDigits;
  uint32_t total = 0;  // of this thread's digit
  if (tid < kDigits) {
#pragma unroll
    for (int h = 0; h < kHalves; h++) total += shared.words[h * kHalfRow + tid];
    P::store(words + tile * kDigits + tid, (tile ? P::kOwn : P::kAll) | total);
  }
  const uint32_t begin = sum_before(total, shared.warps);  // of the digit's items in the tile
  if (tid < kDigits) {
    uint32_t running = begin;
#pragma unroll
    for (int h = 0; h < kHalves; h++) {
      const uint32_t c = shared.words[h * kHalfRow + tid];
      shared.words[h * kHalfRow + tid] = running;
      running += c;
    }
  }
  __syncthreads();
  rank_items<kItems>(key, shift, mine, [&](int u, uint32_t r) { shared.item[r] = key[u], rank[u] = r; });
  if (tid < kDigits) {
    const uint32_t before = look_back(words, tile, tid);
    if (tile) P::store(words + tile * kDigits + tid, P::kAll | Word(before + total));
    shared.place[tid] = state.counts[pass * kDigits + tid] + before - begin;  // of item i of the tile: place + i
  }
  __syncthreads();
  store_items<kValues>(shared, rank, keys_out, values_out, kValues ? values + first : nullptr, left, valid, shift);
}

/// Keys and values of every other pass, and the state. Few keys' counts (sort_few.cuh) take less than words do.
struct SortWorkspace {
  uint32_t *keys, *values;
  SortState state;
  size_t state_bytes, bytes;
  SortWorkspace(void* base, int64_t n) {
    char* p = static_cast<char*>(base);
    const size_t items = round_up(size_t(n) * 4), counts = kPasses * kDigits * 4;
    keys = reinterpret_cast<uint32_t*>(p), values = reinterpret_cast<uint32_t*>(p + items), p += 2 * items;
    state.counts = reinterpret_cast<uint32_t*>(p), state.tile = state.counts + kPasses * kDigits;
    state.words = p + counts + 256;
    state_bytes = counts + 256 + size_t(kPasses) * sort_tiles(n) * kDigits * (n < kWide ? 4 : 8);
    bytes = 2 * items + state_bytes;
  }
};

cudaError_t sort_many(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n, const SortWorkspace& w, cudaStream_t stream) {
  const int64_t tiles = sort_tiles(n);
  const int head = int(std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(keys) % 16) % 16 / 4));
  if (cudaError_t e = cudaFuncSetAttribute(count_digits, cudaFuncAttributeMaxDynamicSharedMemorySize, kCountShared)) return e;
  if (cudaError_t e = launch_zero(w.state.counts, w.state_bytes, stream)) return e;
  const int64_t counters = std::min<int64_t>((n / 4 + kCountThreads) / kCountThreads, sm_count());
  if (cudaError_t e = launch_overlapped(count_digits, counters, kCountThreads, kCountShared, stream, w.state, keys, n, head)) return e;
  const uint32_t *from = keys, *from_values = values;
  for (int pass = 0; pass < kPasses; pass++) {
    uint32_t* to = pass % 2 ? keys_out : w.keys;
    uint32_t* to_values = pass % 2 ? values_out : w.values;
    const auto go = [&](auto kernel) {
      if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(sizeof(SortShared)))) return e;
      return launch_overlapped(kernel, tiles, SortTile::kThreads, sizeof(SortShared), stream, to, to_values, from, from_values, n, pass, w.state);
    };
    const cudaError_t e = n < kWide ? go(values ? sweep<uint32_t, true> : sweep<uint32_t, false>) : go(values ? sweep<uint64_t, true> : sweep<uint64_t, false>);
    if (e) return e;
    from = to, from_values = to_values;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace orrery::kernels
