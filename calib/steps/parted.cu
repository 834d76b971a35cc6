// calib/steps/parted.cu: loops that ptxas unrolls although lanes part inside of them, windows that turns share, grids of which half is work that hardly differs,
// grids of which few blocks store.
#include "steps.h"

namespace {
using namespace steps;

/// Each lane goes through a row of its own; what it does with an element depends on it. Rows of 8 to 24 elements, one of 97 (`long_ones`: one of 388) of 160.
template <class T>
__global__ void __launch_bounds__(128) rows_if(const int* columns, const T* values, const T* x, T* out, int n, int every) {
  const int row = int(blockIdx.x * 128 + threadIdx.x);
  if (row >= n) return;
  const int length = row % every == 0 ? 160 : 8 + int(mix(uint32_t(row)) % 17), first = row * 160;
  T sum = 1, own = 1;
  for (int j = first; j < first + length; j++) {
    const int c = columns[j];
    if (c == row) own = values[j];
    else sum -= values[j] * x[c];
  }
  out[row] = sum / (own + T(20));
}
template <class T>
Launch rows_if_of(long every) {
  constexpr int kRows = 30000;
  std::vector<int> columns(kRows * 160);
  for (size_t i = 0; i < columns.size(); i++) columns[i] = i % 7 == 3 ? int(i / 160) : int((i * 2654435761u >> 7) % kRows);
  auto c = upload(columns);
  auto values = zeros<T>(kRows * 160), x = zeros<T>(kRows), out = zeros<T>(kRows);
  return [=] { rows_if<T><<<(kRows + 127) / 128, 128>>>(c, values, x, out, kRows, int(every)); };
}
TRUTH("parted", "rows_if", {97, 388, 100000}, [](long every) { return rows_if_of<float>(every); });
TRUTH("parted", "rows_if_double", {97, 388, 100000}, [](long every) { return rows_if_of<double>(every); });

/// A column of a tile by a thread, each of a window of kReach words of it; the turns of a warp lie eight rows apart, so that windows overlap.
template <int kReach>
__global__ void __launch_bounds__(256) window(const float* in, float* out, const float* weights, int wide, int high) {
  __shared__ float tile[64 + kReach][32];
  __shared__ float weight[kReach];
  if (threadIdx.x < kReach) weight[threadIdx.x] = weights[threadIdx.x];
  const int x = int(blockIdx.x) * 32 + int(threadIdx.x) % 32, y0 = int(blockIdx.y) * 64;
  for (int j = int(threadIdx.x) / 32; j < 64 + kReach; j += 8) tile[j][threadIdx.x % 32] = in[size_t(min(max(y0 + j - kReach / 2, 0), high - 1)) * wide + x];
  __syncthreads();
  for (int j = int(threadIdx.x) / 32; j < 64; j += 8) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kReach; k++) sum += weight[k] * tile[j + k][threadIdx.x % 32];
    out[size_t(y0 + j) * wide + x] = sum;
  }
}
template <int kReach>
Launch window_of() {
  auto in = zeros<float>(2048 * 1024), out = zeros<float>(2048 * 1024), weights = zeros<float>(kReach);
  return [=] { window<kReach><<<dim3(64, 16), 256>>>(in, out, weights, 2048, 1024); };
}
TRUTH("parted", "window", {5, 9, 17, 25}, [](long reach) { return reach == 5 ? window_of<5>() : reach == 9 ? window_of<9>() : reach == 17 ? window_of<17>() : window_of<25>(); });

/// A grid of which the blocks behind the first `share` hundredths leave at once; those that stay do nearly the same: one thread of some goes a turn more.
__global__ void __launch_bounds__(256) nearly(const float* in, float* out, int staying) {
  const int t = int(blockIdx.x * 256 + threadIdx.x);
  if (int(blockIdx.x) >= staying) return;
  const int turns = 512 + (mix(uint32_t(t)) % 4096 == 0);
  float x = in[t];
  for (int i = 0; i < turns; i++) x = x * .99f + sqrtf(x);
  out[t] = x;
}
TRUTH("parted", "nearly", {25, 50, 75}, [](long share) {
  auto in = zeros<float>(2048 * 256), out = zeros<float>(2048 * 256);
  return [=] { nearly<<<2048, 256>>>(in, out, int(2048 * share / 100)); };
});

/// Only threads at the edges of a grid of n x n x n words write, in blocks of 8 x 8 x 4.
__global__ void __launch_bounds__(256) edges(float* out, int n) {
  const unsigned x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y, z = blockIdx.z * 4 + threadIdx.z, end = unsigned(n - 1);
  if (x > end || y > end || z > end) return;
  if (x == 0 || y == 0 || z == 0 || x == end || y == end || z == end) out[(size_t(z) * n + y) * n + x] = 1;
}
TRUTH("parted", "edges", {64, 128, 256}, [](long n) {
  auto out = zeros<float>(n * n * n);
  return [=] { edges<<<dim3(unsigned(n / 8), unsigned(n / 8), unsigned(n / 4)), dim3(8, 8, 4)>>>(out, int(n)); };
});

}  // namespace
