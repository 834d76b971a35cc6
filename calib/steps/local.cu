// calib/steps/local.cu: arrays of a thread in local memory: what loads and stores of them take and ask L2 for, by the bytes of a thread, the
// warps of an SM and how often what was stored is read again.
//
// Indices are known when the kernel runs only, so that no array stays in registers; the index is the same for all lanes of a warp
// (local_), so that the words of a warp are a line, or another for each lane (local_apart_).
#include "steps.h"

namespace {
using namespace steps;

/// `rounds` times: kWords stores and kReads loads, at least one, of each of them. `step` is 1 in a way that no compiler knows.
template <int kWords, int kReads, bool kApart>
__global__ void __launch_bounds__(256) local_array(float* out, int rounds, int step) {
  float room[kWords];
  const int own = kApart ? int(threadIdx.x) * 7 : 0;
  float sum = float(threadIdx.x);
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll 4
    for (int i = 0; i < kWords; i++) room[(i * step + own) % kWords] = sum + float(i);
#pragma unroll 1
    for (int k = 0; k < kReads; k++)
#pragma unroll 4
      for (int i = 0; i < kWords; i++) sum += room[(i * step + own + k) % kWords];
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
/// n blocks of 256 threads for each of 132 SMs.
template <int kWords, int kReads, bool kApart>
truth::Launch arrays(long n) {
  auto out = zeros<float>(size_t(132 * n) * 256);
  return [=] { local_array<kWords, kReads, kApart><<<unsigned(132 * n), 256>>>(out.p, 8192 / kWords, 1); };
}
#define ARRAYS(name, words, reads, apart) \
  TRUTH("local", name "_" #words "_read_" #reads, {1, 2, 4, 8}, [](long n) { return arrays<words, reads, apart>(n); });
ARRAYS("local", 8, 1, false)
ARRAYS("local", 32, 1, false)
ARRAYS("local", 32, 4, false)
ARRAYS("local", 128, 1, false)
ARRAYS("local", 512, 1, false)
ARRAYS("local_apart", 32, 1, true)
ARRAYS("local_apart", 128, 1, true)
}  // namespace
