// calib/steps/strides.cu: lines of a table that lanes read again and again in no order: what L1 holds of them, by how many there are and how far
// apart they lie, by how many sectors of each are read, and by how much shared memory blocks want.
#include "steps.h"

namespace {
using namespace steps;

/// Lanes read `lines` lines `stride` bytes apart, in an order that depends on what was read (zeros); kSectors sectors of each.
template <int kSectors>
__global__ void __launch_bounds__(256) read_strided(const uint32_t* p, uint32_t lines, uint32_t stride, int turns, uint32_t* out) {
  uint32_t h = mix(blockIdx.x * blockDim.x + threadIdx.x), sum = 0;
#pragma unroll 1
  for (int i = 0; i < turns; i++) {
    const uint32_t v = p[size_t(h % lines) * (stride / 4) + (h >> 20) % kSectors * 8];
    sum += v, h = mix(h + v + uint32_t(i));
  }
  if (sum) out[threadIdx.x] = sum;
}
template <int kSectors, int kStride>
truth::Launch strided(long lines) {
  auto p = zeros<uint32_t>(size_t(lines) * kStride / 4 + 64), out = zeros<uint32_t>(1024);
  return [=] { read_strided<kSectors><<<132, 256>>>(p.p, uint32_t(lines), kStride, 64, out.p); };
}
/// 4,096 lines side by side, of which L1 holds what blocks with so much shared memory leave it.
truth::Launch beside_shared(long kib) {
  auto p = zeros<uint32_t>(4096 * 32 + 64), out = zeros<uint32_t>(1024);
  cudaFuncSetAttribute(read_strided<1>, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 << 10);
  return [=] { read_strided<1><<<132, 256, size_t(kib) << 10>>>(p.p, 4096, 128, 256, out.p); };
}
TRUTH("l1", "beside_shared", {0, 1, 2, 3, 4, 6, 7, 10, 12, 15, 16, 20, 24, 32, 48, 64, 100, 131, 163, 195, 227}, beside_shared);
#define STRIDED(sectors, stride) TRUTH("l1", "strided" #sectors "_" #stride, {256, 1024, 1536, 2048, 4096}, [](long n) { return strided<sectors, stride>(n); });
STRIDED(1, 128)
STRIDED(4, 128)
STRIDED(1, 256)
STRIDED(1, 512)
STRIDED(1, 1024)
STRIDED(1, 4096)
STRIDED(1, 384)
}  // namespace
