// calib/steps/fields.cu: a lane's row written piece by piece, pieces of 1 to 8 bytes one right after the other or with arithmetic between:
// which stores leave an SM as one; and streams of one word a thread behind integer divisions, by short blocks.
#include "../truth/truth.h"

namespace {
using namespace truth;

/// Each lane writes `kPieces` pieces of a row of `kApart` pieces; `between` products lie between two.
template <class T, int kPieces, int kApart, int kBetween>
__global__ void write_pieces(T* p, const float* in, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  const float x = in[i & 8191];
  T* own = p + i * kApart;
  float v = x;
#pragma unroll
  for (int k = 0; k < kPieces; k++) {
    own[k] = T(int(x) + k);
#pragma unroll
    for (int j = 0; j < kBetween; j++) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(v)::"memory");
  }
  if (v == 12345.f) own[0] = T(0);
}
#define PIECES(name, type, pieces, apart, between) \
  TRUTH("partial", name, {1 << 18, 1 << 20}, [](long n) { \
    auto p = zeros<type>(n * apart); \
    auto in = zeros<float>(8192); \
    return [=] { write_pieces<type, pieces, apart, between><<<blocks_for(n, 256), 256>>>(p, in, n); }; \
  });
PIECES("pieces1_2_2", uint8_t, 2, 2, 0) PIECES("pieces1_4_4", uint8_t, 4, 4, 0) PIECES("pieces1_8_8", uint8_t, 8, 8, 0) PIECES("pieces1_16_16", uint8_t, 16, 16, 0)
PIECES("pieces2_2_2", uint16_t, 2, 2, 0) PIECES("pieces2_4_4", uint16_t, 4, 4, 0) PIECES("pieces2_8_8", uint16_t, 8, 8, 0) PIECES("pieces2_16_16", uint16_t, 16, 16, 0)
PIECES("pieces4_2_2", uint32_t, 2, 2, 0) PIECES("pieces4_3_3", uint32_t, 3, 3, 0) PIECES("pieces4_4_4", uint32_t, 4, 4, 0) PIECES("pieces4_8_8", uint32_t, 8, 8, 0) PIECES("pieces4_16_16", uint32_t, 16, 16, 0)
PIECES("pieces8_2_2", uint64_t, 2, 2, 0) PIECES("pieces8_3_3", uint64_t, 3, 3, 0) PIECES("pieces8_4_4", uint64_t, 4, 4, 0)
PIECES("pieces1_4_4_work4", uint8_t, 4, 4, 4) PIECES("pieces2_8_8_work4", uint16_t, 8, 8, 4) PIECES("pieces4_2_2_work4", uint32_t, 2, 2, 4) PIECES("pieces4_4_4_work1", uint32_t, 4, 4, 1) PIECES("pieces4_4_4_work4", uint32_t, 4, 4, 4)
PIECES("pieces4_8_8_work4", uint32_t, 8, 8, 4) PIECES("pieces8_3_3_work4", uint64_t, 3, 3, 4) PIECES("pieces4_4_4_work16", uint32_t, 4, 4, 16) PIECES("pieces4_2_4", uint32_t, 2, 4, 0) PIECES("pieces4_3_5", uint32_t, 3, 5, 0)

/// A word a thread, copied to where `kDivisions` quotients say.
template <int kDivisions>
__global__ void divided_copy(uint32_t* out, const uint32_t* in, uint32_t n, uint32_t by) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t q = i, sum = 0;
#pragma unroll
  for (int k = 0; k < kDivisions; k++) {
    const uint32_t next = q / (by + k);
    sum += q - next * (by + k), q = next;
  }
  out[i] = in[i - (sum == ~0u)];
}
#define DIVIDED(n) \
  TRUTH("memory", "divided_copy" #n, {1 << 20, 1 << 24, 1 << 26}, [](long size) { \
    auto in = zeros<uint32_t>(size), out = zeros<uint32_t>(size); \
    return [=] { divided_copy<n><<<blocks_for(size, 256), 256>>>(out, in, uint32_t(size), 7); }; \
  });
DIVIDED(0) DIVIDED(1) DIVIDED(2) DIVIDED(3) DIVIDED(4) DIVIDED(8)

/// A word from each of `kArrays` arrays, summed up into another.
template <int kArrays>
__global__ void sum_arrays(double* out, const double* in, long each, long n) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i >= n) return;
  double sum = 0;
#pragma unroll
  for (int k = 0; k < kArrays; k++) sum += in[k * each + i];
  out[i] = sum;
}
#define ARRAYS(arrays) \
  TRUTH("memory", "sum_arrays" #arrays, {0, 4352}, [](long skew) { \
    const long n = 1 << 22, each = n + skew / 8; \
    auto in = zeros<double>(arrays * each), out = zeros<double>(n); \
    return [=] { sum_arrays<arrays><<<blocks_for(n, 256), 256>>>(out, in, each, n); }; \
  });
ARRAYS(2) ARRAYS(4) ARRAYS(8) ARRAYS(16) ARRAYS(24)

/// The mean of a word and its eight neighbours at `apart` words along one direction, of `kArrays` arrays: rows of 256 words by blocks of 64 x 4.
template <int kArrays>
__global__ void neighbours8(double* out, const double* in, long each, long apart, long n) {
  const long i = (blockIdx.x * 4l + threadIdx.y) * 64 + threadIdx.x;
  if (i < 4 * apart || i >= n - 4 * apart) return;
  double sum = 0;
#pragma unroll
  for (int k = 0; k < kArrays; k++)
#pragma unroll
    for (int j = 1; j <= 4; j++) sum += in[k * each + i + j * apart] - in[k * each + i - j * apart];
  out[i] = sum;
}
#define NEIGHBOURS(arrays) \
  TRUTH("stencil", "neighbours" #arrays, {1, 256, 65536}, [](long apart) { \
    const long n = 1 << 22; \
    auto in = zeros<double>(arrays * n), out = zeros<double>(n); \
    return [=] { neighbours8<arrays><<<int(n / 256), dim3(64, 4)>>>(out, in, n, apart, n); }; \
  });
NEIGHBOURS(1) NEIGHBOURS(4) NEIGHBOURS(8)
}  // namespace
