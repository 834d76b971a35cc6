// calib/steps/partial.cu: sectors that are written by halves, the second so many cycles after the first: which of them L2 completes from memory
// (bytes read) meanwhile, and what that takes; alone and beside loads of as many bytes.
#include "steps.h"

namespace {
using namespace steps;

template <bool kLoads>
__global__ void __launch_bounds__(512) partial(uint4* to, const uint4* from, size_t sectors, int delay) {
  uint32_t sum = 0;
  for (size_t s = blockIdx.x * size_t(512) + threadIdx.x; s < sectors; s += size_t(gridDim.x) * 512) {
    uint4 v = make_uint4(uint32_t(s), 1, 2, sum);
    if (kLoads) v = from[2 * s], sum += from[2 * s + 1].x;
    to[2 * s] = v;
    const long long begin = clock64();
    while (clock64() - begin < delay) {}
    to[2 * s + 1] = v;
  }
  if (sum == 0x12345678) to[threadIdx.x].x = sum;
}
template <bool kLoads>
truth::Launch halves(long delay) {
  constexpr size_t kSectors = size_t{1} << 23;  // 256 MB
  auto to = zeros<uint4>(2 * kSectors), from = zeros<uint4>(2 * kSectors);
  return [=] { partial<kLoads><<<528, 512>>>(to.p, from.p, kSectors, int(delay)); };
}
TRUTH("partial", "partial_alone", {0, 100, 300, 1000, 3000, 10000}, [](long delay) { return halves<false>(delay); });
TRUTH("partial", "partial_beside", {0, 100, 300, 1000, 3000, 10000}, [](long delay) { return halves<true>(delay); });
}  // namespace
