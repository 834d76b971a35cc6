// calib/steps/streams.cu: many rows in memory read and written at once, each by a block from its beginning to its end: what memory gives by how
// long the rows are, where they begin and how many loads a thread has under way; and the same words by turns of all blocks.
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kRead, kWrite, kCopy, kTwice };  // kTwice: read, then read again and written

/// Row r by block r; kBatch words of a thread at a time.
template <Kind kind, int kBatch>
__global__ void __launch_bounds__(512, 3) streams(const float* from, float* to, int words) {
  const float* x = from + blockIdx.x * size_t(words);
  float* y = to + blockIdx.x * size_t(words);
  float sum = 0;
  const auto pass = [&](bool reads, bool writes) {
#pragma unroll 1
    for (int i = int(threadIdx.x); i < words; i += 512 * kBatch) {
      float v[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; k++) v[k] = reads ? x[min(words - 1, i + 512 * k)] : sum;
#pragma unroll
      for (int k = 0; k < kBatch; k++) {
        if (writes && i + 512 * k < words) y[i + 512 * k] = v[k];
        if (reads && !writes) sum += v[k];
      }
    }
  };
  if (kind == kRead) pass(true, false);
  if (kind == kWrite) pass(false, true);
  if (kind == kCopy) pass(true, true);
  if (kind == kTwice) {
    pass(true, false);
    __syncthreads();
    pass(true, true);
  }
  if (sum == 1.25f) to[threadIdx.x] = sum;
}
/// The same words, all blocks side by side.
template <Kind kind, int kBatch>
__global__ void __launch_bounds__(512, 3) by_turns(const float* from, float* to, size_t n) {
  float sum = 0;
#pragma unroll 1
  for (size_t i = blockIdx.x * size_t(512 * kBatch) + threadIdx.x; i < n; i += size_t(gridDim.x) * 512 * kBatch) {
    float v[kBatch];
#pragma unroll
    for (int k = 0; k < kBatch; k++) v[k] = kind == kWrite ? sum : from[min(n - 1, i + 512 * k)];
#pragma unroll
    for (int k = 0; k < kBatch; k++) {
      if (kind != kRead && i + 512 * k < n) to[i + 512 * k] = v[k];
      if (kind == kRead) sum += v[k];
    }
  }
  if (sum == 1.25f) to[threadIdx.x] = sum;
}
constexpr size_t kRows = 1024;
template <Kind kind, int kBatch>
truth::Launch rows(long words) {
  auto from = zeros<float>(kRows * size_t(words)), to = zeros<float>(kRows * size_t(words) + 512);
  return [=] { streams<kind, kBatch><<<kRows, 512>>>(from, to, int(words)); };
}
template <Kind kind, int kBatch>
truth::Launch turns(long words) {
  auto from = zeros<float>(kRows * size_t(words)), to = zeros<float>(kRows * size_t(words) + 512);
  return [=] { by_turns<kind, kBatch><<<396, 512>>>(from, to, kRows * size_t(words)); };
}
#define STREAMS(name, kind, batch)                                                                            \
  TRUTH("streams", "streams_" name "_" #batch, {16384, 16417, 50257, 50304, 65536}, (rows<kind, batch>));     \
  TRUTH("streams", "streams_turns_" name "_" #batch, {50304}, (turns<kind, batch>));
#define BATCHES(name, kind) STREAMS(name, kind, 1) STREAMS(name, kind, 4) STREAMS(name, kind, 8)
BATCHES("read", kRead)
BATCHES("write", kWrite)
BATCHES("copy", kCopy)
TRUTH("streams", "streams_twice_1", {16384, 50257, 50304}, (rows<kTwice, 1>));
TRUTH("streams", "streams_twice_8", {16384, 50257, 50304}, (rows<kTwice, 8>));
}  // namespace
