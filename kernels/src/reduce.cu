// Sum of floats with the same bits every time.
//
// A fixed grid strides over the input with four independent accumulators per thread. Each block publishes its sum together with a
// flag in one word; a warp of the last block waits for the words of all, adds them in order and zeroes them again, so a workspace zeroed once
// serves every later call. It waits for blocks that come before it in the grid only, which have
// started when it starts: GPUs are seen to start blocks in this order, though CUDA does not promise it.
//
// Where there is little to read, a launch is a block an SM and asks for so much shared memory that the block of the next launch, which may
// start early, starts on an SM when this one's ends: what it then loads or asks L2 to bring is on its way while this launch adds up its sums. The
// last block reads nothing but what lies before and behind the whole packs, as its SM, where this launch's last waited for the others, is free last.
// Where one round of loads has all of it, instructions are what takes time: there is no loop over the input, nothing that readers do not need stands
// between its loads and its sums, and all of this runs once before the wait, without loads, so that the code has been fetched when the wait is over.
// Loads, and what asks for words of other blocks, stand in a line without branches: behind a branch one waits for the other (NOTES.md).
#include <algorithm>

#include "launch.h"
#include "published.cuh"
#include "reduce.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kBlocks = 132 * 2, kUnroll = 8;
constexpr int64_t kFew = int64_t(8) << 20;  // floats; up to so many:
constexpr int kFewThreads = 1024, kFewBlocks = 131, kFewShared = 120 * 1024;  // blocks that read
constexpr int kOnceBlocks = 128;                                              // where one round has it all: 16 MiB are whole rounds of theirs
constexpr int kRowsAhead = 3;                                                 // of a pack a thread: loaded before the wait
constexpr int kPieceAhead = 2048, kPause = 40;                                // bytes of what comes behind those, an eighth of all, that are prefetched
                                                                              // at a time; cycles until the next
constexpr int64_t kRound = int64_t(kOnceBlocks) * kFewThreads * kUnroll * 4;  // floats that it has
using Word = Published<uint64_t>;

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
  return v;
}

/// The sum of what `count` blocks publish, by a warp. Where words are missing all are asked for again at once: one after another, each would take
/// a trip to L2 of its own, which is most of what comes after the last load. Words behind the last are asked for too, as that takes no branch.
template <int kMost>
__device__ __forceinline__ float sum_of_blocks(uint64_t* words, int count) {
  constexpr int kEach = (kMost + 31) / 32;
  const int lane = threadIdx.x % 32;
  uint64_t word[kEach];
  bool there;
  do {
    there = true;
#pragma unroll
    for (int j = 0; j < kEach; j++) word[j] = Word::load_there(words + j * 32 + lane);
#pragma unroll
    for (int j = 0; j < kEach; j++) there = there & ((word[j] >= Word::kOwn) | (j * 32 + lane >= count));
  } while (!__all_sync(~0u, there));
  float sum = 0.f;
#pragma unroll
  for (int j = 0; j < kEach; j++) {
    sum += j * 32 + lane < count ? __uint_as_float(Word::sum(word[j])) : 0.f;
    Word::store(words + j * 32 + lane, 0);
  }
  return warp_sum(sum);
}
constexpr int kWords = (kBlocks + 31) / 32 * 32;  // that it touches at most

/// What lies before the first 16-byte boundary and behind the last whole pack, by a warp.
__device__ __forceinline__ float sum_of_ends(const float* in, int64_t n, int head) {
  const int lane = threadIdx.x % 32, tail = int(n - head) % 4;
  return warp_sum((lane < head ? in[lane] : 0.f) + (lane < tail ? in[n - tail + lane] : 0.f));
}

/// The sum of what the threads of a block have, in its first warp: most of it by way of shared memory, as each shuffle waits for the one before.
template <int kCount>
__device__ __forceinline__ float sum_of_block(float (&threads)[kCount], const float (&acc)[4]) {
  constexpr int kEach = kCount / 32 / 4;
  threads[threadIdx.x] = (acc[0] + acc[1]) + (acc[2] + acc[3]);
  __syncthreads();
  if (threadIdx.x >= 32) return 0.f;
  float sums[kEach];
#pragma unroll
  for (int q = 0; q < kEach; q++) {
    const float4 v = reinterpret_cast<const float4*>(threads)[q * 32 + threadIdx.x];
    sums[q] = (v.x + v.y) + (v.z + v.w);
  }
#pragma unroll
  for (int d = kEach / 2; d; d /= 2)
#pragma unroll
    for (int q = 0; q < d; q++) sums[q] += sums[q + d];
  return warp_sum(sums[0]);
}

/// A pack where i < count, else zeros; under a predicate, where compilers may branch.
__device__ __forceinline__ Pack<float> load_if(int i, int count, const float* at) {
  Pack<float> v{};
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %4, %5; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%6]; }"
               : "+f"(v.v[0]), "+f"(v.v[1]), "+f"(v.v[2]), "+f"(v.v[3])
               : "r"(i), "r"(count), "l"(at));
  return v;
}

/// Up to kRound floats behind `head`, which come before the first 16-byte boundary.
__global__ void __launch_bounds__(kFewThreads, 1) sum_once(float* out, const float* in, int64_t n, int head, uint64_t* words) {
  constexpr int kStride = kOnceBlocks * kFewThreads;
  const float* const body = in + head;
  const int last = int(gridDim.x) - 1, packs = int((n - head) / 4), i = int(blockIdx.x) * kFewThreads + int(threadIdx.x);
  const bool collects = int(blockIdx.x) == last;
  const float* mine = body + i * 4;
  asm volatile("" : "+l"(mine));  // or it is computed anew for each load
  __shared__ alignas(16) float threads[kFewThreads];
  extern __shared__ __align__(128) uint8_t scratch[];
  ptx::griddepcontrol_launch_dependents();
  if (!collects) {  // what comes before the wait is over, and no more (NOTES.md): a load brings a line to this half of L2, a prefetch to its own
#pragma unroll
    for (int u = 0; u < kRowsAhead; u++)
      if (i + u * kStride < packs) ptx::copy_async(ptx::smem_address(scratch) + (u * kFewThreads + threadIdx.x) * 16, mine + u * kStride * 4);
    if (threadIdx.x < 32 && ptx::elect_one()) {
      const char* const behind = reinterpret_cast<const char*>(body) + int64_t(kRowsAhead) * kStride * 16;
      const int bytes = min(packs / 8, packs - kRowsAhead * kStride) / 8 * 128;
#pragma unroll 1
      for (int at = int(blockIdx.x) * kPieceAhead; at < bytes; at += kOnceBlocks * kPieceAhead) {
        ptx::bulk_prefetch(behind + at, uint32_t(min(kPieceAhead, bytes - at)));
        for (const int since = clock(); clock() - since < kPause;) {}
      }
    }
  }
#pragma unroll 1
  for (int pass = 0; pass < 2; pass++) {
    if (pass) ptx::griddepcontrol_wait();
    const int left = pass && !collects ? packs - i : 0;
    Pack<float> v[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = load_if(u * kStride, left, mine + u * kStride * 4);
    float acc[4] = {};
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[j] += v[u].v[j];
    float sum = sum_of_block(threads, acc);
    if (pass) {
      if (collects) {
        if (threadIdx.x < 32) {
          const float all = sum_of_ends(in, n, head) + sum_of_blocks<kOnceBlocks>(words, last);
          if (threadIdx.x == 0) *out = all;
        }
      } else {
        if (threadIdx.x == 0) Word::store(words + blockIdx.x, Word::kOwn | __float_as_uint(sum));
        ptx::copy_async_wait_all();
      }
    }
    __syncthreads();
  }
}

/// The same of any number. kOverlapped: of few, a block an SM; where that is not named, ptxas keeps to registers for two and puts sums between the loads,
/// of which two or three are then on their way instead of eight. (With the parts of sum_once many take 4% longer: this is the code that was measured.)
template <int kCount, bool kOverlapped>
__global__ void __launch_bounds__(kCount, kOverlapped ? 1 : 0) sum(float* out, const float* in, int64_t n, int head, uint64_t* words) {
  const float* body = in + head;
  const int last = int(gridDim.x) - 1;
  const bool reads = !kOverlapped || int(blockIdx.x) < last;
  const int64_t packs = (n - head) / 4, stride = int64_t(kOverlapped ? last : last + 1) * kCount;
  if constexpr (kOverlapped) {
    ptx::griddepcontrol_launch_dependents();
    if (reads) prefetch_share(body, packs * 4 / 128 * 128);
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
  int64_t i = reads ? blockIdx.x * int64_t(kCount) + threadIdx.x : packs;
  for (; !kOverlapped && i + (kUnroll - 1) * stride < packs; i += kUnroll * stride) {  // most of many
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = load_whole(body + (i + u * stride) * 4);
    add();
  }
#pragma unroll 1
  for (; i < packs; i += kUnroll * stride) {
#pragma unroll
    for (int u = 0; u < kUnroll; u++) v[u] = i + u * stride < packs ? load_whole(body + (i + u * stride) * 4) : Pack<float>{};
    add();
  }
  if (blockIdx.x == 0) {
#pragma unroll 1
    for (int64_t k = threadIdx.x; k < head; k += kCount) acc[0] += in[k];
#pragma unroll 1
    for (int64_t k = head + packs * 4 + threadIdx.x; k < n; k += kCount) acc[0] += in[k];
  }
  __shared__ float warps[kCount / 32];
  const int lane = threadIdx.x % 32;
  const float of_warp = warp_sum((acc[0] + acc[1]) + (acc[2] + acc[3]));
  if (lane == 0) warps[threadIdx.x / 32] = of_warp;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float mine = warp_sum(lane < kCount / 32 ? warps[lane] : 0.f);
  if (int(blockIdx.x) == last) mine += sum_of_blocks<(kOverlapped ? kFewBlocks : kBlocks)>(words, last);
  if (lane != 0) return;
  if (int(blockIdx.x) == last) *out = mine;
  else Word::store(words + blockIdx.x, Word::kOwn | __float_as_uint(mine));
}

}  // namespace

static_assert(256 + kWords * sizeof(uint64_t) == kSumWorkspace);
size_t reduce_workspace() { return kSumWorkspace + kExtremeWorkspace; }

Status reduce_sum(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (Status s = check_reduction(out, in, n, workspace); !s.ok()) return s;
  const int head = head_of(in, n);
  auto* const words = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(workspace) + 7) / 8 * 8);
  const auto blocks = [&](int threads, int64_t most) { return std::clamp<int64_t>((n / 4 + threads - 1) / threads, 1, most); };
  if (n <= kFew) {
    const bool once = n - head <= kRound;
    const auto kernel = once ? sum_once : sum<kFewThreads, true>;
    if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewShared)) return launched(e);
    return launched(launch_overlapped(kernel, blocks(kFewThreads, once ? kOnceBlocks : kFewBlocks) + 1, kFewThreads, kFewShared, stream, out, in, n, head, words));
  }
  sum<kThreads, false><<<unsigned(blocks(kThreads, kBlocks)), kThreads, 0, stream>>>(out, in, n, head, words);
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
