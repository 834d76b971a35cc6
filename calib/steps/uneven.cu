// calib/steps/uneven.cu: loops whose turns lanes make unequally often, which ptxas unrolls; fragments of wmma that lie in shared memory; filters whose blocks
// ask for what others of their SM ask for.
#include <mma.h>

#include "steps.h"

namespace {
using namespace steps;

/// A warp adds up a row of `n` words times a vector: where n is no multiple of 32 some lanes make a turn more.
__global__ void warp_rows(float* out, const float* a, const float* x, int rows, int n) {
  const int w = int(blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
  if (w >= rows) return;
  float sum = 0;
  for (int j = lane; j < n; j += 32) sum += a[size_t(w) * n + j] * x[j];
  for (int k = 16; k; k >>= 1) sum += __shfl_down_sync(~0u, sum, k);
  if (lane == 0) out[w] = sum;
}
TRUTH("uneven", "warp_rows", {96, 100, 300, 500, 992, 1000, 1023, 1024, 1100}, [](long n) {
  constexpr long kRows = 8192;
  auto a = zeros<float>(kRows * n), x = zeros<float>(n), out = zeros<float>(kRows);
  return [=] { warp_rows<<<kRows / 4, 128>>>(out, a, x, kRows, int(n)); };
});

/// Lane l of a warp makes least + (7 l + 5 w) % spread turns: of loads of its own list (far apart), of loads that lie side by side, of none, and with stores.
enum class Turn { far, near, none, stores };
template <Turn kTurn>
__global__ void turns(float* out, const float* in, int least, int spread) {
  const int t = int(blockIdx.x * blockDim.x + threadIdx.x), lane = t & 31, w = t / 32;
  const int n = least + (7 * lane + 5 * w) % spread;
  float sum = 0;
  for (int i = 0; i < n; i++) {
    if (kTurn == Turn::far) sum += in[size_t(t) * 64 + i];
    if (kTurn == Turn::near) sum += in[size_t(w) * 2048 + i * 32 + lane];
    if (kTurn == Turn::none) sum = sum * 1.5f + float(i);
    if (kTurn == Turn::stores) out[size_t(w) * 2048 + i * 32 + lane] = sum + float(i);
  }
  if (kTurn != Turn::stores) out[t] = sum;
}
template <Turn kTurn>
Launch turns_of(long spread, int least) {
  constexpr long kThreads = 1 << 17;
  auto in = zeros<float>(kThreads * 64), out = zeros<float>(kThreads * 64);
  return [=] { turns<kTurn><<<kThreads / 256, 256>>>(out, in, least, int(spread)); };
}
TRUTH("uneven", "turns_far", {1, 2, 5, 13, 32}, [](long n) { return turns_of<Turn::far>(n, 8); });
TRUTH("uneven", "turns_near", {1, 2, 5, 13, 32}, [](long n) { return turns_of<Turn::near>(n, 8); });
TRUTH("uneven", "turns_none", {1, 2, 5, 13, 32}, [](long n) { return turns_of<Turn::none>(n, 8); });
TRUTH("uneven", "turns_stores", {1, 2, 5, 13, 32}, [](long n) { return turns_of<Turn::stores>(n, 8); });
TRUTH("uneven", "turns_far_few", {2, 5, 13}, [](long n) { return turns_of<Turn::far>(n, 0); });
TRUTH("uneven", "turns_near_few", {2, 5, 13}, [](long n) { return turns_of<Turn::near>(n, 0); });

/// Fragments from rows of `stride` elements in shared memory.
template <class Use, class Layout>
__global__ void shared_fragments(float* out, int stride, int rounds) {
  using namespace nvcuda;
  extern __shared__ half room[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x) room[i] = half(0);
  __syncthreads();
  float sum = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    wmma::fragment<Use, 16, 16, 16, half, Layout> f[4];
#pragma unroll
    for (int i = 0; i < 4; i++) wmma::load_matrix_sync(f[i], room + (r & 3) * 16 + i * 64, stride);
#pragma unroll
    for (int i = 0; i < 4; i++) sum += __half2float(f[i].x[0]) + __half2float(f[i].x[7]);
  }
  if (sum == 12345.678f) out[0] = sum;
}
template <class Use, class Layout>
Launch fragments_of(long stride) {
  auto out = zeros<float>(32);
  return [=] { shared_fragments<Use, Layout><<<132, 256, 32768>>>(out, int(stride), 200); };
}
using nvcuda::wmma::matrix_a, nvcuda::wmma::matrix_b, nvcuda::wmma::row_major, nvcuda::wmma::col_major;
#define SHARED(name, use, layout) TRUTH("uneven", "fragments_" #name, {16, 24, 32, 40, 64, 72, 128, 136, 256, 264}, [](long stride) { return fragments_of<use, layout>(stride); });
SHARED(a_rows, matrix_a, row_major) SHARED(a_columns, matrix_a, col_major) SHARED(b_rows, matrix_b, row_major) SHARED(b_columns, matrix_b, col_major)

/// Sums to rows of `stride` floats or halves in shared memory, and back.
template <class T>
__global__ void shared_sums(float* out, int stride, int rounds) {
  using namespace nvcuda;
  extern __shared__ float space[];
  T* const room = reinterpret_cast<T*>(space);
  for (int i = threadIdx.x; i < 8192; i += blockDim.x) space[i] = 0;
  __syncthreads();
  wmma::fragment<wmma::accumulator, 16, 16, 16, T> f;
  wmma::fill_fragment(f, T(0));
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
    wmma::store_matrix_sync(room + (r & 3) * 16, f, stride, wmma::mem_row_major);
    wmma::load_matrix_sync(f, room + (r & 3) * 16, stride, wmma::mem_row_major);
  }
  if (float(f.x[0]) == 12345.678f) out[0] = 1;
}
template <class T>
Launch sums_of(long stride) {
  auto out = zeros<float>(32);
  return [=] { shared_sums<T><<<132, 256, 32768>>>(out, int(stride), 200); };
}
TRUTH("uneven", "sums_f32", {16, 20, 32, 36, 64, 68, 128, 132}, [](long stride) { return sums_of<float>(stride); });
TRUTH("uneven", "sums_f16", {16, 24, 32, 40, 64, 72, 128, 136}, [](long stride) { return sums_of<half>(stride); });

/// Planes of kRows x kRow words; a block adds up kTaps x kTaps neighbours of each word of seven rows, plane by plane, for one of `filters`: blocks of different
/// filters ask for the same.
template <int kRow, int kTaps>
__global__ void filter(float* out, const float* in, const float* taps, int planes, int filters, int height) {
  const int x = threadIdx.x, y = blockIdx.y * 7 + threadIdx.y, k = blockIdx.z % filters, image = blockIdx.z / filters;
  float sum = 0;
  for (int c = 0; c < planes; c++) {
    const float* p = in + (size_t(image * planes + c) * height + y) * kRow + x;
#pragma unroll
    for (int j = 0; j < kTaps; j++)
#pragma unroll
      for (int i = 0; i < kTaps; i++) sum += p[j * kRow + i] * taps[(k * planes + c) * kTaps * kTaps + j * kTaps + i];
  }
  out[(size_t(blockIdx.z) * height + y) * kRow + x] = sum;
}
template <int kRow, int kTaps>
Launch filters_of(long filters) {
  constexpr int kPlanes = 64, kHeight = 28;
  const long images = 512 / filters;
  auto in = zeros<float>((images * kPlanes * kHeight + 16) * kRow + 16), taps = zeros<float>(filters * kPlanes * kTaps * kTaps), out = zeros<float>(512 * kHeight * kRow);
  return [=] { filter<kRow, kTaps><<<dim3(1, kHeight / 7, 512), dim3(kRow, 7)>>>(out, in, taps, kPlanes, int(filters), kHeight); };
}
TRUTH("uneven", "filter_28_1", {8, 128}, [](long n) { return filters_of<28, 1>(n); });
TRUTH("uneven", "filter_28_3", {8, 128}, [](long n) { return filters_of<28, 3>(n); });
TRUTH("uneven", "filter_32_1", {8, 128}, [](long n) { return filters_of<32, 1>(n); });
TRUTH("uneven", "filter_32_3", {8, 128}, [](long n) { return filters_of<32, 3>(n); });
}  // namespace
