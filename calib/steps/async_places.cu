// calib/steps/async_places.cu: what cp.async asks L2 for, by where each lane's piece comes from and where it goes in shared memory.
//
// A warp copies the same places again and again, from its own part of memory, which stays in L2: whatever lts__t_sectors_srcunit_tex counts
// above the sectors that the places lie in was asked for more than once. Rows and their pitch alone: async_rows.cu; time of places that lie
// apart, from L1: scatter.cu. In async_same_ so many neighbours copy the same.
#include <functional>

#include "steps.h"

namespace {
using namespace steps;

constexpr int kRounds = 128, kAtOnce = 2, kTurns = 3, kWarps = 8, kRoom = 4096;  // copies a turn, two turns under way; bytes of shared memory of a warp's copy: what is
                                                                                 // under way goes to places of its own
constexpr long kOfWarp = 16384;                                       // bytes in memory

/// `places`: of each lane, where from and where to. Copy r of a warp lies (r mod columns) * width + (r / columns) * rows into its part, and around.
template <int kBytes, bool kPastL1>
__global__ void __launch_bounds__(kWarps * 32) async_places(const char* from, float* out, const int2* places, int columns, int width, int rows, int around, int sharers) {
  extern __shared__ __align__(1024) char room[];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int2 own = places[lane];
  const char* source = from + (long(int(blockIdx.x) / sharers) * kWarps + warp) * around + own.x;
  const uint32_t target = smem(room) + uint32_t(warp * kTurns * kAtOnce * kRoom + own.y);
  const auto fetch = [&](int round) {
    if (round < kRounds)
#pragma unroll
      for (int k = 0; k < kAtOnce; k++) {
        const int r = round * kAtOnce + k;
        const char* at = source + (r % columns * width + r / columns * rows) % around;
        const uint32_t to = target + uint32_t((round % kTurns * kAtOnce + k) * kRoom);
        if (kPastL1) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(at) : "memory");
        else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(at), "n"(kBytes) : "memory");
      }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fetch(0);
  float sum = 0;
  for (int round = 0; round < kRounds; round++) {
    fetch(round + 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    sum += *reinterpret_cast<const float*>(room + threadIdx.x * 4);
  }
  out[blockIdx.x * kWarps * 32 + threadIdx.x] = sum;
}

struct Source {
  int columns, width, rows;
};
constexpr Source kLines{int(kOfWarp), 512, 512}, kRowsOfLines{8, 128, 4096}, kRowsOfHalves{16, 64, 8192};

/// A block on each of 132 SMs. Past L1 a warp has 16 KB; through it so much that L1 does not hold it.
template <int kBytes, bool kPastL1>
truth::Launch places(const Source& s, const std::function<int2(int)>& of_lane, int sharers = 1) {
  const int around = int(kPastL1 ? kOfWarp : 4 * kOfWarp);
  std::vector<int2> host;
  for (int lane = 0; lane < 32; lane++) host.push_back(of_lane(lane));
  auto where = upload(host);
  auto from = zeros<char>(size_t{132} * kWarps * size_t(around) + 65536);
  auto out = zeros<float>(132 * kWarps * 32);
  const int bytes = kWarps * kTurns * kAtOnce * kRoom;
  cudaFuncSetAttribute(async_places<kBytes, kPastL1>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return [=] { async_places<kBytes, kPastL1><<<132, kWarps * 32, bytes>>>(from.p, out.p, where.p, s.columns, s.width, s.rows, around, sharers); };
}

#define PLACES(name, source, list, from, to) \
  TRUTH("async_places", "async_" name, list, [](long n) { return places<16, true>(source, [=](int l) { const int by = int(n); return int2{from, (to) + 0 * by}; }); });
#define LIST(...) {__VA_ARGS__}
// Lines, each lane's 16 bytes `by` behind the one before.
PLACES("apart", kLines, LIST(16, 32, 48, 64, 80, 96, 112, 128), l * 16, l * by)
// Pieces of 32, 64 and 128 bytes so far apart.
PLACES("apart2", kLines, LIST(48, 64, 96, 144, 256), l * 16, l / 2 * by + l % 2 * 16)
PLACES("apart4", kLines, LIST(80, 96, 112, 144), l * 16, l / 4 * by + l % 4 * 16)
PLACES("apart8", kLines, LIST(144, 160, 176), l * 16, l / 8 * by + l % 8 * 16)
// Rows of four and eight lanes, 1,024 bytes apart in memory.
PLACES("rows4", kRowsOfHalves, LIST(64, 80, 96, 112, 144), l / 4 * 1024 + l % 4 * 16, l / 4 * by + l % 4 * 16)
PLACES("rows8", kRowsOfLines, LIST(128, 144, 160, 176), l / 8 * 1024 + l % 8 * 16, l / 8 * by + l % 8 * 16)
// Eight lanes of a row to eight pieces so far apart, of rows to pieces next to each other: matrices of 8 x 16 bytes side by side.
PLACES("matrices", kRowsOfLines, LIST(64, 80, 128, 144, 512), l / 8 * 1024 + l % 8 * 16, l % 8 * by + l / 8 * 16)
// Pieces of a line in another order: all exchanged, some, or moved round.
PLACES("exchanged", kRowsOfLines, LIST(0, 1, 2, 3, 4, 7), l / 8 * 1024 + l % 8 * 16, l / 8 * 128 + (l % 8 ^ by) * 16)
PLACES("exchanged_rows", kRowsOfLines, LIST(1, 2), l / 8 * 1024 + l % 8 * 16, l / 8 * 128 + (l % 8 ^ l / 8 * by) * 16)
PLACES("exchanged_some", kRowsOfLines, LIST(1, 2, 4), l / 8 * 1024 + l % 8 * 16, l / 8 * 128 + (l % 8 ^ (l / (by == 1 ? 2 : by == 2 ? 4 : 2) % 2 * by)) * 16)
PLACES("round", kRowsOfLines, LIST(1, 2, 3), l / 8 * 1024 + l % 8 * 16, l / 8 * 128 + (l % 8 + by) % 8 * 16)
// The halves of each sector so far apart: all first ones side by side, or each in a sector of its own.
PLACES("halves", kLines, LIST(512, 1040), l * 16, l % 2 * by + l / 2 * 16)
PLACES("halves_whole", kLines, LIST(144, 1024), l * 16, l % 2 * by + l / 2 * 32)
// Lanes of four, 16 and 32 lines in turn, so far apart.
PLACES("lines4", kRowsOfLines, LIST(16, 128), l % 4 * 1024 + l / 4 * 16, l * by)
PLACES("lines16", LIST(32, 32, 32), LIST(16, 32, 128), l / 2 * 512 + l % 2 * 16, l * by)
PLACES("lines32", LIST(64, 16, 16), LIST(16, 128), l * 512, l * by)

#define THROUGH(bytes, list) \
  TRUTH("async_places", "async_through_" #bytes, list, [](long n) { return places<bytes, false>({int(kOfWarp), 32 * bytes, 32 * bytes}, [=](int l) { return int2{l * bytes, l * int(n)}; }); });
THROUGH(4, LIST(4, 16, 128)) THROUGH(8, LIST(8, 128)) THROUGH(16, LIST(16, 128))
#define SHARED(name, from, to) \
  TRUTH("async_places", "async_same_" name, {2, 4, 16, 132}, [](long n) { return places<16, true>(kRowsOfLines, [](int l) { return int2{from, to}; }, int(n)); });
SHARED("rows", l / 8 * 1024 + l % 8 * 16, l * 16)
SHARED("matrices", l / 8 * 1024 + l % 8 * 16, l % 8 * 128 + l / 8 * 16)
SHARED("pairs", l / 8 * 1024 + l % 8 * 16, l / 2 * 128 + l % 2 * 16)
}  // namespace
