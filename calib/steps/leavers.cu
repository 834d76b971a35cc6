// calib/steps/leavers.cu: grids of which few blocks work and many leave at once: how fast blocks come and go beside others that stay.
#include "steps.h"

namespace {
using namespace steps;

/// The first `stay` blocks do `rounds` of 64 dependent products, kChains at a time.
template <int kChains>
__global__ void leavers(float* out, int stay, int rounds, float y) {
  if (int(blockIdx.x) >= stay) return;
  float x[kChains];
  for (int k = 0; k < kChains; k++) x[k] = threadIdx.x + k;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 64; i++)
#pragma unroll
      for (int k = 0; k < kChains; k++) x[k] = x[k] * y + y;
  float s = 0;
  for (int k = 0; k < kChains; k++) s += x[k];
  out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
/// `n` blocks leave behind `stay` that work.
template <int kChains>
truth::Launch leave(long n, int threads, int stay, int rounds) {
  auto out = zeros<float>(size_t(stay + 1) * size_t(threads));
  return [=] { leavers<kChains><<<unsigned(n + stay), unsigned(threads)>>>(out.p, stay, rounds, .99f); };
}
#define LEAVE(name, threads, stay, chains, rounds) \
  TRUTH("leavers", name "_" #threads, {0, 1000, 10000, 100000}, [](long n) { return leave<chains>(n, threads, stay, rounds); });
LEAVE("leave_all", 32, 1, 1, 1) LEAVE("leave_all", 256, 1, 1, 1) LEAVE("leave_all", 1024, 1, 1, 1)
LEAVE("leave_beside_132", 256, 132, 1, 800) LEAVE("leave_beside_391", 256, 391, 1, 800) LEAVE("leave_beside_391_busy", 256, 391, 4, 200)
LEAVE("leave_beside_391", 32, 391, 1, 800) LEAVE("leave_beside_924", 256, 924, 1, 400)
}  // namespace
