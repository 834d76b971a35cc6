// Histogram of bytes: a counter for every value and lane of a warp, in shared memory, so that the 32 lanes of an atomic
// always fall on 32 banks whatever the values are; the counters are added at the end, with one global atomic per value
// and block.
#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

/// A block's table costs as much to clear and to add up whoever shares it: where there is little to count (kFew), a block an SM does. It then asks
/// for so much shared memory that the next launch's comes when it ends, and the first quarter of what is to be counted is brought to L2 meanwhile.
template <int kThreads, bool kFew>
__global__ void __launch_bounds__(kThreads) histogram(uint32_t* counts, const uint8_t* in, int64_t n, int head) {
  __shared__ alignas(16) uint32_t table[256 * 32];
  const uint4* body = reinterpret_cast<const uint4*>(in + head);
  const int64_t packs = (n - head) / 16, stride = int64_t(gridDim.x) * kThreads;
  ptx::griddepcontrol_launch_dependents();
  if constexpr (kFew) prefetch_share(body, packs * 4 / 128 * 128);
  for (int i = threadIdx.x; i < 256 * 32 / 4; i += kThreads) reinterpret_cast<uint4*>(table)[i] = make_uint4(0, 0, 0, 0);
  ptx::griddepcontrol_wait();
  __syncthreads();
  uint32_t* const mine = table + threadIdx.x % 32;
  const auto count = [&](uint32_t word) {
#pragma unroll
    for (int b = 0; b < 4; b++) atomicAdd(mine + (word >> (8 * b) & 0xff) * 32, 1u);
  };
  int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  if constexpr (kFew) {
    constexpr int kAtOnce = 2;  // with more, what comes first is counted no sooner than what comes last
#pragma unroll 1
    for (; i < packs; i += kAtOnce * stride) {
      uint4 v[kAtOnce];
#pragma unroll
      for (int u = 0; u < kAtOnce; u++)
        if (i + u * stride < packs) v[u] = body[i + u * stride];
#pragma unroll
      for (int u = 0; u < kAtOnce; u++)
        if (i + u * stride < packs) count(v[u].x), count(v[u].y), count(v[u].z), count(v[u].w);
    }
  }
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
  constexpr int kShares = kThreads / 256;  // neighbouring threads that add up a value's counters
  const int value = threadIdx.x / kShares;
  uint32_t total = 0;
#pragma unroll 8
  for (int l = threadIdx.x % kShares; l < 32; l += kShares) total += table[value * 32 + (l + value * kShares) % 32];
#pragma unroll
  for (int d = 1; d < kShares; d *= 2) total += __shfl_xor_sync(~0u, total, d);
  if (total && threadIdx.x % kShares == 0) atomicAdd(counts + value, total);
}

}  // namespace

Status histogram_u8(uint32_t* counts, const uint8_t* in, int64_t n, cudaStream_t stream) {
  if (!counts || !aligned(counts, 4)) return bad("counts", "is null or misaligned");
  if (n < 0) return bad("n", "must not be negative");
  if (n == 0) return {};
  if (!in) return bad("in", "is null");
  const int64_t head = std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(in) % 16) % 16);
  const auto go = [&](auto kernel, int threads, int64_t most, size_t shared) {
    if (shared)
      if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared))) return launched(e);
    const int64_t wanted = std::max<int64_t>(1, (n / 16 + threads - 1) / threads);
    return launched(launch_overlapped(kernel, std::min(wanted, most), threads, shared, stream, counts, in, n, int(head)));
  };
  return n < int64_t(64) << 20 ? go(histogram<1024, true>, 1024, sm_count(), 85 * 1024) : go(histogram<512, false>, 512, sm_count() * 4, 0);
}

}  // namespace orrery::kernels
