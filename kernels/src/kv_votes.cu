// Which keys the last queries of a prompt look at: votes[key] = sum over those queries, and over the heads that share the
// key, of softmax(scale q k')[key], by the lse that attention_forward left; then averages over neighbouring keys. With top_k
// of the votes and gather_rows of keys and values a cache keeps what matters.
//
// A warp has 16 keys, which go from memory straight into the operand registers of warp-wide products, 16 bytes a lane, and
// all queries, 64 at a time, from shared memory by the same rule (gemm_direct.cuh): lane t of a quad has elements 8 t to
// 8 t + 7 of 32 of the dimension.
// Source of the rule: Li et al., "SnapKV" (2024).
#include <cmath>
#include <initializer_list>

#include "arguments.h"
#include "attention_tensors.h"
#include "gemm_direct.cuh"
#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kWarps = 8, kKeys = 16 * kWarps, kQueries = 64, kThreads = 32 * kWarps;

struct VoteParams {
  const uint8_t *q, *k;
  const float* lse;
  float* votes;
  AttentionArgs::Strides q_strides, k_strides;  // bytes
  int heads, heads_per_kv, seq_q, seq_k, window;
  float scale_log2;
};

template <class T, int kDim>
__global__ void __launch_bounds__(kThreads) vote(const VoteParams p) {
  constexpr int kChunks = kDim / 32, kPitch = kDim * 2 + 16;  // bytes of a query in shared memory
  __shared__ alignas(16) uint8_t queries[kQueries * kPitch];
  __shared__ float lse2[kQueries];
  __shared__ int last[kQueries];  // the last key that a query sees
  begin_overlapped();
  const int kv_heads = p.heads / p.heads_per_kv, batch = blockIdx.y / kv_heads, kv_head = blockIdx.y - batch * kv_heads;
  const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, key = blockIdx.x * kKeys + threadIdx.x / 32 * 16 + g;
  uint4 a[2][kChunks];
#pragma unroll
  for (int h = 0; h < 2; h++)
#pragma unroll
    for (int c = 0; c < kChunks; c++) {
      a[h][c] = make_uint4(0, 0, 0, 0);
      if (key + 8 * h < p.seq_k)
        a[h][c] = __ldg(reinterpret_cast<const uint4*>(p.k + batch * p.k_strides.batch + (key + 8 * h) * p.k_strides.seq + kv_head * p.k_strides.head + c * 64 + t * 16));
    }
  float sum[2] = {0.f, 0.f};
  const int rows = p.heads_per_kv * p.window;
  for (int first = 0; first < rows; first += kQueries) {
    const int count = min(kQueries, rows - first);
    __syncthreads();
    for (int i = threadIdx.x; i < kQueries * (kDim / 8); i += kThreads) {
      const int r = i / (kDim / 8), piece = i % (kDim / 8), head = kv_head * p.heads_per_kv + (first + r) / p.window, query = p.seq_q - p.window + (first + r) % p.window;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (r < count) x = __ldg(reinterpret_cast<const uint4*>(p.q + batch * p.q_strides.batch + query * p.q_strides.seq + head * p.q_strides.head + piece * 16));
      *reinterpret_cast<uint4*>(queries + r * kPitch + piece * 16) = x;
      if (piece) continue;
      const float l = r < count ? p.lse[(int64_t(batch) * p.heads + head) * p.seq_q + query] : -INFINITY;
      lse2[r] = l == -INFINITY ? INFINITY : l * 1.44269504f;
      last[r] = query + p.seq_k - p.seq_q;
    }
    __syncthreads();
#pragma unroll 2
    for (int n = 0; n < count; n += 8) {
      float acc[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int c = 0; c < kChunks; c++) {
        const uint4 b = *reinterpret_cast<const uint4*>(queries + (n + g) * kPitch + c * 64 + t * 16);
        mma_16816<T>(acc, a[0][c].x, a[1][c].x, a[0][c].y, a[1][c].y, b.x, b.y);
        mma_16816<T>(acc, a[0][c].z, a[1][c].z, a[0][c].w, a[1][c].w, b.z, b.w);
      }
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int column = n + t * 2 + i % 2;
        const float weight = exp2f(fmaf(acc[i], p.scale_log2, -lse2[column]));
        if (key + i / 2 * 8 <= last[column]) sum[i / 2] += weight;
      }
    }
  }
#pragma unroll
  for (int h = 0; h < 2; h++) {
    sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
    sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    if (t == 0 && key + 8 * h < p.seq_k) p.votes[int64_t(blockIdx.y) * p.seq_k + key + 8 * h] = sum[h];
  }
}

/// Averages of `pool` neighbours, zeros beyond the ends.
__global__ void __launch_bounds__(256) average(float* out, const float* in, int keys, int pool) {
  begin_overlapped();
  const int key = blockIdx.x * 256 + threadIdx.x;
  if (key >= keys) return;
  const float* row = in + int64_t(blockIdx.y) * keys;
  float sum = 0.f;
  for (int i = max(0, key - pool / 2); i <= min(keys - 1, key + pool / 2); i++) sum += row[i];
  out[int64_t(blockIdx.y) * keys + key] = sum / float(pool);
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
  if (a.workspace == a.votes) return bad("workspace", "overlaps votes");
  return {};
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
  const int rows = int(a.batch * a.kv_heads), blocks = int((a.seq_k + kKeys - 1) / kKeys);
  const auto go = [&](auto kernel) {
    cudaLaunchAttribute attribute[1];
    attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute[0].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(unsigned(blocks), unsigned(rows)), config.blockDim = dim3(kThreads), config.stream = stream, config.attrs = attribute, config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, kernel, p);
  };
  const bool wide = a.dim == 128;
  const cudaError_t e = a.dtype == DType::kBF16 ? (wide ? go(vote<__nv_bfloat16, 128>) : go(vote<__nv_bfloat16, 64>)) : (wide ? go(vote<__half, 128>) : go(vote<__half, 64>));
  if (e != cudaSuccess || a.pool == 1) return launched(e);
  average<<<dim3(unsigned((a.seq_k + 255) / 256), unsigned(rows)), 256, 0, stream>>>(a.votes, p.votes, p.seq_k, int(a.pool));
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
