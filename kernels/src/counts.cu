// Histogram of bytes: a counter for every value and lane of a warp, in shared memory, so that the 32 lanes of an atomic
// always fall on 32 banks whatever the values are; the counters are added at the end, with one global atomic per value
// and block.
#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kFewThreads = 1024, kFewBlocks = 132;
constexpr int64_t kFew = int64_t(64) << 20;  // bytes

/// A word for every value and lane.
struct Table {
  uint32_t* words;
  __device__ __forceinline__ void clear() const {
    for (int i = threadIdx.x; i < 256 * 32 / 4; i += int(blockDim.x)) reinterpret_cast<uint4*>(words)[i] = make_uint4(0, 0, 0, 0);
  }
  __device__ __forceinline__ void count_byte(uint32_t byte) const { atomicAdd(words + byte * 32 + threadIdx.x % 32, 1u); }
  __device__ __forceinline__ void count(const uint4& pack) const {
#pragma unroll
    for (const uint32_t word : {pack.x, pack.y, pack.z, pack.w})
#pragma unroll
      for (int b = 0; b < 4; b++) count_byte(word >> (8 * b) & 0xff);
  }
  /// What lies before the first 16-byte boundary and behind the last whole pack, by a warp.
  __device__ __forceinline__ void count_ends(const uint8_t* in, int64_t n, int head) const {
    const int lane = threadIdx.x % 16, tail = int((n - head) % 16);
    const bool front = threadIdx.x < 16;
    if (lane < (front ? head : tail)) count_byte(in[front ? lane : n - tail + lane]);
  }
  /// The counters of a value added up, by kShares neighbouring threads.
  template <int kShares>
  __device__ __forceinline__ uint32_t sum_of_value(int value) const {
    uint32_t total = 0;
#pragma unroll 8
    for (int l = threadIdx.x % kShares; l < 32; l += kShares) total += words[value * 32 + (l + value * kShares) % 32];
#pragma unroll
    for (int d = 1; d < kShares; d *= 2) total += __shfl_xor_sync(~0u, total, d);
    return total;
  }
  template <int kThreads>
  __device__ __forceinline__ void add_to(uint32_t* counts) const {
    constexpr int kShares = kThreads / 256;  // neighbouring threads that add up a value's counters
    const int value = threadIdx.x / kShares;
    const uint32_t total = sum_of_value<kShares>(value);
    if (total && threadIdx.x % kShares == 0) atomicAdd(counts + value, total);
  }
  /// The same by 32 values a warp: to L2 that is an operation for each 128 bytes, where all blocks meet, instead of one for each 32.
  template <int kThreads>
  __device__ __forceinline__ void add_lines_to(uint32_t* counts, uint32_t (&totals)[256]) const {
    constexpr int kShares = kThreads / 256;
    const int value = threadIdx.x / kShares;
    const uint32_t total = sum_of_value<kShares>(value);
    if (threadIdx.x % kShares == 0) totals[value] = total;
    __syncthreads();
    if (threadIdx.x < 256) atomicAdd(counts + threadIdx.x, totals[threadIdx.x]);
  }
};

/// Of fewer than kFew bytes. A block's table costs as much to clear and to add up whoever shares it: a block an SM does. It asks
/// for so much shared memory that the next launch's comes when it ends, and the first quarter of what is to be counted is brought to L2 meanwhile.
/// Instructions that come once take their time: there is one loop, and strides are a constant. The next packs are asked for before those that are there
/// are counted.
__global__ void __launch_bounds__(kFewThreads, 1) histogram_few(uint32_t* counts, const uint8_t* in, int64_t n, int head) {
  constexpr int kAtOnce = 2, kStride = kFewBlocks * kFewThreads;
  __shared__ alignas(16) uint32_t words[256 * 32];
  __shared__ uint32_t totals[256];
  const Table table{words};
  const uint4* body = reinterpret_cast<const uint4*>(in + head);
  const int packs = int((n - head) / 16);
  ptx::griddepcontrol_launch_dependents();
  prefetch_share(body, packs * 4 / 128 * 128);
  table.clear();
  ptx::griddepcontrol_wait();
  __syncthreads();
  int i = int(blockIdx.x) * kFewThreads + int(threadIdx.x);
  uint4 v[kAtOnce], next[kAtOnce];
  const auto load = [&](uint4 (&to)[kAtOnce], int first) {
#pragma unroll
    for (int u = 0; u < kAtOnce; u++)
      if (first + u * kStride < packs) to[u] = body[first + u * kStride];
  };
  load(v, i);
#pragma unroll 1
  for (; i < packs; i += kAtOnce * kStride) {
    load(next, i + kAtOnce * kStride);
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) {
      if (i + u * kStride < packs) table.count(v[u]);
      v[u] = next[u];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < 32) table.count_ends(in, n, head);
  __syncthreads();
  table.add_lines_to<kFewThreads>(counts, totals);
}

/// Of more, whose code is what it was: with count_ends, and one loop behind that over four packs, counting takes 4% longer.
template <int kThreads>
__global__ void __launch_bounds__(kThreads) histogram(uint32_t* counts, const uint8_t* in, int64_t n, int head) {
  __shared__ alignas(16) uint32_t table[256 * 32];
  const uint4* body = reinterpret_cast<const uint4*>(in + head);
  const int64_t packs = (n - head) / 16, stride = int64_t(gridDim.x) * kThreads;
  ptx::griddepcontrol_launch_dependents();
  for (int i = threadIdx.x; i < 256 * 32 / 4; i += kThreads) reinterpret_cast<uint4*>(table)[i] = make_uint4(0, 0, 0, 0);
  ptx::griddepcontrol_wait();
  __syncthreads();
  uint32_t* const mine = table + threadIdx.x % 32;
  const auto count = [&](uint32_t word) {
#pragma unroll
    for (int b = 0; b < 4; b++) atomicAdd(mine + (word >> (8 * b) & 0xff) * 32, 1u);
  };
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
  Table{table}.add_to<kThreads>(counts);
}

}  // namespace

Status histogram_u8(uint32_t* counts, const uint8_t* in, int64_t n, cudaStream_t stream) {
  if (!counts || !aligned(counts, 4)) return bad("counts", "is null or misaligned");
  if (n < 0 || n > kMostBytes) return bad("n", "must be in [0, 2^47]");
  if (n == 0) return {};
  if (!in) return bad("in", "is null");
  if (Status s = apart(dense("counts", counts, 1024), {dense("in", in, n)}); !s.ok()) return s;
  const int64_t head = std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(in) % 16) % 16);
  const auto go = [&](auto kernel, int threads, int64_t most, size_t shared) {
    if (shared)
      if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return launched(e);
    const int64_t wanted = std::max<int64_t>(1, (n / 16 + threads - 1) / threads);
    return launched(launch_overlapped(kernel, std::min(wanted, most), threads, shared, stream, counts, in, n, int(head)));
  };
  return n < kFew ? go(histogram_few, kFewThreads, kFewBlocks, 85 * 1024) : go(histogram<512>, 512, sm_count() * 4, 0);
}

}  // namespace orrery::kernels
