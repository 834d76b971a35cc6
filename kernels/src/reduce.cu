// Sum of floats with the same bits every time, and the largest or smallest of them (not-a-number if one of them is).
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
#include <cmath>

#include "arguments.h"
#include "launch.h"
#include "published.cuh"
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

/// What two values become, and a value that changes none.
struct Sum {
  static constexpr float kNone = 0.f;
  __device__ static __forceinline__ float join(float a, float b) { return a + b; }
};
struct Largest {
  static constexpr float kNone = -INFINITY;
  __device__ static __forceinline__ float join(float a, float b) {
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
  }
};
struct Smallest {
  static constexpr float kNone = INFINITY;
  __device__ static __forceinline__ float join(float a, float b) {
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
  }
};

template <class Op>
__device__ __forceinline__ float of_warp(float v) {
#pragma unroll
  for (int d = 16; d; d /= 2) v = Op::join(v, __shfl_xor_sync(~0u, v, d));
  return v;
}
template <class Op>
__device__ __forceinline__ float of_four(const float (&v)[4]) {
  return Op::join(Op::join(v[0], v[1]), Op::join(v[2], v[3]));
}
template <class Op>
__device__ __forceinline__ Pack<float> no_pack() {
  Pack<float> v;
#pragma unroll
  for (float& x : v.v) x = Op::kNone;
  return v;
}

/// Of what `count` blocks publish, by a warp. Where words are missing all are asked for again at once: one after another, each would take
/// a trip to L2 of its own, which is most of what comes after the last load. Words behind the last are asked for too, as that takes no branch.
template <class Op, int kMost>
__device__ __forceinline__ float of_blocks(uint64_t* words, int count) {
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
  float found = Op::kNone;
#pragma unroll
  for (int j = 0; j < kEach; j++) {
    found = Op::join(found, j * 32 + lane < count ? __uint_as_float(Word::sum(word[j])) : Op::kNone);
    Word::store(words + j * 32 + lane, 0);
  }
  return of_warp<Op>(found);
}
constexpr int kWords = (kBlocks + 31) / 32 * 32;  // that it touches at most

/// What lies before the first 16-byte boundary and behind the last whole pack, by a warp.
template <class Op>
__device__ __forceinline__ float of_ends(const float* in, int64_t n, int head) {
  const int lane = threadIdx.x % 32, tail = int(n - head) % 4;
  return of_warp<Op>(Op::join(lane < head ? in[lane] : Op::kNone, lane < tail ? in[n - tail + lane] : Op::kNone));
}

/// Of what the threads of a block have, in its first warp: most of it by way of shared memory, as each shuffle waits for the one before.
template <class Op, int kCount>
__device__ __forceinline__ float of_block(float (&threads)[kCount], const float (&acc)[4]) {
  constexpr int kEach = kCount / 32 / 4;
  threads[threadIdx.x] = of_four<Op>(acc);
  __syncthreads();
  if (threadIdx.x >= 32) return Op::kNone;
  float sums[kEach];
#pragma unroll
  for (int q = 0; q < kEach; q++) {
    const float4 v = reinterpret_cast<const float4*>(threads)[q * 32 + threadIdx.x];
    sums[q] = Op::join(Op::join(v.x, v.y), Op::join(v.z, v.w));
  }
#pragma unroll
  for (int d = kEach / 2; d; d /= 2)
#pragma unroll
    for (int q = 0; q < d; q++) sums[q] = Op::join(sums[q], sums[q + d]);
  return of_warp<Op>(sums[0]);
}

/// A pack where i < count, else none; under a predicate, where compilers may branch.
template <class Op>
__device__ __forceinline__ Pack<float> load_if(int i, int count, const float* at) {
  Pack<float> v = no_pack<Op>();
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %4, %5; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%6]; }"
               : "+f"(v.v[0]), "+f"(v.v[1]), "+f"(v.v[2]), "+f"(v.v[3])
               : "r"(i), "r"(count), "l"(at));
  return v;
}

/// Up to kRound floats behind `head`, which come before the first 16-byte boundary.
template <class Op>
__global__ void __launch_bounds__(kFewThreads, 1) reduce_once(float* out, const float* in, int64_t n, int head, uint64_t* words) {
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
    for (int u = 0; u < kUnroll; u++) v[u] = load_if<Op>(u * kStride, left, mine + u * kStride * 4);
    float acc[4] = {Op::kNone, Op::kNone, Op::kNone, Op::kNone};
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[j] = Op::join(acc[j], v[u].v[j]);
    const float mine_all = of_block<Op>(threads, acc);
    if (pass) {
      if (collects) {
        if (threadIdx.x < 32) {
          const float all = Op::join(of_ends<Op>(in, n, head), of_blocks<Op, kOnceBlocks>(words, last));
          if (threadIdx.x == 0) *out = all;
        }
      } else {
        if (threadIdx.x == 0) Word::store(words + blockIdx.x, Word::kOwn | __float_as_uint(mine_all));
        ptx::copy_async_wait_all();
      }
    }
    __syncthreads();
  }
}

/// The same of any number. kOverlapped: of few, a block an SM; where that is not named, ptxas keeps to registers for two and puts sums between the loads,
/// of which two or three are then on their way instead of eight. (With the parts of reduce_once many take 4% longer: this is the code that was measured.)
template <class Op, int kCount, bool kOverlapped>
__global__ void __launch_bounds__(kCount, kOverlapped ? 1 : 0) reduce_all(float* out, const float* in, int64_t n, int head, uint64_t* words) {
  const float* body = in + head;
  const int last = int(gridDim.x) - 1;
  const bool reads = !kOverlapped || int(blockIdx.x) < last;
  const int64_t packs = (n - head) / 4, stride = int64_t(kOverlapped ? last : last + 1) * kCount;
  if constexpr (kOverlapped) {
    ptx::griddepcontrol_launch_dependents();
    if (reads) prefetch_share(body, packs * 4 / 128 * 128);
    ptx::griddepcontrol_wait();
  }
  float acc[4] = {Op::kNone, Op::kNone, Op::kNone, Op::kNone};
  Pack<float> v[kUnroll];
  const auto add = [&] {
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
#pragma unroll
      for (int j = 0; j < 4; j++) acc[j] = Op::join(acc[j], v[u].v[j]);
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
    for (int u = 0; u < kUnroll; u++) v[u] = i + u * stride < packs ? load_whole(body + (i + u * stride) * 4) : no_pack<Op>();
    add();
  }
  if (blockIdx.x == 0) {
#pragma unroll 1
    for (int64_t k = threadIdx.x; k < head; k += kCount) acc[0] = Op::join(acc[0], in[k]);
#pragma unroll 1
    for (int64_t k = head + packs * 4 + threadIdx.x; k < n; k += kCount) acc[0] = Op::join(acc[0], in[k]);
  }
  __shared__ float warps[kCount / 32];
  const int lane = threadIdx.x % 32;
  const float found = of_warp<Op>(of_four<Op>(acc));
  if (lane == 0) warps[threadIdx.x / 32] = found;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  float mine = of_warp<Op>(lane < kCount / 32 ? warps[lane] : Op::kNone);
  if (int(blockIdx.x) == last) mine = Op::join(mine, of_blocks<Op, (kOverlapped ? kFewBlocks : kBlocks)>(words, last));
  if (lane != 0) return;
  if (int(blockIdx.x) == last) *out = mine;
  else Word::store(words + blockIdx.x, Word::kOwn | __float_as_uint(mine));
}

constexpr size_t kReduceWorkspace = 256 + kWords * sizeof(uint64_t);  // words of 64 bits from a multiple of 8 on

Status check_reduction(const float* out, const float* in, int64_t n, const void* workspace) {
  if (!out || !aligned(out, 4)) return bad("out", "is null or not 4-byte aligned");
  if (n < 0 || n > kMostBytes / 4) return bad("n", "must be in [0, 2^45]");
  if (n > 0 && (!in || !aligned(in, 4))) return bad("in", "is null or not 4-byte aligned");
  if (!workspace || !aligned(workspace, 4)) return bad("workspace", "is null or not 4-byte aligned");
  const Extent from = dense("in", in, n * 4), to = dense("out", out, 4), work = dense("workspace", workspace, int64_t(reduce_workspace()));
  if (Status s = apart(to, {from, work}); !s.ok()) return s;
  return apart(work, {from});
}

/// Floats before the first multiple of 16 bytes.
int head_of(const float* in, int64_t n) {
  const int64_t head = int64_t((16 - reinterpret_cast<uintptr_t>(in) % 16) % 16 / 4);
  return int(n < head ? n : head);
}

template <class Op>
Status reduce(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) {
  if (Status s = check_reduction(out, in, n, workspace); !s.ok()) return s;
  const int head = head_of(in, n);
  auto* const words = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(workspace) + 7) / 8 * 8);
  const auto blocks = [&](int threads, int64_t most) { return std::clamp<int64_t>((n / 4 + threads - 1) / threads, 1, most); };
  if (n <= kFew) {
    const bool once = n - head <= kRound;
    const auto kernel = once ? reduce_once<Op> : reduce_all<Op, kFewThreads, true>;
    if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kFewShared)) return launched(e);
    return launched(launch_overlapped(kernel, blocks(kFewThreads, once ? kOnceBlocks : kFewBlocks) + 1, kFewThreads, kFewShared, stream, out, in, n, head, words));
  }
  reduce_all<Op, kThreads, false><<<unsigned(blocks(kThreads, kBlocks)), kThreads, 0, stream>>>(out, in, n, head, words);
  return launched(cudaGetLastError());
}

}  // namespace

size_t reduce_workspace() { return kReduceWorkspace; }
Status reduce_sum(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) { return reduce<Sum>(out, in, n, workspace, stream); }
Status reduce_max(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) { return reduce<Largest>(out, in, n, workspace, stream); }
Status reduce_min(float* out, const float* in, int64_t n, void* workspace, cudaStream_t stream) { return reduce<Smallest>(out, in, n, workspace, stream); }

}  // namespace orrery::kernels
