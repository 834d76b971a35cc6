// Rotary embedding, block-scaled fp8 quantisation, and row gather and scatter: one read, one write, 16 bytes a
// thread and access.
#include <cuda_fp8.h>

#include "arguments.h"
#include "gemm_params.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(int64_t work) { return unsigned((work + kThreads - 1) / kThreads); }

// --- rotary: a thread turns one pack of the first half of a head with its partner in the second half ------------

template <class T>
__global__ void __launch_bounds__(kThreads) turn(T* x, const float* cosines, const float* sines, int64_t work,
                                                 int heads, int half) {
  constexpr int kCount = Pack<T>::kCount;
  const int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  if (i >= work) return;
  const int packs = half / kCount;
  const int64_t head = i / packs;  // token * heads + head
  const int d = int(i % packs) * kCount;
  const float* c = cosines + head / heads * half + d;
  const float* s = sines + head / heads * half + d;
  T* low = x + head * 2 * half + d;
  const Pack<T> a = load_whole(low), b = load_whole(low + half);
  Pack<T> ra, rb;
#pragma unroll
  for (int k = 0; k < kCount; k++) {
    const float u = to_float(a.v[k]), v = to_float(b.v[k]), cs = __ldg(c + k), sn = __ldg(s + k);
    ra.v[k] = from_float<T>(u * cs - v * sn);
    rb.v[k] = from_float<T>(v * cs + u * sn);
  }
  store_whole(low, ra);
  store_whole(low + half, rb);
}

template <class T>
__global__ void __launch_bounds__(kThreads) turn_scalar(T* x, const float* cosines, const float* sines,
                                                        int64_t work, int heads, int half) {
  const int64_t i = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  if (i >= work) return;
  const int64_t head = i / half;
  const int d = int(i % half);
  const float c = cosines[head / heads * half + d], s = sines[head / heads * half + d];
  T* low = x + head * 2 * half + d;
  const float u = to_float(low[0]), v = to_float(low[half]);
  low[0] = from_float<T>(u * c - v * s);
  low[half] = from_float<T>(v * c + u * s);
}

// --- fp8: a group of 128 columns is shared by the lanes that hold 8 elements each: half a warp ---------------------

constexpr int kGroup = 128, kPerLane = 8, kLanes = kGroup / kPerLane;

template <class T>
__device__ __forceinline__ void load_eight(float (&x)[kPerLane], const T* row, int64_t col, int64_t cols, bool wide) {
  if (wide) {
    constexpr int kCount = Pack<T>::kCount;
#pragma unroll
    for (int k = 0; k < kPerLane; k += kCount) {
      const Pack<T> v = load_whole(row + col + k);
#pragma unroll
      for (int i = 0; i < kCount; i++) x[k + i] = to_float(v.v[i]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kPerLane; k++) x[k] = col + k < cols ? to_float(row[col + k]) : 0.f;
}

/// A lane's eight columns of a group.
struct Piece {
  int64_t group, row, col;
  bool inside;  // the group exists
  __device__ __forceinline__ Piece(int64_t at_thread, int64_t work, int64_t cols, const FastDivide& by_groups) {
    group = at_thread / kLanes;
    inside = group < work;
    row = inside ? by_groups.divide(uint32_t(group)) : 0;
    col = inside ? (group - row * by_groups.divisor) * kGroup + at_thread % kLanes * kPerLane : cols;
  }
};

union Eight {
  __nv_fp8_storage_t byte[kPerLane];
  uint2 all;
};

template <class T>
__global__ void __launch_bounds__(kThreads) to_e4m3(uint8_t* out, float* scales, const T* in, int64_t work,
                                                    int64_t cols, bool wide, FastDivide by_groups) {
  const Piece at(int64_t(blockIdx.x) * kThreads + threadIdx.x, work, cols, by_groups);
  const bool whole = wide && at.col + kPerLane <= cols;
  float x[kPerLane] = {}, top = 0.f;
  if (at.col < cols) load_eight(x, in + at.row * cols, at.col, cols, whole);
#pragma unroll
  for (int k = 0; k < kPerLane; k++) top = fmaxf(top, fabsf(x[k]));
#pragma unroll
  for (int d = kLanes / 2; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
  const float scale = top > 0.f ? top / 448.f : 1.f, inverse = 1.f / scale;
  if (at.inside && threadIdx.x % kLanes == 0) scales[at.group] = scale;
  if (at.col >= cols) return;
  Eight q;
#pragma unroll
  for (int k = 0; k < kPerLane; k++) q.byte[k] = __nv_cvt_float_to_fp8(x[k] * inverse, __NV_SATFINITE, __NV_E4M3);
  uint8_t* to = out + at.row * cols + at.col;
  if (whole) *reinterpret_cast<uint2*>(to) = q.all;
  else
    for (int k = 0; k < kPerLane && at.col + k < cols; k++) to[k] = q.byte[k];
}

/// The same for whole groups and 16-byte alignment: 16 elements a lane, so that a store is 16 bytes wide too, and one
/// conversion for two elements.
template <class T>
__global__ void __launch_bounds__(kThreads) to_e4m3_wide(uint8_t* out, float* scales, const T* in, int64_t lanes) {
  constexpr int kLoads = int(sizeof(T)), kCount = Pack<T>::kCount;
  const int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= lanes) return;  // eight lanes of a group leave together
  Pack<T> v[kLoads];
#pragma unroll
  for (int k = 0; k < kLoads; k++) v[k] = load_whole(in + i * 16 + k * kCount);
  float x[16], top = 0.f;
#pragma unroll
  for (int k = 0; k < 16; k++) top = fmaxf(top, fabsf(x[k] = to_float(v[k / kCount].v[k % kCount])));
  const unsigned group = 0xFFu << (threadIdx.x % 32 / 8 * 8);
#pragma unroll
  for (int d = 4; d; d /= 2) top = fmaxf(top, __shfl_xor_sync(group, top, d));
  const float scale = top > 0.f ? top * (1.f / 448.f) : 1.f;
  float inverse;
  asm("rcp.approx.f32 %0, %1;" : "=f"(inverse) : "f"(scale));
  uint32_t w[4];
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const uint32_t lo = __nv_cvt_float2_to_fp8x2(make_float2(x[4 * k] * inverse, x[4 * k + 1] * inverse), __NV_SATFINITE, __NV_E4M3);
    const uint32_t hi = __nv_cvt_float2_to_fp8x2(make_float2(x[4 * k + 2] * inverse, x[4 * k + 3] * inverse), __NV_SATFINITE, __NV_E4M3);
    w[k] = lo | hi << 16;
  }
  reinterpret_cast<uint4*>(out)[i] = make_uint4(w[0], w[1], w[2], w[3]);
  if (threadIdx.x % 8 == 0) scales[i / 8] = scale;
}

/// Two elements of fp8, scaled.
template <class T>
__device__ __forceinline__ void widen_pair(T (&out)[2], uint32_t pair, float scale) {
  const float2 f = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t(pair), __NV_E4M3)));
  out[0] = from_float<T>(f.x * scale), out[1] = from_float<T>(f.y * scale);
}

/// Whole groups and 16-byte alignment: eight elements a lane, two such parts a block's width apart.
template <class T>
__global__ void __launch_bounds__(kThreads) from_e4m3_wide(T* out, const uint8_t* in, const float* scales, int64_t lanes) {
  const int64_t first = int64_t(blockIdx.x) * 2 * kThreads + threadIdx.x;
  uint2 q[2];
  float scale[2];
#pragma unroll
  for (int u = 0; u < 2; u++) {
    const int64_t i = first + u * kThreads;
    if (i < lanes) q[u] = *(reinterpret_cast<const uint2*>(in) + i), scale[u] = __ldg(scales + i / kLanes);
  }
#pragma unroll
  for (int u = 0; u < 2; u++) {
    const int64_t i = first + u * kThreads;
    if (i >= lanes) return;
    T v[4][2];
#pragma unroll
    for (int k = 0; k < 4; k++) widen_pair<T>(v[k], (k < 2 ? q[u].x : q[u].y) >> (k % 2 * 16) & 0xffff, scale[u]);
    constexpr int kCount = Pack<T>::kCount;
#pragma unroll
    for (int k = 0; k < kPerLane; k += kCount) {
      Pack<T> r;
#pragma unroll
      for (int j = 0; j < kCount; j++) r.v[j] = v[(k + j) / 2][j % 2];
      store_whole(out + i * kPerLane + k, r);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) from_e4m3(T* out, const uint8_t* in, const float* scales, int64_t work, int64_t cols,
                                                      FastDivide by_groups) {
  const Piece at(int64_t(blockIdx.x) * kThreads + threadIdx.x, work, cols, by_groups);
  if (at.col >= cols) return;
  const float scale = __ldg(scales + at.group);
  const int64_t from = at.row * cols + at.col;
  for (int k = 0; k < kPerLane && at.col + k < cols; k++)
    out[from + k] = from_float<T>(scale * __half2float(__half(__nv_cvt_fp8_to_halfraw(in[from + k], __NV_E4M3))));
}

// --- rows by index: a warp per row -----------------------------------------------------------------------------------

template <class V, bool kGather>
__global__ void __launch_bounds__(kThreads) move_rows(V* out, const V* in, const int32_t* indices, int64_t count,
                                                      int64_t table_rows, int64_t row) {
  const int64_t i = (blockIdx.x * int64_t(kThreads) + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (i >= count) return;
  const int64_t index = __ldg(indices + i);
  const bool inside = index >= 0 && index < table_rows;
  if (!kGather && !inside) return;
  const V* from = in + (kGather ? index : i) * row;
  V* to = out + (kGather ? i : index) * row;
  for (int64_t k = lane; k < row; k += 128) {
    V v[4] = {};
#pragma unroll
    for (int u = 0; u < 4; u++)
      if (inside && k + u * 32 < row) v[u] = from[k + u * 32];
#pragma unroll
    for (int u = 0; u < 4; u++)
      if (k + u * 32 < row) to[k + u * 32] = v[u];
  }
}

template <bool kGather>
Status run_rows(void* out, const void* in, const int32_t* indices, int64_t count, int64_t table_rows,
                int64_t row_bytes, cudaStream_t stream) {
  if (count < 0 || count > int64_t(1) << 33) return bad("count", "must be in [0, 2^33]");
  if (row_bytes < 0) return bad("row_bytes", "must not be negative");
  if (table_rows < 0) return bad("table_rows", "must not be negative");
  if (count == 0 || row_bytes == 0) return {};
  if (!out && (kGather || table_rows)) return bad(kGather ? "out" : "table", "is null");
  if (!in && (!kGather || table_rows)) return bad(kGather ? "table" : "in", "is null");
  if (!indices || !aligned(indices, 4)) return bad("indices", "is null or not 4-byte aligned");
  if (row_bytes >= kMostBytes) return bad("row_bytes", "is too large");
  if (product(table_rows, row_bytes) >= kMostBytes) return bad("table_rows", "times row_bytes is too large");
  if (product(count, row_bytes) >= kMostBytes) return bad("count", "times row_bytes is too large");
  const Extent rows_at = dense(kGather ? "out" : "in", kGather ? out : in, count * row_bytes), table = dense("table", kGather ? in : out, table_rows * row_bytes);
  if (Status s = apart(kGather ? rows_at : table, {kGather ? table : rows_at, dense("indices", indices, count * 4)}); !s.ok()) return s;
  const unsigned grid = unsigned((count + kThreads / 32 - 1) / (kThreads / 32));
  const auto go = [&](auto v) {
    using V = decltype(v);
    move_rows<V, kGather><<<grid, kThreads, 0, stream>>>(static_cast<V*>(out), static_cast<const V*>(in), indices,
                                                         count, table_rows, row_bytes / int64_t(sizeof(V)));
  };
  const uintptr_t all = reinterpret_cast<uintptr_t>(out) | reinterpret_cast<uintptr_t>(in) | uintptr_t(row_bytes);
  if (all % 16 == 0) go(uint4{});
  else if (all % 4 == 0) go(uint32_t{});
  else go(uint8_t{});
  return launched(cudaGetLastError());
}

Status check_matrix(const char* out_name, const void* out, const char* in_name, const void* in, const float* scales,
                    DType dtype, int64_t rows, int64_t cols, int out_size, int in_size) {
  if (rows < 0 || rows > int64_t(1) << 31) return bad("rows", "must be in [0, 2^31]");
  if (cols < 0 || cols > int64_t(1) << 31) return bad("cols", "must be in [0, 2^31]");
  if (rows == 0 || cols == 0) return {};
  if (size_of(dtype) == 1) return bad("dtype", "must be f16, bf16 or f32");
  if (!out || !aligned(out, out_size)) return bad(out_name, "is null or misaligned");
  if (!in || !aligned(in, in_size)) return bad(in_name, "is null or misaligned");
  if (!scales || !aligned(scales, 4)) return bad("scales", "is null or misaligned");
  const int64_t groups = product(rows, (cols + kGroup - 1) / kGroup);
  if (groups * kLanes / kThreads >= 0x7fffffff) return bad("rows", "times cols is too large");
  const Extent to = dense(out_name, out, rows * cols * out_size), from = dense(in_name, in, rows * cols * in_size), of_groups = dense("scales", scales, groups * 4);
  if (Status s = apart(to, {from, of_groups}); !s.ok()) return s;
  return apart(of_groups, {from});
}

}  // namespace

Status rotary(void* x, const float* cosines, const float* sines, DType dtype, int64_t tokens, int64_t heads,
              int64_t dim, cudaStream_t stream) {
  if (tokens < 0) return bad("tokens", "must not be negative");
  if (heads < 0 || heads > 1 << 20) return bad("heads", "must be in [0, 2^20]");
  if (dim < 0 || dim % 2 || dim > 1 << 16) return bad("dim", "must be even and in [0, 65536]");
  if (tokens == 0 || heads == 0 || dim == 0) return {};
  if (size_of(dtype) == 1) return bad("dtype", "must be f16, bf16 or f32");
  if (!x || !aligned(x, size_of(dtype))) return bad("x", "is null or misaligned");
  if (!cosines || !aligned(cosines, 4)) return bad("cosines", "is null or misaligned");
  if (!sines || !aligned(sines, 4)) return bad("sines", "is null or misaligned");
  const int half = int(dim / 2), count = 16 / size_of(dtype);
  if (product(product(tokens, heads), dim) >= kMostBytes) return bad("tokens", "is too large");
  if (Status s = apart(dense("x", x, tokens * heads * dim * size_of(dtype)), {dense("cosines", cosines, tokens * half * 4), dense("sines", sines, tokens * half * 4)}); !s.ok()) return s;
  const bool wide = aligned(x, 16) && half % count == 0;
  const int64_t work = tokens * heads * (wide ? half / count : half);
  if (work / kThreads >= 0x7fffffff) return bad("tokens", "is too large");
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (wide) turn<T><<<blocks_for(work), kThreads, 0, stream>>>(static_cast<T*>(x), cosines, sines, work, int(heads), half);
    else turn_scalar<T><<<blocks_for(work), kThreads, 0, stream>>>(static_cast<T*>(x), cosines, sines, work, int(heads), half);
  });
  return launched(cudaGetLastError());
}

Status quantize_e4m3(void* out, float* scales, const void* in, DType dtype, int64_t rows, int64_t cols,
                     cudaStream_t stream) {
  if (Status s = check_matrix("out", out, "in", in, scales, dtype, rows, cols, 1, size_of(dtype)); !s.ok()) return s;
  if (rows == 0 || cols == 0) return {};
  const int64_t work = rows * ((cols + kGroup - 1) / kGroup);
  const bool wide = aligned(out, 8) && aligned(in, 16) && cols % 8 == 0;
  const FastDivide by_groups(uint32_t((cols + kGroup - 1) / kGroup));
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (cols % kGroup == 0 && aligned(out, 16) && aligned(in, 16))
      to_e4m3_wide<T><<<blocks_for(work * 8), kThreads, 0, stream>>>(static_cast<uint8_t*>(out), scales, static_cast<const T*>(in), work * 8);
    else to_e4m3<T><<<blocks_for(work * kLanes), kThreads, 0, stream>>>(static_cast<uint8_t*>(out), scales, static_cast<const T*>(in), work, cols, wide, by_groups);
  });
  return launched(cudaGetLastError());
}

Status dequantize_e4m3(void* out, const void* in, const float* scales, DType dtype, int64_t rows, int64_t cols,
                       cudaStream_t stream) {
  if (Status s = check_matrix("out", out, "in", in, scales, dtype, rows, cols, size_of(dtype), 1); !s.ok()) return s;
  if (rows == 0 || cols == 0) return {};
  const int64_t work = rows * ((cols + kGroup - 1) / kGroup);
  const bool wide = aligned(out, 16) && aligned(in, 8) && cols % kGroup == 0;
  const FastDivide by_groups(uint32_t((cols + kGroup - 1) / kGroup));
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (wide)
      from_e4m3_wide<T><<<blocks_for((work * kLanes + 1) / 2), kThreads, 0, stream>>>(static_cast<T*>(out), static_cast<const uint8_t*>(in), scales, work * kLanes);
    else from_e4m3<T><<<blocks_for(work * kLanes), kThreads, 0, stream>>>(static_cast<T*>(out), static_cast<const uint8_t*>(in), scales, work, cols, by_groups);
  });
  return launched(cudaGetLastError());
}

Status gather_rows(void* out, const void* table, const int32_t* indices, int64_t count, int64_t table_rows,
                   int64_t row_bytes, cudaStream_t stream) {
  return run_rows<true>(out, table, indices, count, table_rows, row_bytes, stream);
}
Status scatter_rows(void* table, const void* in, const int32_t* indices, int64_t count, int64_t table_rows,
                    int64_t row_bytes, cudaStream_t stream) {
  return run_rows<false>(table, in, indices, count, table_rows, row_bytes, stream);
}

}  // namespace orrery::kernels
