// Quantisation to int4 with a scale for every 128 columns, and back. Four lanes have a group: of its sixteen pieces of eight columns lane j has those
// j, j + 4, j + 8 and j + 12, whose words follow each other in the order that they are kept in (WeightFormat::kInt4). So words are read and written 16 bytes a
// lane, a group's largest is found by two exchanges, and its scale by four lanes.
//
// What a launch of 2^30 bytes takes is decided by its instructions as much as by memory: a word of eight columns has 53 of them where a word a lane had 155
// (NOTES.md). Groups that need more, as their scale is not a normal number or they have infinities or NaNs, take a way of their own.
#include "arguments.h"
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {
namespace {

constexpr int kThreads = 256, kWords = 4;  // of a block; of a lane

/// Pairs of 16-bit elements, as they lie in a register.
template <class T>
struct Pair;
template <>
struct Pair<__nv_bfloat16> {
  using V = __nv_bfloat162;
  static constexpr float kNormal = 1.17549435e-38f;  // the least normal number
  __device__ static __forceinline__ float low(uint32_t v) { return __uint_as_float(v << 16); }
  __device__ static __forceinline__ float high(uint32_t v) { return __uint_as_float(v & 0xffff0000u); }
};
template <>
struct Pair<__half> {
  using V = __half2;
  static constexpr float kNormal = 6.10351562e-5f;
  __device__ static __forceinline__ float low(uint32_t v) { return __low2float(reinterpret_cast<const __half2&>(v)); }
  __device__ static __forceinline__ float high(uint32_t v) { return __high2float(reinterpret_cast<const __half2&>(v)); }
};

template <class T>
__device__ __forceinline__ uint32_t magnitudes(uint32_t pair) {
  const auto r = __habs2(reinterpret_cast<const typename Pair<T>::V&>(pair));
  return reinterpret_cast<const uint32_t&>(r);
}
/// NaN where one of two is.
template <class T>
__device__ __forceinline__ uint32_t larger(uint32_t a, uint32_t b) {
  using V = typename Pair<T>::V;
  const V r = __hmax2_nan(reinterpret_cast<const V&>(a), reinterpret_cast<const V&>(b));
  return reinterpret_cast<const uint32_t&>(r);
}

/// 1.5 * 2^23 and what is added to an int4 value: a sum with it is rounded to the nearest integer, ties to even, and ends in the value's four bits.
constexpr float kRound = 12582912.f + 8.f;
constexpr uint32_t kRoundBits = 0x4B400000u;  // of such a sum, without those four
/// Where in its word the k-th of eight values is, in fours of bits.
__device__ constexpr int nibble(int k) { return k / 2 + k % 2 * 4; }

/// Any group, by its four lanes, from memory: a quotient that is no number becomes -8, and a scale of 0 makes all of a group 0.
template <class T>
__device__ __forceinline__ void take_any(const uint4* pieces, uint32_t (&word)[kWords], T& scale) {
  const auto at = [&](int e, int k) { return float(reinterpret_cast<const T*>(pieces + 4 * e)[k]); };
  float top = 0.f;
#pragma unroll 1
  for (int i = 0; i < 8 * kWords; i++) top = fmaxf(top, fabsf(at(i / 8, i % 8)));
  const uint32_t group = 15u << (threadIdx.x % 32 & ~3);
#pragma unroll 1
  for (int d = 1; d < 4; d *= 2) top = fmaxf(top, __shfl_xor_sync(group, top, d));
  scale = T(top > 0.f ? top / 7.f : 1.f);
  const float inverse = float(scale) > 0.f ? 1.f / float(scale) : 0.f;
#pragma unroll 1
  for (int i = 0; i < 8 * kWords; i++) {
    if (i % 8 == 0) word[0] = word[1], word[1] = word[2], word[2] = word[3], word[3] = 0;
    const uint32_t bits = __float_as_uint(fminf(7.f, fmaxf(-8.f, at(i / 8, i % 8) * inverse)) + kRound);
    word[3] |= (bits & 15) << 4 * nibble(i % 8);
  }
}

/// The words of a lane's pieces, which are at `pieces`, and the scale of its group. By whole warps.
template <class T>
__device__ __forceinline__ void take(const uint4 (&raw)[kWords], const uint4* pieces, uint32_t (&word)[kWords], T& scale) {
  const uint32_t(&pairs)[4 * kWords] = reinterpret_cast<const uint32_t(&)[4 * kWords]>(raw);
  uint32_t most = magnitudes<T>(pairs[0]);
#pragma unroll
  for (int i = 1; i < 4 * kWords; i++) most = larger<T>(most, magnitudes<T>(pairs[i]));
  most = larger<T>(most, most >> 16 | most << 16);
  most = larger<T>(most, __shfl_xor_sync(~0u, most, 1));
  most = larger<T>(most, __shfl_xor_sync(~0u, most, 2));
  const float top = Pair<T>::low(most);
  // As a scale is rounded to 16 bits, and no quotient of one by seven is near the middle between two of those, what 1/7 is out by makes no difference.
  scale = T(top != 0.f ? top * (1.f / 7.f) : 1.f);
  const float divisor = float(scale);
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
  inverse = fmaf(inverse, fmaf(-divisor, inverse, 1.f), inverse);  // rounded to the nearest now, as 1 / divisor is
#pragma unroll
  for (int e = 0; e < kWords; e++) {
    uint32_t by_nibble[8], sum = 0, beside = 0;
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const uint32_t pair = pairs[4 * e + k / 2];
      by_nibble[nibble(k)] = __float_as_uint(__fadd_rn(__fmul_rn(k % 2 ? Pair<T>::high(pair) : Pair<T>::low(pair), inverse), kRound));
    }
#pragma unroll
    for (int n = 7; n >= 0; n--) sum = (sum << 4) + by_nibble[n], beside = (beside << 4) + kRoundBits;
    word[e] = sum - beside;  // an addition for each value instead of masking, shifting and joining it: what is beside the four bits is the same for all
  }
  if (!(top < INFINITY && divisor >= Pair<T>::kNormal)) take_any<T>(pieces, word, scale);
}

/// Piece e of the `lane`-th lane of all is 4 * e further on.
__device__ __forceinline__ int64_t first_piece(int64_t lane) { return lane / 4 * 16 + lane % 4; }

/// kWhole: the words are at a multiple of 16 bytes. ahead: so many bytes of `in` are brought to L2 before the wait. Bounds: with no number of blocks, or
/// eight, ptxas keeps to 32 registers, in which not all loads are under way at once.
template <class T, bool kWhole>
__global__ void __launch_bounds__(kThreads, 1) to_int4(uint32_t* out, T* scales, const T* in, int64_t lanes, int64_t ahead) {
  ptx::griddepcontrol_launch_dependents();
  prefetch_share(in, ahead);
  ptx::griddepcontrol_wait();
  const int64_t lane = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  const uint4* const pieces = reinterpret_cast<const uint4*>(in) + first_piece(min(lane, lanes - 1));
  uint4 raw[kWords];
#pragma unroll
  for (int e = 0; e < kWords; e++) raw[e] = pieces[4 * e];
  uint32_t word[kWords];
  T scale;
  take<T>(raw, pieces, word, scale);
  if (lane >= lanes) return;
  if (kWhole) {
    reinterpret_cast<uint4*>(out)[lane] = make_uint4(word[0], word[1], word[2], word[3]);
  } else {
#pragma unroll
    for (int e = 0; e < kWords; e++) out[lane * kWords + e] = word[e];
  }
  if (lane % 4 == 0) scales[lane / 4] = scale;
}

/// The inverse. kBlocks: of an SM. Where eight make one round, which is when all of it is under way at once, they need registers to be few; where there are
/// many rounds, 40 instead of 32 are a little better (NOTES.md).
template <class T, bool kWhole, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) from_int4(T* out, const uint32_t* in, const T* scales, int64_t lanes) {
  begin_overlapped();
  const int64_t lane = blockIdx.x * int64_t(kThreads) + threadIdx.x;
  if (lane >= lanes) return;
  uint32_t word[kWords];
  if (kWhole) {
    const uint4 raw = __ldg(reinterpret_cast<const uint4*>(in) + lane);
    word[0] = raw.x, word[1] = raw.y, word[2] = raw.z, word[3] = raw.w;
  } else {
#pragma unroll
    for (int e = 0; e < kWords; e++) word[e] = __ldg(in + lane * kWords + e);
  }
  const float scale = float(scales[lane / 4]);
  uint4* const pieces = reinterpret_cast<uint4*>(out) + first_piece(lane);
#pragma unroll
  for (int e = 0; e < kWords; e++) {
    Pack<T> v;
#pragma unroll
    for (int k = 0; k < 8; k++) v.v[k] = T((__uint_as_float(0x4B000000u | (word[e] >> 4 * nibble(k) & 15)) - (8388608.f + 8.f)) * scale);  // 2^23 and the bits
    store_hinted(reinterpret_cast<T*>(pieces + 4 * e), v);
  }
}

/// What both have in common: `full` is f16 or bf16, `narrow` the words. `full_name`, `narrow_name`: of the call.
Status check_int4(const char* full_name, const void* full, const char* narrow_name, const void* narrow, const void* scales, DType dtype, int64_t rows, int64_t cols, bool widens) {
  if (dtype != DType::kF16 && dtype != DType::kBF16) return bad("dtype", "must be f16 or bf16");
  if (rows < 0 || rows >= int64_t(1) << 31) return bad("rows", "must be in [0, 2^31)");
  if (cols < 0 || cols >= int64_t(1) << 31 || cols % 128) return bad("cols", "must be a multiple of 128 in [0, 2^31)");
  if (rows == 0 || cols == 0) return {};
  if (rows * cols / 8 / 256 >= 0x7fffffff) return bad("rows", "times cols is too large");
  if (!narrow || !aligned(narrow, 4)) return bad(narrow_name, "is null or misaligned");
  if (!scales || !aligned(scales, 2)) return bad("scales", "is null or misaligned");
  if (!full || !aligned(full, 16)) return bad(full_name, "is null or not 16-byte aligned");
  const Extent wide = dense(full_name, full, rows * cols * 2), words = dense(narrow_name, narrow, rows * cols / 2), of_groups = dense("scales", scales, rows * cols / 64);
  if (widens) return apart(wide, {words, of_groups});
  if (Status s = apart(words, {wide, of_groups}); !s.ok()) return s;
  return apart(of_groups, {wide});
}

/// Calls f with the element type as a value, and whether the words are at a multiple of 16 bytes as a constant.
template <class F>
Status with_kernel(DType dtype, const void* words, F&& f) {
  const auto go = [&](auto zero) { return aligned(words, 16) ? f(zero, std::true_type()) : f(zero, std::false_type()); };
  return dtype == DType::kF16 ? go(__half()) : go(__nv_bfloat16());
}

int64_t blocks_of(int64_t lanes) { return (lanes + kThreads - 1) / kThreads; }

}  // namespace

Status quantize_int4(void* out, void* scales, const void* in, DType dtype, int64_t rows, int64_t cols, cudaStream_t stream) {
  if (Status s = check_int4("in", in, "out", out, scales, dtype, rows, cols, false); !s.ok() || rows == 0 || cols == 0) return s;
  const int64_t lanes = rows * cols / (8 * kWords), bytes = rows * cols * 2;
  const int64_t ahead = bytes < int64_t(64) << 20 ? bytes / 128 * 48 : 0;  // three eighths; of more it is read before the launch ahead is done writing (NOTES.md)
  return with_kernel(dtype, out, [&](auto zero, auto whole) {
    using T = decltype(zero);
    return launched(launch_overlapped(to_int4<T, whole>, blocks_of(lanes), kThreads, 0, stream, static_cast<uint32_t*>(out), static_cast<T*>(scales), static_cast<const T*>(in), lanes, ahead));
  });
}

Status dequantize_int4(void* out, const void* in, const void* scales, DType dtype, int64_t rows, int64_t cols, cudaStream_t stream) {
  if (Status s = check_int4("out", out, "in", in, scales, dtype, rows, cols, true); !s.ok() || rows == 0 || cols == 0) return s;
  const int64_t lanes = rows * cols / (8 * kWords);
  return with_kernel(dtype, in, [&](auto zero, auto whole) {
    using T = decltype(zero);
    const auto kernel = blocks_of(lanes) <= 8 * sm_count() ? from_int4<T, whole, 8> : from_int4<T, whole, 1>;
    return launched(launch_overlapped(kernel, blocks_of(lanes), kThreads, 0, stream, static_cast<T*>(out), static_cast<const uint32_t*>(in), static_cast<const T*>(scales), lanes));
  });
}

}  // namespace orrery::kernels
