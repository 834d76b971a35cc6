// Attention backward for softmax, bf16: from q, k, v, out, lse and the gradient of out to those of q, k and v.
//
// A CTA has a tile of 128 keys of one head of keys and goes over all queries that see them, 64 at a time, for each of the
// heads that share it. Two consumer warpgroups have 64 keys each; everything is computed with keys down and queries across:
//
//   S' = K Q'           P' = exp(scale S' - lse)          dV += P' dO     (P' from registers)
//   dP' = V dO'         dS' = P' (dP' - delta)            dK += dS' Q     (dS' from registers)
//                                                         dQ += dS K      (dS' through shared memory, both halves)
//
// where delta = sum of out dO over a row, made by a kernel ahead. K, V, dK and dV stay: a CTA stores its dK and dV once. dQ
// belongs to all CTAs of a head: each warpgroup has half of its columns and adds them to f32 sums in the workspace by a bulk
// reduction, in the order of its registers, [16 bytes of every thread][thread]; a kernel behind turns the sums into bf16. The
// order of those additions is that of time, so the last bits of dQ differ from run to run.
//
// Shared memory: K, V [slab][128 rows][128 bytes] | Q twice, dO twice [slab][64 rows][128 bytes] | dS' twice [128 keys][64
// queries] | dQ, 16 bytes of every consumer thread a line | lse and delta, twice.
// Source of the order of products: Shah et al., "FlashAttention-3" (2024); this is an implementation of its own.
#include "attention_backward.h"
#include "attention_weights.cuh"
#include "ptx.cuh"
#include "roles.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {
namespace {

using T = __nv_bfloat16;
constexpr int kThreads = 384, kRows = kBackwardQueries, kKeys = kBackwardKeys;

template <int kDim_>
struct Shape {
  static constexpr int kDim = kDim_, kSlabs = kDim / 64, kHalf = kDim / 2;  // kHalf: columns of dQ of a warpgroup
  static constexpr int kSlabQ = kRows * 128, kSlabK = kKeys * 128;
  static constexpr int kBytesQ = kSlabs * kSlabQ, kBytesK = kSlabs * kSlabK, kBytesS = kKeys * 128, kBytesSums = kRows * kDim * 4;
  static constexpr int kShared = 1024 + 2 * kBytesK + 4 * kBytesQ + 2 * kBytesS + kBytesSums + 4 * kRows * 4 + 128;
  static_assert(kShared <= 232448);
};

template <class S>
struct Shared {
  uint32_t k, v, q, d_out, ds, sums, lse2, delta, kv_full, q_full, q_empty, o_full, o_empty;
  __device__ __forceinline__ explicit Shared(uint32_t raw) {
    k = (raw + 1023) / 1024 * 1024, v = k + S::kBytesK, q = v + S::kBytesK, d_out = q + 2 * S::kBytesQ, ds = d_out + 2 * S::kBytesQ;
    sums = ds + 2 * S::kBytesS, lse2 = sums + S::kBytesSums, delta = lse2 + 2 * kRows * 4, kv_full = delta + 2 * kRows * 4;
    q_full = kv_full + 8, q_empty = q_full + 16, o_full = q_empty + 16, o_empty = o_full + 16;
  }
  __device__ __forceinline__ void init() const {
    ptx::mbarrier_init(kv_full, 1);
    for (int s = 0; s < 2; s++) {
      ptx::mbarrier_init(q_full + 8 * s, 1), ptx::mbarrier_init(o_full + 8 * s, 1);
      ptx::mbarrier_init(q_empty + 8 * s, 8), ptx::mbarrier_init(o_empty + 8 * s, 8);
    }
    ptx::fence_mbarrier_init();
  }
};

/// What this CTA does.
struct Task {
  int key0, kv_head, batch, first;  // first: tile of queries
  __device__ __forceinline__ explicit Task(const BackwardParams& p) {
    const int head = blockIdx.x / p.k_tiles, tile = blockIdx.x - head * p.k_tiles, kv_heads = p.heads / p.heads_per_kv;
    key0 = tile * kKeys, batch = head / kv_heads, kv_head = head - batch * kv_heads;
    first = p.causal ? min(p.q_tiles, max(0, key0 - p.offset) / kRows) : 0;
  }
  /// Where the numbers of a tile of queries lie in the workspace, in tiles.
  __device__ __forceinline__ int64_t place(const BackwardParams& p, int in_group, int tile) const {
    return (int64_t(batch) * p.heads + kv_head * p.heads_per_kv + in_group) * p.q_tiles + tile;
  }
};

template <class S, int kCount>
__device__ __forceinline__ void load_slabs(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row, int head, int batch) {
#pragma unroll
  for (int slab = 0; slab < S::kSlabs; slab++) ptx::tma_load_4d(dst + slab * kCount * 128, map, bar, slab * 64, row, head, batch, ptx::kEvictNormal);
}

template <class S>
__device__ __forceinline__ void produce(const BackwardParams& p, const Shared<S>& shared) {
  const Task task(p);
  ptx::mbarrier_arrive_expect_tx(shared.kv_full, 2 * S::kBytesK);
  load_slabs<S, kKeys>(&p.k, shared.k, shared.kv_full, task.key0, task.kv_head, task.batch);
  load_slabs<S, kKeys>(&p.v, shared.v, shared.kv_full, task.key0, task.kv_head, task.batch);
  int stage = 0, phase = 0;
  for (int in_group = 0; in_group < p.heads_per_kv; in_group++)
    for (int tile = task.first; tile < p.q_tiles; tile++) {
      const int head = task.kv_head * p.heads_per_kv + in_group;
      const int64_t at = task.place(p, in_group, tile) * kRows;
      ptx::mbarrier_wait(shared.q_empty + 8 * stage, phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(shared.q_full + 8 * stage, S::kBytesQ + kRows * 4);
      load_slabs<S, kRows>(&p.q, shared.q + stage * S::kBytesQ, shared.q_full + 8 * stage, tile * kRows, head, task.batch);
      ptx::bulk_load(shared.lse2 + stage * kRows * 4, p.lse2 + at, kRows * 4, shared.q_full + 8 * stage);
      ptx::mbarrier_wait(shared.o_empty + 8 * stage, phase ^ 1);
      ptx::mbarrier_arrive_expect_tx(shared.o_full + 8 * stage, S::kBytesQ + kRows * 4);
      load_slabs<S, kRows>(&p.d_out, shared.d_out + stage * S::kBytesQ, shared.o_full + 8 * stage, tile * kRows, head, task.batch);
      ptx::bulk_load(shared.delta + stage * kRows * 4, p.delta + at, kRows * 4, shared.o_full + 8 * stage);
      if (++stage == 2) stage = 0, phase ^= 1;
    }
}

/// out = A B' of a warpgroup's 64 rows of A and a tile's 64 rows of B, both K-major.
template <class S>
__device__ __forceinline__ void issue_across(float (&out)[kRows / 2], uint32_t a, uint32_t b) {
  const ptx::Descriptor da = ptx::descriptor_k_major(a), db = ptx::descriptor_k_major(b);
#pragma unroll
  for (int j = 0; j < S::kDim / 16; j++)
    wgmma_ss<T, T, kRows, 0, 0>(out, da.at(j / 4 * S::kSlabK + j % 4 * ptx::kStepKMajor), db.at(j / 4 * S::kSlabQ + j % 4 * ptx::kStepKMajor), j > 0);
  ptx::wgmma_commit_group();
}

/// sum += A B, A 64 keys by 64 queries in registers, B a tile of queries.
template <class S>
__device__ __forceinline__ void issue_down(float (&sum)[S::kDim / 2], const uint32_t (&a)[kRows / 16][4], uint32_t b) {
  const ptx::Descriptor db = ptx::descriptor_mn_major(b, kRows);
#pragma unroll
  for (int j = 0; j < kRows / 16; j++) wgmma_rs<T, S::kDim, 1>(sum, a[j], db.at(j * ptx::kStepMnMajor), 1);
  ptx::wgmma_commit_group();
}

/// This warpgroup's columns of dS K.
template <class S>
__device__ __forceinline__ void issue_queries(float (&out)[S::kHalf / 2], uint32_t ds, uint32_t k, int group) {
  const ptx::Descriptor da = ptx::descriptor_mn_major(ds, kKeys), db = ptx::descriptor_mn_major(k + (S::kDim == 128 ? group * S::kSlabK : group * 64), kKeys);
#pragma unroll
  for (int j = 0; j < kKeys / 16; j++) wgmma_ss<T, T, S::kHalf, 1, 1>(out, da.at(j * ptx::kStepMnMajor), db.at(j * ptx::kStepMnMajor), j > 0);
  ptx::wgmma_commit_group();
}

__device__ __forceinline__ float2 load_pair(uint32_t at) {
  float2 v;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
  return v;
}

/// Leaves 16 rows of keys by kColumns / 8 pieces of 16 bytes in the 128-byte swizzle; to: the warp's first row.
template <int kColumns, int kSlab>
__device__ __forceinline__ void leave_rows(const uint32_t (&v)[kColumns / 16][4], uint32_t to) {
  const uint32_t lane = threadIdx.x % 32, line = lane % 16;
#pragma unroll
  for (int j = 0; j < kColumns / 16; j++)
    ptx::stmatrix_x4<false>(to + j / 4 * kSlab + line * 128 + ((j % 4 * 32 + lane / 16 * 16) ^ (line % 8 * 16)), v[j][0], v[j][1], v[j][2], v[j][3]);
}

/// Adds dQ of this warpgroup to the sums of the tile of queries.
template <class S>
__device__ __forceinline__ void add_queries(const float (&dq)[S::kHalf / 2], uint32_t staging, float* to, int group) {
  const int thread = threadIdx.x % 128;
  if (thread == 0) ptx::bulk_wait_group_read<0>();
  ptx::bar_sync(4 + group, 128);
#pragma unroll
  for (int i = 0; i < S::kHalf / 8; i++)
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(staging + (i * 128 + thread) * 16), "f"(dq[4 * i]), "f"(dq[4 * i + 1]),
                 "f"(dq[4 * i + 2]), "f"(dq[4 * i + 3])
                 : "memory");
  ptx::fence_proxy_async_shared();
  ptx::bar_sync(4 + group, 128);
  if (thread == 0) {
    ptx::bulk_add_f32(to, staging, S::kBytesSums / 2);
    ptx::bulk_commit_group();
  }
}

/// Stores a warpgroup's gradient through the rows of K or V that it has multiplied; everybody is done with those.
template <class S>
__device__ __forceinline__ void store_keys(const BackwardParams& p, const Task& task, const CUtensorMap* map, float (&d)[S::kDim / 2], float scale,
                                           uint32_t rows) {
  uint32_t packed[S::kDim / 16][4];
#pragma unroll
  for (int i = 0; i < S::kDim / 2; i++) d[i] *= scale;
  pack<T>(packed, d);
  const int row = (threadIdx.x / 32 - 4) * 16;  // of the consumers' 128
  leave_rows<S::kDim, S::kSlabK>(packed, rows + row * 128);
  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    if (task.key0 + row < p.seq_k)
      for (int slab = 0; slab < S::kSlabs; slab++) ptx::tma_store_4d(map, rows + row * 128 + slab * S::kSlabK, slab * 64, task.key0 + row, task.kv_head, task.batch);
    ptx::bulk_commit_group();
  }
}

template <class S>
__device__ __forceinline__ void consume(const BackwardParams& p, const Shared<S>& shared) {
  const Task task(p);
  const int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
  const uint32_t keys = group * 64 * 128, staging = shared.sums + group * (S::kBytesSums / 2);
  const int key = task.key0 + warp * 16 + lane / 4;  // of the thread's first row
  // Queries below this do not see the row's key; a key that is not there is seen by none.
  int low[2];
#pragma unroll
  for (int h = 0; h < 2; h++) low[h] = key + 8 * h >= p.seq_k ? 1 << 30 : p.causal ? key + 8 * h - p.offset : 0;
  const int clear = task.key0 + kKeys > p.seq_k ? 1 << 30 : p.causal ? task.key0 + kKeys - 1 - p.offset : 0;
  float dk[S::kDim / 2], dv[S::kDim / 2];
#pragma unroll
  for (int i = 0; i < S::kDim / 2; i++) dk[i] = 0.f, dv[i] = 0.f;
  ptx::mbarrier_wait(shared.kv_full, 0);
  int stage = 0, phase = 0;
  for (int in_group = 0; in_group < p.heads_per_kv; in_group++)
    for (int tile = task.first; tile < p.q_tiles; tile++) {
      const uint32_t q = shared.q + stage * S::kBytesQ, d_out = shared.d_out + stage * S::kBytesQ, ds = shared.ds + stage * S::kBytesS;
      float s[kRows / 2], dp[kRows / 2], dq[S::kHalf / 2];
      uint32_t packed[kRows / 16][4], packed_ds[kRows / 16][4];
      ptx::mbarrier_wait(shared.q_full + 8 * stage, phase);
      ptx::wgmma_fence();
      issue_across<S>(s, shared.k + keys, q);
      ptx::mbarrier_wait(shared.o_full + 8 * stage, phase);
      issue_across<S>(dp, shared.v + keys, d_out);
      ptx::wgmma_wait_group<1>();
      ptx::wgmma_pin(s);
      if (tile * kRows < clear) hide_below(s, tile * kRows, low);
#pragma unroll
      for (int j = 0; j < kRows / 8; j++) {
        const float2 l = load_pair(shared.lse2 + stage * kRows * 4 + (j * 8 + lane % 4 * 2) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) s[j * 4 + i] = Softmax::exp2_of(fmaf(s[j * 4 + i], p.scale_log2, -(i % 2 ? l.y : l.x)));
      }
      pack<T>(packed, s);
      ptx::wgmma_fence();
      issue_down<S>(dv, packed, d_out);
      ptx::wgmma_wait_group<1>();
      ptx::wgmma_pin(dp);
#pragma unroll
      for (int j = 0; j < kRows / 8; j++) {
        const float2 d = load_pair(shared.delta + stage * kRows * 4 + (j * 8 + lane % 4 * 2) * 4);
#pragma unroll
        for (int i = 0; i < 4; i++) s[j * 4 + i] *= dp[j * 4 + i] - (i % 2 ? d.y : d.x);
      }
      pack<T>(packed_ds, s);
      leave_rows<kRows, 0>(packed_ds, ds + warp * 16 * 128);
      ptx::fence_proxy_async_shared();
      ptx::bar_sync(1, 256);
      ptx::wgmma_fence();
      issue_queries<S>(dq, ds, shared.k, group);
      issue_down<S>(dk, packed_ds, q);
      ptx::wgmma_wait_group<1>();  // dV and dQ
      ptx::wgmma_pin(dq);
      ptx::wgmma_pin(dv);
      if (lane == 0) ptx::mbarrier_arrive(shared.o_empty + 8 * stage);
      add_queries<S>(dq, staging, p.dq_sums + task.place(p, in_group, tile) * (kRows * S::kDim) + group * (kRows * S::kHalf), group);
      ptx::wgmma_wait_group<0>();
      ptx::wgmma_pin(dk);
      if (lane == 0) ptx::mbarrier_arrive(shared.q_empty + 8 * stage);
      if (++stage == 2) stage = 0, phase ^= 1;
    }
  ptx::bar_sync(1, 256);
  store_keys<S>(p, task, &p.dv, dv, 1.f, shared.v);
  store_keys<S>(p, task, &p.dk, dk, p.scale, shared.k);
  ptx::bulk_wait_group<0>();
}

template <class S>
__global__ void __launch_bounds__(kThreads, 1) backward(const __grid_constant__ BackwardParams p) {
  extern __shared__ uint8_t raw[];
  const Shared<S> shared(ptx::smem_address(raw));
  const auto init = [&] {
    if (threadIdx.x != 0) return;
    ptx::prefetch_tensormap(&p.k);
    ptx::prefetch_tensormap(&p.v);
    ptx::prefetch_tensormap(&p.q);
    ptx::prefetch_tensormap(&p.d_out);
    shared.init();
  };
  run_warp_roles<1, 24, 240, Dependent::kPlain>(false, init, [&](int) { produce<S>(p, shared); }, [&] { consume<S>(p, shared); });
}

/// lse2 and delta of a tile of queries; a block a tile, a warp a row at a time.
template <int kDim>
__global__ void __launch_bounds__(256) row_sums(const __grid_constant__ BackwardParams p) {
  const int head = blockIdx.x / p.q_tiles, tile = blockIdx.x - head * p.q_tiles, batch = head / p.heads, h = head - batch * p.heads, lane = threadIdx.x % 32;
  constexpr int kLanes = kDim / 8, kAtOnce = 32 / kLanes;
#pragma unroll 2
  for (int r = threadIdx.x / 32 * kAtOnce + lane / kLanes; r < kRows; r += 8 * kAtOnce) {
    const int row = tile * kRows + r;
    float sum = 0.f;
    if (row < p.seq_q) {
      const auto piece = [&](const void* base, const AttentionArgs::Strides& s) {
        return __ldcs(reinterpret_cast<const uint4*>(static_cast<const T*>(base) + batch * s.batch + row * s.seq + h * s.head + lane % kLanes * 8));
      };
      const uint4 a = piece(p.out_rows, p.out_strides), b = piece(p.d_out_rows, p.d_out_strides);
      const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; i++)
        sum = fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), fmaf(__uint_as_float(x[i] & 0xffff0000u), __uint_as_float(y[i] & 0xffff0000u), sum));
    }
#pragma unroll
    for (int d = kLanes / 2; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane % kLanes) continue;
    const float lse = row < p.seq_q ? p.lse[int64_t(head) * p.seq_q + row] : -INFINITY;
    p.lse2[int64_t(blockIdx.x) * kRows + r] = lse == -INFINITY ? INFINITY : lse * 1.44269504f;
    p.delta[int64_t(blockIdx.x) * kRows + r] = sum;
  }
}

/// The sums of a tile of queries to bf16; a block a tile, a thread as many of each half as a consumer thread had.
template <int kDim>
__global__ void __launch_bounds__(256) finish_queries(const __grid_constant__ BackwardParams p) {
  const int head = blockIdx.x / p.q_tiles, tile = blockIdx.x - head * p.q_tiles, batch = head / p.heads, h = head - batch * p.heads;
  const int group = threadIdx.x / 128, thread = threadIdx.x % 128, row0 = tile * kRows + thread / 32 * 16 + thread % 32 / 4;
  const float4* from = reinterpret_cast<const float4*>(p.dq_sums + int64_t(blockIdx.x) * (kRows * kDim) + group * (kRows * kDim / 2)) + thread;
  T* to = static_cast<T*>(p.dq) + batch * p.dq_strides.batch + h * p.dq_strides.head + group * (kDim / 2) + thread % 4 * 2;
#pragma unroll
  for (int i = 0; i < kDim / 16; i++) {
    const float4 v = __ldcs(from + i * 128);
    if (row0 < p.seq_q) *reinterpret_cast<uint32_t*>(to + row0 * p.dq_strides.seq + i * 8) = pack_pair(v.x * p.scale, v.y * p.scale, true);
    if (row0 + 8 < p.seq_q) *reinterpret_cast<uint32_t*>(to + (row0 + 8) * p.dq_strides.seq + i * 8) = pack_pair(v.z * p.scale, v.w * p.scale, true);
  }
}

template <int kDim>
cudaError_t launch(const BackwardParams& p, cudaStream_t stream) {
  using S = Shape<kDim>;
  const int64_t tiles = int64_t(p.batch) * p.heads * p.q_tiles;
  if (cudaError_t e = cudaMemsetAsync(p.dq_sums, 0, size_t(tiles) * kRows * kDim * 4, stream)) return e;
  row_sums<kDim><<<unsigned(tiles), 256, 0, stream>>>(p);
  if (cudaError_t e = cudaFuncSetAttribute(backward<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared)) return e;
  backward<S><<<unsigned(p.batch * (p.heads / p.heads_per_kv) * p.k_tiles), kThreads, S::kShared, stream>>>(p);
  finish_queries<kDim><<<unsigned(tiles), 256, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_attention_backward(const BackwardParams& p, int dim, cudaStream_t stream) {
  return dim == 64 ? launch<64>(p, stream) : launch<128>(p, stream);
}

}  // namespace orrery::kernels
