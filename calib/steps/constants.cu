// calib/steps/constants.cu: loads from the constant bank at an index that is known when the kernel runs only: what they take by the warps of an
// SM, by how many different words the lanes of a warp read, and by the bytes that are read over and over.
#include "steps.h"

namespace {
using namespace steps;

constexpr int kWords = 16384 - 64;  // all that a program may have, but for parameters of its own
__constant__ uint32_t table[kWords];

/// `rounds` times eight loads that do not wait for each other, 64 bytes apart in the first `words` words; lane l reads `apart` words behind
/// lane l - 1, of every kLanes lanes again from the first.
template <int kLanes>
__global__ void __launch_bounds__(1024) constants_read(uint32_t* out, int rounds, int words, int apart) {
  const int own = int(threadIdx.x) % kLanes * apart;
  uint32_t sum = 0;
  int at = 0;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      sum ^= table[at + own];
      at = (at + 16) & (words - 1);
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
/// Each load's index comes from the one before.
__global__ void __launch_bounds__(1024) constants_chase(uint32_t* out, int rounds) {
  uint32_t at = threadIdx.x / 4096;
#pragma unroll 1
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++) at = table[at];
  out[blockIdx.x * blockDim.x + threadIdx.x] = at;
}
template <int kLanes>
truth::Launch read(long threads, int words, int apart) {
  auto out = zeros<uint32_t>(132 * size_t(threads));
  return [=] { constants_read<kLanes><<<132, unsigned(threads)>>>(out.p, 256, words, apart); };
}
TRUTH("constants", "constants_read", {32, 128, 256, 512, 1024}, [](long threads) { return read<1>(threads, 64, 0); });
TRUTH("constants", "constants_chase", {32, 128, 256, 512, 1024}, [](long threads) {
  auto out = zeros<uint32_t>(132 * size_t(threads));
  return [=] { constants_chase<<<132, unsigned(threads)>>>(out.p, 256); };
});
TRUTH("constants", "constants_bytes", {512, 1024, 1536, 2048, 4096, 8192, 16384, 32768}, [](long bytes) { return read<1>(256, int(bytes / 4), 0); });
TRUTH("constants", "constants_bytes_one_warp", {1024, 2048, 4096, 32768}, [](long bytes) { return read<1>(32, int(bytes / 4), 0); });
#define APART(lanes)                                                                                              \
  TRUTH("constants", "constants_words_" #lanes, {1, 16}, [](long apart) { return read<lanes>(256, 64, int(apart)); }); \
  TRUTH("constants", "constants_words_one_warp_" #lanes, {1, 16}, [](long apart) { return read<lanes>(32, 64, int(apart)); });
APART(2)
APART(4)
APART(8)
APART(32)
}  // namespace
