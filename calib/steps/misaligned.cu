// calib/steps/misaligned.cu: rows that begin between sectors: what warps take whose 128 bytes lie in two lines, by the words by which they are
// off and by where the data are (2 MB an array: L2; 512 MB: memory).
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kRead, kWrite, kCopy };

template <Kind kind>
__global__ void __launch_bounds__(512) misaligned(const float* from, float* to, size_t n, int rounds) {
  float sum = 0;
  for (int r = 0; r < rounds; r++)
    for (size_t i = blockIdx.x * size_t(512) + threadIdx.x; i < n; i += size_t(gridDim.x) * 512) {
      if (kind == kRead) sum += from[i];
      if (kind == kWrite) to[i] = float(r);
      if (kind == kCopy) to[i] = from[i];
    }
  if (kind == kRead && sum == 1.25f) to[threadIdx.x] = sum;
}
template <Kind kind>
truth::Launch rows(size_t bytes, long off) {
  auto from = zeros<float>(bytes / 4 + 64), to = zeros<float>(bytes / 4 + 64);
  return [=] { misaligned<kind><<<528, 512>>>(from.p + off, to.p + off, bytes / 4, bytes > (64u << 20) ? 1 : 16); };
}
#define OFF(name, kind)                                                                                                        \
  TRUTH("misaligned", name "_in_l2", {0, 1, 4, 7, 8}, [](long off) { return rows<kind>(size_t{2} << 20, off); });               \
  TRUTH("misaligned", name "_in_memory", {0, 1, 4, 7, 8}, [](long off) { return rows<kind>(size_t{512} << 20, off); });
OFF("misaligned_read", kRead)
OFF("misaligned_write", kWrite)
OFF("misaligned_copy", kCopy)
}  // namespace
