// The k largest of rows of 16-bit floats, a warp a row: what shared memory holds of rows is being loaded or worked on, and no warp
// waits for another.
//
// A lane takes runs of 16 elements, the largest of each: 512 of them, 16 a lane. The k-th largest of these (or a little less) is
// below no more than some elements besides the k largest, and so mostly is what was that for the row before, with which a warp
// tries first. Runs whose largest reaches this cut are listed, then those of their elements that do, in the order of the row. The
// k-th largest of that list is found bit by bit, and the list's order is that of the result. Rows with too many equal elements
// for the list are searched whole.
//
// Shared memory: a place of 16 KiB a warp, filled by bulk copies | a list of elements a warp | one of runs | a barrier.
#pragma once
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {

/// Two 16-bit floats as unsigned numbers of the same order: of a negative one all bits are turned, of another the sign.
__device__ __forceinline__ uint32_t order_pair(uint32_t w) { return w ^ ((w >> 15 & 0x00010001u) * 0x7FFFu | 0x80008000u); }
__device__ __forceinline__ uint32_t order_one(uint32_t bits) { return bits & 0x8000u ? ~bits & 0xFFFFu : bits | 0x8000u; }
__device__ __forceinline__ uint32_t pair_back(uint32_t key) { return key & 0x8000u ? key ^ 0x8000u : ~key & 0xFFFFu; }

/// Largest number of 16 bits that at least k of the warp's reach, given all bits above `bit`; or, where `slack` is not 0, one that no
/// more than k + slack do.
template <int kCount>
__device__ __forceinline__ uint32_t reached_by(const uint32_t (&v)[kCount], int k, int slack, uint32_t found = 0, uint32_t bit = 0x8000) {
#pragma unroll 1
  for (; bit; bit >>= 1) {
    int mine = 0;
#pragma unroll
    for (int i = 0; i < kCount; i++) mine += v[i] >= (found | bit);
    const int reach = int(__reduce_add_sync(~0u, mine));
    if (reach < k) continue;
    found |= bit;
    if (reach < k + slack) break;
  }
  return found;
}

struct RowsOfWarps {
  static constexpr int kWarps = 13, kThreads = 32 * kWarps, kMostCols = 8192, kPlace = 2 * kMostCols, kRun = 16, kRuns = kMostCols / 32 / kRun, kListed = 192;
  static constexpr int kPerWarp = kPlace + 2 * kListed + 2 * 32 * kRuns + 16, kShared = kWarps * kPerWarp;
  /// Of no more runs than k there is no cut, and the list should hold twice what is wanted.
  static bool takes(int64_t cols, int64_t k) { return cols > kMostCols / 2 && cols <= kMostCols && k <= kListed / 2; }
};

/// What a warp writes of its row, candidates coming in the order of their columns.
struct TakenOfRow {
  uint32_t last;        // the k-th largest key
  int ties, taken = 0;  // how many of those equal to it are still to be taken; how many places are filled
  template <class T>
  __device__ __forceinline__ void offer(T* values, int32_t* indices, int64_t to, bool is_there, uint32_t key, int index) {
    const uint32_t below = (1u << threadIdx.x % 32) - 1, equal = __ballot_sync(~0u, is_there && key == last);
    const bool take = is_there && (key > last || (key == last && __popc(equal & below) < ties));
    const uint32_t all = __ballot_sync(~0u, take);
    if (take) {
      const int64_t at = to + taken + __popc(all & below);
      const uint16_t bits = uint16_t(pair_back(key));
      if (values) memcpy(values + at, &bits, 2);
      if (indices) indices[at] = index;
    }
    ties -= min(ties, __popc(equal)), taken += __popc(all);
  }
};

/// The row in a warp's place of shared memory, bit by bit: for those with too many equal elements.
template <class T>
__device__ __noinline__ void top_of_whole_row(T* values, int32_t* indices, const uint16_t* row, int64_t to, int cols, int k) {
  const int lane = threadIdx.x % 32;
  const auto count = [&](uint32_t least) {
    int mine = 0;
    for (int i = lane; i < cols; i += 32) mine += order_one(row[i]) >= least;
    return int(__reduce_add_sync(~0u, mine));
  };
  uint32_t last = 0;
#pragma unroll 1
  for (uint32_t bit = 0x8000; bit; bit >>= 1)
    if (count(last | bit) >= k) last |= bit;
  TakenOfRow taken{last, k - count(last + 1)};
#pragma unroll 1
  for (int first = 0; first < cols; first += 32) {
    const int i = first + lane;
    taken.offer(values, indices, to, i < cols, order_one(i < cols ? row[i] : 0), i);
  }
}

/// What of a warp's row is in shared memory: its elements, and places for lists.
struct RowInPlace {
  const uint16_t* row;
  uint16_t *list, *runs;
};

/// Lists the elements from `cut` on; `most`: of each run. Returns how many there are, listed or not.
__device__ __forceinline__ int list_from(const RowInPlace& at, const uint32_t (&most)[RowsOfWarps::kRuns], uint32_t cut) {
  const int lane = threadIdx.x % 32;
  const uint32_t below = (1u << lane) - 1;
  int runs = 0, count = 0;
#pragma unroll
  for (int r = 0; r < RowsOfWarps::kRuns; r++) {
    const uint32_t hits = __ballot_sync(~0u, most[r] >= cut);
    if (most[r] >= cut) at.runs[runs + __popc(hits & below)] = uint16_t(r * 32 + lane);
    runs += __popc(hits);
  }
  __syncwarp();
  constexpr int kAtOnce = 4, kRun = RowsOfWarps::kRun, kLanes = kRun / 2, kStep = 32 / kLanes;
#pragma unroll 1
  for (int first = 0; first < runs; first += kStep * kAtOnce) {  // several runs in a step, a word of two elements a lane
    int index[kAtOnce];
    uint32_t pair[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) index[u] = at.runs[min(first + kStep * u + lane / kLanes, runs - 1)] * kRun + lane % kLanes * 2;
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) pair[u] = order_pair(*reinterpret_cast<const uint32_t*>(at.row + index[u]));
#pragma unroll
    for (int u = 0; u < kAtOnce; u++) {
      const bool is_run = first + kStep * u + lane / kLanes < runs, low = is_run && (pair[u] & 0xFFFFu) >= cut, high = is_run && pair[u] >> 16 >= cut;
      const uint32_t lows = __ballot_sync(~0u, low), highs = __ballot_sync(~0u, high);
      const int place = count + __popc(lows & below) + __popc(highs & below);
      if (low && place < RowsOfWarps::kListed) at.list[place] = uint16_t(index[u]);
      if (high && place + low < RowsOfWarps::kListed) at.list[place + low] = uint16_t(index[u] + 1);
      count += __popc(lows) + __popc(highs);
    }
  }
  __syncwarp();
  return count;
}

/// `guess`: with which cut to try first, 0 for none; leaves that for the next row. `release`: called once the row has been read, while
/// there is still to be chosen among what was listed.
template <class T, class Release>
__device__ __forceinline__ void top_of_row(T* values, int32_t* indices, const RowInPlace& at, uint32_t& guess, int64_t to, int cols, int k, Release release) {
  constexpr int kRuns = RowsOfWarps::kRuns, kListed = RowsOfWarps::kListed, kStep = std::is_same_v<T, __half> ? 8 : 1;
  const int lane = threadIdx.x % 32;
  const uint4* const packs = reinterpret_cast<const uint4*>(at.row);
  uint32_t most[kRuns];
  // Of signed numbers the largest is that of the floats, unless all of a run are negative: then it is one of them, and its key none.
  const auto largest = [&](auto&& keys_of) {
#pragma unroll
    for (int r = 0; r < kRuns; r++) {
      const uint4* const run = packs + (r * 32 + lane) * 2;
      const uint32_t pair = keys_of(run[lane / 4 % 2], run[lane / 4 % 2 ^ 1]);  // lanes on different banks
      most[r] = max(pair >> 16, pair & 0xFFFFu);
    }
  };
  largest([](const uint4& x, const uint4& y) {
    return __vmaxs2(__vmaxs2(__vmaxs2(x.x, x.y), __vmaxs2(x.z, x.w)), __vmaxs2(__vmaxs2(y.x, y.y), __vmaxs2(y.z, y.w))) ^ 0x80008000u;
  });
  uint32_t cut = guess;
  int count;
  for (bool found = false;; found = true) {
    if (found || !guess) {
      found = true;
      cut = reached_by(most, k, k / 2);
      if (cut < 0x8000) {  // a negative number: some runs' largest are not known
        const auto most_of = [](const uint4& x) { return __vmaxu2(__vmaxu2(order_pair(x.x), order_pair(x.y)), __vmaxu2(order_pair(x.z), order_pair(x.w))); };
        largest([&](const uint4& x, const uint4& y) { return __vmaxu2(most_of(x), most_of(y)); });
        cut = reached_by(most, k, k / 2);
      }
    }
    count = list_from(at, most, cut);
    if (count >= k && count <= kListed) break;
    if (found) {  // too many are equal
      guess = 0;
      top_of_whole_row(values, indices, at.row, to, cols, k);
      __syncwarp();
      release();
      return;
    }
  }
  guess = count < k + k / 4 ? cut - kStep : count > k + k / 2 ? cut + kStep : cut;
  if (guess < 0x8000) guess = 0;
  uint32_t key[kListed / 32], greatest = 0;
  int index[kListed / 32];
#pragma unroll
  for (int i = 0; i < kListed / 32; i++) {
    const bool is_there = i * 32 + lane < count;
    index[i] = is_there ? at.list[i * 32 + lane] : 0;
    key[i] = is_there ? order_one(at.row[index[i]]) : 0;
    greatest = max(greatest, key[i]);
  }
  __syncwarp();
  release();
  // What the cut and the largest have in common all of the list has.
  greatest = __reduce_max_sync(~0u, greatest);
  const uint32_t from = greatest == cut ? 0 : 0x80000000u >> __clz(int(greatest ^ cut));
  const uint32_t shared_bits = from ? cut & ~(2 * from - 1) : cut;
  uint32_t few[kListed / 64];  // as a rule the list is half empty
#pragma unroll
  for (int i = 0; i < kListed / 64; i++) few[i] = key[i];
  const uint32_t last = count <= kListed / 2 ? reached_by(few, k, 0, shared_bits, from) : reached_by(key, k, 0, shared_bits, from);
  int more = 0;
#pragma unroll
  for (int i = 0; i < kListed / 32; i++) more += key[i] > last;
  TakenOfRow taken{last, k - int(__reduce_add_sync(~0u, more))};
#pragma unroll
  for (int i = 0; i < kListed / 32; i++)
    if (i * 32 < count) taken.offer(values, indices, to, i * 32 + lane < count, key[i], index[i]);
}

template <class T>
__global__ void __launch_bounds__(RowsOfWarps::kThreads, 1) top_of_rows_by_warps(T* values, int32_t* indices, const T* in, int rows, int cols, int64_t pitch, int k) {
  using R = RowsOfWarps;
  extern __shared__ __align__(128) uint8_t raw[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint8_t* const place = raw + warp * R::kPlace;
  uint8_t* const lists = raw + R::kWarps * R::kPlace + warp * 2 * R::kListed;
  uint8_t* const runs = raw + R::kWarps * (R::kPlace + 2 * R::kListed) + warp * 2 * 32 * R::kRuns;
  const RowInPlace at{reinterpret_cast<const uint16_t*>(place), reinterpret_cast<uint16_t*>(lists), reinterpret_cast<uint16_t*>(runs)};
  const uint32_t bar = ptx::smem_address(raw + R::kWarps * (R::kPlace + 2 * R::kListed + 2 * 32 * R::kRuns)) + 16 * warp;
  for (int i = cols / 8 + lane; i < R::kMostCols / 8; i += 32) reinterpret_cast<uint4*>(place)[i] = make_uint4(~0u, ~0u, ~0u, ~0u);  // the least there is
  if (lane == 0) {
    ptx::mbarrier_init(bar, 1);
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
  begin_overlapped();
  const int64_t stride = int64_t(gridDim.x) * R::kWarps;
  const auto load = [&](int64_t row) {
    if (row >= rows || lane != 0) return;
    ptx::mbarrier_arrive_expect_tx(bar, uint32_t(cols) * 2);
    ptx::bulk_load(ptx::smem_address(place), in + row * pitch, uint32_t(cols) * 2, bar);
  };
  uint32_t guess = 0, phase = 0;
  int64_t row = int64_t(warp) * gridDim.x + blockIdx.x;
  load(row);
  for (; row < rows; row += stride, phase ^= 1) {
    ptx::mbarrier_wait(bar, phase);
    top_of_row(values, indices, at, guess, row * k, cols, k, [&] { load(row + stride); });
  }
}

}  // namespace orrery::kernels
