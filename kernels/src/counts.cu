// Histogram of bytes and inclusive scan of 32-bit integers.
//
// Histogram: every warp counts in a table of its own in shared memory, laid out so that the same byte value of
// different warps falls on different words; tables are added at the end with one global atomic per value.
//
// Scan: one pass with decoupled look-back. A block scans its tile, publishes its sum ("aggregate"), and looks back
// over its predecessors' published words until it meets an inclusive prefix. A word packs state and value in 64
// bits, so that one load reads both. Tiles are numbered by a counter, in the order in which blocks start: a block
// never waits for one that has not started.
// Source: Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back" (2016).
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

__global__ void __launch_bounds__(kThreads) histogram(uint32_t* counts, const uint8_t* in, int64_t n, int head) {
  __shared__ uint32_t table[256][kWarps + 1];
  for (int i = threadIdx.x; i < 256 * (kWarps + 1); i += kThreads) (&table[0][0])[i] = 0;
  __syncthreads();
  const int warp = threadIdx.x / 32;
  const auto count = [&](uint32_t word) {
#pragma unroll
    for (int b = 0; b < 4; b++) atomicAdd(&table[word >> (8 * b) & 0xff][warp], 1u);
  };
  const uint4* body = reinterpret_cast<const uint4*>(in + head);
  const int64_t packs = (n - head) / 16, stride = int64_t(gridDim.x) * kThreads;
  for (int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x; i < packs; i += stride) {
    const uint4 v = __ldcs(body + i);
    count(v.x), count(v.y), count(v.z), count(v.w);
  }
  if (blockIdx.x == 0) {
    for (int64_t i = threadIdx.x; i < head; i += kThreads) atomicAdd(&table[in[i]][warp], 1u);
    for (int64_t i = head + packs * 16 + threadIdx.x; i < n; i += kThreads) atomicAdd(&table[in[i]][warp], 1u);
  }
  __syncthreads();
  uint32_t total = 0;
  for (int w = 0; w < kWarps; w++) total += table[threadIdx.x][w];
  if (total) atomicAdd(counts + threadIdx.x, total);
}

constexpr int kItems = 16, kScanTile = kThreads * kItems;
constexpr uint64_t kAggregate = uint64_t(1) << 32, kPrefix = uint64_t(2) << 32;

__device__ __forceinline__ uint64_t load_word(const uint64_t* p) {
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_word(uint64_t* p, uint64_t v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}

/// Sum of everything before tile `tile`; one warp, 32 predecessors at a time.
__device__ uint32_t look_back(const uint64_t* words, int64_t tile) {
  const int lane = threadIdx.x % 32;
  uint32_t sum = 0;
  for (int64_t end = tile;; end -= 32) {
    const int64_t mine = end - 1 - lane;
    uint64_t w = kPrefix;  // before the first tile: an inclusive prefix of 0
    if (mine >= 0)
      while ((w = load_word(words + mine)) < kAggregate) {
      }
    const uint32_t done = __ballot_sync(~0u, w >= kPrefix);
    const int nearest = done ? __ffs(done) - 1 : 32;
    uint32_t v = lane <= nearest ? uint32_t(w) : 0;
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    sum += v;
    if (done) return sum;
  }
}

__global__ void __launch_bounds__(kThreads) scan(uint32_t* out, const uint32_t* in, int64_t n, uint64_t* words,
                                                 unsigned* counter) {
  __shared__ uint32_t items[kScanTile + kScanTile / 32], warp_sums[kWarps], before;
  __shared__ int64_t number;
  if (threadIdx.x == 0) number = atomicAdd(counter, 1u);
  __syncthreads();
  const int64_t tile = number, first = tile * kScanTile;
  const auto slot = [](int i) { return i + i / 32; };
#pragma unroll
  for (int k = 0; k < kItems; k++) {
    const int i = k * kThreads + threadIdx.x;
    items[slot(i)] = first + i < n ? __ldcs(in + first + i) : 0;
  }
  __syncthreads();
  uint32_t x[kItems], sum = 0;
#pragma unroll
  for (int k = 0; k < kItems; k++) x[k] = sum += items[slot(threadIdx.x * kItems + k)];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t up_to = sum;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const uint32_t v = __shfl_up_sync(~0u, up_to, d);
    if (lane >= d) up_to += v;
  }
  if (lane == 31) warp_sums[warp] = up_to;
  __syncthreads();
  uint32_t offset = up_to - sum, total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) {
    if (w < warp) offset += warp_sums[w];
    total += warp_sums[w];
  }
  if (warp == 0) {
    if (lane == 0) store_word(words + tile, (tile == 0 ? kPrefix : kAggregate) | total);
    const uint32_t prefix = tile == 0 ? 0 : look_back(words, tile);
    if (lane == 0 && tile != 0) store_word(words + tile, kPrefix | uint32_t(prefix + total));
    if (lane == 0) before = prefix;
  }
  __syncthreads();
  offset += before;
#pragma unroll
  for (int k = 0; k < kItems; k++) items[slot(threadIdx.x * kItems + k)] = offset + x[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kItems; k++) {
    const int i = k * kThreads + threadIdx.x;
    if (first + i < n) __stcs(out + first + i, items[slot(i)]);
  }
}

int64_t scan_tiles(int64_t n) { return (n + kScanTile - 1) / kScanTile; }

}  // namespace

Status histogram_u8(uint32_t* counts, const uint8_t* in, int64_t n, cudaStream_t stream) {
  if (!counts || !aligned(counts, 4)) return bad("counts", "is null or misaligned");
  if (n < 0) return bad("n", "must not be negative");
  if (n == 0) return {};
  if (!in) return bad("in", "is null");
  const int64_t head = std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(in) % 16) % 16);
  const int64_t wanted = (n / 16 + kThreads - 1) / kThreads;
  histogram<<<unsigned(wanted < 1 ? 1 : wanted < 132 * 8 ? wanted : 132 * 8), kThreads, 0, stream>>>(counts, in, n, int(head));
  return launched(cudaGetLastError());
}

size_t scan_workspace(int64_t n) { return n > 0 ? size_t(scan_tiles(n) + 1) * 8 : 8; }

Status inclusive_scan(uint32_t* out, const uint32_t* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (n < 0 || scan_tiles(n) > 0x7fffffff) return bad("n", "must be in [0, 2^43)");
  if (n == 0) return {};
  if (!out || !aligned(out, 4)) return bad("out", "is null or misaligned");
  if (!in || !aligned(in, 4)) return bad("in", "is null or misaligned");
  if (in != out && overlap(in, n * 4, out, n * 4)) return bad("out", "partly overlaps in");
  if (!workspace || !aligned(workspace, 8)) return bad("workspace", "is null or not 8-byte aligned");
  if (cudaError_t e = cudaMemsetAsync(workspace, 0, scan_workspace(n), stream); e != cudaSuccess) return launched(e);
  uint64_t* words = static_cast<uint64_t*>(workspace);
  scan<<<unsigned(scan_tiles(n)), kThreads, 0, stream>>>(out, in, n, words + 1, reinterpret_cast<unsigned*>(words));
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
