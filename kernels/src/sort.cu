// Stable radix sort of 32-bit keys, with or without 32-bit values: four passes over 8 bits, lowest first, each of which reads and
// writes everything once.
//
// One launch counts the digits of all four passes. In a pass a block takes the next tile, counts its digits and publishes the
// counts, ranks its items, puts them in order in shared memory, finds out by looking back over the published counts how many
// items of each digit lie in tiles before, and stores runs of a digit side by side. Tiles are numbered by a counter in the order in
// which blocks start: a block never waits for one that has not started.
//
// Within a warp, items of the same digit find each other by setting their lanes' bits in the digit's word, and take places from the
// warp's counter of that digit; warps and, in a warp, rounds are in the order of items, so the sort is stable.
// Source of the passes: Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs" (2022).
#include "arguments.h"
#include "launch.h"
#include "published.cuh"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kDigits = 256, kPasses = 4;

/// How many threads take how many items each, and how many such blocks are meant to share an SM.
template <int kThreads_, int kItems_, int kPerSm_>
struct SortTile {
  static constexpr int kThreads = kThreads_, kItems = kItems_, kPerSm = kPerSm_, kWarps = kThreads / 32, kItemsPerTile = kThreads * kItems;
};
/// Many items for the sake of long runs of a digit; few where there are few, so that every SM has some: up to two waves of blocks.
using Large = SortTile<256, 24, 4>;
using Small = SortTile<512, 8, 2>;
constexpr int64_t kFew = int64_t(2) * Small::kPerSm * 132 * Small::kItemsPerTile, kWide = int64_t(1) << 30;  // from kWide on, published counts need words of 64 bits

constexpr int kCountThreads = 1024, kCountShared = kPasses * kDigits * 32 * 4;

int64_t sort_tiles(int64_t n) {
  const int tile = n < kFew ? Small::kItemsPerTile : Large::kItemsPerTile;
  return (n + tile - 1) / tile;
}
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

/// What one sort keeps beside keys and values; all of it is zeroed first.
struct SortState {
  uint32_t* counts;  // [pass][digit]: all items, then those of smaller digits
  uint32_t* tile;    // [pass]: the next tile; after them, blocks that have counted
  void* words;       // [pass][tile][digit]: published counts
};

/// The sum of the values of the threads before this one, of the first kDigits threads; by whole blocks.
__device__ __forceinline__ uint32_t sum_before(uint32_t v, uint32_t (&warps)[kDigits / 32]) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t up_to = v;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t other = __shfl_up_sync(~0u, up_to, d);
    if (lane >= d) up_to += other;
  }
  if (threadIdx.x < kDigits && lane == 31) warps[warp] = up_to;
  __syncthreads();
  uint32_t before = 0;
#pragma unroll
  for (int w = 0; w < kDigits / 32; w++) before += w < warp ? warps[w] : 0;
  return before + up_to - v;
}

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

/// A block's shared memory: items in order once they are ranked; before, each warp's counters and the words of lanes.
template <class Tile>
union alignas(16) SortShared {
  uint32_t item[Tile::kItemsPerTile];
  struct {
    uint32_t count[Tile::kWarps][kDigits], lanes[Tile::kWarps][kDigits];
  };
};

/// Ranks of a warp's items among those of the tile, in its order; `count` is where the warp's items of a digit begin.
template <int kItems>
__device__ __forceinline__ void rank_items(uint32_t (&rank)[kItems], const uint32_t (&key)[kItems], int shift, uint32_t* count, uint32_t* lanes) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const uint32_t digit = key[u] >> shift & 0xff;
    atomicOr(lanes + digit, 1u << lane);
    __syncwarp();
    const uint32_t same = lanes[digit], before = count[digit];
    __syncwarp();
    const uint32_t below = same & ((1u << lane) - 1);
    if (below == 0) lanes[digit] = 0, count[digit] = before + __popc(same);
    __syncwarp();
    rank[u] = before + __popc(below);
  }
}

/// Turns each warp's counts into where its items of a digit begin in the tile, `begin` being where the thread's digit does.
template <int kWarps>
__device__ __forceinline__ void place_warps(uint32_t (&count)[kWarps][kDigits], uint32_t begin) {
  const int digit = threadIdx.x;
  if (digit < kDigits) {
    uint32_t running = begin;
#pragma unroll
    for (int w = 0; w < kWarps; w++) {
      const uint32_t c = count[w][digit];
      count[w][digit] = running;
      running += c;
    }
  }
}

/// Stores the tile's items, which are in order, and the values of the items in the order in which they came.
template <class Tile, bool kValues>
__device__ __forceinline__ void store_items(uint32_t (&item)[Tile::kItemsPerTile], const uint32_t (&place)[kDigits], const uint32_t (&rank)[Tile::kItems], uint32_t* keys_out,
                                            uint32_t* values_out, const uint32_t* values, int64_t first, int64_t tile, int64_t n, int shift) {
  constexpr int kThreads = Tile::kThreads, kItems = Tile::kItems, kTile = Tile::kItemsPerTile;
  const int tid = threadIdx.x, valid = int(min(int64_t(kTile), n - tile * kTile));
  uint32_t to[kValues ? kItems : 1];
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const int i = u * kThreads + tid;
    const uint32_t key = item[i], at = place[key >> shift & 0xff] + i;
    if constexpr (kValues) to[u] = at;
    if (i < valid) keys_out[at] = key;
  }
  if constexpr (kValues) {
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kItems; u++)
      if (first + u * 32 < n) item[rank[u]] = values[first + u * 32];
    __syncthreads();
#pragma unroll
    for (int u = 0; u < kItems; u++)
      if (const int i = u * kThreads + tid; i < valid) values_out[to[u]] = item[i];
  }
}

/// Item u of a lane is the (u * 32 + lane)th of its warp's run of kItems * 32. Items beyond the end count as the largest.
template <class Tile, class Word, bool kValues>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kPerSm) sweep(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n,
                                                     int pass, SortState state) {
  constexpr int kThreads = Tile::kThreads, kItems = Tile::kItems, kWarps = Tile::kWarps, kTile = Tile::kItemsPerTile;
  __shared__ SortShared<Tile> shared;
  __shared__ uint32_t place[kDigits], warps[kDigits / 32], number;
  begin_overlapped();
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, shift = 8 * pass;
  if (tid == 0) number = atomicAdd(state.tile + pass, 1u);
  for (int i = tid; i < 2 * kWarps * kDigits / 4; i += kThreads) reinterpret_cast<uint4*>(&shared)[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  const int64_t tile = number, first = tile * kTile + warp * (kItems * 32) + lane;
  uint32_t key[kItems], rank[kItems];
#pragma unroll
  for (int u = 0; u < kItems; u++) key[u] = first + u * 32 < n ? keys[first + u * 32] : ~0u;
#pragma unroll
  for (int u = 0; u < kItems; u++) atomicAdd(&shared.count[warp][key[u] >> shift & 0xff], 1u);
  __syncthreads();
  using P = Published<Word>;
  Word* const words = static_cast<Word*>(state.words) + pass * int64_t(gridDim.x) * kDigits;
  uint32_t total = 0;  // of this thread's digit
  if (tid < kDigits) {
#pragma unroll
    for (int w = 0; w < kWarps; w++) total += shared.count[w][tid];
    P::store(words + tile * kDigits + tid, (tile ? P::kOwn : P::kAll) | total);
  }
  const uint32_t begin = sum_before(total, warps);  // of the digit's items in the tile
  place_warps(shared.count, begin);
  __syncthreads();
  rank_items(rank, key, shift, shared.count[warp], shared.lanes[warp]);
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kItems; u++) shared.item[rank[u]] = key[u];
  if (tid < kDigits) {
    const uint32_t before = look_back(words, tile, tid);
    if (tile) P::store(words + tile * kDigits + tid, P::kAll | Word(before + total));
    place[tid] = state.counts[pass * kDigits + tid] + before - begin;  // of item i of the tile: place + i
  }
  __syncthreads();
  store_items<Tile, kValues>(shared.item, place, rank, keys_out, values_out, values, first, tile, n, shift);
}

struct Workspace {
  uint32_t *keys, *values;
  SortState state;
  size_t state_bytes, bytes;
  Workspace(void* base, int64_t n) {
    char* p = static_cast<char*>(base);
    const size_t items = round_up(size_t(n) * 4), counts = kPasses * kDigits * 4;
    keys = reinterpret_cast<uint32_t*>(p), values = reinterpret_cast<uint32_t*>(p + items), p += 2 * items;
    state.counts = reinterpret_cast<uint32_t*>(p), state.tile = state.counts + kPasses * kDigits;
    state.words = p + counts + 256;
    state_bytes = counts + 256 + size_t(kPasses) * sort_tiles(n) * kDigits * (n < kWide ? 4 : 8);
    bytes = 2 * items + state_bytes;
  }
};

}  // namespace

size_t sort_workspace(int64_t n) { return n > 0 ? Workspace(nullptr, n).bytes : 0; }

Status sort_u32(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values, int64_t n, void* workspace,
                cudaStream_t stream) {
  if (n < 0 || n >= int64_t(1) << 32) return bad("n", "must be in [0, 2^32)");
  if (n == 0) return {};
  if (!keys_out || !aligned(keys_out, 4)) return bad("keys_out", "is null or misaligned");
  if (!keys || !aligned(keys, 4)) return bad("keys", "is null or misaligned");
  if (!values_out != !values) return bad("values_out", "and values must both be given, or neither");
  if (!aligned(values_out, 4)) return bad("values_out", "is misaligned");
  if (!aligned(values, 4)) return bad("values", "is misaligned");
  if (overlap(keys, n * 4, keys_out, n * 4)) return bad("keys_out", "overlaps keys");
  if (values && overlap(values, n * 4, values_out, n * 4)) return bad("values_out", "overlaps values");
  if (!workspace || !aligned(workspace, 256)) return bad("workspace", "is null or not 256-byte aligned");
  const Workspace w(workspace, n);
  const int64_t tiles = sort_tiles(n);
  const int head = int(std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(keys) % 16) % 16 / 4));
  if (cudaError_t e = cudaFuncSetAttribute(count_digits, cudaFuncAttributeMaxDynamicSharedMemorySize, kCountShared)) return launched(e);
  if (cudaError_t e = launch_zero(w.state.counts, w.state_bytes, stream)) return launched(e);
  const int64_t counters = std::min<int64_t>((n / 4 + kCountThreads) / kCountThreads, sm_count());
  if (cudaError_t e = launch_overlapped(count_digits, counters, kCountThreads, kCountShared, stream, w.state, keys, n, head)) return launched(e);
  const uint32_t *from = keys, *from_values = values;
  for (int pass = 0; pass < kPasses; pass++) {
    uint32_t* to = pass % 2 ? keys_out : w.keys;
    uint32_t* to_values = pass % 2 ? values_out : w.values;
    const auto go = [&](auto kernel, int threads) { return launch_overlapped(kernel, tiles, threads, 0, stream, to, to_values, from, from_values, n, pass, w.state); };
    const cudaError_t e = n < kFew    ? go(values ? sweep<Small, uint32_t, true> : sweep<Small, uint32_t, false>, Small::kThreads)
                          : n < kWide ? go(values ? sweep<Large, uint32_t, true> : sweep<Large, uint32_t, false>, Large::kThreads)
                                      : go(values ? sweep<Large, uint64_t, true> : sweep<Large, uint64_t, false>, Large::kThreads);
    if (e) return launched(e);
    from = to, from_values = to_values;
  }
  return launched(cudaSuccess);
}

}  // namespace orrery::kernels
