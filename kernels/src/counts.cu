// Histogram of bytes and inclusive scan of 32-bit integers.
//
// Histogram: a counter for every value and lane of a warp, in shared memory, so that the 32 lanes of an atomic always fall
// on 32 banks whatever the values are; the counters are added at the end, with one global atomic per value and block.
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

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads) histogram(uint32_t* counts, const uint8_t* in, int64_t n, int head) {
  __shared__ uint32_t table[256 * 32];
  for (int i = threadIdx.x; i < 256 * 32 / 4; i += kThreads) reinterpret_cast<uint4*>(table)[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  uint32_t* const mine = table + threadIdx.x % 32;
  const auto count = [&](uint32_t word) {
#pragma unroll
    for (int b = 0; b < 4; b++) atomicAdd(mine + (word >> (8 * b) & 0xff) * 32, 1u);
  };
  const uint4* body = reinterpret_cast<const uint4*>(in + head);
  const int64_t packs = (n - head) / 16, stride = int64_t(gridDim.x) * kThreads;
  int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  for (; i + 3 * stride < packs; i += 4 * stride) {
    uint4 v[4];
#pragma unroll
    for (int u = 0; u < 4; u++) v[u] = __ldcs(body + i + u * stride);
#pragma unroll
    for (int u = 0; u < 4; u++) count(v[u].x), count(v[u].y), count(v[u].z), count(v[u].w);
  }
  for (; i < packs; i += stride) {
    const uint4 v = __ldcs(body + i);
    count(v.x), count(v.y), count(v.z), count(v.w);
  }
  if (blockIdx.x == 0) {
    for (int64_t j = threadIdx.x; j < head; j += kThreads) atomicAdd(mine + in[j] * 32, 1u);
    for (int64_t j = head + packs * 16 + threadIdx.x; j < n; j += kThreads) atomicAdd(mine + in[j] * 32, 1u);
  }
  __syncthreads();
  uint32_t total = 0;
#pragma unroll 8
  for (int l = 0; l < 32; l++) total += table[threadIdx.x * 32 + (l + threadIdx.x) % 32];
  if (total) atomicAdd(counts + threadIdx.x, total);
}

constexpr int kScanThreads = 512, kScanWarps = kScanThreads / 32, kItems = 16, kScanTile = kScanThreads * kItems;
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

/// A warp owns 512 consecutive items, its lanes four at a time: item u * 128 + lane * 4 + c. kVector: 16-byte alignment.
template <bool kVector>
__global__ void __launch_bounds__(kScanThreads) scan(uint32_t* out, const uint32_t* in, int64_t n, uint64_t* words,
                                                     unsigned* counter) {
  __shared__ uint32_t warp_sums[kScanWarps], before;
  __shared__ int64_t number;
  if (threadIdx.x == 0) number = atomicAdd(counter, 1u);
  __syncthreads();
  const int64_t tile = number;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t first = tile * kScanTile + warp * (32 * kItems) + lane * 4;
  uint32_t x[kItems / 4][4];
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) {
    const int64_t at = first + u * 128;
    if (kVector && at + 3 < n) {
      const uint4 v = __ldcs(reinterpret_cast<const uint4*>(in + at));
      x[u][0] = v.x, x[u][1] = v.y, x[u][2] = v.z, x[u][3] = v.w;
    } else {
#pragma unroll
      for (int c = 0; c < 4; c++) x[u][c] = at + c < n ? __ldcs(in + at + c) : 0;
    }
  }
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
  if (lane == 0) warp_sums[warp] = running;
  __syncthreads();
  if (warp == 0) {
    uint32_t total = lane < kScanWarps ? warp_sums[lane] : 0;
#pragma unroll
    for (int d = kScanWarps / 2; d; d /= 2) total += __shfl_xor_sync(~0u, total, d);
    total = __shfl_sync(~0u, total, 0);
    if (lane == 0) store_word(words + tile, (tile == 0 ? kPrefix : kAggregate) | total);
    const uint32_t prefix = tile == 0 ? 0 : look_back(words, tile);
    if (lane == 0 && tile != 0) store_word(words + tile, kPrefix | uint32_t(prefix + total));
    if (lane == 0) before = prefix;
  }
  __syncthreads();
  uint32_t offset = before;
#pragma unroll
  for (int w = 0; w < kScanWarps; w++) offset += w < warp ? warp_sums[w] : 0;
#pragma unroll
  for (int u = 0; u < kItems / 4; u++) {
    const int64_t at = first + u * 128;
    if (kVector && at + 3 < n) {
      __stcs(reinterpret_cast<uint4*>(out + at), make_uint4(x[u][0] + offset, x[u][1] + offset, x[u][2] + offset, x[u][3] + offset));
    } else {
#pragma unroll
      for (int c = 0; c < 4; c++)
        if (at + c < n) __stcs(out + at + c, x[u][c] + offset);
    }
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
  histogram<<<unsigned(wanted < 1 ? 1 : wanted < 132 * 6 ? wanted : 132 * 6), kThreads, 0, stream>>>(counts, in, n, int(head));
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
  const auto kernel = aligned(in, 16) && aligned(out, 16) ? scan<true> : scan<false>;
  kernel<<<unsigned(scan_tiles(n)), kScanThreads, 0, stream>>>(out, in, n, words + 1, reinterpret_cast<unsigned*>(words));
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
