// Inclusive scan of 32-bit integers: two reads and a write of a chunk, of which the second read comes from L2.
//
// As many blocks as the device holds take a tile each, and so the array chunk by chunk. While a block adds up its tile of the
// next chunk (from memory, into L2), the sums of this chunk's tiles, which were left a turn before, have arrived: it adds up
// those before its own, scans its tile (from L2) and stores it. Nobody looks back further than a chunk, for every block
// carries the total of the chunks behind it. A block waits only for sums that others leave before they wait themselves, and
// there are never more blocks than run at once.
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kItems = 32, kTile = kThreads * kItems, kPerSm = 4;

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

__device__ __forceinline__ uint2 load_both(const uint32_t* sums, int mine, int count) {
  uint2 sum = make_uint2(0, 0);  // of the tiles before this one; of all
  for (int i = threadIdx.x; i < count; i += kThreads) {
    const uint32_t v = __ldcg(sums + i);
    sum.y += v;
    if (i < mine) sum.x += v;
  }
  return sum;
}

struct ScanParams {
  uint32_t* out;
  const uint32_t* in;
  int64_t n;
  uint32_t *sums, *arrived;  // of tiles; of chunks
  int tiles;
};

/// Adds up a tile and leaves its sum; by the whole block.
template <bool kVector>
__device__ __forceinline__ void leave_sum(const ScanParams& p, int tile, int chunk, uint32_t* warp_sums) {
  Items x;
  load_items<kVector>(x, p.in, int64_t(tile) * kTile + threadIdx.x / 32 * (32 * kItems) + threadIdx.x % 32 * 4, p.n);
  uint32_t sum = 0;
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) sum += (x[u][0] + x[u][1]) + (x[u][2] + x[u][3]);
  sum = __reduce_add_sync(~0u, sum);
  if (threadIdx.x % 32 == 0) warp_sums[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; w++) total += warp_sums[w];
    p.sums[tile] = total;
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p.arrived + chunk) : "memory");
  }
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads, kPerSm) scan(const ScanParams p) {
  __shared__ uint32_t warp_sums[kWarps], scanned[kWarps], before[kWarps], all[kWarps];
  begin_overlapped();
  const int blocks = gridDim.x, mine = blockIdx.x;
  uint32_t carry = 0;
  leave_sum<kVector>(p, mine, 0, warp_sums);
  for (int chunk = 0; chunk * blocks < p.tiles; chunk++) {
    const int first = chunk * blocks, count = min(blocks, p.tiles - first);
    __syncthreads();
    if (first + blocks + mine < p.tiles) leave_sum<kVector>(p, first + blocks + mine, chunk + 1, warp_sums);
    if (mine >= count) break;  // in the last chunk
    if (threadIdx.x == 0) {
      uint32_t seen;
      do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(p.arrived + chunk) : "memory");
      while (seen < uint32_t(count));
    }
    __syncthreads();
    const int64_t from = int64_t(first + mine) * kTile + threadIdx.x / 32 * (32 * kItems) + threadIdx.x % 32 * 4;
    Items x;
    load_items<kVector>(x, p.in, from, p.n);
    const uint2 sums = load_both(p.sums + first, mine, count);
    const uint32_t here = scan_warp(x), some = __reduce_add_sync(~0u, sums.x), every = __reduce_add_sync(~0u, sums.y);
    if (threadIdx.x % 32 == 0) scanned[threadIdx.x / 32] = here, before[threadIdx.x / 32] = some, all[threadIdx.x / 32] = every;
    __syncthreads();
    uint32_t offset = carry;
#pragma unroll
    for (int w = 0; w < kWarps; w++) offset += before[w] + (w < int(threadIdx.x / 32) ? scanned[w] : 0), carry += all[w];
    store_items<kVector>(x, offset, p.out, from, p.n);
  }
}

__global__ void clear(uint32_t* words, int count) {
  begin_overlapped();
  for (int i = threadIdx.x; i < count; i += blockDim.x) words[i] = 0;
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
  int device = 0, sms = 0, per_sm = 0;
  if (cudaError_t e = cudaGetDevice(&device); e != cudaSuccess) return launched(e);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  const auto kernel = aligned(in, 16) && aligned(out, 16) ? scan<true> : scan<false>;
  if (cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, kThreads, 0); e != cudaSuccess) return launched(e);
  const int tiles = int(scan_tiles(n)), blocks = std::min(tiles, sms * std::min(per_sm, kPerSm)), chunks = (tiles + blocks - 1) / blocks;
  uint32_t* words = static_cast<uint32_t*>(workspace);
  if (cudaError_t e = launch_overlapped(clear, 1, std::min(1024, (chunks + 31) / 32 * 32), 0, stream, words, chunks)) return launched(e);
  return launched(launch_overlapped(kernel, blocks, kThreads, 0, stream, ScanParams{out, in, n, words + chunks, words, tiles}));
}

}  // namespace orrery::kernels
