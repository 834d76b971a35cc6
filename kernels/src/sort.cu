// Stable radix sort of 32-bit keys, with or without 32-bit values: four passes over 8 bits, lowest first.
//
// A pass is three launches: each block counts the digits of its tile; one scan over [digit][tile] turns counts into
// places; each block ranks its tile's items and moves them. Within a warp, items of the same digit find each other by
// match_any; the warp's counters are in shared memory, so that ranks follow the order of the items and the sort is stable.
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kItems = 16, kTile = kThreads * kItems;

int64_t sort_tiles(int64_t n) { return (n + kTile - 1) / kTile; }
size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }

__global__ void __launch_bounds__(kThreads) count_digits(uint32_t* counts, const uint32_t* keys, int64_t n, int shift, int64_t tiles) {
  __shared__ uint32_t table[256];
  table[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kTile;
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const int64_t i = first + u * kThreads + threadIdx.x;
    if (i < n) atomicAdd(&table[keys[i] >> shift & 0xff], 1u);
  }
  __syncthreads();
  counts[threadIdx.x * tiles + blockIdx.x] = table[threadIdx.x];
}

/// Item u of a lane is the (u * 32 + lane)th of its warp's run of kItems * 32.
template <bool kValues>
__global__ void __launch_bounds__(kThreads) move_items(uint32_t* keys_out, uint32_t* values_out, const uint32_t* keys, const uint32_t* values,
                                                       const uint32_t* up_to, int64_t n, int shift, int64_t tiles) {
  __shared__ uint32_t counts[kWarps][256], place[256];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int w = 0; w < kWarps; w++) counts[w][threadIdx.x] = 0;
  // up_to is inclusive: where a digit's items of this tile begin is where those before them end.
  const int64_t at = threadIdx.x * tiles + blockIdx.x;
  place[threadIdx.x] = at ? up_to[at - 1] : 0;
  __syncthreads();
  const int64_t first = int64_t(blockIdx.x) * kTile + warp * (kItems * 32) + lane;
  uint32_t key[kItems], rank[kItems];
#pragma unroll
  for (int u = 0; u < kItems; u++) key[u] = first + u * 32 < n ? keys[first + u * 32] : ~0u;
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    const bool inside = first + u * 32 < n;
    const uint32_t digit = key[u] >> shift & 0xff;
    const uint32_t same = __match_any_sync(~0u, inside ? digit : 256 + lane), below = same & ((1u << lane) - 1);
    uint32_t before = 0;
    if (inside) before = counts[warp][digit];
    __syncwarp();
    if (inside && below == 0) counts[warp][digit] = before + __popc(same);
    __syncwarp();
    rank[u] = before + __popc(below);
  }
  __syncthreads();
  uint32_t running = place[threadIdx.x];
  for (int w = 0; w < kWarps; w++) {
    const uint32_t c = counts[w][threadIdx.x];
    counts[w][threadIdx.x] = running;
    running += c;
  }
  __syncthreads();
#pragma unroll
  for (int u = 0; u < kItems; u++) {
    if (first + u * 32 >= n) continue;
    const uint32_t to = counts[warp][key[u] >> shift & 0xff] + rank[u];
    keys_out[to] = key[u];
    if constexpr (kValues) values_out[to] = values[first + u * 32];
  }
}

struct Workspace {
  uint32_t *keys, *values, *counts;
  void* scan;
  size_t bytes;
  Workspace(void* base, int64_t n) {
    char* p = static_cast<char*>(base);
    const size_t items = round_up(size_t(n) * 4), places = round_up(size_t(sort_tiles(n)) * 1024);
    keys = reinterpret_cast<uint32_t*>(p), values = reinterpret_cast<uint32_t*>(p + items);
    counts = reinterpret_cast<uint32_t*>(p + 2 * items), scan = p + 2 * items + places;
    bytes = 2 * items + places + scan_workspace(256 * sort_tiles(n));
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
  const uint32_t *from = keys, *from_values = values;
  for (int pass = 0; pass < 4; pass++) {
    uint32_t* to = pass % 2 ? keys_out : w.keys;
    uint32_t* to_values = pass % 2 ? values_out : w.values;
    count_digits<<<unsigned(tiles), kThreads, 0, stream>>>(w.counts, from, n, pass * 8, tiles);
    if (Status s = inclusive_scan(w.counts, w.counts, 256 * tiles, w.scan, stream); !s.ok()) return s;
    const auto move = values ? move_items<true> : move_items<false>;
    move<<<unsigned(tiles), kThreads, 0, stream>>>(to, to_values, from, from_values, w.counts, n, pass * 8, tiles);
    from = to, from_values = to_values;
  }
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
