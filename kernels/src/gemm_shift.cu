// Products without multiplications: gemm_shift has weights that are a sign and a power of two, gemm_add weights of 1 and -1. Neither multiplies anything on
// the device but indices; both sum whole numbers, exact modulo 2^32.
//
// Tiles of 128 x 128, a thread sums 8 x 8 elements. What an element costs is what there is to say about it, so signs cost next to nothing:
//
//   shift   a negative weight's term is ~(x << s) = -(x << s) - 1, an exclusive or; the ones that are missing, as many as a column of the product has negative
//           weights, are added at the end. A shift, an exclusive or and half an addition of three for each term.
//   add     two rows of the product in the halves of a word, as x + 128, whose exclusive or with 255 is 127 - x: an exclusive or and half an addition for two
//           terms. A half holds 256 terms of 255 at most and is added to sums of 32 bits before it is full; the 128s of all terms and the ones of negative
//           ones come off at the end.
//
// Not here: tensor cores, which do some hundred times as many terms in the same time (NOTES.md).
// Source: ShiftAddViT (arXiv 2306.06446), MatShift and MatAdd.
#include "arguments.h"
#include "launch.h"

namespace orrery::kernels {
namespace {

constexpr int kTile = 128, kThreads = 256;

struct Params {
  const void *a, *w;
  int64_t a_stride, w_stride, d_stride;
  int32_t* d;
  int m, n, k, across;
  bool wide_a, wide_w, wide_d;  // 16 bytes at a time
};

/// Elements k up to k + 16 of a row, zeros beyond its end.
template <class T>
__device__ __forceinline__ void load_sixteen(T (&v)[16], const T* row, int k, int end, bool wide) {
  if (wide && k + 16 <= end) {
#pragma unroll
    for (int i = 0; i < int(sizeof(T)); i++) reinterpret_cast<uint4*>(v)[i] = __ldg(reinterpret_cast<const uint4*>(row + k) + i);
  } else {
#pragma unroll
    for (int i = 0; i < 16; i++) v[i] = k + i < end ? row[k + i] : T(0);
  }
}

/// Eight words of a line of shared memory, in two runs of four that are 64 apart.
__device__ __forceinline__ void load_eight(uint32_t (&v)[8], const uint32_t* line, int at) {
  reinterpret_cast<uint4*>(v)[0] = *reinterpret_cast<const uint4*>(line + at), reinterpret_cast<uint4*>(v)[1] = *reinterpret_cast<const uint4*>(line + 64 + at);
}

/// `missing`: what is added to each column of the tile.
__device__ __forceinline__ void store(const Params& p, const uint32_t (&acc)[8][8], const uint32_t* missing, int64_t row0, int64_t col0) {
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int64_t row = row0 + i / 4 * 64 + ty * 4 + i % 4;
    if (row >= p.m) continue;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int at = h * 64 + tx * 4;
      int32_t* const to = p.d + row * p.d_stride + col0 + at;
      if (p.wide_d && col0 + at + 4 <= p.n) {
        *reinterpret_cast<uint4*>(to) = make_uint4(acc[i][4 * h] + missing[at], acc[i][4 * h + 1] + missing[at + 1], acc[i][4 * h + 2] + missing[at + 2], acc[i][4 * h + 3] + missing[at + 3]);
        continue;
      }
#pragma unroll
      for (int j = 0; j < 4; j++)
        if (col0 + at + j < p.n) to[j] = int32_t(acc[i][4 * h + j] + missing[at + j]);
    }
  }
}

/// T: int8_t or int32_t. Half of the threads fetch a row of A each, the others one of W, 16 of k ahead.
template <class T>
__global__ void __launch_bounds__(kThreads, 2) shifts(const Params p) {
  constexpr int kDepth = 16;
  __shared__ alignas(16) uint32_t xs[kDepth][kTile], ws[kDepth][kTile], negative[kTile];
  begin_overlapped();
  const int64_t row0 = int64_t(blockIdx.x / p.across) * kTile, col0 = int64_t(blockIdx.x % p.across) * kTile;
  const int mine = threadIdx.x % kTile, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const bool of_a = threadIdx.x < kTile, in = of_a ? row0 + mine < p.m : col0 + mine < p.n;
  const T* const a = static_cast<const T*>(p.a) + (row0 + mine) * p.a_stride;
  const int8_t* const w = static_cast<const int8_t*>(p.w) + (col0 + mine) * p.w_stride;
  alignas(16) T x[16];
  alignas(16) int8_t s[16];
  const auto fetch = [&](int k) {
    if (of_a) load_sixteen(x, a, k, in ? p.k : 0, p.wide_a);
    else load_sixteen(s, w, k, in ? p.k : 0, p.wide_w);
  };
  uint32_t acc[8][8] = {}, minus = 0;
  fetch(0);
  for (int k0 = 0; k0 < p.k; k0 += kDepth) {
    __syncthreads();
    if (of_a) {
#pragma unroll
      for (int i = 0; i < kDepth; i++) xs[i][mine] = uint32_t(int32_t(x[i]));
    } else {
#pragma unroll
      for (int i = 0; i < kDepth; i++) ws[i][mine] = uint32_t(int32_t(s[i])), minus += s[i] < 0;
    }
    __syncthreads();
    if (k0 + kDepth < p.k) fetch(k0 + kDepth);
#pragma unroll 2
    for (int k = 0; k < kDepth; k += 2) {
      uint32_t x0[8], x1[8], w0[8], w1[8];
      load_eight(x0, xs[k], ty * 4), load_eight(x1, xs[k + 1], ty * 4), load_eight(w0, ws[k], tx * 4), load_eight(w1, ws[k + 1], tx * 4);
#pragma unroll
      for (int j = 0; j < 8; j++) {
        const uint32_t sign0 = uint32_t(int32_t(w0[j]) >> 31), sign1 = uint32_t(int32_t(w1[j]) >> 31), by0 = w0[j] & 31, by1 = w1[j] & 31;
#pragma unroll
        for (int i = 0; i < 8; i++) acc[i][j] += ((x0[i] << by0) ^ sign0) + ((x1[i] << by1) ^ sign1);
      }
    }
  }
  if (!of_a) negative[mine] = minus;
  __syncthreads();
  store(p, acc, negative, row0, col0);
}

/// Pairs of rows of A, 64 apart, 16 of k by each of half of the threads; a word of W's bits, 32 of k, by the others.
__global__ void __launch_bounds__(kThreads, 2) adds(const Params p) {
  constexpr int kDepth = 32, kFull = 256;  // terms that a half holds
  __shared__ alignas(16) uint32_t xs[kDepth][kTile / 2], ws[kDepth][kTile], missing[kTile];
  begin_overlapped();
  const int64_t row0 = int64_t(blockIdx.x / p.across) * kTile, col0 = int64_t(blockIdx.x % p.across) * kTile;
  const int mine = threadIdx.x % kTile, pair = mine % 64, part = mine / 64 * 16, tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const bool of_a = threadIdx.x < kTile;
  const int8_t* const a = static_cast<const int8_t*>(p.a) + (row0 + pair) * p.a_stride;
  const uint32_t* const w = static_cast<const uint32_t*>(p.w) + (col0 + mine) * p.w_stride;
  alignas(16) int8_t low[16], high[16];
  uint32_t bits = 0;  // of weights that are -1
  const auto fetch = [&](int k) {
    if (of_a) {
      load_sixteen(low, a, k + part, row0 + pair < p.m ? p.k : 0, p.wide_a);
      load_sixteen(high, a + 64 * p.a_stride, k + part, row0 + pair + 64 < p.m ? p.k : 0, p.wide_a);
    } else {
      bits = col0 + mine < p.n ? ~__ldg(w + k / 32) : 0;
      if (p.k - k < 32) bits &= (1u << (p.k - k)) - 1;
    }
  };
  uint32_t acc[8][8] = {}, halves[4][8] = {}, minus = 0;
  const auto empty = [&] {
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int j = 0; j < 8; j++) acc[i][j] += halves[i][j] & 0xFFFF, acc[i + 4][j] += halves[i][j] >> 16, halves[i][j] = 0;
  };
  fetch(0);
  for (int k0 = 0; k0 < p.k; k0 += kDepth) {
    __syncthreads();
    if (of_a) {
#pragma unroll
      for (int i = 0; i < 16; i++) xs[part + i][pair] = k0 + part + i < p.k ? uint32_t(low[i] + 128) | uint32_t(high[i] + 128) << 16 : 0;
    } else {
#pragma unroll
      for (int i = 0; i < kDepth; i++) ws[i][mine] = bits >> i & 1 ? 0x00FF00FF : 0;
      minus += __popc(bits);
    }
    __syncthreads();
    if (k0 + kDepth < p.k) fetch(k0 + kDepth);
#pragma unroll 2
    for (int k = 0; k < kDepth; k += 2) {
      uint32_t w0[8], w1[8];
      load_eight(w0, ws[k], tx * 4), load_eight(w1, ws[k + 1], tx * 4);
      const uint4 u0 = *reinterpret_cast<const uint4*>(&xs[k][ty * 4]), u1 = *reinterpret_cast<const uint4*>(&xs[k + 1][ty * 4]);
      const uint32_t x0[4] = {u0.x, u0.y, u0.z, u0.w}, x1[4] = {u1.x, u1.y, u1.z, u1.w};
#pragma unroll
      for (int j = 0; j < 8; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) halves[i][j] += (x0[i] ^ w0[j]) + (x1[i] ^ w1[j]);
    }
    if ((k0 + kDepth) % kFull == 0) empty();
  }
  empty();
  if (!of_a) missing[mine] = minus - 128 * uint32_t(p.k);
  __syncthreads();
  store(p, acc, missing, row0, col0);
}

Status check(const ShiftGemmArgs& g, bool bits) {
  constexpr int64_t kMost = int64_t(1) << 31;
  if (g.m < 0 || g.m >= kMost) return bad("m", "must be in [0, 2^31)");
  if (g.n < 0 || g.n >= kMost) return bad("n", "must be in [0, 2^31)");
  if (g.k < 1 || g.k >= kMost - 32) return bad("k", "must be in [1, 2^31 - 32)");
  if (g.a_bytes != 1 && (bits || g.a_bytes != 4)) return bad("a_bytes", "must be 1, or of gemm_shift 4");
  if (g.m == 0 || g.n == 0) return {};
  const int64_t w_row = bits ? (g.k + 31) / 32 : g.k;
  const int w_bytes = bits ? 4 : 1;
  if (!g.a || !aligned(g.a, g.a_bytes)) return bad("a", "is null or misaligned");
  if (g.a_stride < g.k) return bad("a_stride", "must be at least k");
  if (!g.w || !aligned(g.w, w_bytes)) return bad("w", "is null or misaligned");
  if (g.w_stride < w_row) return bad("w_stride", "must be at least a row");
  if (!g.d || !aligned(g.d, 4)) return bad("d", "is null or not 4-byte aligned");
  if (g.d_stride < g.n) return bad("d_stride", "must be at least n");
  const Extent a = matrix("a", g.a, g.m, g.k, g.a_stride, 1, g.a_bytes), w = matrix("w", g.w, g.n, w_row, g.w_stride, 1, w_bytes), d = matrix("d", g.d, g.m, g.n, g.d_stride, 1, 4);
  if (span(a) == kMostBytes) return bad("a_stride", "is too large");
  if (span(w) == kMostBytes) return bad("w_stride", "is too large");
  if (span(d) == kMostBytes) return bad("d_stride", "is too large");
  if ((g.m + kTile - 1) / kTile * ((g.n + kTile - 1) / kTile) > 0x7fffffff) return bad("m", "times n is too large");
  return apart(d, {a, w});
}

Status run(const ShiftGemmArgs& g, void (*kernel)(Params), cudaStream_t stream) {
  Params p{g.a, g.w, g.a_stride, g.w_stride, g.d_stride, g.d, int(g.m), int(g.n), int(g.k), int((g.n + kTile - 1) / kTile)};
  p.wide_a = aligned(g.a, 16) && g.a_stride * g.a_bytes % 16 == 0, p.wide_w = aligned(g.w, 16) && g.w_stride % 16 == 0, p.wide_d = aligned(g.d, 16) && g.d_stride % 4 == 0;
  return launched(launch_overlapped(kernel, (g.m + kTile - 1) / kTile * p.across, kThreads, 0, stream, p));
}

}  // namespace

Status gemm_shift(const ShiftGemmArgs& g, cudaStream_t stream) {
  if (Status s = check(g, false); !s.ok() || g.m == 0 || g.n == 0) return s;
  return run(g, g.a_bytes == 1 ? shifts<int8_t> : shifts<int32_t>, stream);
}

Status gemm_add(const ShiftGemmArgs& g, cudaStream_t stream) {
  if (Status s = check(g, true); !s.ok() || g.m == 0 || g.n == 0) return s;
  return run(g, adds, stream);
}

}  // namespace orrery::kernels
