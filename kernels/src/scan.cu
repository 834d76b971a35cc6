// Inclusive scan of 32-bit integers: one pass with decoupled look-back.
//
// A tile is scanned, its sum ("aggregate") published, and its predecessors' published words are read backwards until one is
// an inclusive prefix. A word packs state and value in 64 bits, so that one load reads both. Tiles are numbered by a
// counter, in the order in which blocks start: a block never waits for one that has not started.
// Under load a look back takes some ten microseconds, whatever its width: what counts is how many bytes the running blocks
// hold meanwhile, hence 64 KiB a tile and two blocks an SM (NOTES.md).
// Source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32, kItems = 32, kTile = kThreads * kItems, kWords = 4;
constexpr uint64_t kAggregate = uint64_t(1) << 32, kPrefix = uint64_t(2) << 32;

__device__ __forceinline__ uint64_t load_word(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_word(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/// Sum of everything before tile `tile`; one warp, kWords words a lane at a time.
__device__ uint32_t look_back(const uint64_t* words, int64_t tile) {
  const int lane = threadIdx.x % 32;
  uint32_t sum = 0;
  for (int64_t end = tile;; end -= 32 * kWords) {
    uint64_t w[kWords];
#pragma unroll
    for (int j = 0; j < kWords; j++) {
      const int64_t mine = end - 1 - j * 32 - lane;
      w[j] = mine >= 0 ? load_word(words + mine) : kPrefix;  // before the first tile: an inclusive prefix of 0
    }
#pragma unroll
    for (int j = 0; j < kWords; j++) {
      while (w[j] < kAggregate) w[j] = load_word(words + (end - 1 - j * 32 - lane));
      const uint32_t done = __ballot_sync(~0u, w[j] >= kPrefix);
      const int nearest = done ? __ffs(done) - 1 : 32;
      sum += __reduce_add_sync(~0u, lane <= nearest ? uint32_t(w[j]) : 0u);
      if (done) return sum;
    }
  }
}

/// A thread's items: those at u * 128 + lane * 4 + c of its warp's 32 kItems.
using Items = uint32_t[kItems / 4][4];

/// Scans a warp's items in place; the warp's sum.
__device__ __forceinline__ uint32_t scan_warp(Items& x) {
  const int lane = threadIdx.x % 32;
  uint32_t running = 0;
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) {
#pragma unroll
    for (int c = 1; c < 4; c++) x[u][c] += x[u][c - 1];
    uint32_t up_to = x[u][3];
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const uint32_t v = __shfl_up_sync(~0u, up_to, d);
      if (lane >= d) up_to += v;
    }
    const uint32_t add = running + up_to - x[u][3];
    running += __shfl_sync(~0u, up_to, 31);
#pragma unroll
    for (int c = 0; c < 4; c++) x[u][c] += add;
  }
  return running;
}

template <bool kVector>
__device__ __forceinline__ void load_items(Items& x, const uint32_t* in, int64_t first, int64_t n) {
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) {
    const int64_t at = first + u * 128;
    if (kVector && at + 3 < n) {
      const uint4 v = *reinterpret_cast<const uint4*>(in + at);
      x[u][0] = v.x, x[u][1] = v.y, x[u][2] = v.z, x[u][3] = v.w;
      continue;
    }
#pragma unroll
    for (int c = 0; c < 4; c++) x[u][c] = at + c < n ? in[at + c] : 0;
  }
}

template <bool kVector>
__device__ __forceinline__ void store_items(const Items& x, uint32_t offset, uint32_t* out, int64_t first, int64_t n) {
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) {
    const int64_t at = first + u * 128;
    if (kVector && at + 3 < n) {
      *reinterpret_cast<uint4*>(out + at) = make_uint4(x[u][0] + offset, x[u][1] + offset, x[u][2] + offset, x[u][3] + offset);
      continue;
    }
#pragma unroll
    for (int c = 0; c < 4; c++)
      if (at + c < n) out[at + c] = x[u][c] + offset;
  }
}

/// The sums of the block's warps, added up; by one whole warp.
__device__ __forceinline__ uint32_t add_warps(const uint32_t* warp_sums) {
  return __reduce_add_sync(~0u, threadIdx.x % 32 < kWarps ? warp_sums[threadIdx.x % 32] : 0u);
}
/// The sums of the warps before this one.
__device__ __forceinline__ uint32_t before_warp(const uint32_t* warp_sums) {
  uint32_t sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) sum += w < int(threadIdx.x / 32) ? warp_sums[w] : 0;
  return sum;
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads, 2) scan(uint32_t* out, const uint32_t* in, int64_t n, uint64_t* words, unsigned* counter) {
  __shared__ uint32_t warp_sums[kWarps], before;
  __shared__ int64_t number;
  if (threadIdx.x == 0) number = atomicAdd(counter, 1u);
  __syncthreads();
  const int64_t tile = number, first = tile * kTile + threadIdx.x / 32 * (32 * kItems) + threadIdx.x % 32 * 4;
  Items x;
  load_items<kVector>(x, in, first, n);
  const uint32_t mine = scan_warp(x);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x < 32) {
    const uint32_t total = add_warps(warp_sums);
    if (threadIdx.x == 0) store_word(words + tile, kAggregate | total);
    const uint32_t prefix = look_back(words, tile);
    if (threadIdx.x == 0) store_word(words + tile, kPrefix | uint32_t(prefix + total)), before = prefix;
  }
  __syncthreads();
  store_items<kVector>(x, before + before_warp(warp_sums), out, first, n);
}

int64_t scan_tiles(int64_t n) { return (n + kTile - 1) / kTile; }

}  // namespace

size_t scan_workspace(int64_t n) { return n > 0 ? size_t(scan_tiles(n) + 1) * 8 : 8; }

Status inclusive_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (n < 0 || scan_tiles(n) > 0x7fffffff - 4096) return bad("n", "must be in [0, 2^43)");
  if (n == 0) return {};
  if (!out || !aligned(out, 4)) return bad("out", "is null or misaligned");
  if (!in || !aligned(in, 4)) return bad("in", "is null or misaligned");
  if (in != out && overlap(in, n * 4, out, n * 4)) return bad("out", "partly overlaps in");
  if (!workspace || !aligned(workspace, 8)) return bad("workspace", "is null or not 8-byte aligned");
  if (cudaError_t e = cudaMemsetAsync(workspace, 0, scan_workspace(n), stream); e != cudaSuccess) return launched(e);
  uint64_t* words = static_cast<uint64_t*>(workspace);
  const auto kernel = aligned(in, 16) && aligned(out, 16) ? scan<true> : scan<false>;
  kernel<<<unsigned(scan_tiles(n)), kThreads, 0, stream>>>(out, in, n, words + 1, reinterpret_cast<unsigned*>(words));
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
