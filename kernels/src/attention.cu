// Attention forward: softmax(scale Q K') V by tiles of 128 queries, for head dimensions 64 and 128; or sigmoid(...) V, which
// has no maximum to follow and nothing to rescale; masks: causal, and causal within a window; sequences of one length, or of
// their own lengths one after the other.
//
// A persistent CTA has a producer thread and two consumer warpgroups of 64 queries each. Keys and values arrive by TMA
// in tiles of 128 or 160, each in a ring of its own, from the last tile to the first, so that the masked tiles come first.
// In a cluster of two, the CTAs take neighbouring tiles of queries of one head: each loads half of every tile of keys and
// values and multicasts it, which halves what is read from L2. Queries have two buffers where there is room, so that one warpgroup starts its next tile while the other stores its last.
// Two overlaps hide the exponentials, which the tensor core must not wait for:
//
//   within a warpgroup    S = Q K'(next) and O += P V(this) are issued together; the softmax of the next tile runs while
//                         O += P V is still multiplying.
//   between warpgroups    `turn` barriers let one issue its products while the other is at its softmax.
//
// P never leaves the registers: the accumulator layout of S is the operand layout of A, two columns to a register.
//
// Shared memory: Q twice, [slab][128 rows][128 bytes] | K stages, likewise | V stages, likewise: slabs of 64 of dim.
// The finished O leaves through the rows of Q that the warp itself has read.
//
// Source of the schedule: Shah et al., "FlashAttention-3" (2024); this is an implementation of its own.
#include "attention_params.h"
#include "attention_weights.cuh"
#include "attention_work.cuh"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 384;

enum class Mask { kNone, kCausal, kWindow };

template <class T_, int kDim_, Mask kMask_, bool kSigmoid_, int kCluster_, bool kLengths_ = false>
struct Shape {
  using T = T_;
  static constexpr int kCluster = kCluster_;
  static constexpr bool kLengths = kLengths_;  // sequences of their own lengths
  static constexpr int kDim = kDim_, kSlabs = kDim / 64, kStages = 2;
  static constexpr bool kCausal = kMask_ != Mask::kNone, kWindow = kMask_ == Mask::kWindow, kSigmoid = kSigmoid_;
  // Without a mask the keys come 160 at a time: fewer turns and rescalings, as many as shared memory allows.
  static constexpr int kKeys = attention_keys(kCausal);
  static constexpr int kSlabQ = kQueries * 128, kSlabKv = kKeys * 128;
  static constexpr int kBytesQ = kSlabs * kSlabQ, kBytesKv = kSlabs * kSlabKv;
  static constexpr int kBuffersQ = 2 * kBytesQ + 2 * kStages * kBytesKv + 1280 <= 232448 ? 2 : 1;
  static constexpr int kShared = kBuffersQ * kBytesQ + 2 * kStages * kBytesKv + 1024 + 256;
};

template <class S>
struct Shared {
  uint32_t q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty;
  __device__ __forceinline__ explicit Shared(uint32_t raw) {
    q = (raw + 1023) / 1024 * 1024;
    k = q + S::kBuffersQ * S::kBytesQ;
    v = k + S::kStages * S::kBytesKv;
    q_full = v + S::kStages * S::kBytesKv;
    q_empty = q_full + 16;
    k_full = q_full + 32, k_empty = k_full + 8 * S::kStages;
    v_full = k_empty + 8 * S::kStages, v_empty = v_full + 8 * S::kStages;
  }
  __device__ __forceinline__ void init() const {
    for (int s = 0; s < 2; s++) ptx::mbarrier_init(q_full + 8 * s, 1), ptx::mbarrier_init(q_empty + 8 * s, 8);
    for (int s = 0; s < S::kStages; s++) {
      ptx::mbarrier_init(k_full + 8 * s, 1), ptx::mbarrier_init(v_full + 8 * s, 1);
      ptx::mbarrier_init(k_empty + 8 * s, 8 * S::kCluster), ptx::mbarrier_init(v_empty + 8 * s, 8 * S::kCluster);
    }
    ptx::fence_mbarrier_init();
  }
};

struct Place {
  uint32_t stage = 0, phase = 0;
  template <int kStages>
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

template <class S, int kRows>
__device__ __forceinline__ void load_tile(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row, int head,
                                          int batch, uint64_t hint) {
  ptx::mbarrier_arrive_expect_tx(bar, S::kSlabs * kRows * 128);
#pragma unroll
  for (int slab = 0; slab < S::kSlabs; slab++)
    ptx::tma_load_4d(dst + slab * kRows * 128, map, bar, slab * 64, row, head, batch, hint);
}

/// This CTA's share of a tile of keys or values, to all of the cluster.
template <class S>
__device__ __forceinline__ void load_shared_tile(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row, int head, int batch) {
  if constexpr (S::kCluster == 1) {
    load_tile<S, S::kKeys>(map, dst, bar, row, head, batch, ptx::kEvictLast);
  } else {
    constexpr int kRows = S::kKeys / S::kCluster;
    const int first = int(blockIdx.x) % S::kCluster * kRows;
    ptx::mbarrier_arrive_expect_tx(bar, S::kBytesKv);
#pragma unroll
    for (int slab = 0; slab < S::kSlabs; slab++)
      ptx::tma_load_4d_multicast(dst + slab * S::kSlabKv + first * 128, map, bar, slab * 64, row + first, head, batch,
                                 (1 << S::kCluster) - 1, ptx::kEvictLast);
  }
}

/// Gives a stage back to every producer that writes into it; lane i of a warp tells CTA i.
template <class S>
__device__ __forceinline__ void release(uint32_t bar) {
  if (threadIdx.x % 32 >= S::kCluster) return;
  if constexpr (S::kCluster == 1) ptx::mbarrier_arrive(bar);
  else ptx::mbarrier_arrive_cluster(ptx::mapa(bar, threadIdx.x % 32));
}

template <class S>
__device__ __forceinline__ void produce(const AttentionParams& p, const Shared<S>& shared) {
  Place q, k, v;
  for (int i = 0;; i++) {
    const Work w = work_at<S>(p, i);
    if (w.key_tiles == kNoMore) break;
    if (w.key_tiles == kSkip) continue;
    const int kv_head = w.head / p.heads_per_kv;
    const uint32_t q_full = shared.q_full + 8 * q.stage;
    ptx::mbarrier_wait(shared.q_empty + 8 * q.stage, q.phase ^ 1);
    const int batch = S::kLengths ? 0 : w.batch;
    load_tile<S, kQueries>(&p.q, shared.q + q.stage * S::kBytesQ, q_full, w.q_base + w.row0, w.head, batch, ptx::kEvictFirst);
    q.template next<S::kBuffersQ>();
    for (int j = w.key_tiles - 1; j >= w.first - 1 && w.key_tiles > w.first; j--) {  // keys run one tile ahead of values
      if (j >= w.first) {
        ptx::mbarrier_wait(shared.k_empty + 8 * k.stage, k.phase ^ 1);
        load_shared_tile<S>(&p.k, shared.k + k.stage * S::kBytesKv, shared.k_full + 8 * k.stage, w.k_base + j * S::kKeys, kv_head, batch);
        k.template next<S::kStages>();
      }
      if (j + 1 < w.key_tiles) {
        ptx::mbarrier_wait(shared.v_empty + 8 * v.stage, v.phase ^ 1);
        load_shared_tile<S>(&p.v, shared.v + v.stage * S::kBytesKv, shared.v_full + 8 * v.stage, w.k_base + (j + 1) * S::kKeys, kv_head, batch);
        v.template next<S::kStages>();
      }
    }
  }
}

template <class S>
__device__ __forceinline__ void issue_scores(float (&s)[S::kKeys / 2], uint32_t q, uint32_t k) {
  const ptx::Descriptor dq = ptx::descriptor_k_major(q), dk = ptx::descriptor_k_major(k);
#pragma unroll
  for (int j = 0; j < S::kDim / 16; j++)
    wgmma_ss<typename S::T, typename S::T, S::kKeys, 0, 0>(
        s, dq.at(j / 4 * S::kSlabQ + j % 4 * ptx::kStepKMajor), dk.at(j / 4 * S::kSlabKv + j % 4 * ptx::kStepKMajor), j > 0);
  ptx::wgmma_commit_group();
}

template <class S>
__device__ __forceinline__ void issue_values(float (&o)[S::kDim / 2], const uint32_t (&probabilities)[S::kKeys / 16][4],
                                             uint32_t v) {
  const ptx::Descriptor dv = ptx::descriptor_mn_major(v, S::kKeys);
#pragma unroll
  for (int j = 0; j < S::kKeys / 16; j++)
    wgmma_rs<typename S::T, S::kDim, 1>(o, probabilities[j], dv.at(j * ptx::kStepMnMajor), 1);
  ptx::wgmma_commit_group();
}

/// Those of a warp's 16 rows of O in shared memory that are the sequence's, 16 bytes a lane.
template <class S>
__device__ __forceinline__ void store_rows(const AttentionParams& p, const Work& w, uint32_t from, int row) {
  constexpr int kPieces = S::kDim / 8;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 16 * kPieces; i += 32) {
    const int r = i / kPieces, piece = i % kPieces;
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from + piece / 8 * S::kSlabQ + r * 128 + (piece % 8 * 16 ^ r % 8 * 16))
                 : "memory");
    if (row + r < w.seq_q)
      *reinterpret_cast<uint4*>(static_cast<typename S::T*>(p.rows_out) + (w.q_base + row + r) * p.out_seq + w.head * p.out_head + piece * 8) = v;
  }
  __syncwarp();
}

/// Stores the warp's 16 rows of O through its rows of Q, and their log-sum-exp.
template <class S>
__device__ __forceinline__ void finish(const AttentionParams& p, const Work& w, float (&o)[S::kDim / 2],
                                       const Softmax& softmax, uint32_t q_rows, int row) {
  const int lane = threadIdx.x % 32;
  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = softmax.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[h] = S::kSigmoid ? 1.f : sum > 0.f ? 1.f / sum : 0.f;
    const int query = row + lane / 4 + 8 * h;
    if (p.lse && lane % 4 == 0 && query < queries_of<S>(p, w))
      p.lse[S::kLengths ? int64_t(w.head) * p.q_rows + w.q_base + query : (int64_t(w.batch) * p.heads + w.head) * p.seq_q + query] =
          sum > 0.f ? (softmax.top[h] * p.scale_log2 + __log2f(sum)) * 0.69314718f : -INFINITY;
  }
  constexpr bool kBf16 = std::is_same_v<typename S::T, __nv_bfloat16>;
  const uint32_t line = lane % 8 + 8 * (lane / 8 % 2);
#pragma unroll
  for (int j = 0; j < S::kDim / 16; j++) {
    uint32_t r[4];
#pragma unroll
    for (int q = 0; q < 4; q++) r[q] = pack_pair(o[j * 8 + q * 2] * inverse[q % 2], o[j * 8 + q * 2 + 1] * inverse[q % 2], kBf16);
    const uint32_t column = (j % 4 * 32 + lane / 16 * 16) ^ (line % 8 * 16);
    ptx::stmatrix_x4(q_rows + j / 4 * S::kSlabQ + line * 128 + column, r[0], r[1], r[2], r[3]);
  }
  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (S::kLengths && row + 16 > w.seq_q) {  // the rows beyond are another sequence's
    store_rows<S>(p, w, q_rows, row);
    return;
  }
  if (lane == 0) {
    if (row < p.seq_q)
      for (int slab = 0; slab < S::kSlabs; slab++)
        ptx::tma_store_4d(&p.out, q_rows + slab * S::kSlabQ, slab * 64, w.q_base + row, w.head, S::kLengths ? 0 : w.batch);
    ptx::bulk_commit_group();
    ptx::bulk_wait_group_read<0>();
  }
  __syncwarp();
}

/// One tile of queries: leaves the warpgroup's O (zeros on entry) and softmax state complete.
template <class S>
__device__ __forceinline__ void attend(const AttentionParams& p, const Shared<S>& shared, const Work& w, int group, uint32_t q, Place& k,
                                       Place& v, float (&o)[S::kDim / 2], Softmax& softmax) {
  const int row = w.row0 + group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
  int limit[2];
#pragma unroll
  for (int h = 0; h < 2; h++) limit[h] = S::kCausal ? min(keys_of<S>(p, w), row + 8 * h + offset_of<S>(p, w) + 1) : keys_of<S>(p, w);
  // Keys below this are seen by every row of the warpgroup.
  const int clear = S::kCausal ? min(keys_of<S>(p, w), w.row0 + group * 64 + offset_of<S>(p, w) + 1) : keys_of<S>(p, w);
  // Likewise from below: the thread's first row's, and the first key that every row sees.
  const int limit_low = row + p.offset - p.window + 1, clear_low = w.row0 + group * 64 + 63 + p.offset - p.window + 1;
  constexpr int kKeys = S::kKeys;
  float s[kKeys / 2], rescale[2];
  uint32_t probabilities[kKeys / 16][4];

  // Weights of a tile of keys; where there is no maximum to follow, outputs need no rescaling.
  const auto weigh = [&](int tile) {
    if ((tile + 1) * kKeys > clear) hide(s, tile * kKeys, limit);
    if constexpr (S::kWindow) {
      const int low[2] = {limit_low, limit_low + 8};
      if (tile * kKeys < clear_low) hide_below(s, tile * kKeys, low);
    }
    if constexpr (S::kSigmoid) take_sigmoid(s, p.scale_log2, p.bias);
    else softmax.take(s, p.scale_log2, rescale);
  };
  int j = w.key_tiles - 1;
  ptx::mbarrier_wait(shared.k_full + 8 * k.stage, k.phase);
  ptx::bar_sync(2 + group, 256);
  ptx::wgmma_fence();
  issue_scores<S>(s, q, shared.k + k.stage * S::kBytesKv);
  ptx::bar_arrive(3 - group, 256);
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(s);
  release<S>(shared.k_empty + 8 * k.stage);
  k.template next<S::kStages>();
  weigh(j);
  pack<typename S::T>(probabilities, s);

  for (j--; j >= w.first; j--) {
    ptx::mbarrier_wait(shared.k_full + 8 * k.stage, k.phase);
    ptx::bar_sync(2 + group, 256);
    ptx::wgmma_fence();
    issue_scores<S>(s, q, shared.k + k.stage * S::kBytesKv);
    ptx::mbarrier_wait(shared.v_full + 8 * v.stage, v.phase);
    ptx::wgmma_fence();
    issue_values<S>(o, probabilities, shared.v + v.stage * S::kBytesKv);
    ptx::bar_arrive(3 - group, 256);
    ptx::wgmma_wait_group<1>();
    ptx::wgmma_pin(s);
    release<S>(shared.k_empty + 8 * k.stage);
    k.template next<S::kStages>();
    weigh(j);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(o);
    release<S>(shared.v_empty + 8 * v.stage);
    v.template next<S::kStages>();
#pragma unroll
    for (int i = 0; i < S::kDim / 2 && !S::kSigmoid; i++) o[i] *= rescale[i / 2 % 2];
    pack<typename S::T>(probabilities, s);
  }
  ptx::mbarrier_wait(shared.v_full + 8 * v.stage, v.phase);
  ptx::wgmma_fence();
  issue_values<S>(o, probabilities, shared.v + v.stage * S::kBytesKv);
  ptx::wgmma_wait_group<0>();
  ptx::wgmma_pin(o);
  release<S>(shared.v_empty + 8 * v.stage);
  v.template next<S::kStages>();
}

template <class S>
__device__ __forceinline__ void consume(const AttentionParams& p, const Shared<S>& shared) {
  const int group = threadIdx.x / 128 - 1, warp_row = group * 64 + threadIdx.x % 128 / 32 * 16;
  Place q, k, v;
  if (group == 1) ptx::bar_arrive(2, 256);  // the first turn is group 0's
  for (int i = 0;; i++) {
    const Work w = work_at<S>(p, i);
    if (w.key_tiles == kNoMore) break;
    if (w.key_tiles == kSkip) continue;
    float o[S::kDim / 2];
    Softmax softmax;
    const uint32_t queries = shared.q + q.stage * S::kBytesQ;
    ptx::mbarrier_wait(shared.q_full + 8 * q.stage, q.phase);
#pragma unroll
    for (float& x : o) x = 0.f;
    if (w.key_tiles > w.first) attend<S>(p, shared, w, group, queries + group * 64 * 128, k, v, o, softmax);  // else the queries see no key
    finish<S>(p, w, o, softmax, queries + warp_row * 128, w.row0 + warp_row);
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.q_empty + 8 * q.stage);
    q.template next<S::kBuffersQ>();
  }
  if (group == 0) ptx::bar_sync(2, 256);  // takes the arrival that nobody waits for
}

template <class S>
__global__ void __launch_bounds__(kThreads, 1) attention(const __grid_constant__ AttentionParams p) {
  extern __shared__ uint8_t raw[];
  const Shared<S> shared(ptx::smem_address(raw));
  if (threadIdx.x == 0) {
    ptx::prefetch_tensormap(&p.q);
    ptx::prefetch_tensormap(&p.k);
    ptx::prefetch_tensormap(&p.v);
    shared.init();
  }
  __syncthreads();
  if (S::kCluster > 1) ptx::cluster_sync();
  ptx::griddepcontrol_launch_dependents();
  ptx::griddepcontrol_wait();
  if (threadIdx.x < 128) {
    ptx::setmaxnreg_dec<24>();
    if (threadIdx.x == 0) produce<S>(p, shared);
    __syncwarp();
  } else {
    ptx::setmaxnreg_inc<240>();
    consume<S>(p, shared);
  }
  if (S::kCluster > 1) ptx::cluster_sync();  // a CTA must not end while its peer may write to it
}

template <class S>
cudaError_t launch(const AttentionParams& p, int blocks, cudaStream_t stream) {
  const auto kernel = attention<S>;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared)) return e;
  cudaLaunchAttribute attribute[2];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  attribute[1].id = cudaLaunchAttributeClusterDimension;
  attribute[1].val.clusterDim = {S::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(kThreads), config.dynamicSmemBytes = S::kShared, config.stream = stream;
  config.attrs = attribute, config.numAttrs = S::kCluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <class T, int kDim, bool kSigmoid>
cudaError_t launch_dim(const AttentionParams& p, bool causal, int blocks, cudaStream_t stream) {
  if constexpr (!kSigmoid)
    if (p.q_starts)
      return causal ? launch<Shape<T, kDim, Mask::kCausal, false, 1, true>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, false, 1, true>>(p, blocks, stream);
  if constexpr (!kSigmoid)
    if (p.window > 0)
      return p.cluster == 2 ? launch<Shape<T, kDim, Mask::kWindow, false, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kWindow, false, 1>>(p, blocks, stream);
  if (p.cluster == 2)
    return causal ? launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 2>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, kSigmoid, 2>>(p, blocks, stream);
  return causal ? launch<Shape<T, kDim, Mask::kCausal, kSigmoid, 1>>(p, blocks, stream) : launch<Shape<T, kDim, Mask::kNone, kSigmoid, 1>>(p, blocks, stream);
}

template <class T>
cudaError_t launch_typed(const AttentionParams& p, int dim, bool causal, bool sigmoid, int blocks, cudaStream_t stream) {
  if (dim == 64) return sigmoid ? launch_dim<T, 64, true>(p, causal, blocks, stream) : launch_dim<T, 64, false>(p, causal, blocks, stream);
  return sigmoid ? launch_dim<T, 128, true>(p, causal, blocks, stream) : launch_dim<T, 128, false>(p, causal, blocks, stream);
}

}  // namespace

cudaError_t launch_attention(const AttentionParams& p, DType dtype, int dim, bool causal, bool sigmoid, int blocks,
                             cudaStream_t stream) {
  return dtype == DType::kBF16 ? launch_typed<__nv_bfloat16>(p, dim, causal, sigmoid, blocks, stream)
                               : launch_typed<__half>(p, dim, causal, sigmoid, blocks, stream);
}

}  // namespace orrery::kernels
