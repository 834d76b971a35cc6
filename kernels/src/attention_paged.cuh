// Attention of one new token per sequence over a paged cache of keys and values ("decode"), with the context split over CTAs.
//
// The work is a read of the cache, so nothing stands between memory and the products: a warp takes 16 keys at a time, each
// lane loads its own 16-byte pieces of them straight into registers, and the products are warp-wide mma of the query heads
// that share a kv head (up to 16, the rows of A).
//
//   S = Q K'  lane t of a quad holds dims 8 t .. 8 t + 7 of every 32, of Q and of K alike: the order of terms is free
//   O += P V  lane (g, t) holds keys 2 t, 2 t + 1 (and 8 more), dims 64 h + 8 g .. + 7: element i of each pair of keys is the
//             operand of column tile i, so that columns come out permuted and need no shuffles either
//
// With head dimensions of 192 and 256 the next keys are not under way while a warp multiplies (is_wide).
//
// Each warp keeps a softmax of its own; they meet in shared memory, and those of the CTAs of a sequence (splits) in f32 in
// the workspace, which a second kernel adds up in order. The number of splits is fixed by the host, which does not know the
// lengths; a CTA without keys leaves a part of weight zero.
//
// A cache of e4m3 is read in pieces of 8 bytes, the same elements, which are widened where they are multiplied: keys to the type of the queries, values to f16,
// whatever that is: weights are at most 1, and to bf16 it takes four instructions a pair instead of one. Its scales are of the scores and of what the weights add
// up to. With heads of 192 the next keys and values take the place of those that have just been used; those of 256 leave no registers for that either.
//
// Not here: more than one query per sequence; checks and launches (attention_paged.cu).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "gemm_direct.cuh"

namespace orrery::kernels {
namespace {

constexpr int kStep = 16, kMostGroup = 16, kMostSplits = 128;
/// Wide heads leave no registers for the next keys, nor shared memory for four warps' outputs: two warps a CTA, four CTAs an SM instead of two, queries
/// in shared memory, and values asked for when keys have been used.
__host__ __device__ constexpr bool is_wide(int dim) { return dim > 128; }
__host__ __device__ constexpr int warps_of(int dim) { return is_wide(dim) ? 2 : 4; }
__host__ __device__ constexpr int ctas_of(int dim) { return is_wide(dim) ? 4 : 2; }  // of an SM
constexpr int kCombineWarps = 4, kCombineThreads = kCombineWarps * 32;

struct PagedParams {
  const void *q, *k, *v;
  void* out;
  float *lse, *sums, *tops;  // parts: [batch][heads][splits][dim], [batch][heads][splits][2] (maximum, sum)
  const int32_t *table, *lengths;
  int64_t table_pitch, q_stride, out_stride, page_stride, token_stride, head_stride, window;
  int heads, kv_heads, group, page_log, pages, splits, max_seq;
  float scale_log2;
  const float *scale_k, *scale_v;  // of a cache of e4m3: device scalars; null: 1
};

/// Eight elements of a cache, as they are and as operands. C: how it is stored, Plain16 or PlainE4M3 (gemm_storage.cuh).
template <class C>
using Piece = std::conditional_t<std::is_same_v<C, Plain16>, uint4, uint2>;
template <class T>
__device__ __forceinline__ uint4 widened(const uint4& piece) { return piece; }
template <class T>
__device__ __forceinline__ uint4 widened(const uint2& piece) {
  uint32_t w[4];
  PlainE4M3::widen<T>(w, make_uint4(piece.x, piece.y, 0, 0), 0);
  return make_uint4(w[0], w[1], w[2], w[3]);
}

/// A lane's part of 16 keys.
template <class C, int kDim>
struct Keys {
  Piece<C> k[2][kDim / 32];     // keys g and g + 8
  Piece<C> v[2][2][kDim / 64];  // [upper 8 keys][odd key]
};

/// The keys of a sequence that this CTA sees, in steps of 16.
struct Range {
  int first_key, keys;  // of the sequence: those before first_key are outside the window
  int begin, end;       // steps
};
__device__ __forceinline__ Range range_of(const PagedParams& p, int sequence, int split) {
  Range r;
  r.keys = min(max(__ldg(p.lengths + sequence), 0), p.max_seq);
  r.first_key = p.window > 0 && r.keys > p.window ? int(r.keys - p.window) : 0;
  const int first = r.first_key / kStep, steps = (r.keys + kStep - 1) / kStep - first;
  r.begin = first + int(int64_t(steps) * split / p.splits), r.end = first + int(int64_t(steps) * (split + 1) / p.splits);
  return r;
}

enum class Part { kKeys, kValues, kBoth };
template <class C, int kDim, Part kPart>
__device__ __forceinline__ void load_keys(const PagedParams& p, const int32_t* table, const Range& r, int kv_head, int step, Keys<C, kDim>& to) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, key0 = step * kStep;
  const int page = __ldg(table + (key0 >> p.page_log));
  const bool known = uint32_t(page) < uint32_t(p.pages);
  const int64_t base = page * p.page_stride + (key0 & ((1 << p.page_log) - 1)) * p.token_stride + kv_head * p.head_stride;
  const auto get = [&](const void* cache, int key, int dim) {
    const bool inside = known && key0 + key < r.keys && key0 + key >= r.first_key;
    constexpr int kBytes = sizeof(Piece<C>) / 8;  // of an element
    return inside ? __ldg(reinterpret_cast<const Piece<C>*>(static_cast<const char*>(cache) + (base + key * p.token_stride + dim) * kBytes)) : Piece<C>{};
  };
#pragma unroll
  for (int n = 0; n < (kPart == Part::kValues ? 0 : 2); n++)
#pragma unroll
    for (int j = 0; j < kDim / 32; j++) to.k[n][j] = get(p.k, n * 8 + g, j * 32 + t * 8);
#pragma unroll
  for (int n = 0; n < (kPart == Part::kKeys ? 0 : 2); n++)
#pragma unroll
    for (int odd = 0; odd < 2; odd++)
#pragma unroll
      for (int h = 0; h < kDim / 64; h++) to.v[n][odd][h] = get(p.v, n * 8 + 2 * t + odd, h * 64 + g * 8);
}

__device__ __forceinline__ float exp2_of(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
__device__ __forceinline__ uint32_t word(const uint4& v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

/// A warp's softmax over the keys it has seen: rows g and g + 8; o[h * 8 + i] is column tile i of dims 64 h on.
template <class T, class C, int kDim>
struct State {
  using V = std::conditional_t<std::is_same_v<C, Plain16>, T, __half>;  // what values, and their weights, are multiplied as
  float o[kDim / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

  /// between: called once the keys have been used. q: of the lane's queries, pieces j of rows g and g + 8.
  template <class Queries, class Between>
  __device__ __forceinline__ void take(const Keys<C, kDim>& x, const Queries& q, int key0, const Range& r, float scale_log2, Between between) {
    float s[2][4] = {};
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
      for (int j = 0; j < kDim / 32; j++) {
        const uint4 low = q(j, 0), high = q(j, 1), k = widened<T>(x.k[n][j]);
        mma_16816<T>(s[n], low.x, high.x, low.y, high.y, k.x, k.y);
        mma_16816<T>(s[n], low.z, high.z, low.w, high.w, k.z, k.w);
      }
    between();
    const int t = threadIdx.x % 4;
    float rescale[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float most = top[h];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int key = key0 + i / 2 * 8 + 2 * t + i % 2;
        float& v = s[i / 2][2 * h + i % 2];
        v = key < r.keys && key >= r.first_key ? v * scale_log2 : -INFINITY;
        most = fmaxf(most, v);
      }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float safe = most == -INFINITY ? 0.f : most;
      rescale[h] = exp2_of(top[h] - safe);
      top[h] = most, sum[h] *= rescale[h];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float& v = s[i / 2][2 * h + i % 2];
        v = exp2_of(v - safe), sum[h] += v;
      }
    }
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; i++) a[i] = pack_pair(s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1], std::is_same_v<V, __nv_bfloat16>);
#pragma unroll
    for (int h = 0; h < kDim / 64; h++) {
      uint4 v[2][2];
#pragma unroll
      for (int n = 0; n < 4; n++) v[n / 2][n % 2] = widened<V>(x.v[n / 2][n % 2][h]);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        uint32_t b[2];
#pragma unroll
        for (int n = 0; n < 2; n++) b[n] = __byte_perm(word(v[n][0], i / 2), word(v[n][1], i / 2), i % 2 ? 0x7632 : 0x5410);
        float(&c)[4] = o[h * 8 + i];
#pragma unroll
        for (int e = 0; e < 4; e++) c[e] *= rescale[e / 2];
        mma_16816<V>(c, a[0], a[1], a[2], a[3], b[0], b[1]);
      }
    }
  }
};

/// A lane's part of the queries: pieces j of rows g and g + 8.
template <class T, int kDim>
__device__ __forceinline__ void load_queries(const PagedParams& p, int sequence, int kv_head, uint4 (&to)[kDim / 32][2]) {
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const T* q = static_cast<const T*>(p.q) + sequence * p.q_stride + int64_t(kv_head) * p.group * kDim;
#pragma unroll
  for (int j = 0; j < kDim / 32; j++)
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int row = g + 8 * h;
      to[j][h] = row < p.group ? *reinterpret_cast<const uint4*>(q + row * kDim + j * 32 + t * 8) : make_uint4(0, 0, 0, 0);
    }
}

/// What the warps leave for the CTA: maxima, sums and outputs of up to 16 heads.
template <int kDim>
struct Meeting {
  static constexpr int kWarps = warps_of(kDim);
  float o[kWarps][kMostGroup][kDim + 4], top[kWarps][kMostGroup], sum[kWarps][kMostGroup];
};

template <class T, class C, int kDim>
__device__ __forceinline__ void leave(const State<T, C, kDim>& state, Meeting<kDim>& meeting) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int h = 0; h < 2; h++) {
    float sum = state.sum[h];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (t == 0) meeting.top[warp][g + 8 * h] = state.top[h], meeting.sum[warp][g + 8 * h] = sum;
#pragma unroll
    for (int tile = 0; tile < kDim / 8; tile++)
#pragma unroll
      for (int c = 0; c < 2; c++) meeting.o[warp][g + 8 * h][tile / 8 * 64 + 8 * (2 * t + c) + tile % 8] = state.o[tile][2 * h + c];
  }
}

__device__ __forceinline__ float lse_of(float top, float sum) { return sum > 0.f ? (top + __log2f(sum)) * 0.69314718f : -INFINITY; }

__device__ __forceinline__ float scale_of(const float* scale) { return scale ? __ldg(scale) : 1.f; }

/// Adds up the warps and leaves the result, or the part of a split.
template <class T, int kDim>
__device__ __forceinline__ void finish(const PagedParams& p, const Meeting<kDim>& meeting, int sequence, int kv_head, int split) {
  constexpr int kWarps = warps_of(kDim);
  for (int i = threadIdx.x; i < p.group * kDim; i += kWarps * 32) {
    const int row = i / kDim, d = i % kDim;
    float top = -INFINITY, sum = 0.f, o = 0.f;
    const float scale = scale_of(p.scale_v);
#pragma unroll
    for (int w = 0; w < kWarps; w++) top = fmaxf(top, meeting.top[w][row]);
#pragma unroll
    for (int w = 0; w < kWarps; w++) {
      const float weight = meeting.top[w][row] == -INFINITY ? 0.f : exp2_of(meeting.top[w][row] - top);
      sum += weight * meeting.sum[w][row], o += weight * meeting.o[w][row][d];
    }
    const int head = kv_head * p.group + row;
    const int64_t at = int64_t(sequence) * p.heads + head;
    if (p.splits == 1) {
      static_cast<T*>(p.out)[sequence * p.out_stride + head * kDim + d] = T(sum > 0.f ? o / sum * scale : 0.f);
      if (p.lse && d == 0) p.lse[at] = lse_of(top, sum);
    } else {
      p.sums[(at * p.splits + split) * kDim + d] = o;
      if (d == 0) *reinterpret_cast<float2*>(p.tops + (at * p.splits + split) * 2) = make_float2(top, sum);
    }
  }
}

template <class T, class C, int kDim>
__global__ void __launch_bounds__(warps_of(kDim) * 32, ctas_of(kDim)) attend(const __grid_constant__ PagedParams p) {
  constexpr int kWarps = warps_of(kDim);
  constexpr bool kInPlace = std::is_same_v<C, PlainE4M3> && kDim == 192;
  __shared__ Meeting<kDim> meeting;
  const int kv_head = blockIdx.x % p.kv_heads, split = blockIdx.x / p.kv_heads, sequence = blockIdx.y, warp = threadIdx.x / 32;
  ptx::griddepcontrol_launch_dependents();
  const Range r = range_of(p, sequence, split);
  const int32_t* const table = p.table + sequence * p.table_pitch;
  State<T, C, kDim> state;
  const float scale_log2 = p.scale_log2 * scale_of(p.scale_k);
  uint4 queries[kDim / 32][2];
  load_queries<T, kDim>(p, sequence, kv_head, queries);
  if constexpr (is_wide(kDim)) {
    __shared__ uint4 kept[kDim / 32][2][32];  // all warps have the same
    const int lane = threadIdx.x % 32;
    if (warp == 0)
      for (int j = 0; j < kDim / 32; j++) kept[j][0][lane] = queries[j][0], kept[j][1][lane] = queries[j][1];
    __syncthreads();
    Keys<C, kDim> now;
    const auto kept_at = [&](int j, int h) { return kept[j][h][lane]; };
    if constexpr (kInPlace) {
      if (r.begin + warp < r.end) load_keys<C, kDim, Part::kBoth>(p, table, r, kv_head, r.begin + warp, now);
      for (int step = r.begin + warp; step < r.end; step += kWarps) {
        const bool more = step + kWarps < r.end;
        state.take(now, kept_at, step * kStep, r, scale_log2, [&] { if (more) load_keys<C, kDim, Part::kKeys>(p, table, r, kv_head, step + kWarps, now); });
        if (more) load_keys<C, kDim, Part::kValues>(p, table, r, kv_head, step + kWarps, now);
      }
    }
    for (int step = r.begin + warp; !kInPlace && step < r.end; step += kWarps) {
      load_keys<C, kDim, Part::kKeys>(p, table, r, kv_head, step, now);
      state.take(now, kept_at, step * kStep, r, scale_log2, [&] { load_keys<C, kDim, Part::kValues>(p, table, r, kv_head, step, now); });
    }
  } else {
    Keys<C, kDim> now;
    if (r.begin + warp < r.end) load_keys<C, kDim, Part::kBoth>(p, table, r, kv_head, r.begin + warp, now);
    for (int step = r.begin + warp; step < r.end; step += kWarps) {
      Keys<C, kDim> next;
      if (step + kWarps < r.end) load_keys<C, kDim, Part::kBoth>(p, table, r, kv_head, step + kWarps, next);
      state.take(now, [&](int j, int h) { return queries[j][h]; }, step * kStep, r, scale_log2, [] {});
      now = next;
    }
  }
  leave(state, meeting);
  __syncthreads();
  finish<T, kDim>(p, meeting, sequence, kv_head, split);
}

/// Adds up the splits of a head; a warp takes every kCombineWarps-th.
template <class T, int kDim>
__global__ void __launch_bounds__(kCombineThreads) combine(const __grid_constant__ PagedParams p) {
  __shared__ float weight[kMostSplits], parts[kCombineWarps][kDim], whole[2];
  const int64_t at = blockIdx.x;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  ptx::griddepcontrol_wait();
  if (warp == 0) {
    float top = -INFINITY, sum = 0.f;
    const float2* tops = reinterpret_cast<const float2*>(p.tops) + at * p.splits;
    for (int s = lane; s < p.splits; s += 32) top = fmaxf(top, tops[s].x);
    for (int d = 16; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    for (int s = lane; s < p.splits; s += 32) {
      const float2 part = tops[s];
      weight[s] = part.x == -INFINITY ? 0.f : exp2_of(part.x - top);
      sum += weight[s] * part.y;
    }
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (lane == 0) whole[0] = top, whole[1] = sum;
  }
  __syncthreads();
  float o[kDim / 32] = {};
#pragma unroll 4
  for (int s = warp; s < p.splits; s += kCombineWarps)
#pragma unroll
    for (int j = 0; j < kDim / 32; j++) o[j] += weight[s] * p.sums[(at * p.splits + s) * kDim + j * 32 + lane];
#pragma unroll
  for (int j = 0; j < kDim / 32; j++) parts[warp][j * 32 + lane] = o[j];
  __syncthreads();
  for (int d = threadIdx.x; d < kDim; d += kCombineThreads) {
    float v = 0.f;
#pragma unroll
    for (int w = 0; w < kCombineWarps; w++) v += parts[w][d];
    static_cast<T*>(p.out)[at / p.heads * p.out_stride + at % p.heads * kDim + d] = T(whole[1] > 0.f ? v / whole[1] * scale_of(p.scale_v) : 0.f);
  }
  if (p.lse && threadIdx.x == 0) p.lse[at] = lse_of(whole[0], whole[1]);
}

}  // namespace
}  // namespace orrery::kernels
