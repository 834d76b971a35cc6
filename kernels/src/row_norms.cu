// softmax, layernorm and rmsnorm of rows: a block holds a row in registers; one read and one write.
//
// A thread holds kPacks 16-byte packs in the input's own type, blockDim packs apart, and widens them each time it uses
// them. Statistics are block reductions in f32: for softmax the maximum, then the sum of exponentials; for layernorm
// the mean, then the squared deviations from it (two passes over registers do not cancel as sums of squares would);
// for rmsnorm the squares.
//
// Rows that are whole 16-byte packs are streamed: blocks are persistent, and while one row is reduced the next ones
// are on their way to shared memory by bulk copy. Without this the reductions leave the memory idle half of the time
// (NOTES.md). Other rows are loaded where they are used, one block each.
#include "arguments.h"
#include "ptx.cuh"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

enum class Norm { kSoftmax, kLayer, kRms };

struct RowParams {
  void *out, *sum_out;
  const void *in, *residual, *gamma, *beta;
  float eps;
  int64_t rows, cols, pitch;
  int stages;  // rows on their way per block, when streamed
};

/// `scratch` (32 floats) must not be used again before the next barrier but one.
template <bool kMax>
__device__ __forceinline__ float block_reduce(float v, float* scratch) {
  const auto combine = [](float a, float b) { return kMax ? fmaxf(a, b) : a + b; };
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  const int warps = blockDim.x / 32, lane = threadIdx.x % 32;
  v = lane < warps ? scratch[lane] : kMax ? -INFINITY : 0.f;
#pragma unroll
  for (int d = 16; d; d /= 2) v = combine(v, __shfl_xor_sync(~0u, v, d));
  return v;
}

template <bool kWide, class T>
__device__ __forceinline__ Pack<T> load_pack(const T* row, int col, int cols) {
  if constexpr (kWide) return *reinterpret_cast<const Pack<T>*>(row + col);
  Pack<T> r{};
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; i++)
    if (col + i < cols) r.v[i] = row[col + i];
  return r;
}
template <bool kWide, class T>
__device__ __forceinline__ void store_pack(T* row, int col, int cols, const Pack<T>& v) {
  if constexpr (kWide) *reinterpret_cast<Pack<T>*>(row + col) = v;
  else
    for (int i = 0; i < Pack<T>::kCount; i++)
      if (col + i < cols) row[col + i] = v.v[i];
}

/// A thread's part of a row.
template <class T, int kPacks, bool kWide>
struct RowPart {
  static constexpr int kCount = Pack<T>::kCount;
  Pack<T> x[kPacks];
  __device__ static __forceinline__ int column(int k) { return (k * blockDim.x + threadIdx.x) * kCount; }

  __device__ __forceinline__ void load(const T* row, int cols) {
#pragma unroll
    for (int k = 0; k < kPacks; k++) x[k] = column(k) < cols ? load_pack<kWide>(row, column(k), cols) : Pack<T>{};
  }
  __device__ __forceinline__ void add(const T* residual, T* sum_out, int cols) {
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
      if (column(k) >= cols) continue;
      const Pack<T> r = load_pack<kWide>(residual, column(k), cols);
#pragma unroll
      for (int i = 0; i < kCount; i++) x[k].v[i] = from_float<T>(to_float(x[k].v[i]) + to_float(r.v[i]));
      if (sum_out) store_pack<kWide>(sum_out, column(k), cols, x[k]);
    }
  }
  /// Folds the row's elements into `f`.
  template <class F>
  __device__ __forceinline__ void fold(int cols, F& f) const {
#pragma unroll
    for (int k = 0; k < kPacks; k++) {
      if (kWide && column(k) >= cols) continue;
#pragma unroll
      for (int i = 0; i < kCount; i++)
        if (kWide || column(k) + i < cols) f.take(to_float(x[k].v[i]));
    }
  }
};

constexpr float kLog2e = 1.44269504f;

struct Largest {
  float value = -INFINITY;
  __device__ __forceinline__ void take(float v) { value = fmaxf(value, v); }
};
struct Total {
  float value = 0.f;
  __device__ __forceinline__ void take(float v) { value += v; }
};
struct Squares {  // of deviations from `mean`
  float mean, value = 0.f;
  __device__ __forceinline__ void take(float v) { value = fmaf(v - mean, v - mean, value); }
};
__device__ __forceinline__ float exp2_approximate(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}
struct Exponentials {  // 2^(v log2(e) - shift)
  float shift, value = 0.f;
  __device__ __forceinline__ float of(float v) const { return exp2_approximate(fmaf(v, kLog2e, -shift)); }
  __device__ __forceinline__ void take(float v) { value += of(v); }
};

/// Statistics of a row: the result is f(v) * scale + shift, f being the exponential for softmax. After the first
/// barrier in here all threads have their part of the row in registers: `loaded` is called then.
template <Norm kNorm, class Part, class Loaded>
__device__ __forceinline__ void statistics(const Part& row, const RowParams& p, float (&scratch)[3][32], float* scale,
                                           float* shift, Loaded loaded) {
  const int cols = int(p.cols);
  if constexpr (kNorm == Norm::kSoftmax) {
    Largest largest;
    row.fold(cols, largest);
    *shift = block_reduce<true>(largest.value, scratch[0]) * kLog2e;
    loaded();
    Exponentials total{*shift};
    row.fold(cols, total);
    *scale = 1.f / block_reduce<false>(total.value, scratch[1]);
  } else {
    Squares squares{0.f};
    if constexpr (kNorm == Norm::kLayer) {
      Total total;
      row.fold(cols, total);
      squares.mean = block_reduce<false>(total.value, scratch[0]) / float(p.cols);
      loaded();
    }
    row.fold(cols, squares);
    *scale = rsqrtf(block_reduce<false>(squares.value, scratch[1]) / float(p.cols) + p.eps);
    if constexpr (kNorm == Norm::kRms) loaded();
    *shift = -squares.mean * *scale;
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
    Pack<T> g{}, b{}, r;
    if (kNorm != Norm::kSoftmax && p.gamma) g = load_pack<kWide>(static_cast<const T*>(p.gamma), col, cols);
    if (kNorm == Norm::kLayer && p.beta) b = load_pack<kWide>(static_cast<const T*>(p.beta), col, cols);
#pragma unroll
    for (int i = 0; i < r.kCount; i++) {
      float v = to_float(row.x[k].v[i]);
      if constexpr (kNorm == Norm::kSoftmax) {
        v = scale * Exponentials{shift}.of(v);
      } else {
        v = fmaf(v, scale, shift);
        if (p.gamma) v *= to_float(g.v[i]);
        if (kNorm == Norm::kLayer && p.beta) v += to_float(b.v[i]);
      }
      r.v[i] = from_float<T>(v);
    }
    store_pack<kWide>(out, col, cols, r);
  }
}

/// Threads of the largest block that runs kPacks packs a thread.
constexpr int most_threads(int packs) { return packs == 1 ? 64 : packs == 2 ? 128 : packs == 4 ? 256 : 512; }

struct Nothing {
  __device__ void operator()() const {}
};

template <class T, int kPacks, Norm kNorm>
__global__ void __launch_bounds__(most_threads(kPacks)) one_row(const RowParams p) {
  __shared__ float scratch[3][32];
  const int64_t at = int64_t(blockIdx.x) * p.pitch;
  RowPart<T, kPacks, false> row;
  row.load(static_cast<const T*>(p.in) + at, int(p.cols));
  if (kNorm != Norm::kSoftmax && p.residual)
    row.add(static_cast<const T*>(p.residual) + at, p.sum_out ? static_cast<T*>(p.sum_out) + at : nullptr, int(p.cols));
  float scale, shift;
  statistics<kNorm>(row, p, scratch, &scale, &shift, Nothing{});
  write_row<kNorm>(row, static_cast<T*>(p.out) + at, p, scale, shift);
}

/// The rows that a block streams: stage s holds the row and, behind it, the residual's.
template <class T>
struct Stream {
  const RowParams& p;
  uint32_t stages, full;
  int bytes;
  __device__ __forceinline__ void fetch(int64_t row, int stage) const {
    const uint32_t bar = full + stage * 8, to = stages + stage * bytes * (p.residual ? 2 : 1);
    ptx::mbarrier_arrive_expect_tx(bar, bytes * (p.residual ? 2 : 1));
    ptx::bulk_load(to, static_cast<const T*>(p.in) + row * p.pitch, bytes, bar);
    if (p.residual) ptx::bulk_load(to + bytes, static_cast<const T*>(p.residual) + row * p.pitch, bytes, bar);
  }
};
/// Refills a stage once its row is in registers.
template <class T>
struct Refill {
  const Stream<T>& stream;
  int64_t row;
  int stage;
  __device__ __forceinline__ void operator()() const {
    if (threadIdx.x == 0 && row < stream.p.rows) stream.fetch(row, stage);
  }
};

template <class T, int kPacks, Norm kNorm>
__global__ void __launch_bounds__(most_threads(kPacks)) streamed_rows(const __grid_constant__ RowParams p) {
  extern __shared__ __align__(16) unsigned char buffer[];
  __shared__ float scratch[3][32];
  __shared__ uint64_t barriers[4];
  const Stream<T> stream{p, ptx::smem_address(buffer), ptx::smem_address(barriers), int(p.cols * sizeof(T))};
  if (threadIdx.x == 0) {
    for (int s = 0; s < p.stages; s++) ptx::mbarrier_init(stream.full + s * 8, 1);
    ptx::fence_mbarrier_init();
    for (int s = 0; s < p.stages; s++)
      if (blockIdx.x + int64_t(s) * gridDim.x < p.rows) stream.fetch(blockIdx.x + int64_t(s) * gridDim.x, s);
  }
  __syncthreads();
  int stage = 0, phase = 0;
  for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    ptx::mbarrier_wait(stream.full + stage * 8, phase);
    const T* in = reinterpret_cast<const T*>(buffer + stage * stream.bytes * (p.residual ? 2 : 1));
    RowPart<T, kPacks, true> row;
    row.load(in, int(p.cols));
    if (kNorm != Norm::kSoftmax && p.residual)
      row.add(in + p.cols, p.sum_out ? static_cast<T*>(p.sum_out) + r * p.pitch : nullptr, int(p.cols));
    float scale, shift;
    statistics<kNorm>(row, p, scratch, &scale, &shift, Refill<T>{stream, r + int64_t(p.stages) * gridDim.x, stage});
    write_row<kNorm>(row, static_cast<T*>(p.out) + r * p.pitch, p, scale, shift);
    if (++stage == p.stages) stage = 0, phase ^= 1;
    __syncthreads();  // scratch is used again
  }
}

template <class T, int kPacks, Norm kNorm>
void launch_part(RowParams p, bool wide, int threads, cudaStream_t stream) {
  if (const int64_t most = 224 * 1024; !wide || p.cols * int64_t(sizeof(T)) * (p.residual ? 2 : 1) > most) {
    one_row<T, kPacks, kNorm><<<unsigned(p.rows), threads, 0, stream>>>(p);
    return;
  }
  const int stage = int(p.cols * sizeof(T)) * (p.residual ? 2 : 1);
  // Three rows ahead in at most a quarter of shared memory; long rows take two in up to all of it.
  p.stages = stage * 3 <= 56 * 1024 ? 3 : stage * 2 <= 224 * 1024 ? 2 : 1;
  const int shared = stage * p.stages;
  auto kernel = streamed_rows<T, kPacks, kNorm>;
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
  int device = 0, sms = 1, per_sm = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, threads, shared);
  const int64_t most = int64_t(sms) * (per_sm > 0 ? per_sm : 1);
  kernel<<<unsigned(p.rows < most ? p.rows : most), threads, shared, stream>>>(p);
}

template <class T, Norm kNorm>
void launch_rows(const RowParams& p, bool wide, cudaStream_t stream) {
  const int64_t packs = (p.cols + Pack<T>::kCount - 1) / Pack<T>::kCount;
  const int per_thread = packs <= 64 ? 1 : packs <= 256 ? 2 : packs <= 1024 ? 4 : packs <= 4096 ? 8 : 16;
  const int threads = int((packs + per_thread - 1) / per_thread + 31) / 32 * 32;
  switch (per_thread) {
    case 1: launch_part<T, 1, kNorm>(p, wide, threads, stream); break;
    case 2: launch_part<T, 2, kNorm>(p, wide, threads, stream); break;
    case 4: launch_part<T, 4, kNorm>(p, wide, threads, stream); break;
    case 8: launch_part<T, 8, kNorm>(p, wide, threads, stream); break;
    default: launch_part<T, 16, kNorm>(p, wide, threads, stream); break;
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
  const int64_t bytes = ((count - 1) * p.pitch + p.cols) * size;
  if (p.in != p.out && overlap(p.in, bytes, p.out, bytes)) return bad("out", "partly overlaps in");
  const void* all[] = {p.out, p.in, p.sum_out, p.residual, p.gamma, p.beta};
  static const char* const names[] = {"out", "in", "sum_out", "residual", "gamma", "beta"};
  bool wide = p.cols % (16 / size) == 0 && p.pitch % (16 / size) == 0;
  for (int i = 0; i < 6; i++) {
    if (!aligned(all[i], size)) return bad(names[i], "is misaligned for its type");
    wide = wide && aligned(all[i], 16);
  }
  with_element(dtype, [&](auto zero) { launch_rows<decltype(zero), kNorm>(p, wide, stream); });
  return launched(cudaGetLastError());
}

}  // namespace

Status softmax(void* out, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
               cudaStream_t stream) {
  return run<Norm::kSoftmax>({out, nullptr, in, nullptr, nullptr, nullptr, 0.f, rows, cols, pitch, 1}, dtype, stream);
}
Status layernorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma,
                 const void* beta, float eps, DType dtype, int64_t rows, int64_t cols, int64_t pitch,
                 cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kLayer>({out, sum_out, in, residual, gamma, beta, eps, rows, cols, pitch, 1}, dtype, stream);
}
Status rmsnorm(void* out, void* sum_out, const void* in, const void* residual, const void* gamma, float eps,
               DType dtype, int64_t rows, int64_t cols, int64_t pitch, cudaStream_t stream) {
  if (sum_out && !residual) return bad("sum_out", "needs a residual");
  return run<Norm::kRms>({out, sum_out, in, residual, gamma, nullptr, eps, rows, cols, pitch, 1}, dtype, stream);
}

}  // namespace orrery::kernels
