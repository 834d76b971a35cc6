// calib/steps/local_bytes.cu: arrays of bytes, halves and words of a thread in local memory: what stores of parts of a word take and ask L2 for, of
// one place after the other, of places with gaps, of the same place again, with loads between and with arithmetic between.
#include "steps.h"

namespace {
using namespace steps;

enum class Walk { row, gaps, again, between, apart, spaced };

/// Stores `rounds` times kRoom / step places of an array of kRoom bytes; then reads it once.
template <class T, int kRoom, Walk kWalk>
__global__ void __launch_bounds__(256) local_parts(uint32_t* out, int rounds, int step) {
  constexpr int kPlaces = kRoom / int(sizeof(T));
  T room[kPlaces];
  const int own = kWalk == Walk::apart ? int(threadIdx.x) * 5 : 0;
  uint32_t sum = threadIdx.x;
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll 4
    for (int i = 0; i < kPlaces; i++) {
      const int at = (kWalk == Walk::gaps ? i * 4 * step + (i * 4 * step) / kPlaces : kWalk == Walk::again ? (i / 8) * step : i * step + own) & (kPlaces - 1);
      room[at] = T(sum + uint32_t(i));
      if (kWalk == Walk::spaced)
#pragma unroll
        for (int k = 0; k < 8; k++) asm volatile("mad.lo.u32 %0, %0, 5, 1;" : "+r"(sum));
      if (kWalk == Walk::between) sum += room[(at + kPlaces / 2) & (kPlaces - 1)];
    }
    sum = sum * 5 + 1;
  }
#pragma unroll 1
  for (int i = 0; i < kPlaces; i++) sum += room[(i * step) & (kPlaces - 1)];
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
/// n blocks of 256 threads for each of 132 SMs.
template <class T, int kRoom, Walk kWalk>
truth::Launch parts(long n) {
  auto out = zeros<uint32_t>(size_t(132 * n) * 256);
  return [=] { local_parts<T, kRoom, kWalk><<<unsigned(132 * n), 256>>>(out.p, int(2048 / (kRoom / sizeof(T))), 1); };
}
#define PARTS(name, type, room, walk) TRUTH("local", "local_" name "_" #room, {1, 2, 4, 8}, [](long n) { return parts<type, room, Walk::walk>(n); });
PARTS("bytes", uint8_t, 32, row)
PARTS("bytes", uint8_t, 256, row)
PARTS("halves", uint16_t, 256, row)
PARTS("words", uint32_t, 256, row)
PARTS("doubles", uint64_t, 256, row)
PARTS("bytes_gaps", uint8_t, 256, gaps)
PARTS("bytes_again", uint8_t, 256, again)
PARTS("words_again", uint32_t, 1024, again)
PARTS("bytes_between", uint8_t, 256, between)
PARTS("words_between", uint32_t, 1024, between)
PARTS("bytes_spaced", uint8_t, 256, spaced)
PARTS("bytes_apart", uint8_t, 256, apart)
}  // namespace
