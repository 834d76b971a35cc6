// The k largest of every row: radix select on order-preserving keys, then one pass that keeps what is above the threshold.
//
// A block per row. A pass for each byte of the key that the type can fill: count the values of this byte among the
// elements that share the bytes found so far, and pick the one in which the k-th largest lies. A byte has a counter for each
// lane, because exponents crowd on few values and the lanes of an atomic would wait for each other. The row is read once
// more than there are passes, from L2 after the first. The last pass writes the chosen in order of their index, ties by lower index, so the result is the same every time.
//
// Short rows of 16-bit types are read once: into shared memory, two or four warps a row (top_k_rows.cuh), or where they are shorter still or
// much of them is wanted into registers. The k-th largest of the threads' own maxima is below no more than a
// few elements besides the k largest: those go to a list, whose members then count how many of the others are larger. Where
// too many are equal for the list, the k-th largest is found bit by bit instead, and ties are numbered.
#include "arguments.h"
#include "launch.h"
#include "top_k_rows.cuh"
#include "vectors.cuh"
#include "warp_sum.cuh"

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
template <int kWarps>
__device__ __forceinline__ int2 block_rank(int v, int* scratch) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int up_to = sum_up_to(v);
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
  __shared__ alignas(16) uint32_t count[256 * 32];  // [byte][lane]
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
    const int2 rank = block_rank<kWarps>(mine, scratch);
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
    const int2 equal = block_rank<kWarps>(inside && key == prefix, scratch);
    const bool take = inside && (key > prefix || (key == prefix && equals + equal.x < wanted));
    const int2 rank = block_rank<kWarps>(take, scratch);
    if (take) {
      const int64_t to = int64_t(blockIdx.x) * k + taken + rank.x;
      if (values) values[to] = v;
      if (indices) indices[to] = i;
    }
    equals += equal.y, taken += rank.y;
  }
}

/// Two 16-bit floats as unsigned numbers of the same order: of a negative one all bits are turned, of another the sign.
__device__ __forceinline__ uint32_t order_pair(uint32_t w) { return w ^ ((w >> 15 & 0x00010001u) * 0x7FFFu | 0x80008000u); }
__device__ __forceinline__ uint32_t pair_back(uint32_t key) { return key & 0x8000u ? key ^ 0x8000u : ~key & 0xFFFFu; }

/// Largest number of 16 bits that at least k of the warp's reach.
template <int kCount>
__device__ __forceinline__ uint32_t reached_by(const uint32_t (&v)[kCount], int k) {
  uint32_t found = 0;
#pragma unroll 1
  for (uint32_t bit = 0x8000; bit; bit >>= 1) {
    int mine = 0;
#pragma unroll
    for (int i = 0; i < kCount; i++) mine += v[i] >= (found | bit);
    if (int(__reduce_add_sync(~0u, mine)) >= k) found |= bit;
  }
  return found;
}

constexpr int kShortThreads = 256, kListed = 1024;

/// Element i of vector v of a thread is (v * 256 + thread) * 8 + i of the row.
template <class T, int kVectors>
__global__ void __launch_bounds__(kShortThreads, 6) top_of_short_rows(T* values, int32_t* indices, const T* in, int cols, int64_t pitch, int k) {
  __shared__ uint32_t maxima[kShortThreads], list[kListed], cut;
  __shared__ int listed, scratch[kWarps];
  begin_overlapped();
  const uint4* row = reinterpret_cast<const uint4*>(in + blockIdx.x * pitch);
  const int tid = threadIdx.x, lane = tid % 32;
  uint32_t key[kVectors][4], most = 0;
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    const int at = v * kShortThreads + tid;
    uint4 x = make_uint4(~0u, ~0u, ~0u, ~0u);  // the least there is
    if (at < cols / 8) x = __ldg(row + at);
    key[v][0] = x.x, key[v][1] = x.y, key[v][2] = x.z, key[v][3] = x.w;
  }
#pragma unroll
  for (int v = 0; v < kVectors; v++)
#pragma unroll
    for (int i = 0; i < 4; i++) key[v][i] = order_pair(key[v][i]), most = __vmaxu2(most, key[v][i]);
  most = max(most & 0xFFFF, most >> 16);
  maxima[tid] = most;
  if (tid == 0) listed = 0;
  __syncthreads();
  if (tid < 32) {
    uint32_t v[kShortThreads / 32];
#pragma unroll
    for (int i = 0; i < kShortThreads / 32; i++) v[i] = maxima[i * 32 + lane];
    const uint32_t found = reached_by(v, k);
    if (lane == 0) cut = found;
  }
  __syncthreads();
  const uint32_t least = cut;
  __syncthreads();
  if (most >= least) {
    const uint32_t both = least * 0x00010001u;
#pragma unroll
    for (int v = 0; v < kVectors; v++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const uint32_t hits = __vcmpgeu2(key[v][i], both);
        if (!hits) continue;
        const int index = (v * kShortThreads + tid) * 8 + 2 * i, place = atomicAdd(&listed, hits == ~0u ? 2 : 1);
        if (place + 1 >= kListed) continue;
        uint32_t low = key[v][i] << 16 | uint32_t(0xFFFF - index), high = (key[v][i] & 0xFFFF0000u) | uint32_t(0xFFFE - index);
        list[place] = hits & 0xFFFF ? low : high;
        if (hits == ~0u) list[place + 1] = high;
      }
  }
  __syncthreads();
  const int count = listed;
  if (count < kListed - 1) {
    for (int c = tid; c < count; c += kShortThreads) {
      const uint32_t mine = list[c];
      int larger = 0;
#pragma unroll 8
      for (int j = 0; j < count; j++) larger += list[j] > mine;
      if (larger == k - 1) cut = mine;
    }
    __syncthreads();
    const uint32_t last = cut;
    for (int c = tid; c < count; c += kShortThreads) {
      const uint32_t mine = list[c];
      if (mine < last) continue;
      int before = 0;
#pragma unroll 8
      for (int j = 0; j < count; j++) before += list[j] >= last && (list[j] & 0xFFFF) > (mine & 0xFFFF);
      const int64_t to = int64_t(blockIdx.x) * k + before;
      const uint16_t bits = uint16_t(pair_back(mine >> 16));
      if (values) memcpy(values + to, &bits, 2);
      if (indices) indices[to] = 0xFFFF - int(mine & 0xFFFF);
    }
    return;
  }
  uint32_t exact = 0;  // the k-th largest key
#pragma unroll 1
  for (uint32_t bit = 0x8000; bit; bit >>= 1) {
    const uint32_t both = (exact | bit) * 0x00010001u;
    int mine = 0;
#pragma unroll
    for (int v = 0; v < kVectors; v++)
#pragma unroll
      for (int i = 0; i < 4; i++) mine += __popc(__vcmpgeu2(key[v][i], both)) / 16;
    if (block_rank<kShortThreads / 32>(mine, scratch).y >= k) exact |= bit;
  }
  int more = 0;
#pragma unroll
  for (int v = 0; v < kVectors; v++)
#pragma unroll
    for (int i = 0; i < 4; i++) more += __popc(__vcmpgtu2(key[v][i], exact * 0x00010001u)) / 16;
  const int ties = k - block_rank<kShortThreads / 32>(more, scratch).y;  // to be taken
  int taken = 0, equals = 0;
#pragma unroll
  for (int v = 0; v < kVectors; v++) {
    int equal = 0, take = 0;
    const auto element = [&](int i) { return key[v][i / 2] >> i % 2 * 16 & 0xFFFF; };
#pragma unroll
    for (int i = 0; i < 8; i++) equal += element(i) == exact;
    const int2 rank = block_rank<kShortThreads / 32>(equal, scratch);
    int seen = equals + rank.x;
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const bool mine = element(i) > exact || (element(i) == exact && seen < ties);
      seen += element(i) == exact, take += mine, chosen |= uint32_t(mine) << i;
    }
    const int2 place = block_rank<kShortThreads / 32>(take, scratch);
    int64_t to = int64_t(blockIdx.x) * k + taken + place.x;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      if (!(chosen >> i & 1)) continue;
      const uint16_t bits = uint16_t(pair_back(element(i)));
      if (values) memcpy(values + to, &bits, 2);
      if (indices) indices[to] = (v * kShortThreads + tid) * 8 + i;
      to++;
    }
    equals += rank.y, taken += place.y;
  }
}

template <class T>
cudaError_t launch_short(T* values, int32_t* indices, const T* in, int rows, int cols, int64_t pitch, int k, cudaStream_t stream) {
  if (RowOfWarps<2>::takes(cols, k)) {
    const auto bits = [](auto* p) { return reinterpret_cast<uint16_t*>(const_cast<T*>(p)); };
    const auto by = [&](auto row, size_t shared) {
      using R = decltype(row);
      return launch_overlapped(top_of_row_by_warps<R>, rows, R::kThreads, std::max(shared, sizeof(typename R::Shared)), stream, bits(values), indices, bits(in),
                               8 * sm_count(), cols, pitch, k);
    };
    // Up to eight rows an SM all SMs shall have as many. Above, a row has the more warps the more its own time counts.
    if (rows <= 8 * sm_count()) return by(RowOfWarps<2>{}, kSharedOfEight);
    return rows <= 64 * sm_count() ? by(RowOfWarps<4>{}, 0) : by(RowOfWarps<2>{}, 0);
  }
  const auto go = [&](auto kernel) { return launch_overlapped(kernel, rows, kShortThreads, 0, stream, values, indices, in, cols, pitch, k); };
  if (cols <= 2048) return go(top_of_short_rows<T, 1>);
  if (cols <= 4096) return go(top_of_short_rows<T, 2>);
  return go(top_of_short_rows<T, 4>);
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
  const int size = size_of(dtype);
  if (product(product(rows, pitch), size) >= kMostBytes) return bad("pitch", "is too large");
  const Extent from = matrix("in", in, rows, cols, pitch, 1, size), found = dense("values", values, product(product(rows, k), size)), places = dense("indices", indices, product(product(rows, k), 4));
  if (Status s = apart(found, {from, places}); !s.ok()) return s;
  if (Status s = apart(places, {from}); !s.ok()) return s;
  const bool short_rows = size_of(dtype) == 2 && k <= kShortThreads && cols <= 8192 && cols % 8 == 0 && pitch % 8 == 0 && aligned(in, 16);
  cudaError_t error = cudaSuccess;
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2)
      if (short_rows) {
        error = launch_short(static_cast<T*>(values), indices, static_cast<const T*>(in), int(rows), int(cols), pitch, int(k), stream);
        return;
      }
    top_of_rows<T><<<unsigned(rows), kThreads, 0, stream>>>(static_cast<T*>(values), indices, static_cast<const T*>(in), int(cols), pitch, int(k));
    error = cudaGetLastError();
  });
  return launched(error);
}

}  // namespace orrery::kernels
