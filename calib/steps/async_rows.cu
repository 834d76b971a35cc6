// calib/steps/async_rows.cu: what cp.async asks L2 for, by the rows that it copies and where they come to lie in shared memory.
//
// Every block copies tiles of 32 rows of its own, which stay in L2, so nothing is shared between SMs and each sector is needed once:
// whatever lts__t_sectors_srcunit_tex counts above bytes / 32 was asked for more than once. In async_same_ so many neighbours copy the same:
// which of their requests become one. The tile's rows are kept at a pitch, as
// kernels pad them for ldmatrix and wmma.
#include "steps.h"

namespace {
using namespace steps;

enum Kind { kBypass, kBypass128, kThroughL1 };  // .cg, .cg with a prefetch of 128 bytes, .ca

/// `steps` tiles, two under way. A tile: 32 rows of kRow bytes, kSource bytes apart in memory, kPitch in shared memory.
template <Kind kind, int kRow, int kPitch, int kSource>
__global__ void __launch_bounds__(128) async_rows(const char* from, float* out, int steps, int sharers) {
  extern __shared__ __align__(1024) char room[];
  constexpr int kChunks = kRow / 16, kColumns = kSource / kRow;
  const char* own = from + long(int(blockIdx.x) / sharers) * 32 * kSource;
  const auto fetch = [&](int step) {
    if (step < steps)
      for (int i = int(threadIdx.x); i < 32 * kChunks; i += 128) {
        const uint32_t to = smem(room) + uint32_t(step % 3 * 32 * kPitch + i / kChunks * kPitch + i % kChunks * 16);
        const char* at = own + long(i / kChunks) * kSource + step % kColumns * kRow + i % kChunks * 16;
        if (kind == kBypass) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(at) : "memory");
        else if (kind == kBypass128) asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(at) : "memory");
        else asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(at) : "memory");
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0), fetch(1);
  float sum = 0;
  for (int step = 0; step < steps; step++) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    fetch(step + 2);
    sum += *reinterpret_cast<const float*>(room + step % 3 * 32 * kPitch + threadIdx.x / 4 * kPitch + threadIdx.x % 4 * 4);
  }
  out[blockIdx.x * 128 + threadIdx.x] = sum;
}
/// n blocks on each of 132 SMs, of which so many neighbours copy the same.
template <Kind kind, int kRow, int kPitch, int kSource>
truth::Launch rows(long n, int sharers = 1) {
  auto from = zeros<char>(size_t(132 * n) * 32 * kSource);
  auto out = zeros<float>(132 * n * 128);
  const int bytes = std::max(3 * 32 * kPitch, int(200000 / n) / 1024 * 1024);  // so much that no more blocks fit an SM
  cudaFuncSetAttribute(async_rows<kind, kRow, kPitch, kSource>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] { async_rows<kind, kRow, kPitch, kSource><<<unsigned(132 * n), 128, bytes>>>(from.p, out.p, 256, sharers); };
}
#define ROWS(kind, name, row, pitch, source) \
  TRUTH("async_rows", "async_" name "_" #row "_" #pitch "_of_" #source, {1, 2, 4}, [](long n) { return rows<kind, row, pitch, source>(n); });
ROWS(kBypass, "cg", 64, 64, 1024)
ROWS(kBypass, "cg", 64, 80, 1024)
ROWS(kBypass, "cg", 64, 96, 1024)
ROWS(kBypass, "cg", 64, 128, 1024)
ROWS(kBypass, "cg", 128, 128, 1024)
ROWS(kBypass, "cg", 128, 144, 1024)
ROWS(kBypass, "cg", 128, 160, 1024)
ROWS(kBypass, "cg", 128, 192, 1024)
ROWS(kBypass, "cg", 256, 256, 1024)
ROWS(kBypass, "cg", 256, 272, 1024)
ROWS(kBypass128, "cg128", 64, 80, 1024)
ROWS(kBypass128, "cg128", 128, 144, 1024)
ROWS(kThroughL1, "ca", 64, 80, 1024)
ROWS(kThroughL1, "ca", 128, 128, 1024)
ROWS(kThroughL1, "ca", 128, 144, 1024)
#define SAME(row, pitch, source) \
  TRUTH("async_rows", "async_same_" #row "_" #pitch "_of_" #source, {2, 4, 16, 132}, [](long n) { return rows<kBypass, row, pitch, source>(1, int(n)); });
SAME(64, 64, 1024)
SAME(64, 80, 1024)
SAME(128, 128, 1024)
SAME(128, 144, 1024)
SAME(128, 144, 8192)
}  // namespace
