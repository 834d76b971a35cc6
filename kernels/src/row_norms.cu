// softmax, layernorm and rmsnorm of rows: one block per row, the row in registers, one read and one write.
//
// A thread holds kPacks 16-byte packs, blockDim packs apart. Statistics are two block reductions in f32: for
// softmax the maximum, then the sum of exponentials; for layernorm the mean, then the squared deviations from it
// (two passes over registers cost nothing and do not cancel); for rmsnorm the squares.
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

enum class Norm { kSoftmax, kLayer, kRms };

struct RowParams {
  void *out, *sum_out;
  const void *in, *residual, *gamma, *beta;
  float eps;
  int64_t cols, pitch;
  bool wide;  // every row starts on a 16-byte boundary and is whole packs
};

template <bool kMax>
__device__ __forceinline__ float block_reduce(float v, float* scratch) {
  const auto combine = [](float a, float b) { return kMax ? fmaxf(a, b) : a + b; };
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  if (blockDim.x == 32) return v;
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  v = lane < warps ? scratch[lane] : kMax ? -INFINITY : 0.f;
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

template <class T>
__device__ __forceinline__ Pack<T> load_pack(const T* row, int64_t col, const RowParams& p, bool streaming) {
  if (p.wide) return streaming ? load_streaming(row + col) : *reinterpret_cast<const Pack<T>*>(row + col);
  Pack<T> r{};
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; i++)
    if (col + i < p.cols) r.v[i] = row[col + i];
  return r;
}
template <class T>
__device__ __forceinline__ void store_pack(T* row, int64_t col, const RowParams& p, const Pack<T>& v) {
  if (p.wide) return store_streaming(row + col, v);
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; i++)
    if (col + i < p.cols) row[col + i] = v.v[i];
}

template <class T, int kPacks, Norm kNorm>
__global__ void __launch_bounds__(1024) rows(const RowParams p) {
  constexpr int kCount = Pack<T>::kCount;
  __shared__ float scratch[32];
  const int64_t at = int64_t(blockIdx.x) * p.pitch;
  const T* in = static_cast<const T*>(p.in) + at;
  T* out = static_cast<T*>(p.out) + at;
  float x[kPacks][kCount];
  const auto column = [&](int k) { return (int64_t(k) * blockDim.x + threadIdx.x) * kCount; };
#pragma unroll
  for (int k = 0; k < kPacks; k++) {
    const int64_t col = column(k);
    const Pack<T> v = col < p.cols ? load_pack(in, col, p, true) : Pack<T>{};
#pragma unroll
    for (int i = 0; i < kCount; i++) x[k][i] = to_float(v.v[i]);
  }
  if constexpr (kNorm != Norm::kSoftmax) {
    if (p.residual) {
#pragma unroll
      for (int k = 0; k < kPacks; k++) {
        const int64_t col = column(k);
        if (col >= p.cols) continue;
        const Pack<T> v = load_pack(static_cast<const T*>(p.residual) + at, col, p, true);
        Pack<T> s;
#pragma unroll
        for (int i = 0; i < kCount; i++) x[k][i] = to_float(s.v[i] = from_float<T>(x[k][i] + to_float(v.v[i])));
        if (p.sum_out) store_pack(static_cast<T*>(p.sum_out) + at, col, p, s);
      }
    }
  }
  float scale, shift = 0.f;
  if constexpr (kNorm == Norm::kSoftmax) {
    float top = -INFINITY, total = 0.f;
#pragma unroll
    for (int k = 0; k < kPacks; k++)
#pragma unroll
      for (int i = 0; i < kCount; i++)
        if (column(k) + i < p.cols) top = fmaxf(top, x[k][i]);
    top = block_reduce<true>(top, scratch);
#pragma unroll
    for (int k = 0; k < kPacks; k++)
#pragma unroll
      for (int i = 0; i < kCount; i++) {
        x[k][i] = column(k) + i < p.cols ? exp2f((x[k][i] - top) * 1.44269504f) : 0.f;
        total += x[k][i];
      }
    scale = 1.f / block_reduce<false>(total, scratch);
  } else {
    float mean = 0.f, squares = 0.f;
    if constexpr (kNorm == Norm::kLayer) {
#pragma unroll
      for (int k = 0; k < kPacks; k++)
#pragma unroll
        for (int i = 0; i < kCount; i++) mean += x[k][i];  // columns beyond the row are zero
      mean = block_reduce<false>(mean, scratch) / float(p.cols);
    }
#pragma unroll
    for (int k = 0; k < kPacks; k++)
#pragma unroll
      for (int i = 0; i < kCount; i++)
        if (column(k) + i < p.cols) squares += (x[k][i] - mean) * (x[k][i] - mean);
    scale = rsqrtf(block_reduce<false>(squares, scratch) / float(p.cols) + p.eps);
    shift = -mean * scale;
  }
#pragma unroll
  for (int k = 0; k < kPacks; k++) {
    const int64_t col = column(k);
    if (col >= p.cols) continue;
    Pack<T> g{}, b{}, r;
    if (p.gamma) g = load_pack(static_cast<const T*>(p.gamma), col, p, false);
    if (p.beta) b = load_pack(static_cast<const T*>(p.beta), col, p, false);
#pragma unroll
    for (int i = 0; i < kCount; i++) {
      float v = x[k][i] * scale + shift;
      if (p.gamma) v *= to_float(g.v[i]);
      if (p.beta) v += to_float(b.v[i]);
      r.v[i] = from_float<T>(v);
    }
    store_pack(out, col, p, r);
  }
}

template <class T, Norm kNorm>
void launch_rows(const RowParams& p, int64_t count, cudaStream_t stream) {
  const int64_t packs = (p.cols + Pack<T>::kCount - 1) / Pack<T>::kCount;
  // Two packs per thread where the row allows 32 threads or more, more only for long rows.
  const int per_thread = packs <= 64 ? 1 : packs <= 2048 ? 2 : packs <= 4096 ? 4 : 8;
  const int threads = int((packs + per_thread - 1) / per_thread + 31) / 32 * 32;
  const unsigned grid = unsigned(count);
  if (per_thread == 1) rows<T, 1, kNorm><<<grid, threads, 0, stream>>>(p);
  else if (per_thread == 2) rows<T, 2, kNorm><<<grid, threads, 0, stream>>>(p);
  else if (per_thread == 4) rows<T, 4, kNorm><<<grid, threads, 0, stream>>>(p);
  else rows<T, 8, kNorm><<<grid, threads, 0, stream>>>(p);
}

template <Norm kNorm>
Status run(RowParams p, DType dtype, int64_t count, cudaStream_t stream) {
  if (count < 0 || count > 0x7fffffff) return bad("rows", "must be in [0, 2^31)");
  if (p.cols < 0) return bad("cols", "must not be negative");
  if (count == 0 || p.cols == 0) return {};
  if (!p.out) return bad("out", "is null");
  if (!p.in) return bad("in", "is null");
  if (count > 1 && p.pitch < p.cols) return bad("pitch", "is smaller than cols");
  const int size = size_of(dtype);
  if (size == 1) return bad("dtype", "must be f16, bf16 or f32");
  if (p.cols > int64_t(131072) / size) return bad("cols", "is too large: a row is at most 128 KiB");
  const int64_t bytes = ((count - 1) * p.pitch + p.cols) * size;
  if (p.in != p.out && overlap(p.in, bytes, p.out, bytes)) return bad("out", "partly overlaps in");
  const void* all[] = {p.out, p.in, p.sum_out, p.residual, p.gamma, p.beta};
  static const char* const names[] = {"out", "in", "sum_out", "residual", "gamma", "beta"};
  p.wide = p.cols % (16 / size) == 0 && p.pitch % (16 / size) == 0;
  for (int i = 0; i < 6; i++) {
    if (!aligned(all[i], size)) return bad(names[i], "is misaligned for its type");
    p.wide = p.wide && aligned(all[i], 16);
  }
  with_element(dtype, [&](auto zero) { launch_rows<decltype(zero), kNorm>(p, count, stream); });
  return launched(cudaGetLastError());
}

}  // namespace

Status softmax(void* out, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
               cudaStream_t stream) {
  return run<Norm::kSoftmax>({out, nullptr, in, nullptr, nullptr, nullptr, 0.f, cols, pitch, false}, dtype, rows, stream);
}
Status layernorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma,
                 const void* beta, float eps, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
                 cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kLayer>({out, sum_out, in, residual, gamma, beta, eps, cols, pitch, false}, dtype, rows, stream);
}
Status rmsnorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma, float eps,
               DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kRms>({out, sum_out, in, residual, gamma, nullptr, eps, cols, pitch, false}, dtype, rows, stream);
}

}  // namespace orrery::kernels
