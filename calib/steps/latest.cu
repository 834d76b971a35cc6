// calib/steps/latest.cu: a block that waits again and again for the last of what it has asked for: so many rows at once, of each the next sector or
// line, by how far apart the rows lie and by how many blocks do so.
#include "steps.h"

namespace {
using namespace steps;

/// Eight lanes read 32 bytes of a row; then all wait for all. The next step reads `advance` bytes further along.
__global__ void wait_for_rows(const uint32_t* p, size_t pitch, int advance, int turns, uint32_t* out) {
  const uint32_t* at = p + (size_t(blockIdx.x) * (blockDim.x / 8) + threadIdx.x / 8) * pitch + threadIdx.x % 8;
  uint32_t sum = 0;
#pragma unroll 1
  for (int i = 0; i < turns; i++) {
    uint32_t v;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(at + sum) : "memory");
    sum += v;  // zeros
    if (__syncthreads_or(int(v))) out[1] = v;
    at += advance;
  }
  if (sum) out[threadIdx.x] = sum;
}

template <int kPitch, int kAdvance, int kBlocks>
truth::Launch rows(long n) {
  auto p = zeros<uint32_t>(size_t(n) * kBlocks * kPitch / 4 + 65536), out = zeros<uint32_t>(1024);
  return [=] { wait_for_rows<<<kBlocks, unsigned(8 * n)>>>(p.p, kPitch / 4, kAdvance / 4, 64, out.p); };
}
#define ROWS(pitch, advance, blocks) TRUTH("latency", "latest_" #pitch "_" #advance "_" #blocks, {1, 4, 16, 64}, (rows<pitch, advance, blocks>));
#define ALL_BLOCKS(pitch, advance) ROWS(pitch, advance, 1) ROWS(pitch, advance, 64)
ALL_BLOCKS(2048, 32)
ALL_BLOCKS(4096, 32)
ALL_BLOCKS(32768, 32)
ALL_BLOCKS(8192, 128)
ALL_BLOCKS(9216, 128)
ALL_BLOCKS(65536, 128)
ALL_BLOCKS(65536, 1024)
}  // namespace
