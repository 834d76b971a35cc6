// Sum of floats with the same bits every time.
//
// A fixed grid strides over the input with four independent accumulators per thread; each block leaves one partial
// sum, and the block that arrives last adds the partials in order. The arrival counter wraps to zero by itself, so
// a workspace zeroed once serves every later call.
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kUnroll = 8, kBlocks = 132 * 2;

__device__ float block_sum(float v) {
  __shared__ float warps[kThreads / 32];
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < kThreads / 32 ? warps[threadIdx.x] : 0.f;
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/// `head` floats come before the first 16-byte boundary.
__global__ void __launch_bounds__(kThreads) sum(float* out, const float* in, int64_t n, int head, float* partials,
                                                unsigned* arrived) {
  const float* body = in + head;
  const int64_t packs = (n - head) / 4, stride = int64_t(gridDim.x) * kThreads;
  float acc[4] = {};
  int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  for (; i + (kUnroll - 1) * stride < packs; i += kUnroll * stride) {
    Pack<float> v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = load_whole(body + (i + u * stride) * 4);
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[j] += v[u].v[j];
  }
  for (; i < packs; i += stride) {
    const Pack<float> v = load_whole(body + i * 4);
#pragma unroll
    for (int j = 0; j < 4; j++) acc[j] += v.v[j];
  }
  if (blockIdx.x == 0) {
    for (int64_t k = threadIdx.x; k < head; k += kThreads) acc[0] += in[k];
    for (int64_t k = head + packs * 4 + threadIdx.x; k < n; k += kThreads) acc[0] += in[k];
  }
  const float mine = block_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partials[blockIdx.x] = mine;
    __threadfence();
    last = atomicInc(arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  const float total = block_sum(threadIdx.x < gridDim.x ? __ldcg(partials + threadIdx.x) : 0.f);
  if (threadIdx.x == 0) *out = total;
}

}  // namespace

size_t reduce_workspace() { return 256 + kBlocks * sizeof(float); }

Status reduce_sum(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (!out || !aligned(out, 4)) return bad("out", "is null or not 4-byte aligned");
  if (n < 0) return bad("n", "must not be negative");
  if (n > 0 && (!in || !aligned(in, 4))) return bad("in", "is null or not 4-byte aligned");
  if (!workspace || !aligned(workspace, 4)) return bad("workspace", "is null or not 4-byte aligned");
  const int head = int(std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(in) % 16) % 16 / 4));
  const int64_t wanted = (n / 4 + kThreads - 1) / kThreads;
  const unsigned blocks = unsigned(wanted < 1 ? 1 : wanted < kBlocks ? wanted : kBlocks);
  sum<<<blocks, kThreads, 0, stream>>>(out, in, n, head, static_cast<float*>(workspace) + 64,
                                       static_cast<unsigned*>(workspace));
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
