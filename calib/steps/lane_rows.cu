// calib/steps/lane_rows.cu: rows that each lane reads alone, word after word: 32 lines an access, of which L1 should keep the rest until the
// lane comes to it; by the bytes between rows, the threads of an SM and how often a row is read.
#include "steps.h"

namespace {
using namespace steps;

/// A thread for each row of `words`, `pitch` words apart: kPasses sums of it; kWords words an access.
template <int kWords, int kPasses>
__global__ void __launch_bounds__(256) lane_rows(const float* from, float* out, int words, int pitch) {
  const long row = long(blockIdx.x) * blockDim.x + threadIdx.x;
  const float* own = from + row * pitch;
  float sum = 0;
#pragma unroll 1
  for (int p = 0; p < kPasses; p++)
#pragma unroll 4
    for (int i = 0; i < words; i += kWords) {
      if constexpr (kWords == 4) {
        const float4 v = *reinterpret_cast<const float4*>(own + i);
        sum += (v.x + v.y) + (v.z + v.w);
      } else {
        sum = sum * 1.0001f + own[i];
      }
    }
  out[row] = sum;
}
/// n warps on each of 132 SMs, as blocks of 32 to 256 threads.
template <int kWords, int kPasses>
truth::Launch rows(long n, int words, int pitch) {
  const int threads = n >= 8 ? 256 : 32 * int(n), blocks = 132 * int(n) * 32 / threads;
  auto from = zeros<float>(size_t(blocks) * threads * pitch);
  auto out = zeros<float>(size_t(blocks) * threads);
  return [=] { lane_rows<kWords, kPasses><<<unsigned(blocks), unsigned(threads)>>>(from.p, out.p, words, pitch); };
}
#define ROWS(name, wide, passes, words, pitch) \
  TRUTH("lane_rows", name "_" #words "_of_" #pitch, {1, 2, 4, 8, 16, 32}, [](long n) { return rows<wide, passes>(n, words, pitch); });
ROWS("lane_rows", 1, 1, 256, 256)
ROWS("lane_rows", 1, 1, 256, 264)
ROWS("lane_rows", 1, 1, 64, 4096)
ROWS("lane_rows_twice", 1, 2, 256, 256)
ROWS("lane_rows4", 4, 1, 256, 256)
}  // namespace
