// The k largest of rows of 16-bit floats, some warps a row: a part of it each, in shared memory, by bulk copies.
//
// A lane has some vectors of 8 elements that follow each other. A warp finds a number that at least its share of k of its lanes' largest
// elements reach, or a little more; the smallest of the warps' is a cut that at least k of the row reach, and as a rule not half as many more.
// Vectors with such elements are listed in the order of columns, then the elements. One of the warps counts how far those are above the
// cut, finds the k-th largest in these counts, and writes what reaches it. Where there are too many for the lists, as the large ones are all in some of
// the parts, a cut is found for all parts together; rows with too many equal elements are searched whole.
//
// What a row takes is latency, some twelve cycles an instruction (NOTES.md): lists grow by stores under a predicate, as branches cost more. Two
// warps issue less for a row than four, which are done sooner (top_k.cu says when).
#pragma once
#include "launch.h"
#include "vectors.cuh"

namespace orrery::kernels {

template <int kWarps_>
struct RowOfWarps {
  static constexpr int kWarps = kWarps_, kThreads = 32 * kWarps, kMostCols = 8192, kMostK = 96, kBins = 128;
  static constexpr int kVectors = kMostCols / 8 / kThreads, kPart = 32 * kVectors;  // of a lane, of a warp
  static constexpr int kMaxima = 8 / kWarps;                                        // numbers of a lane from which the cut is found
  static constexpr int kListed = 128, kFew = 128 / kWarps;                          // elements that a warp can list; those of most rows
  struct alignas(128) Shared {
    uint4 part[kWarps][kPart];
    uint64_t loaded[kWarps];
    uint32_t list[kWarps][kListed];        // (key << 16 | column), in the order of columns
    alignas(16) uint32_t bins[kBins + 1];  // how many of the listed are so much above the cut, or more; then places of lists that hold nothing
    uint16_t at[kWarps][kPart];            // vectors that reach the cut
    alignas(16) int cut[kWarps];           // aligned, or a load of one takes in what another warp writes of the next
    alignas(16) int count[kWarps];
    alignas(16) int sums[2][kWarps];
  };
  /// Of fewer columns there might not be enough numbers for a cut.
  static bool takes(int64_t cols, int64_t k) { return cols > kMostCols / 2 && cols <= kMostCols && k <= kMostK; }
};
/// So much shared memory that no more than eight blocks share an SM.
constexpr size_t kSharedOfEight = 27 * 1024;

/// Turns all bits but the sign of negative ones, so that 16-bit floats are in order as signed numbers; and back.
__device__ __forceinline__ uint32_t turn_pair(uint32_t w) { return w ^ (w >> 15 & 0x00010001u) * 0x7FFFu; }
__device__ __forceinline__ uint32_t turn_one(int v) { return uint32_t(v < 0 ? v ^ 0x7FFF : v); }

/// Elements of a pair and of a vector, as signed numbers.
__device__ __forceinline__ int low_of(uint32_t w) { return int(w << 16) >> 16; }
__device__ __forceinline__ int high_of(uint32_t w) { return int(w) >> 16; }
__device__ __forceinline__ int element_of(const uint4& x, int i) {
  const uint32_t w = i / 2 == 0 ? x.x : i / 2 == 1 ? x.y : i / 2 == 2 ? x.z : x.w;
  return i % 2 ? high_of(w) : low_of(w);
}

/// The sum of what the lanes up to this one have.
__device__ __forceinline__ int sum_up_to(int v) {
#pragma unroll
  for (int d = 1; d < 32; d *= 2)
    asm volatile("{ .reg .u32 t; .reg .pred p; shfl.sync.up.b32 t|p, %0, %1, 0, -1; @p add.u32 %0, %0, t; }" : "+r"(v) : "r"(d));
  return v;
}

/// Stores under a predicate, where compilers would branch; `append_if` to shared memory, and moves on.
__device__ __forceinline__ void append_if(bool p, uint32_t& to, uint16_t v) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.u16 [%0], %2; @p add.u32 %0, %0, 2; }" : "+r"(to) : "r"(uint32_t(p)), "h"(v) : "memory");
}
__device__ __forceinline__ void append_if(bool p, uint32_t& to, uint32_t v) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p st.shared.u32 [%0], %2; @p add.u32 %0, %0, 4; }" : "+r"(to) : "r"(uint32_t(p)), "r"(v) : "memory");
}
__device__ __forceinline__ void store_if(bool p, uint16_t* to, uint32_t v) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.u16 [%1], %2; }" ::"r"(uint32_t(p)), "l"(to), "h"(uint16_t(v)) : "memory");
}
__device__ __forceinline__ void store_if(bool p, int32_t* to, int32_t v) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.global.u32 [%1], %2; }" ::"r"(uint32_t(p)), "l"(to), "r"(v) : "memory");
}

/// What all warps have, added up; by whole blocks. round: of a block's sums, counted on.
template <class R>
__device__ __forceinline__ int sum_of_warps(typename R::Shared& row, int n, int& round) {
  int* const sums = row.sums[round++ % 2];
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = n;
  __syncthreads();
  int total = 0;
#pragma unroll
  for (int w = 0; w < R::kWarps; w++) total += sums[w];
  return total;
}

/// What is chosen of what the warps have listed, kMine * 32 of each at most; by one warp. `values`, `indices`: of the row.
template <class R, int kMine>
__device__ __forceinline__ void choose_listed(uint16_t* values, int32_t* indices, typename R::Shared& row, int cut, int k) {
  constexpr int kAll = R::kWarps * kMine;
  constexpr int kNone = int(0x80000000u);  // smaller than what is listed
  const int lane = threadIdx.x % 32;
  const uint32_t below = (1u << lane) - 1;
  int word[kAll];
#pragma unroll
  for (int s = 0; s < kAll; s++) {
    const int i = s % kMine * 32 + lane;
    word[s] = i < row.count[s / kMine] ? int(row.list[s / kMine][i]) : kNone;
  }
#pragma unroll
  for (int s = 0; s < kAll; s++) atomicAdd(&row.bins[word[s] == kNone ? R::kBins : min((word[s] >> 16) - cut, R::kBins - 1)], 1u);
  __syncwarp();
  const uint4 mine = reinterpret_cast<const uint4*>(row.bins)[31 - lane];  // lane 0 has the highest
  const int c3 = mine.w, c2 = c3 + mine.z, c1 = c2 + mine.y, c0 = c1 + mine.x, up_to = sum_up_to(c0), before = up_to - c0;
  const int bin = before + c3 >= k ? 3 : before + c2 >= k ? 2 : before + c1 >= k ? 1 : 0;
  const int above = before + (bin == 3 ? 0 : bin == 2 ? c3 : bin == 1 ? c2 : c1);
  const int found = __shfl_sync(~0u, (31 - lane) * 4 + bin | above << 16, __ffs(__ballot_sync(~0u, up_to >= k)) - 1);
  int last = cut + (found & 0xFFFF), more = found >> 16;  // the k-th largest; how many are larger
  if ((found & 0xFFFF) == R::kBins - 1) {                 // somewhere in the bin for all the rest
    const auto reach = [&](int least) {
      int n = 0;
#pragma unroll
      for (int s = 0; s < kAll; s++) n += __popc(__ballot_sync(~0u, word[s] >> 16 >= least));
      return n;
    };
    int greatest = 0x7FFF;
#pragma unroll 1
    while (last < greatest) {
      const int middle = (last + greatest + 1) >> 1;
      if (reach(middle) >= k) last = middle;
      else greatest = middle - 1;
    }
    more = reach(last + 1);
  }
  int ties = k - more, taken = 0;
#pragma unroll
  for (int s = 0; s < kAll; s++) {
    const int key = word[s] >> 16;
    const uint32_t equal = __ballot_sync(~0u, key == last);
    const bool take = key > last || (key == last && __popc(equal & below) < ties);
    const uint32_t all = __ballot_sync(~0u, take);
    const int to = taken + __popc(all & below);
    if (values) store_if(take, values + to, cut < 0 ? turn_one(key) : uint32_t(key));
    if (indices) store_if(take, indices + to, word[s] & 0xFFFF);
    ties -= min(ties, __popc(equal)), taken += __popc(all);
  }
}

/// The same of the whole row, by all warps: the k-th largest, which is not below `last`, bit by bit. `count`: the warp's vectors, of which the row
/// has `first` before them; `turned`: whether negative ones are.
template <class R>
__device__ __noinline__ void choose_of_all(uint16_t* values, int32_t* indices, typename R::Shared& row, int first, int count, bool turned, int last, int k, int round) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint4* const part = row.part[warp];
  const auto reach = [&](int least) {
    int n = 0;
#pragma unroll 1
    for (int v = lane; v < count; v += 32) {
      const uint4 x = part[v];
#pragma unroll
      for (int i = 0; i < 8; i++) n += element_of(x, i) >= least;
    }
    return int(__reduce_add_sync(~0u, n));
  };
  int greatest = 0x7FFF;
#pragma unroll 1
  while (last < greatest) {
    const int middle = (last + greatest + 1) >> 1;
    if (sum_of_warps<R>(row, reach(middle), round) >= k) last = middle;
    else greatest = middle - 1;
  }
  const int more = reach(last + 1), equal = reach(last) - more, ties = k - sum_of_warps<R>(row, more, round);
  sum_of_warps<R>(row, more << 16 | equal, round);  // fewer than k of the row are larger
  int seen = 0, taken = 0;     // in parts before: equal ones, and what was taken
#pragma unroll
  for (int w = 0; w < R::kWarps; w++) {
    const int both = row.sums[(round - 1) % 2][w];
    if (w < warp) seen += both & 0xFFFF, taken += both >> 16;
  }
  taken += min(seen, ties);
#pragma unroll 1
  for (int f = 0; f < count; f += 32) {
    const bool is_there = f + lane < count;
    const uint4 x = part[is_there ? f + lane : 0];
    int same = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) same += is_there && element_of(x, i) == last;
    const int same_up_to = sum_up_to(same);
    int at = seen + same_up_to - same;
    seen += __shfl_sync(~0u, same_up_to, 31);
    uint32_t chosen = 0;
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const bool equals = element_of(x, i) == last;
      chosen |= uint32_t(is_there && (element_of(x, i) > last || (equals && at < ties))) << i;
      at += equals;
    }
    const int chosen_up_to = sum_up_to(__popc(chosen));
    int to = taken + chosen_up_to - __popc(chosen);
    taken += __shfl_sync(~0u, chosen_up_to, 31);
#pragma unroll
    for (int i = 0; i < 8; i++)
      if (chosen >> i & 1) {
        if (values) values[to] = uint16_t(turned ? turn_one(element_of(x, i)) : uint32_t(element_of(x, i)));
        if (indices) indices[to] = (first + f + lane) * 8 + i;
        to++;
      }
  }
}

/// A block a row. `rows_ahead`: of so many rows the first kAhead vectors of each part are loaded while the launch ahead still runs; more are in the way.
template <class R>
__global__ void __launch_bounds__(R::kThreads, 1024 / R::kThreads)
top_of_row_by_warps(uint16_t* values, int32_t* indices, const uint16_t* in, int rows_ahead, int cols, int64_t pitch, int k) {
  constexpr int kWarps = R::kWarps, kVectors = R::kVectors, kMaxima = R::kMaxima, kAhead = R::kPart * 5 / 8;
  extern __shared__ __align__(128) uint8_t raw[];
  typename R::Shared& row = reinterpret_cast<typename R::Shared&>(raw);
  ptx::griddepcontrol_launch_dependents();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int share = (cols / 8 + kWarps - 1) / kWarps, first = warp * share, count = min(share, cols / 8 - first);  // of vectors
  const uint16_t* const source = in + blockIdx.x * pitch + first * 8;
  uint4* const part = row.part[warp];
  const uint32_t bar = ptx::smem_address(&row.loaded[warp]);
  const bool early = int(blockIdx.x) < rows_ahead;
  const auto load = [&](int vectors) {
    ptx::mbarrier_arrive_expect_tx(bar, uint32_t(vectors) * 16);
    ptx::bulk_load(ptx::smem_address(part), source, uint32_t(vectors) * 16, bar);
  };
  if (lane == 0) {
    ptx::mbarrier_init(bar, 1);
    ptx::fence_mbarrier_init();
    if (early) load(min(kAhead, count));  // so that L2 has it, near this SM (launch.h); the second load counts
  }
  for (int i = threadIdx.x; i <= R::kBins; i += R::kThreads) row.bins[i] = 0;
  for (int i = count + lane; i < R::kPart; i += 32) part[i] = make_uint4(~0u, ~0u, ~0u, ~0u);  // the least there is
  ptx::griddepcontrol_wait();
  if (lane == 0) {
    if (early) ptx::mbarrier_wait(bar, 0);
    load(count);
  }
  __syncwarp();
  ptx::mbarrier_wait(bar, early);

  uint32_t most[kVectors];  // of each vector, by even and odd elements
  const auto maxima = [&](int (&m)[kMaxima]) {
    uint32_t all[kMaxima / 2];
#pragma unroll
    for (int v = 0; v < kVectors; v++) all[v % (kMaxima / 2)] = v < kMaxima / 2 ? most[v] : __vmaxs2(all[v % (kMaxima / 2)], most[v]);
#pragma unroll
    for (int i = 0; i < kMaxima; i++) m[i] = i % 2 ? low_of(all[i / 2]) : high_of(all[i / 2]);
  };
  const auto find_cut = [&] {
#pragma unroll
    for (int v = 0; v < kVectors; v++) {
      const uint4 x = part[lane * kVectors + (lane % 8 ^ v)];  // neighbours begin with others of theirs, which are on other banks
      most[v] = __vmaxs2(__vmaxs2(x.x, x.y), __vmaxs2(x.z, x.w));
    }
    int m[kMaxima], greater = -0x8000;
    maxima(m);
#pragma unroll
    for (int i = 0; i < kMaxima; i++) greater = max(greater, m[i]);
    const int wanted = (k + kWarps - 1) / kWarps;
    int least = __reduce_min_sync(~0u, greater), greatest = __reduce_max_sync(~0u, greater);
#pragma unroll 1
    while (least < greatest) {
      const int middle = (least + greatest + 1) >> 1;
      int reach = 0;
#pragma unroll
      for (int i = 0; i < kMaxima; i++) reach += __popc(__ballot_sync(~0u, m[i] >= middle));
      if (reach < wanted) greatest = middle - 1;
      else {
        least = middle;
        if (reach <= wanted + wanted / 4) break;
      }
    }
    return least;
  };
  bool turned = false;
  const auto turn = [&] {
    __syncwarp();
#pragma unroll 1
    for (int v = lane; v < R::kPart; v += 32) {
      const uint4 x = part[v];
      part[v] = make_uint4(turn_pair(x.x), turn_pair(x.y), turn_pair(x.z), turn_pair(x.w));
    }
    __syncwarp();
    turned = true;
  };
  // Of signed numbers the largest is that of the floats unless all are negative. Only where the cut is negative does that matter.
  int cut = find_cut();
  if (cut < 0) {
    turn();
    cut = find_cut();
  }
  if (lane == 0) row.cut[warp] = cut;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < kWarps; w++) cut = min(cut, row.cut[w]);
  if (cut < 0 && !turned) {
    turn();
    find_cut();
  }
  cut = max(cut, -0x7FFF);

  int all, longest, round = 0;
#pragma unroll 1
  for (bool again = false;; again = true) {
    const uint32_t less = uint32_t(cut - 1) & 0xFFFF, pair = less << 16 | less;
    uint32_t hit = 0;
#pragma unroll
    for (int v = 0; v < kVectors; v++)
      if (__vmaxs2(most[v], pair) != pair) hit |= 1u << (lane % 8 ^ v);
    const int hits_up_to = sum_up_to(__popc(hit)), hits = __shfl_sync(~0u, hits_up_to, 31);
    uint32_t vectors_end = ptx::smem_address(row.at[warp] + hits_up_to - __popc(hit));
#pragma unroll
    for (int v = 0; v < kVectors; v++) append_if(hit >> v & 1, vectors_end, uint16_t(lane * kVectors + v));
    __syncwarp();
    int listed = 0;
#pragma unroll 1
    for (int f = 0; f < hits; f += 32) {
      const int v = row.at[warp][min(f + lane, hits - 1)];
      const uint4 x = part[v];
      uint32_t chosen = 0;
      const auto look = [&](uint32_t w, int i) {
        const uint32_t differs = __vmaxs2(w, pair) ^ pair;
        if (differs & 0xFFFF) chosen |= 1u << i;
        if (differs > 0xFFFF) chosen |= 2u << i;
      };
      look(x.x, 0), look(x.y, 2), look(x.z, 4), look(x.w, 6);
      if (f + lane >= hits) chosen = 0;
      const int chosen_up_to = sum_up_to(__popc(chosen));
      const uint32_t column = (first + v) * 8;
      uint32_t end = ptx::smem_address(row.list[warp] + listed + chosen_up_to - __popc(chosen));
      listed += __shfl_sync(~0u, chosen_up_to, 31);
      if (listed > R::kListed) break;
      const auto list = [&](uint32_t w, int i) {
        append_if(chosen >> i & 1, end, w << 16 | (column + i));
        append_if(chosen >> (i + 1) & 1, end, (w & 0xFFFF0000u) | (column + i + 1));
      };
      list(x.x, 0), list(x.y, 2), list(x.z, 4), list(x.w, 6);
    }
    if (lane == 0) row.count[warp] = listed;
    __syncthreads();
    all = longest = 0;
#pragma unroll
    for (int w = 0; w < kWarps; w++) all += row.count[w], longest = max(longest, row.count[w]);
    if (again || longest <= R::kListed || all < k) break;
    int m[kMaxima], better = cut, greatest = 0x7FFF;
    maxima(m);
#pragma unroll 1
    while (better < greatest) {
      const int middle = (better + greatest + 1) >> 1;
      int reach = 0;
#pragma unroll
      for (int i = 0; i < kMaxima; i++) reach += __popc(__ballot_sync(~0u, m[i] >= middle));
      if (sum_of_warps<R>(row, reach, round) >= k) better = middle;
      else greatest = middle - 1;
    }
    if (better == cut) break;
    cut = better;
  }
  if (values) values += blockIdx.x * int64_t(k);
  if (indices) indices += blockIdx.x * int64_t(k);
  if (all < k || longest > R::kListed) return choose_of_all<R>(values, indices, row, first, count, cut < 0, all < k ? -0x8000 : cut, k, round);
  if (warp != int(blockIdx.x % kWarps)) return;
  if (longest <= R::kFew) choose_listed<R, R::kFew / 32>(values, indices, row, cut, k);
  else choose_listed<R, R::kListed / 32>(values, indices, row, cut, k);
}

}  // namespace orrery::kernels
