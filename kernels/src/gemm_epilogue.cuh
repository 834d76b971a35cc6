// From accumulators to D: scaling, bias, activation, conversion, and the ways to memory.
//
// The fast way, where there is nothing but scaling to do and other tiles follow: each warp converts 16 rows x 128 bytes, writes them in the
// 128-byte swizzle (16-bit elements with stmatrix), and stores them with one TMA instruction; two such buffers per warp let the
// next chunk be converted while the last one drains. No barrier wider than a warp is needed. (Reading the buffers back
// and storing 16 bytes a lane was 5% slower where stores matter.) Where columns of D are contiguous a warpgroup's 64 rows are turned
// round on the way to shared memory, a warp's 16 beside the next one's, which takes barriers of the group.
//
// The straight way, where there is nothing but scaling to do and no other tile follows, so that the end of the launch waits for what is
// stored: the lanes of a quad exchange what they have until each has 16 bytes of a row, and store it from registers.
//
// The general way, for everything else: 16 x 64 elements go to the same 4 KiB as f32, and a loop (rolled:
// unrolled code of this size would miss the instruction cache all the way, see NOTES.md) finishes and stores
// them, along whichever dimension of D is contiguous.
#pragma once
#include "gemm_params.h"
#include "ptx.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {

__device__ __forceinline__ float load_element(const void* p, int64_t i, DType t) {
  if (t == DType::kBF16) return __bfloat162float(static_cast<const __nv_bfloat16*>(p)[i]);
  if (t == DType::kF16) return __half2float(static_cast<const __half*>(p)[i]);
  return static_cast<const float*>(p)[i];
}

__device__ __forceinline__ void store_element(void* p, int64_t i, DType t, float v) {
  if (t == DType::kBF16) static_cast<__nv_bfloat16*>(p)[i] = __float2bfloat16_rn(v);
  else if (t == DType::kF16) static_cast<__half*>(p)[i] = __float2half_rn(v);
  else static_cast<float*>(p)[i] = v;
}

__device__ __forceinline__ uint32_t pack_pair(float lo, float hi, bool bf16) {
  uint32_t r;
  if (bf16) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}

__device__ __forceinline__ float activate(float v, Activation a) {
  switch (a) {
    case Activation::kRelu: return fmaxf(v, 0.f);
    case Activation::kSilu: return v / (1.f + __expf(-v));
    case Activation::kGelu: {
      const float u = 0.7978845608f * (v + 0.044715f * v * v * v);
      return 0.5f * v * (1.f + tanhf(u));
    }
    default: return v;
  }
}

__device__ __forceinline__ float tensor_scale(const Epilogue& e) {
  float s = e.alpha;
  if (e.scale_a) s *= __ldg(e.scale_a);
  if (e.scale_b) s *= __ldg(e.scale_b);
  return s;
}

/// Reads the epilogue's parameters now, so that their constant-cache misses pass while tiles load.
__device__ __forceinline__ void touch(const Epilogue& e) {
  asm volatile("" ::"l"(e.d), "l"(e.d_col_stride), "l"(e.row_scale), "f"(e.alpha), "r"(e.m), "r"(int(e.dtype)));
}

/// The full epilogue of one element inside the matrix.
__device__ __forceinline__ float finish(const Epilogue& e, float scale, float v, int row, int col) {
  v *= scale;
  if (e.linear) return v;
  if (e.row_scale) v *= __ldg(e.row_scale + row);
  if (e.col_scale) v *= __ldg(e.col_scale + col);
  if (e.beta != 0.f) v += e.beta * load_element(e.c, row * e.c_row_stride + col * e.c_col_stride, e.dtype);
  if (e.row_bias) v += __ldg(e.row_bias + row);
  if (e.col_bias) v += __ldg(e.col_bias + col);
  return activate(v, e.activation);
}

/// Finishes and stores four elements of a row of D, those that are inside it.
__device__ __forceinline__ void finish_quad(const Epilogue& e, float scale, const float4& v, int row, int col) {
  if (row >= e.m) return;
  const int64_t at = row * e.d_row_stride + col * e.d_col_stride;
  if (e.linear && e.d_col_stride == 1 && col + 3 < e.n && e.dtype != DType::kF32) {
    const bool bf16 = e.dtype == DType::kBF16;
    const uint2 w = make_uint2(pack_pair(v.x * scale, v.y * scale, bf16), pack_pair(v.z * scale, v.w * scale, bf16));
    uint16_t* to = static_cast<uint16_t*>(e.d) + at;
    if (reinterpret_cast<uintptr_t>(to) % 8 == 0) {
      *reinterpret_cast<uint2*>(to) = w;
      return;
    }
  }
#pragma unroll 1
  for (int j = 0; j < 4; j++) {
    const float x = j == 0 ? v.x : j == 1 ? v.y : j == 2 ? v.z : v.w;
    if (col + j < e.n)
      store_element(e.d, at + j * e.d_col_stride, e.dtype, finish(e, scale, x, row, col + j));
  }
}

/// Bytes of staging per warp: two buffers of 16 rows x 128 bytes.
constexpr int kStagingPerWarp = 2 * 16 * 128;

/// An empty group, where the last of a tile's boxes lies in the first buffer: it keeps the count of groups in step with buffers.
__device__ __forceinline__ void spare_group() {
  if (threadIdx.x % 32 == 0) ptx::bulk_commit_group();
}

/// The last 32 columns of a tile whose width is no multiple of 64: through shared memory, 16 bytes a lane.
template <class Acc>
__device__ __forceinline__ void store_half_chunk(const GemmParams& p, float scale, const Acc* acc, uint32_t buffer, int row0, int col0, int end) {
  const int lane = threadIdx.x % 32;
  const bool bf16 = p.e.dtype == DType::kBF16;
  if (lane == 0) ptx::bulk_wait_group_read<1>();
  __syncwarp();
#pragma unroll
  for (int j = 0; j < 2; j++) {
    uint32_t w[4];
#pragma unroll
    for (int q = 0; q < 4; q++) w[q] = pack_pair(float(acc[j * 8 + q * 2]) * scale, float(acc[j * 8 + q * 2 + 1]) * scale, bf16);
    ptx::stmatrix_x4<false>(buffer + (lane % 8 + 8 * (lane / 8 % 2)) * 64 + j * 32 + lane / 16 * 16, w[0], w[1], w[2], w[3]);
  }
  __syncwarp();
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int row = i * 8 + lane / 4, col = col0 + lane % 4 * 8;
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(buffer + row * 64 + lane % 4 * 16) : "memory");
    if (row0 + row < end && col < p.e.n) *reinterpret_cast<uint4*>(static_cast<uint16_t*>(p.e.d) + (row0 + row) * p.e.d_row_stride + col) = v;
  }
  __syncwarp();
  spare_group();
}

/// The last columns of a tile whose width is no multiple of 32, of a 16-bit D: from registers, a pair a lane, as they are few.
template <int kN, class Acc>
__device__ __forceinline__ void store_rest(const GemmParams& p, float scale, const Acc (&acc)[kN / 2], int row0, int col0, int end) {
  const int lane = threadIdx.x % 32, col = col0 + lane % 4 * 2;
  const bool bf16 = p.e.dtype == DType::kBF16;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = row0 + lane / 4 + 8 * half;
    uint16_t* const to = static_cast<uint16_t*>(p.e.d) + row * p.e.d_row_stride + col;
#pragma unroll
    for (int i = kN / 32 * 4; i < kN / 8; i++) {
      const int at = i * 4 + half * 2;
      if (row < end && col + i * 8 < p.e.n) *reinterpret_cast<uint32_t*>(to + i * 8) = pack_pair(float(acc[at]) * scale, float(acc[at + 1]) * scale, bf16);
    }
  }
}

/// The columns from kFirst on of an f32 D, of which a quad's pairs are a sector as they are.
template <int kFirst, int kN, class Acc>
__device__ __forceinline__ void store_f32_straight(const GemmParams& p, float scale, const Acc (&acc)[kN / 2], int row0, int col0, int end) {
  const int lane = threadIdx.x % 32, col = col0 + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = row0 + lane / 4 + 8 * half;
    float* const to = static_cast<float*>(p.e.d) + row * p.e.d_row_stride + col;
#pragma unroll
    for (int i = kFirst / 8; i < kN / 8; i++) {
      const int at = i * 4 + half * 2;
      if (row < end && col + i * 8 < p.e.n) *reinterpret_cast<float2*>(to + i * 8) = make_float2(float(acc[at]) * scale, float(acc[at + 1]) * scale);
    }
  }
}

/// Writes a warp's 16 rows by 64 columns of 16-bit elements to shared memory, as they are or turned round: `place(j)` is where this
/// lane's row of the j-th 16 columns begins, `pair(i, q)` the elements of the thread's accumulators i and i + 1, of quadrant q.
template <bool kTransposed, class Place, class Pair>
__device__ __forceinline__ void stage_box(Place place, Pair pair) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    uint32_t w[4];
#pragma unroll
    for (int q = 0; q < 4; q++) w[q] = pair(j * 8 + q * 2, q);
    ptx::stmatrix_x4<kTransposed>(place(j), w[0], w[1], w[2], w[3]);
  }
}

/// Stores a warp's 16 x kN accumulators (rows row0.., columns col0..) through shared memory and TMA.
template <int kN, class Acc>
__device__ __forceinline__ void store_through_tma(const GemmParams& p, float scale, const Acc (&acc)[kN / 2],
                                                  uint32_t staging, int row0, int col0, int end) {
  const int lane = threadIdx.x % 32;
  const bool bf16 = p.e.dtype == DType::kBF16;
  const uint32_t line = lane % 8 + 8 * (lane / 8 % 2);
#pragma unroll
  for (int chunk = 0; chunk < kN / 64; chunk++) {
    const uint32_t buffer = staging + chunk % 2 * (16 * 128);
    if (lane == 0) ptx::bulk_wait_group_read<1>();
    __syncwarp();
    stage_box<false>([&](int j) { return buffer + line * 128 + ((j * 32 + lane / 16 * 16) ^ (line % 8 * 16)); },
                     [&](int at, int) { return pack_pair(float(acc[chunk * 32 + at]) * scale, float(acc[chunk * 32 + at + 1]) * scale, bf16); });
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      if (row0 < end && col0 + chunk * 64 < p.e.n) ptx::tma_store_2d(&p.d, buffer, col0 + chunk * 64, row0);
      ptx::bulk_commit_group();
    }
  }
  if constexpr (kN % 64 >= 32) store_half_chunk(p, scale, acc + kN / 64 * 32, staging + kN / 64 % 2 * (16 * 128), row0, col0 + kN / 64 * 64, end);
  else if constexpr (kN / 64 % 2 != 0) spare_group();
  store_rest<kN>(p, scale, acc, row0, col0, end);
}

/// The same for an f32 D, 32 columns at a time.
template <int kN, class Acc>
__device__ __forceinline__ void store_f32_through_tma(const GemmParams& p, float scale, const Acc (&acc)[kN / 2], uint32_t staging, int row0,
                                                      int col0, int end) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int chunk = 0; chunk < kN / 32; chunk++) {
    const uint32_t buffer = staging + chunk % 2 * (16 * 128);
    if (lane == 0) ptx::bulk_wait_group_read<1>();
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
      const int line = lane / 4 + 8 * (i / 2 % 2);
      const uint32_t column = (i / 4 * 32 + lane % 4 * 8) ^ (line % 8 * 16);
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(buffer + line * 128 + column), "f"(float(acc[chunk * 16 + i]) * scale),
                   "f"(float(acc[chunk * 16 + i + 1]) * scale)
                   : "memory");
    }
    ptx::fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) {
      if (row0 < end && col0 + chunk * 32 < p.e.n) ptx::tma_store_2d(&p.d, buffer, col0 + chunk * 32, row0);
      ptx::bulk_commit_group();
    }
  }
  if constexpr (kN / 32 % 2 != 0) spare_group();
  store_f32_straight<kN / 32 * 32, kN>(p, scale, acc, row0, col0, end);
}

/// Stores a warpgroup's 64 x kN accumulators (rows row0.., columns col0..) where columns of D are contiguous: 64 elements of each of some
/// columns at a time, turned round on the way to `staging`, the group's. All four warps have a piece of every line.
template <int kN, class Acc>
__device__ __forceinline__ void store_turned(const GemmParams& p, float scale, const Acc (&acc)[kN / 2], uint32_t staging, int row0, int col0) {
  constexpr int kPiece = kTurnedPiece<kN>, kBox = kTurnedBox<kN>, kPieces = (kN + kPiece - 1) / kPiece;
  constexpr int kFirstBarrier = 8;  // of a group; the kernels' own are before
  const int lane = threadIdx.x % 32, barrier = kFirstBarrier + threadIdx.x / 128;
  const bool bf16 = p.e.dtype == DType::kBF16, leader = threadIdx.x % 128 == 0;
  const uint32_t line = lane % 8 + lane / 16 * 8, at = threadIdx.x % 128 / 32 * 32 + lane / 8 % 2 * 16 ^ line % 8 * 16;
#pragma unroll
  for (int piece = 0; piece < kPieces; piece++) {
    const uint32_t buffer = staging + piece % 2 * (kPiece * 128);
    if (leader) ptx::bulk_wait_group_read<1>();
    __syncwarp();
    ptx::bar_sync(barrier, 128);
#pragma unroll
    for (int j = 0; j < kPiece / 16; j++) {
      if (piece * kPiece + j * 16 >= kN) continue;
      uint32_t w[4];
#pragma unroll
      for (int q = 0; q < 4; q++) {
        const int i = piece * (kPiece / 2) + j * 8 + q * 2;
        w[q] = pack_pair(float(acc[i]) * scale, float(acc[i + 1]) * scale, bf16);
      }
      ptx::stmatrix_x4<true>(buffer + (j * 16 + line) * 128 + at, w[0], w[1], w[2], w[3]);
    }
    ptx::fence_proxy_async_shared();
    ptx::bar_sync(barrier, 128);
    if (leader) {
#pragma unroll
      for (int first = piece * kPiece; first < (piece + 1) * kPiece; first += kBox)
        if (first < kN && row0 < p.e.m && col0 + first < p.e.n) ptx::tma_store_2d(&p.d, buffer + first % kPiece * 128, row0, col0 + first);
      ptx::bulk_commit_group();
    }
  }
  if constexpr (kPieces % 2 != 0) spare_group();
}

/// Word j of lane q of a quad becomes word q of lane j.
__device__ __forceinline__ void exchange_in_quad(uint32_t (&w)[4]) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const uint32_t other = __shfl_xor_sync(~0u, odd ? w[i] : w[i + 1], 1);
    if (odd) w[i] = other;
    else w[i + 1] = other;
  }
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const uint32_t other = __shfl_xor_sync(~0u, high ? w[i] : w[i + 2], 2);
    if (high) w[i] = other;
    else w[i + 2] = other;
  }
}

/// Stores a warp's 16 x kN accumulators (rows row0.., columns col0..) from registers, eight elements of a row a lane.
template <int kN, class Acc>
__device__ __forceinline__ void store_straight(const GemmParams& p, float scale, const Acc (&acc)[kN / 2], int row0, int col0, int end) {
  const int lane = threadIdx.x % 32;
  const bool bf16 = p.e.dtype == DType::kBF16;
#pragma unroll
  for (int half = 0; half < 2; half++) {
    const int row = row0 + lane / 4 + 8 * half, col = col0 + lane % 4 * 8;
    uint16_t* const to = static_cast<uint16_t*>(p.e.d) + row * p.e.d_row_stride + col;
#pragma unroll
    for (int chunk = 0; chunk < kN / 32; chunk++) {
      uint32_t w[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int at = chunk * 16 + i * 4 + half * 2;
        w[i] = pack_pair(float(acc[at]) * scale, float(acc[at + 1]) * scale, bf16);
      }
      exchange_in_quad(w);
      if (row < end && col + chunk * 32 < p.e.n) *reinterpret_cast<uint4*>(to + chunk * 32) = make_uint4(w[0], w[1], w[2], w[3]);
    }
  }
  store_rest<kN>(p, scale, acc, row0, col0, end);
}

/// Place of (row, column) of a warp's 16 x 64 f32 staging: rows 0..3 (mod 4) of a column fall on different banks.
__device__ __forceinline__ uint32_t staged_at(uint32_t staging, int row, int col) {
  return staging + (row * 64 + (col ^ row % 4 * 8)) * 4;
}

/// The same where columns of D are contiguous: four at a time.
template <int kCols>
__device__ __forceinline__ void store_staged_quads(const Epilogue& e, float scale, uint32_t staging, int row0, int col0, int end) {
  const int size = e.dtype == DType::kF32 ? 4 : 2;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 16 * kCols / 4; i += 32) {
    const int r = i / (kCols / 4), row = row0 + r, col = col0 + i % (kCols / 4) * 4;
    if (row >= end || col >= e.n) continue;
    float v[4];
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                 : "r"(staged_at(staging, r, col - col0))
                 : "memory");
    const int count = min(4, e.n - col);
#pragma unroll
    for (int c = 0; c < 4; c++)
      if (c < count) v[c] = finish(e, scale, v[c], row, col + c);
    const int64_t at = row * e.d_row_stride + col;
    char* to = static_cast<char*>(e.d) + at * size;
    if (count == 4 && reinterpret_cast<uintptr_t>(to) % (4 * size) == 0) {
      if (size == 4) *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
      else {
        const bool bf16 = e.dtype == DType::kBF16;
        *reinterpret_cast<uint2*>(to) = make_uint2(pack_pair(v[0], v[1], bf16), pack_pair(v[2], v[3], bf16));
      }
      continue;
    }
#pragma unroll
    for (int c = 0; c < 4; c++)
      if (c < count) store_element(e.d, at + c, e.dtype, v[c]);
  }
}

/// Finishes and stores the staged 16 x kCols elements of D at (row0, col0).
template <int kCols>
__device__ __forceinline__ void store_staged(const Epilogue& e, float scale, uint32_t staging, int row0, int col0, int end) {
  if (e.d_col_stride == 1) {
    store_staged_quads<kCols>(e, scale, staging, row0, col0, end);
    return;
  }
  const bool rows_fast = e.d_row_stride == 1;
#pragma unroll 1
  for (int i = threadIdx.x % 32; i < 16 * kCols; i += 32) {
    const int r = rows_fast ? i % 16 : i / kCols, c = rows_fast ? i / 16 : i % kCols;
    const int row = row0 + r, col = col0 + c;
    if (row >= end || col >= e.n) continue;
    float v;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(staged_at(staging, r, c)) : "memory");
    store_element(e.d, row * e.d_row_stride + col * e.d_col_stride, e.dtype, finish(e, scale, v, row, col));
  }
}

/// Columns that go the general way at a time, of kN.
__host__ __device__ constexpr int general_columns(int n) {
  if (n % 32 == 0) return n % 64 ? 32 : 64;
  int columns = n < 64 ? n : 56;
  while (n % columns) columns -= 8;
  return columns;
}

/// Stores a warp's 16 x kN accumulators the general way. Chunks that lie outside of D are not left out: behind a __syncwarp that a branch leads
/// to ptxas no longer takes a warp to be together, and the next tile's products get their descriptors lane by lane.
template <int kN, class Acc>
__device__ __forceinline__ void store_generally(const Epilogue& e, float scale, const Acc (&acc)[kN / 2],
                                                uint32_t staging, int row0, int col0, int end) {
  constexpr int kCols = general_columns(kN);
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int chunk = 0; chunk < kN / kCols; chunk++) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kCols / 2; i += 2) {
      const uint32_t at = staged_at(staging, lane / 4 + 8 * (i / 2 % 2), i / 4 * 8 + lane % 4 * 2);
      asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(at), "f"(float(acc[chunk * kCols / 2 + i])),
                   "f"(float(acc[chunk * kCols / 2 + i + 1]))
                   : "memory");
    }
    __syncwarp();
    store_staged<kCols>(e, scale, staging, row0, col0 + chunk * kCols, end);
  }
}

/// Stores the kBlocks x 64 x kN accumulators of a warpgroup whose first element of D is (row0, col0), rows before `end`.
/// kGrouped: `end` is not the end of D, so that only whole boxes may be left to TMA. kTurns: D may be stored by columns.
template <int kBlocks, int kN, bool kTurns = false, bool kGrouped = false, class Acc>
__device__ __forceinline__ void store_tile(const GemmParams& p, const Acc (&acc)[kBlocks][kN / 2], uint32_t staging, int row0,
                                           int col0, int end) {
  const float scale = tensor_scale(p.e);
  const int warp = threadIdx.x % 128 / 32;
  if constexpr (kTurns) {
    if (p.turned) {
#pragma unroll
      for (int block = 0; block < kBlocks; block++) store_turned<kN>(p, scale, acc[block], staging - warp * kStagingPerWarp, row0 + block * 64, col0);
      return;
    }
  }
  row0 += warp * 16;
#pragma unroll
  for (int block = 0; block < kBlocks; block++) {
    if constexpr (kN >= 32) {
      if (!kGrouped && p.straight) {
        if (p.e.dtype == DType::kF32) store_f32_straight<0, kN>(p, scale, acc[block], row0 + block * 64, col0, end);
        else store_straight<kN>(p, scale, acc[block], row0 + block * 64, col0, end);
        continue;
      }
    }
    if constexpr (kN >= 64) {
      if (p.tma_store && (!kGrouped || row0 + block * 64 + 16 <= end)) {
        if (p.e.dtype == DType::kF32) store_f32_through_tma<kN>(p, scale, acc[block], staging, row0 + block * 64, col0, end);
        else store_through_tma<kN>(p, scale, acc[block], staging, row0 + block * 64, col0, end);
        continue;
      }
    }
    if (kGrouped) {  // a box may still be on its way out of the staging
      if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
      __syncwarp();
    }
    store_generally<kN>(p.e, scale, acc[block], staging, row0 + block * 64, col0, end);
  }
}

}  // namespace orrery::kernels
