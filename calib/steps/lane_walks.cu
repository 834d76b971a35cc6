// calib/steps/lane_walks.cu: rows far larger than L1 that each lane goes through alone, once: read, written, copied, added and changed in
// place, by the warps on the GPU and by the bytes between rows. lane_rows.cu and lane_stores.cu: the same from L1 and L2.
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kRead, kWrite, kCopy, kAdd, kChange };

/// A thread for each row of `words`: what the compiler may not turn round, since rows might overlap.
template <Kind kind, int kUnroll>
__global__ void __launch_bounds__(32) lane_walks(const float* a, const float* b, float* to, int words) {
  const size_t row = (size_t(blockIdx.x) * blockDim.x + threadIdx.x) * size_t(words);
  float last = 0;
#pragma unroll kUnroll
  for (int i = 0; i < words; i++) {
    if (kind == kRead) last = last * 1.0001f + a[row + i];
    if (kind == kWrite) to[row + i] = float(i);
    if (kind == kCopy) to[row + i] = a[row + i];
    if (kind == kAdd) to[row + i] = a[row + i] + b[row + i];
    if (kind == kChange) to[row + i] = last = last * 0.25f + to[row + i];
  }
  if (kind == kRead) to[row] = last;
}
/// n warps, one a block.
template <Kind kind, int kUnroll>
truth::Launch walks(long n, int words) {
  const size_t all = size_t(n) * 32 * size_t(words);
  auto a = zeros<float>(all), b = zeros<float>(kind == kAdd ? all : 1), to = zeros<float>(all);
  return [=] { lane_walks<kind, kUnroll><<<unsigned(n), 32>>>(a.p, b.p, to.p, words); };
}
#define WALKS(name, kind)                                                                                                    \
  TRUTH("lane_walks", "lane_walks_" name "_768", {1, 33, 132, 264, 528, 1056}, [](long n) { return walks<kind, 4>(n, 768); }); \
  TRUTH("lane_walks", "lane_walks_" name "_1024", {132, 264, 528}, [](long n) { return walks<kind, 4>(n, 1024); });            \
  TRUTH("lane_walks", "lane_walks_" name "_784_one", {132, 264}, [](long n) { return walks<kind, 1>(n, 784); });
WALKS("read", kRead)
WALKS("write", kWrite)
WALKS("copy", kCopy)
WALKS("add", kAdd)
WALKS("change", kChange)
}  // namespace
