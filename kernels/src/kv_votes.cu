// Which keys the last queries of a prompt look at: votes[key] = sum over those queries, and over the heads that share the
// key, of softmax(scale q k')[key], by the lse that attention_forward left; then averages over neighbouring keys. With top_k
// of the votes and gather_rows of keys and values a cache keeps what matters.
//
// The queries of a block, 128 at a time, lie in shared memory as the B of warpgroup products (128-byte swizzle). A warpgroup has 64
// keys, which go from memory straight into registers as their A, 16 bytes a lane: lane t of a quad has elements 8 t to 8 t + 7 of
// 32 of the dimension, where a product wants 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of 16, so the queries' elements are put into that order instead.
// The keys of a warpgroup's next turn are on their way while this one's are voted for; warpgroups do not wait for each other.
// Source of the rule: Li et al., "SnapKV" (2024).
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "arguments.h"
#include "attention_tensors.h"
#include "launch.h"
#include "wgmma.cuh"

namespace orrery::kernels {
namespace {

constexpr int kQueries = 128, kTile = 64;  // in shared memory; keys of a warpgroup's turn
constexpr int kGroup = 64, kWarpgroups = 4, kThreads = 128 * kWarpgroups;  // queries of a product; a block an SM

struct VoteParams {
  const uint8_t *q, *k;
  const float* lse;
  float* votes;
  AttentionArgs::Strides q_strides, k_strides;  // bytes
  int heads, heads_per_kv, seq_q, seq_k, window;
  float scale_log2;
};

__device__ __forceinline__ float exp2_of(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

/// What a lane has of its warpgroup's keys: of rows g and g + 8 of the warp's 16, its 16 bytes of every 64.
template <int kDim>
struct Keys {
  uint4 at[2][kDim / 32];
  /// `p`: of the lane's first row, which is key `key`. Zeros from `end` on.
  __device__ __forceinline__ void load(const uint8_t* p, int64_t pitch, int key, int end) {
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
      for (int c = 0; c < kDim / 32; c++) {
        at[h][c] = make_uint4(0, 0, 0, 0);
        if (key + 8 * h < end) at[h][c] = __ldg(reinterpret_cast<const uint4*>(p + h * 8 * pitch + c * 64));
      }
  }
  /// In the order of products' operands, of 16 of the dimension each.
  __device__ __forceinline__ void put(uint32_t (&a)[kDim / 16][4]) const {
#pragma unroll
    for (int c = 0; c < kDim / 32; c++) {
      const uint4 &x = at[0][c], &y = at[1][c];
      a[2 * c][0] = x.x, a[2 * c][1] = y.x, a[2 * c][2] = x.y, a[2 * c][3] = y.y;
      a[2 * c + 1][0] = x.z, a[2 * c + 1][1] = y.z, a[2 * c + 1][2] = x.w, a[2 * c + 1][3] = y.w;
    }
  }
};

/// Where word w (of 4) of piece `piece` (16 bytes) of query r is.
__device__ __forceinline__ uint32_t place_of(int r, int piece, int w) {
  const int unit = piece / 4 * 4 + w;
  return uint32_t(unit / 8 * kQueries * 128 + r * 128 + (unit % 8 ^ r % 8) * 16 + piece % 4 * 4);
}

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads, 1) vote(const VoteParams p) {
  __shared__ alignas(1024) uint8_t queries[kQueries * kDim * 2];
  __shared__ alignas(16) float lse2[kQueries];
  __shared__ alignas(16) int last[kQueries];  // the last key that a query sees
  begin_overlapped();
  const int kv_heads = p.heads / p.heads_per_kv, batch = blockIdx.y / kv_heads, kv_head = blockIdx.y - batch * kv_heads;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, in_tile = threadIdx.x % 128 / 32 * 16 + g;
  const int begin = (blockIdx.x * kWarpgroups + threadIdx.x / 128) * kTile, stride = gridDim.x * kWarpgroups * kTile;
  const int64_t pitch = p.k_strides.seq, step = stride * pitch;
  float* const votes = p.votes + int64_t(blockIdx.y) * p.seq_k;
  const ptx::Descriptor b = ptx::descriptor_k_major(ptx::smem_address(queries));
  const int rows = p.heads_per_kv * p.window;
  for (int first = 0; first < rows; first += kQueries) {
    const int count = min(kQueries, rows - first);
    const uint8_t* from = p.k + batch * p.k_strides.batch + kv_head * p.k_strides.head + (begin + in_tile) * pitch + t * 16;
    Keys<kDim> next;
    next.load(from, pitch, begin + in_tile, p.seq_k);
    if (first) __syncthreads();  // all have read what was there
#pragma unroll
    for (int i = threadIdx.x; i < kQueries * (kDim / 8); i += kThreads) {
      const int r = i / (kDim / 8), piece = i % (kDim / 8), head = kv_head * p.heads_per_kv + (first + r) / p.window, query = p.seq_q - p.window + (first + r) % p.window;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (r < count) x = __ldg(reinterpret_cast<const uint4*>(p.q + batch * p.q_strides.batch + query * p.q_strides.seq + head * p.q_strides.head + piece * 16));
      const uint32_t words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int w = 0; w < 4; w++) *reinterpret_cast<uint32_t*>(queries + place_of(r, piece, w)) = words[w];
      if (piece) continue;
      const float l = r < count ? p.lse[(int64_t(batch) * p.heads + head) * p.seq_q + query] : -INFINITY;
      lse2[r] = l == -INFINITY ? INFINITY : l * 1.44269504f;
      last[r] = query + p.seq_k - p.seq_q;
    }
    ptx::fence_proxy_async_shared();
    __syncthreads();
#pragma unroll 1
    for (int tile = begin; tile < p.seq_k; tile += stride) {
      uint32_t keys[kDim / 16][4];
      next.put(keys);
      from += step;
      next.load(from, pitch, tile + stride + in_tile, p.seq_k);
      const int key = tile + in_tile;
      const bool cut = tile + kTile - 1 > p.seq_k - p.window;  // whether a query does not see all of it
      float sum[2] = {0.f, 0.f};
      const auto multiply = [&](float (&acc)[kGroup / 2], int n) {
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < kDim / 16; i++) wgmma_rs<T, kGroup, 0>(acc, keys[i], b.at(i / 4 * kQueries * 128 + n * 128 + i % 4 * ptx::kStepKMajor), i);
        ptx::wgmma_commit_group();
      };
      const auto add_up = [&](float (&acc)[kGroup / 2], int n) {
        const auto of_those = [&](auto&& is_seen) {
#pragma unroll
          for (int j = 0; j < kGroup / 8; j++) {
            const int column = n + j * 8 + t * 2;
            const float2 l = *reinterpret_cast<const float2*>(lse2 + column);
#pragma unroll
            for (int i = 0; i < 4; i++) {
              const float weight = exp2_of(fmaf(acc[j * 4 + i], p.scale_log2, -(i % 2 ? l.y : l.x)));
              if (is_seen(key + i / 2 * 8, column + i % 2)) sum[i / 2] += weight;
            }
          }
        };
        if (cut) of_those([&](int of_key, int column) { return of_key <= last[column]; });
        else of_those([](int, int) { return true; });
      };
#pragma unroll  // all of them, wanted or not: with constant descriptors a product needs no more instructions than itself
      for (int n = 0; n < kQueries; n += kGroup) {
        float acc[kGroup / 2];
        multiply(acc, n);
        ptx::wgmma_wait_group<0>();
        ptx::wgmma_pin(acc);
        add_up(acc, n);
      }
#pragma unroll
      for (int h = 0; h < 2; h++) {
        sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
        sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
        if (t == 0 && key + 8 * h < p.seq_k) votes[key + 8 * h] = first ? votes[key + 8 * h] + sum[h] : sum[h];
      }
    }
  }
}

constexpr int kAveraged = 4;  // a thread's keys, 256 apart: fewer and longer blocks than one key a thread would make

/// Averages of `pool` neighbours, zeros beyond the ends.
__global__ void __launch_bounds__(256) average(float* out, const float* in, int keys, int pool) {
  begin_overlapped();
  const int first = blockIdx.x * 256 * kAveraged + threadIdx.x;
  const int64_t row = int64_t(blockIdx.y) * keys;
  float sum[kAveraged] = {};
  for (int i = -(pool / 2); i <= pool / 2; i++)
#pragma unroll
    for (int u = 0; u < kAveraged; u++)
      if (const int key = first + u * 256 + i; key >= 0 && key < keys) sum[u] += in[row + key];
#pragma unroll
  for (int u = 0; u < kAveraged; u++)
    if (const int key = first + u * 256; key < keys) out[row + key] = sum[u] / float(pool);
}

Status check(const KvVoteArgs& a) {
  constexpr int64_t kMax = 1 << 24;
  const struct { const char* name; int64_t value; } sizes[] = {{"batch", a.batch}, {"heads", a.heads}, {"kv_heads", a.kv_heads}, {"seq_q", a.seq_q}, {"seq_k", a.seq_k}};
  for (const auto& it : sizes)
    if (it.value < 1 || it.value > kMax) return bad(it.name, "must be in [1, 2^24]");
  if (a.dtype != DType::kBF16 && a.dtype != DType::kF16) return bad("dtype", "must be bf16 or f16");
  if (a.dim != 64 && a.dim != 128) return bad("dim", "must be 64 or 128");
  if (a.heads % a.kv_heads) return bad("kv_heads", "must divide heads");
  if (a.batch * a.kv_heads > 65535) return bad("batch", "times kv_heads must be less than 2^16");
  if (a.window < 1 || a.window > a.seq_q) return bad("window", "must be in [1, seq_q]");
  if (a.pool < 1 || a.pool % 2 == 0 || a.pool > 1023) return bad("pool", "must be odd, in [1, 1023]");
  if (!std::isfinite(a.scale) || a.scale < 0) return bad("scale", "must be finite and not negative");
  if (Status s = check_tensor("q", "q_strides", a.q, a.q_strides, a.batch, a.seq_q, a.heads, a.dim); !s.ok()) return s;
  if (Status s = check_tensor("k", "k_strides", a.k, a.k_strides, a.batch, a.seq_k, a.kv_heads, a.dim); !s.ok()) return s;
  if (!a.lse || !aligned(a.lse, 4)) return bad("lse", "is null or misaligned");
  if (!a.votes || !aligned(a.votes, 4)) return bad("votes", "is null or misaligned");
  if (a.pool > 1 && (!a.workspace || !aligned(a.workspace, 4))) return bad("workspace", "is null or misaligned");
  const Extent q = extent_of_tensor("q", a.q, a.q_strides, a.batch, a.seq_q, a.heads, a.dim), k = extent_of_tensor("k", a.k, a.k_strides, a.batch, a.seq_k, a.kv_heads, a.dim);
  const Extent lse = dense("lse", a.lse, product(product(a.batch, a.heads), a.seq_q) * 4), votes = dense("votes", a.votes, product(a.batch * a.kv_heads, a.seq_k) * 4);
  if (Status s = apart(votes, {q, k, lse}); !s.ok()) return s;
  return apart(dense("workspace", a.pool > 1 ? a.workspace : nullptr, votes.bytes), {q, k, lse, votes});
}

}  // namespace

size_t kv_votes_workspace(const KvVoteArgs& a) { return a.pool > 1 ? size_t(a.batch * a.kv_heads * a.seq_k) * 4 : 0; }

Status kv_votes(const KvVoteArgs& a, cudaStream_t stream) {
  if (Status s = check(a); !s.ok()) return s;
  VoteParams p{};
  const auto bytes = [](AttentionArgs::Strides s) { return AttentionArgs::Strides{s.batch * 2, s.seq * 2, s.head * 2}; };
  p.q = static_cast<const uint8_t*>(a.q), p.k = static_cast<const uint8_t*>(a.k), p.q_strides = bytes(a.q_strides), p.k_strides = bytes(a.k_strides);
  p.lse = a.lse, p.votes = a.pool > 1 ? static_cast<float*>(a.workspace) : a.votes;
  p.heads = int(a.heads), p.heads_per_kv = int(a.heads / a.kv_heads), p.seq_q = int(a.seq_q), p.seq_k = int(a.seq_k), p.window = int(a.window);
  p.scale_log2 = (a.scale > 0 ? a.scale : 1.f / std::sqrt(float(a.dim))) * 1.44269504f;
  // One wave of blocks, each with its share of one head's keys.
  const int rows = int(a.batch * a.kv_heads);
  const int64_t most = std::max<int64_t>(1, sm_count() / rows), wanted = (a.seq_k + kTile * kWarpgroups - 1) / (kTile * kWarpgroups);
  const auto go = [&](auto kernel) {
    return launch_in_clusters(reinterpret_cast<const void*>(kernel), dim3(unsigned(std::min(most, wanted)), unsigned(rows)), kThreads, 0, 1, true, stream, &p);
  };
  const bool wide = a.dim == 128;
  const cudaError_t e = a.dtype == DType::kBF16 ? (wide ? go(vote<__nv_bfloat16, 128>) : go(vote<__nv_bfloat16, 64>)) : (wide ? go(vote<__half, 128>) : go(vote<__half, 64>));
  if (e != cudaSuccess || a.pool == 1) return launched(e);
  return launched(launch_grid_overlapped(average, dim3(unsigned((a.seq_k + 256 * kAveraged - 1) / (256 * kAveraged)), unsigned(rows)), 256, 0, stream, a.votes, p.votes, p.seq_k, int(a.pool)));
}

}  // namespace orrery::kernels
