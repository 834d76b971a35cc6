// softmax, layernorm and rmsnorm of rows: a block holds a row in registers; one read and one write.
//
// A thread holds kPacks 16-byte packs in the input's own type, blockDim packs apart, and widens them each time it uses
// them. Statistics are block reductions in f32: for softmax the maximum, then the sum of exponentials; for layernorm
// the mean, then the squared deviations from it (two passes over registers do not cancel as sums of squares would);
// for rmsnorm the squares.
//
// A block for each row, and as many rows on their way as blocks fit on an SM: persistent blocks that stream rows through
// shared memory read and write at 0.9 of this one's rate, as persistent copies do (NOTES.md).
#include <cmath>

#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

enum class Norm { kSoftmax, kLayer, kRms };

struct RowParams {
  void *out, *sum_out;
  const void *in, *residual, *gamma, *beta;
  float eps;
  int64_t rows, cols, pitch;
  int ahead = 0;  // blocks that may start under the end of the launch before and ask for their rows to be brought to L2
};

/// `scratch` (32 floats) must not be used again before the next barrier but one.
template <bool kMax>
__device__ __forceinline__ float block_reduce(float v, float* scratch) {
  const auto combine = [](float a, float b) { return kMax ? fmaxf(a, b) : a + b; };
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  if (blockDim.x == 32) return v;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  v = lane < warps ? scratch[lane] : kMax ? -INFINITY : 0.f;
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

/// A register of 4 bytes and the elements in it. Elements are kept this way round between uses: as values of their own type
/// the compiler gives each a register.
template <class T>
struct Word {
  static constexpr int kCount = 4 / int(sizeof(T));
  __device__ static __forceinline__ void widen(float (&v)[kCount], uint32_t w) {
    if constexpr (sizeof(T) == 4) v[0] = __uint_as_float(w);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) v[0] = __uint_as_float(w << 16), v[1] = __uint_as_float(w & 0xffff0000u);
    else v[0] = __half2float(__ushort_as_half(uint16_t(w))), v[1] = __half2float(__ushort_as_half(uint16_t(w >> 16)));
  }
  __device__ static __forceinline__ uint32_t narrow(const float (&v)[kCount]) {
    uint32_t w;
    if constexpr (sizeof(T) == 4) w = __float_as_uint(v[0]);
    else if constexpr (std::is_same_v<T, __nv_bfloat16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(v[1]), "f"(v[0]));
    else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(v[1]), "f"(v[0]));
    return w;
  }
};

/// 16 bytes of a row as words, zeros beyond its end.
struct Words {
  uint32_t w[4];
};
template <bool kWide, class T>
__device__ __forceinline__ Words load_words(const T* row, int col, int cols) {
  Words r{};
  if constexpr (kWide) {
    const uint4 raw = *reinterpret_cast<const uint4*>(row + col);
    r = {{raw.x, raw.y, raw.z, raw.w}};
  } else {
    Pack<T> e{};
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; i++)
      if (col + i < cols) e.v[i] = row[col + i];
    memcpy(&r, &e, 16);
  }
  return r;
}
template <bool kWide, class T>
__device__ __forceinline__ void store_words(T* row, int col, int cols, const Words& v) {
  if constexpr (kWide) {
    *reinterpret_cast<uint4*>(row + col) = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
  } else {
    Pack<T> e;
    memcpy(&e, &v, 16);
#pragma unroll
    for (int i = 0; i < Pack<T>::kCount; i++)
      if (col + i < cols) row[col + i] = e.v[i];
  }
}

/// A thread's part of a row.
template <class T, int kPacks, bool kWide>
struct RowPart {
  static constexpr int kCount = Pack<T>::kCount, kInWord = Word<T>::kCount;
  Words x[kPacks];
  __device__ static __forceinline__ int column(int k) { return (k * blockDim.x + threadIdx.x) * kCount; }

  __device__ __forceinline__ void load(const T* row, int cols) {
#pragma unroll
    for (int k = 0; k < kPacks; k++) x[k] = column(k) < cols ? load_words<kWide>(row, column(k), cols) : Words{};
  }
  __device__ __forceinline__ void add(const T* residual, T* sum_out, int cols) {
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
      if (column(k) >= cols) continue;
      const Words r = load_words<kWide>(residual, column(k), cols);
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float a[kInWord], b[kInWord];
        Word<T>::widen(a, x[k].w[j]), Word<T>::widen(b, r.w[j]);
#pragma unroll
        for (int i = 0; i < kInWord; i++) a[i] += b[i];
        x[k].w[j] = Word<T>::narrow(a);
      }
      if (sum_out) store_words<kWide>(sum_out, column(k), cols, x[k]);
    }
  }
  /// Folds the row's elements into `f`.
  template <class F>
  __device__ __forceinline__ void fold(int cols, F& f) const {
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
      if (kWide && column(k) >= cols) continue;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        float v[kInWord];
        Word<T>::widen(v, x[k].w[j]);
#pragma unroll
        for (int i = 0; i < kInWord; i++)
          if (kWide || column(k) + j * kInWord + i < cols) f.take(v[i], i);
      }
    }
  }
};

constexpr float kLog2e = 1.44269504f;

// Each keeps two sums, for the two elements of a word, so that they need not wait for each other.
struct Largest {
  float part[2] = {-INFINITY, -INFINITY};
  __device__ __forceinline__ void take(float v, int i) { part[i] = fmaxf(part[i], v); }
  __device__ __forceinline__ float value() const { return fmaxf(part[0], part[1]); }
};
struct Total {
  float part[2] = {0.f, 0.f};
  __device__ __forceinline__ void take(float v, int i) { part[i] += v; }
  __device__ __forceinline__ float value() const { return part[0] + part[1]; }
};
struct Squares {  // of deviations from `mean`
  float mean, part[2] = {0.f, 0.f};
  __device__ __forceinline__ void take(float v, int i) { part[i] = fmaf(v - mean, v - mean, part[i]); }
  __device__ __forceinline__ float value() const { return part[0] + part[1]; }
};
__device__ __forceinline__ float exp2_approximate(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
struct Exponentials {  // 2^(v log2(e) - shift)
  float shift, part[2] = {0.f, 0.f};
  __device__ __forceinline__ float of(float v) const { return exp2_approximate(fmaf(v, kLog2e, -shift)); }
  __device__ __forceinline__ void take(float v, int i) { part[i] += of(v); }
  __device__ __forceinline__ float value() const { return part[0] + part[1]; }
};

/// Statistics of a row: the result is f(v) * scale + shift, f being the exponential for softmax.
template <Norm kNorm, class Part>
__device__ __forceinline__ void statistics(const Part& row, const RowParams& p, float (&scratch)[2][32], float* scale, float* shift) {
  const int cols = int(p.cols);
  if constexpr (kNorm == Norm::kSoftmax) {
    Largest largest;
    row.fold(cols, largest);
    *shift = block_reduce<true>(largest.value(), scratch[0]) * kLog2e;
    Exponentials total{*shift};
    row.fold(cols, total);
    *scale = 1.f / block_reduce<false>(total.value(), scratch[1]);
  } else if constexpr (kNorm == Norm::kLayer) {
    Total total;
    row.fold(cols, total);
    Squares squares{block_reduce<false>(total.value(), scratch[0]) / float(p.cols)};
    row.fold(cols, squares);
    *scale = rsqrtf(block_reduce<false>(squares.value(), scratch[1]) / float(p.cols) + p.eps);
    *shift = -squares.mean * *scale;
  } else {
    Squares squares{0.f};
    row.fold(cols, squares);
    *scale = rsqrtf(block_reduce<false>(squares.value(), scratch[0]) / float(p.cols) + p.eps);
    *shift = 0.f;
  }
}

template <Norm kNorm, bool kWide, class T, int kPacks>
__device__ __forceinline__ void write_row(const RowPart<T, kPacks, kWide>& row, T* out, const RowParams& p, float scale,
                                          float shift) {
  const int cols = int(p.cols);
#pragma unroll
  for (int k = 0; k < kPacks; k++) {
    const int col = row.column(k);
    if (col >= cols) continue;
    Words g{}, b{}, r;
    if (kNorm != Norm::kSoftmax && p.gamma) g = load_words<kWide>(static_cast<const T*>(p.gamma), col, cols);
    if (kNorm == Norm::kLayer && p.beta) b = load_words<kWide>(static_cast<const T*>(p.beta), col, cols);
    constexpr int kInWord = Word<T>::kCount;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      float v[kInWord], gamma[kInWord], beta[kInWord];
      Word<T>::widen(v, row.x[k].w[j]), Word<T>::widen(gamma, g.w[j]), Word<T>::widen(beta, b.w[j]);
#pragma unroll
      for (int i = 0; i < kInWord; i++) {
        if constexpr (kNorm == Norm::kSoftmax) {
          v[i] = scale * Exponentials{shift}.of(v[i]);
        } else {
          v[i] = fmaf(v[i], scale, shift);
          if (p.gamma) v[i] *= gamma[i];
          if (kNorm == Norm::kLayer && p.beta) v[i] += beta[i];
        }
      }
      r.w[j] = Word<T>::narrow(v);
    }
    store_words<kWide>(out, col, cols, r);
  }
}

constexpr int kMostThreads = 512;

template <class T, int kPacks, Norm kNorm, bool kWide>
__global__ void __launch_bounds__(kMostThreads) one_row(const RowParams p) {
  __shared__ float scratch[2][32];
  const int64_t at = int64_t(blockIdx.x) * p.pitch;
  ptx::griddepcontrol_launch_dependents();
  if (kWide && threadIdx.x == 0 && blockIdx.x < p.ahead) ptx::bulk_prefetch(static_cast<const T*>(p.in) + at, uint32_t(p.cols * sizeof(T)));
  ptx::griddepcontrol_wait();
  RowPart<T, kPacks, kWide> row;
  row.load(static_cast<const T*>(p.in) + at, int(p.cols));
  if (kNorm != Norm::kSoftmax && p.residual)
    row.add(static_cast<const T*>(p.residual) + at, p.sum_out ? static_cast<T*>(p.sum_out) + at : nullptr, int(p.cols));
  float scale, shift;
  statistics<kNorm>(row, p, scratch, &scale, &shift);
  write_row<kNorm>(row, static_cast<T*>(p.out) + at, p, scale, shift);
}

template <class T, Norm kNorm>
cudaError_t launch_rows(RowParams p, bool wide, cudaStream_t stream) {
  const int64_t packs = (p.cols + Pack<T>::kCount - 1) / Pack<T>::kCount;
  const int per_thread = packs <= 64 ? 1 : packs <= 1024 ? 2 : packs <= 2048 ? 4 : packs <= 4096 ? 8 : 16;
  const int threads = int((packs + per_thread - 1) / per_thread + 31) / 32 * 32;
  p.ahead = sm_count() * (2048 / threads);
  const auto go = [&](auto part) {
    return launch_overlapped(wide ? one_row<T, part, kNorm, true> : one_row<T, part, kNorm, false>, p.rows, threads, 0, stream, p);
  };
  switch (per_thread) {
    case 1: return go(std::integral_constant<int, 1>{});
    case 2: return go(std::integral_constant<int, 2>{});
    case 4: return go(std::integral_constant<int, 4>{});
    case 8: return go(std::integral_constant<int, 8>{});
    default: return go(std::integral_constant<int, 16>{});
  }
}

template <Norm kNorm>
Status run(const RowParams& p, DType dtype, cudaStream_t stream) {
  const int64_t count = p.rows;
  if (count < 0 || count > 0x7fffffff) return bad("rows", "must be in [0, 2^31)");
  if (p.cols < 0) return bad("cols", "must not be negative");
  if (count == 0 || p.cols == 0) return {};
  if (!p.out) return bad("out", "is null");
  if (!p.in) return bad("in", "is null");
  if (count > 1 && p.pitch < p.cols) return bad("pitch", "is smaller than cols");
  const int size = size_of(dtype);
  if (size == 1) return bad("dtype", "must be f16, bf16 or f32");
  if (p.cols > int64_t(131072) / size) return bad("cols", "is too large: a row is at most 128 KiB");
  if (p.pitch < 0 || product(product(count, p.pitch), size) >= kMostBytes) return bad("pitch", "is negative or too large");
  if (!(p.eps >= 0) || std::isinf(p.eps)) return bad("eps", "must be finite and not negative");
  const void* all[] = {p.out, p.in, p.sum_out, p.residual, p.gamma, p.beta};
  static const char* const names[] = {"out", "in", "sum_out", "residual", "gamma", "beta"};
  bool wide = p.cols % (16 / size) == 0 && p.pitch % (16 / size) == 0;
  for (int i = 0; i < 6; i++) {
    if (!aligned(all[i], size)) return bad(names[i], "is misaligned for its type");
    wide = wide && aligned(all[i], 16);
  }
  // A row is read as a whole before it is written, so that what is written may take the place of what is read.
  const auto rows_of = [&](const char* name, const void* data) { return matrix(name, data, count, p.cols, p.pitch, 1, size); };
  const Extent out = rows_of("out", p.out), sum_out = rows_of("sum_out", p.sum_out), in = rows_of("in", p.in), residual = rows_of("residual", p.residual);
  const Extent gamma = dense("gamma", p.gamma, p.cols * size), beta = dense("beta", p.beta, p.cols * size);
  if (Status s = apart(out, {sum_out, gamma, beta}, {in, residual}); !s.ok()) return s;
  if (Status s = apart(sum_out, {gamma, beta}, {in, residual}); !s.ok()) return s;
  cudaError_t e = cudaSuccess;
  with_element(dtype, [&](auto zero) { e = launch_rows<decltype(zero), kNorm>(p, wide, stream); });
  return launched(e);
}

}  // namespace

Status softmax(void* out, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
               cudaStream_t stream) {
  return run<Norm::kSoftmax>({out, nullptr, in, nullptr, nullptr, nullptr, 0.f, rows, cols, pitch}, dtype, stream);
}
Status layernorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma,
                 const void* beta, float eps, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
                 cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kLayer>({out, sum_out, in, residual, gamma, beta, eps, rows, cols, pitch}, dtype, stream);
}
Status rmsnorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma, float eps,
               DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kRms>({out, sum_out, in, residual, gamma, nullptr, eps, rows, cols, pitch}, dtype, stream);
}

}  // namespace orrery::kernels
