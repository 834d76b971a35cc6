// How finished outputs of attention_kernel.cuh leave: a warp's 16 rows through shared memory, by TMA where a box of the output
// holds nothing else; and the queries that see no key. S is attention_kernel.cuh's Shape.
#pragma once
#include "attention_fp8.cuh"
#include "attention_weights.cuh"
#include "attention_work.cuh"
#include "ptx.cuh"

namespace orrery::kernels {

/// Those of a warp's 16 rows of O in shared memory that are the sequence's, 16 bytes a lane.
template <class S>
__device__ __forceinline__ void store_rows(const AttentionParams& p, const Work<S>& w, uint32_t from, int row) {
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
      *reinterpret_cast<uint4*>(static_cast<typename S::Out*>(p.rows_out) + (w.q_base + row + r) * p.out_seq + w.head * p.out_head + piece * 8) = v;
  }
  __syncwarp();
}

/// Where the log-sum-exp of row r of a tile goes; less than 0: the row is none of the sequence's.
template <class S>
__device__ __forceinline__ int64_t lse_place(const AttentionParams& p, const Work<S>& w, int r) {
  if constexpr (S::kNear) {
    const NearParams& n = p.near;
    int at[3];
#pragma unroll
    for (int a = 0; a < 3; a++) {
      at[a] = w.near.query[a] + near_place(n, a, r);
      if (at[a] >= n.extent[a]) return -1;
    }
    return (int64_t(w.batch) * p.heads + w.head) * p.seq_q + (at[2] * n.extent[1] + at[1]) * n.extent[0] + at[0];
  } else {
    const int query = w.row0 + r;
    if (query >= queries_of<S>(p, w)) return -1;
    return S::kLengths ? int64_t(w.head) * p.q_rows + w.q_base + query : (int64_t(w.batch) * p.heads + w.head) * p.seq_q + query;
  }
}

/// Stores the warp's 16 rows of O through shared memory (`place`), and their log-sum-exp. row: the first of them in the tile.
template <class S>
__device__ __forceinline__ void finish(const AttentionParams& p, const Work<S>& w, float (&o)[S::kDim / 2],
                                       const Softmax& softmax, uint32_t place, int row) {
  const int lane = threadIdx.x % 32;
  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = softmax.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    inverse[h] = S::kSigmoid ? (S::kFp8 ? 1.f / float(1 << kFp8Lift) : 1.f) : sum > 0.f ? 1.f / sum : 0.f;
    if (S::kFp8 && p.scale_v) inverse[h] *= __ldg(p.scale_v);
    if (!p.lse || lane % 4) continue;
    if (const int64_t at = lse_place<S>(p, w, row + lane / 4 + 8 * h); at >= 0)
      p.lse[at] = sum > 0.f ? (softmax.top[h] * scale_of<S>(p) + __log2f(sum) - (S::kFp8 ? kFp8Lift : 0)) * 0.69314718f : -INFINITY;
  }
  constexpr bool kBf16 = std::is_same_v<typename S::Out, __nv_bfloat16>;
  const uint32_t line = lane % 8 + 8 * (lane / 8 % 2);
  if (S::kOwnPlace) {
    if (lane == 0) ptx::bulk_wait_group_read<0>();  // of the tile before
    __syncwarp();
  }
#pragma unroll
  for (int j = 0; j < S::kDim / 16; j++) {
    uint32_t r[4];
#pragma unroll
    for (int q = 0; q < 4; q++) r[q] = pack_pair(o[j * 8 + q * 2] * inverse[q % 2], o[j * 8 + q * 2 + 1] * inverse[q % 2], kBf16);
    const uint32_t column = (j % 4 * 32 + lane / 16 * 16) ^ (line % 8 * 16);
    ptx::stmatrix_x4<false>(place + j / 4 * S::kSlabQ + line * 128 + column, r[0], r[1], r[2], r[3]);
  }
  ptx::fence_proxy_async_shared();
  __syncwarp();
  if (S::kLengths && w.row0 + row + 16 > w.seq_q) {  // the rows beyond are another sequence's
    store_rows<S>(p, w, place, w.row0 + row);
    return;
  }
  if (lane == 0) {
    if constexpr (S::kNear) {
      const NearParams& n = p.near;
      const int x = w.near.query[0] + near_place(n, 0, row), y = w.near.query[1] + near_place(n, 1, row), z = w.near.query[2] + near_place(n, 2, row);
      if (z < n.extent[2])  // the next plane may be another batch's
        for (int slab = 0; slab < S::kOutSlabs; slab++)
          ptx::tma_store_5d(&p.out, place + slab * S::kSlabQ, slab * 64, x, y, z + w.batch * n.extent[2], w.head);
    } else if (w.row0 + row < p.seq_q) {
      for (int slab = 0; slab < S::kOutSlabs; slab++)
        ptx::tma_store_4d(&p.out, place + slab * S::kSlabQ, slab * 64, w.q_base + w.row0 + row, w.head, S::kLengths ? 0 : w.batch);
    }
    ptx::bulk_commit_group();
    if (!S::kOwnPlace && !S::kOwed) ptx::bulk_wait_group_read<0>();
  }
  if (!S::kOwnPlace && !S::kOwed) __syncwarp();
}

/// Zeros for queries that see no key, by a whole warp.
template <class S>
__device__ __forceinline__ void leave_zeros(const AttentionParams& p, const Work<S>& w) {
  const int queries = queries_of<S>(p, w);
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < S::kRows * (S::kDim / 8); i += 32) {
    const int query = w.row0 + i / (S::kDim / 8), piece = i % (S::kDim / 8);
    if (query >= queries) return;
    const int64_t at = (S::kLengths ? 0 : w.batch * p.out_batch) + (w.q_base + query) * p.out_seq + w.head * p.out_head + piece * 8;
    *reinterpret_cast<uint4*>(static_cast<typename S::Out*>(p.rows_out) + at) = make_uint4(0, 0, 0, 0);
    if (p.lse && piece == 0) p.lse[lse_place<S>(p, w, query - w.row0)] = -INFINITY;
  }
}

}  // namespace orrery::kernels
