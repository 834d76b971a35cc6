// The largest and the smallest of an array of floats; not-a-number if one of them is. Exact, so the order of blocks does not matter: each leaves what it
// has found in the workspace, and the one that arrives last looks at all of them. Its count is zero again then.
#include <algorithm>
#include <cmath>

#include "reduce.h"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kUnroll = 4;

template <bool kMax>
__device__ __forceinline__ float better(float a, float b) {
  float r;
  if (kMax) asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  else asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

/// Of a block; `scratch` must not be used again before the next barrier.
template <bool kMax>
__device__ __forceinline__ float best_of_block(float v, float* scratch) {
#pragma unroll
  for (int d = 16; d; d /= 2) v = better<kMax>(v, __shfl_xor_sync(~0u, v, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  v = scratch[threadIdx.x % (kThreads / 32)];
#pragma unroll
  for (int d = kThreads / 64; d; d /= 2) v = better<kMax>(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

template <bool kMax>
__global__ void __launch_bounds__(kThreads) extreme(float* out, const float* in, int64_t n, int head, unsigned* arrived, float* found) {
  __shared__ float scratch[2][kThreads / 32];
  __shared__ bool last;
  const float none = kMax ? -INFINITY : INFINITY;
  const auto* const packs = reinterpret_cast<const float4*>(in + head);
  const int64_t count = (n - head) / 4, stride = int64_t(gridDim.x) * kThreads;
  const auto of_pack = [](const float4& p) { return better<kMax>(better<kMax>(p.x, p.y), better<kMax>(p.z, p.w)); };
  float v = none;
  int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < count; i += kUnroll * stride) {
    float4 p[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) p[u] = __ldcs(packs + i + u * stride);
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v = better<kMax>(v, of_pack(p[u]));
  }
  for (; i < count; i += stride) v = better<kMax>(v, of_pack(__ldcs(packs + i)));
  if (blockIdx.x == 0) {
    if (int(threadIdx.x) < head) v = better<kMax>(v, in[threadIdx.x]);
    if (head + count * 4 + threadIdx.x < n) v = better<kMax>(v, in[head + count * 4 + threadIdx.x]);
  }
  v = best_of_block<kMax>(v, scratch[0]);
  if (threadIdx.x == 0) {
    __stcg(found + blockIdx.x, v);
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  v = none;
  for (int b = threadIdx.x; b < int(gridDim.x); b += kThreads) v = better<kMax>(v, __ldcg(found + b));
  v = best_of_block<kMax>(v, scratch[1]);
  if (threadIdx.x == 0) *out = v;
}

template <bool kMax>
Status run(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (Status s = check_reduction(out, in, n, workspace); !s.ok()) return s;
  auto* const arrived = reinterpret_cast<unsigned*>(static_cast<char*>(workspace) + kSumWorkspace);
  const int64_t most = std::min<int64_t>(4 * sm_count(), kMostExtremeBlocks), wanted = (n / 4 + kThreads * kUnroll - 1) / (kThreads * kUnroll);
  const unsigned blocks = unsigned(std::max<int64_t>(1, std::min(most, wanted)));
  extreme<kMax><<<blocks, kThreads, 0, stream>>>(out, in, n, head_of(in, n), arrived, reinterpret_cast<float*>(arrived + 1));
  return launched(cudaGetLastError());
}

}  // namespace

Status reduce_max(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) { return run<true>(out, in, n, workspace, stream); }
Status reduce_min(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) { return run<false>(out, in, n, workspace, stream); }

}  // namespace orrery::kernels
