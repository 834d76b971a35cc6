// The k largest of every row: radix select on order-preserving keys, then one pass that keeps what is above the threshold.
//
// A block per row. A pass for each byte of the key that the type can fill: count the values of this byte among the
// elements that share the bytes found so far, and pick the one in which the k-th largest lies. A byte has a counter for each
// lane, because exponents crowd on few values and the lanes of an atomic would wait for each other. The row is read once
// more than there are passes, from L2 after the first. The last pass writes the chosen in order of their index, ties by lower index, so the result is the same every time.
#include "arguments.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;

/// Larger value, larger key; a NaN with a clear sign is above infinity, one with a set sign below minus infinity.
template <class T>
__device__ __forceinline__ uint32_t key_of(T v) {
  const uint32_t b = __float_as_uint(to_float(v));
  return b & 0x80000000u ? ~b : b | 0x80000000u;
}

/// Exclusive sum over the block of a value per thread, and the total.
__device__ __forceinline__ int2 block_rank(int v, int* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int up_to = v;
#pragma unroll
  for (int d = 1; d < 32; d *= 2) {
    const int other = __shfl_up_sync(~0u, up_to, d);
    if (lane >= d) up_to += other;
  }
  __syncthreads();
  if (lane == 31) scratch[warp] = up_to;
  __syncthreads();
  int before = 0, total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; w++) {
    before += w < warp ? scratch[w] : 0;
    total += scratch[w];
  }
  return make_int2(before + up_to - v, total);
}

template <class T>
__global__ void __launch_bounds__(kThreads) top_of_rows(T* values, int32_t* indices, const T* in, int cols, int64_t pitch, int k) {
  __shared__ uint32_t count[256 * 32];  // [byte][lane]
  __shared__ int scratch[kWarps], digit, left;
  const T* row = in + blockIdx.x * pitch;
  uint32_t prefix = 0;
  int wanted = k;  // of the elements that share the prefix
  constexpr int kLastShift = std::is_same_v<T, __nv_bfloat16> ? 16 : sizeof(T) == 2 ? 8 : 0;  // below, all keys are alike
  for (int shift = 24; shift >= kLastShift; shift -= 8) {
    for (int i = threadIdx.x; i < 256 * 8; i += kThreads) reinterpret_cast<uint4*>(count)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += kThreads) {
      const uint32_t key = key_of(row[i]);
      if (shift == 24 || key >> (shift + 8) == prefix) atomicAdd(&count[(key >> shift & 0xff) * 32 + threadIdx.x % 32], 1u);
    }
    __syncthreads();
    int mine = 0;  // of byte 255 - threadIdx.x: from the largest down
    if (threadIdx.x < 256)
      for (int l = 0; l < 32; l++) mine += int(count[(255 - threadIdx.x) * 32 + (l + threadIdx.x) % 32]);
    const int2 rank = block_rank(mine, scratch);
    if (mine && rank.x < wanted && wanted <= rank.x + mine) digit = 255 - threadIdx.x, left = wanted - rank.x;
    __syncthreads();
    prefix = prefix << 8 | uint32_t(digit);
    wanted = left;
    __syncthreads();
  }
  int taken = 0, equals = 0;  // prefix is now the k-th largest key, but for the bits below kLastShift
  for (int first = 0; first < cols && taken < k; first += kThreads) {
    const int i = first + threadIdx.x;
    const T v = i < cols ? row[i] : T{};
    const uint32_t key = key_of(v) >> kLastShift;
    const bool inside = i < cols;
    const int2 equal = block_rank(inside && key == prefix, scratch);
    const bool take = inside && (key > prefix || (key == prefix && equals + equal.x < wanted));
    const int2 rank = block_rank(take, scratch);
    if (take) {
      const int64_t to = int64_t(blockIdx.x) * k + taken + rank.x;
      if (values) values[to] = v;
      if (indices) indices[to] = i;
    }
    equals += equal.y, taken += rank.y;
  }
}

}  // namespace

Status top_k(void* values, int32_t* indices, const void* in, DType dtype, int64_t rows, int64_t cols, int64_t pitch, int64_t k,
             cudaStream_t stream) {
  if (rows < 0 || rows > 0x7fffffff) return bad("rows", "must be in [0, 2^31)");
  if (cols < 0 || cols > 0x7fffffff) return bad("cols", "must be in [0, 2^31)");
  if (k < 0 || k > cols) return bad("k", "must be in [0, cols]");
  if (size_of(dtype) == 1) return bad("dtype", "must be f16, bf16 or f32");
  if (rows == 0 || k == 0) return {};
  if (pitch < cols) return bad("pitch", "must be at least cols");
  if (!in || !aligned(in, size_of(dtype))) return bad("in", "is null or misaligned");
  if (!values && !indices) return bad("values", "and indices are both null");
  if (!aligned(values, size_of(dtype))) return bad("values", "is misaligned");
  if (!aligned(indices, 4)) return bad("indices", "is misaligned");
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    top_of_rows<T><<<unsigned(rows), kThreads, 0, stream>>>(static_cast<T*>(values), indices, static_cast<const T*>(in), int(cols), pitch, int(k));
  });
  return launched(cudaGetLastError());
}

}  // namespace orrery::kernels
