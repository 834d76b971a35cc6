// calib/steps/columns.cu: blocks each of which reads a column, or a strip of columns, of an array whose rows lie far apart: what one block has brought into
// L1 is of use to a neighbour only if both are on one SM at a time, so hits tell which blocks an SM takes one after the other.
//
// Not here: which block is where and when, by the clock (calib/nexts.cu).
#include <cuda_bf16.h>

#include "steps.h"

namespace columns {
using namespace steps;

/// A column's sum by a block: each thread reads a row's word, `blockDim.x` rows further each turn.
template <class T>
__global__ void column(const T* in, float* out, int rows, int width) {
  __shared__ float part[32];
  float sum = 0;
  for (int i = int(threadIdx.x); i < rows; i += int(blockDim.x)) sum += float(in[size_t(i) * size_t(width) + blockIdx.x]);
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x < 32) {
    sum = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
    for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}
template <class T>
truth::Launch sums(int blocks, long threads, int rows) {
  auto a = zeros<T>(size_t(rows) * size_t(blocks));
  auto o = zeros<float>(size_t(blocks));
  return [=] { column<<<unsigned(blocks), unsigned(threads)>>>(a.p, o.p, rows, blocks); };
}
/// A row each, of which two neighbours have a third in common: edges of strips.
__global__ void strip(const float* in, float* out, int rows, int width) {
  float sum = 0;
  const int x = int(blockIdx.x) * 64 + int(threadIdx.x % 96);
  for (int i = int(threadIdx.x / 96); i < rows; i += int(blockDim.x / 96)) sum += in[size_t(i) * size_t(width) + size_t(x)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

#define THREADS (std::vector<long>{32, 64, 128, 256, 512, 768, 1024})
TRUTH("columns", "column_sum", THREADS, [](long n) { return sums<float>(3072, n, 4096); });
TRUTH("columns", "column_sum_1056", THREADS, [](long n) { return sums<float>(1056, n, 4096); });
TRUTH("columns", "column_sum_short", THREADS, [](long n) { return sums<float>(8192, n, 1024); });
TRUTH("columns", "column_sum_bf16", THREADS, [](long n) { return sums<__nv_bfloat16>(3072, n, 4096); });
TRUTH("columns", "column_sum_double", THREADS, [](long n) { return sums<double>(2048, n, 2048); });
TRUTH("columns", "strips", (std::vector<long>{96, 192, 384, 768}), [](long n) {
  constexpr int kBlocks = 2048, kRows = 96;
  auto a = zeros<float>(size_t(kRows) * (kBlocks * 64 + 64)), o = zeros<float>(size_t(kBlocks) * size_t(n));
  return truth::Launch([=] { strip<<<kBlocks, unsigned(n)>>>(a.p, o.p, kRows, kBlocks * 64 + 64); });
});

}  // namespace columns
