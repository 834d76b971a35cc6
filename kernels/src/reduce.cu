// Sum of floats with the same bits every time.
//
// A fixed grid strides over the input with four independent accumulators per thread. Each block publishes its sum together with a
// flag in one word; the last block waits for the words of all, adds them in order and zeroes them again, so a workspace zeroed once
// serves every later call. It waits for blocks that come before it in the grid only, which have
// started when it starts: GPUs are seen to start blocks in this order, though CUDA does not promise it.
//
// Where there is little to read, a launch is a block an SM and asks for so much shared memory that the block of the next launch, which may
// start early, starts on an SM when this one's ends: what it then asks L2 to bring is on its way while this launch adds up its sums.
#include <algorithm>

#include "arguments.h"
#include "launch.h"
#include "published.cuh"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kBlocks = 132 * 2, kUnroll = 8;
constexpr int64_t kFew = int64_t(8) << 20;  // floats; up to so many:
constexpr int kFewThreads = 1024, kFewBlocks = 132, kFewShared = 120 * 1024;
static_assert(kBlocks <= kThreads && kFewBlocks <= kFewThreads, "the last block has a thread for each word");
using Word = Published<uint64_t>;

template <int kCount>
__device__ float block_sum(float v) {
  __shared__ float warps[kCount / 32];
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < kCount / 32 ? warps[threadIdx.x % 32] : 0.f;
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/// `head` floats come before the first 16-byte boundary.
template <int kCount, bool kOverlapped>
__global__ void __launch_bounds__(kCount) sum(float* out, const float* in, int64_t n, int head, uint64_t* words) {
  const float* body = in + head;
  const int64_t packs = (n - head) / 4, stride = int64_t(gridDim.x) * kCount;
  if constexpr (kOverlapped) {
    ptx::griddepcontrol_launch_dependents();
    prefetch_share(body, packs * 8 / 128 * 128);  // half of it: what comes before the wait is over, and no more (NOTES.md)
    ptx::griddepcontrol_wait();
  }
  float acc[4] = {};
  Pack<float> v[kUnroll];
  const auto add = [&] {
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[j] += v[u].v[j];
  };
  int64_t i = blockIdx.x * int64_t(kCount) + threadIdx.x;
  for (; !kOverlapped && i + (kUnroll - 1) * stride < packs; i += kUnroll * stride) {  // most of many
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = load_whole(body + (i + u * stride) * 4);
    add();
  }
  for (; i < packs; i += kUnroll * stride) {
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = i + u * stride < packs ? load_whole(body + (i + u * stride) * 4) : Pack<float>{};
    add();
  }
  if (blockIdx.x == 0) {
    for (int64_t k = threadIdx.x; k < head; k += kCount) acc[0] += in[k];
    for (int64_t k = head + packs * 4 + threadIdx.x; k < n; k += kCount) acc[0] += in[k];
  }
  const float mine = block_sum<kCount>((acc[0] + acc[1]) + (acc[2] + acc[3]));
  if (threadIdx.x == 0) Word::store(words + blockIdx.x, Word::kOwn | __float_as_uint(mine));
  if (blockIdx.x != gridDim.x - 1) return;
  float theirs = 0.f;
  if (threadIdx.x < gridDim.x) {
    uint64_t word;
    while ((word = Word::load(words + threadIdx.x)) < Word::kOwn) {}
    Word::store(words + threadIdx.x, 0);
    theirs = __uint_as_float(Word::sum(word));
  }
  const float total = block_sum<kCount>(theirs);
  if (threadIdx.x == 0) *out = total;
}

}  // namespace

size_t reduce_workspace() { return 256 + kBlocks * sizeof(uint64_t); }

Status reduce_sum(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (!out || !aligned(out, 4)) return bad("out", "is null or not 4-byte aligned");
  if (n < 0) return bad("n", "must not be negative");
  if (n > 0 && (!in || !aligned(in, 4))) return bad("in", "is null or not 4-byte aligned");
  if (!workspace || !aligned(workspace, 4)) return bad("workspace", "is null or not 4-byte aligned");
  const int head = int(std::min<int64_t>(n, (16 - reinterpret_cast<uintptr_t>(in) % 16) % 16 / 4));
  auto* const words = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(workspace) + 7) / 8 * 8);
  const auto blocks = [&](int threads, int64_t most) { return std::clamp<int64_t>((n / 4 + threads - 1) / threads, 1, most); };
  if (n <= kFew) {
    const auto kernel = sum<kFewThreads, true>;
    if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewShared)) return launched(e);
    return launched(launch_overlapped(kernel, blocks(kFewThreads, kFewBlocks), kFewThreads, kFewShared, stream, out, in, n, head, words));
  }
  sum<kThreads, false><<<unsigned(blocks(kThreads, kBlocks)), kThreads, 0, stream>>>(out, in, n, head, words);
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
