// The tasks of a mixture of experts in one launch (moe.cu): their order, and how a block takes them.
//
// The list, which follows from the sizes of the groups alone:
//
//   products     tiles of the first product, group by group, and behind them those of the second: a group's once `lag` tiles of the first product have come
//                after its own, or all have. Within a group by columns, so that a group's weights are read by neighbours in time.
//   combination  pieces of kUnits units of 256 columns of a token
//
// Invariant: a task needs only what tasks before it in the list have left. Blocks take tasks one after the other from a word in memory, so that what is needed has
// been taken by blocks that are running, each of which is at a task that comes before: the first of all tasks that are not done can always go on. Nobody
// need be resident for that but who has taken a task, and it does not matter which block takes which.
//
// One thread of a block, the scheduler, takes a task while the one before is multiplied, finds out what it is, and leaves it in a slot of shared memory, from which the
// two producers and all consumer warps read it.
#pragma once
#include "group_range.cuh"
#include "make_barriers.cuh"
#include "ptx.cuh"

namespace orrery::kernels {

struct MoeParams {
  GemmParams first, second;      // e.d of both: in the workspace; e.n: inner, hidden; e.m: rows; tiles_n, k_steps
  unsigned* counters;            // as below
  int lag;
  // The combination.
  const int32_t* token_rows;
  const float* token_weights;    // null: 1
  int top_k, units;              // units: chunks of 256 columns of all tokens
  FastDivide by_chunks;          // of a token
  void* out;
  int64_t out_stride;
  DType out_type;
  bool out_aligned;              // eight columns of it are 16 bytes, or 32, at a time
};

/// Words of the workspace, zero between launches; lines of their own for those that all blocks have to do with.
struct MoeCounters {
  static constexpr int kQueue = 0;   // tasks taken
  static constexpr int kStored = 32; // arrivals of consumer warps that have stored their part of a tile of the second product
  static constexpr int kLeft = 64;   // blocks that are done
  static constexpr int kReady = 96;  // for each tile of rows: arrivals of those that have stored their part of one of the first
  static constexpr int kWords = 1 << 18;
};
constexpr int kMoeTileM = 128, kUnitColumns = 256, kUnits = 32;
constexpr int kMoeConsumerWarps = 8;

/// A tile of rows has this number: groups before have at most one tile more than their rows fill.
__device__ __forceinline__ int row_tile_number(const GroupRange& at, int tile) { return at.begin / kMoeTileM + at.group + tile; }

struct Task {
  enum Kind { kFirst, kSecond, kCombine, kNone };
  int kind, group, row0, end;    // end: of the group's rows
  int column, ready;             // in tiles; the number of its tile of rows
  // kCombine: the first unit is in row0, rows of groups end at `end`, `ready` arrivals of the second product are waited for.
};

/// The list of tasks, walked forward by segments: tiles of one group of one product.
struct TaskWalk {
  const MoeParams& p;
  GroupRange of_first, of_second;  // the groups that come next
  GroupRange at;                   // the segment's, its tiles of rows, the number of its first task and how many there are
  int kind = Task::kFirst, tiles_m = 0, first = 0, count = 0;
  int ahead = 0, second_tiles = 0; // tiles of the first product in groups after of_second's; those of the second until now
  bool products = true;
  __device__ __forceinline__ explicit TaskWalk(const MoeParams& params) : p(params), of_first(p.first), of_second(p.first), at(p.first) {}

  __device__ __forceinline__ void open(int what, GroupRange& next, int columns) {
    at = next, kind = what;
    tiles_m = at.tiles(kMoeTileM), count = tiles_m * columns;
    next.next(p.first);
  }
  /// The next segment of products.
  __device__ __forceinline__ bool advance() {
    first += count, count = 0;
    const bool level = of_first.group == of_second.group;
    if (of_first.group < p.first.groups && (level || ahead < p.lag)) {
      open(Task::kFirst, of_first, p.first.tiles_n);
      if (!level) ahead += count;
      return true;
    }
    if (level) return false;  // both at the end
    open(Task::kSecond, of_second, p.second.tiles_n);
    second_tiles += count;
    if (of_second.group < of_first.group) ahead -= of_second.tiles(kMoeTileM) * p.first.tiles_n;
    return true;
  }
  /// Task t, no earlier than the last.
  __device__ __forceinline__ Task seek(int t) {
    while (products && t >= first + count) products = advance();
    if (products) {
      const int tile = (t - first) % tiles_m;
      return {kind, at.group, at.begin + tile * kMoeTileM, at.end, (t - first) / tiles_m, row_tile_number(at, tile)};
    }
    const int64_t unit = int64_t(t - first) * kUnits;
    return {unit < p.units ? Task::kCombine : Task::kNone, 0, int(unit), of_second.begin, 0, second_tiles * kMoeConsumerWarps};
  }
};

/// Where the scheduler leaves a task.
struct TaskSlot {
  static constexpr int kReaders = 2 + kMoeConsumerWarps;
  uint32_t full, empty, words;
  __device__ __forceinline__ explicit TaskSlot(uint32_t at) : full(at), empty(at + 8), words(at + 16) {}  // 16-byte aligned
  __device__ __forceinline__ void init() const {
    ptx::mbarrier_init(full, 1);
    ptx::mbarrier_init(empty, kReaders);
  }
  __device__ __forceinline__ void leave(const Task& t) const {
    ptx::st_shared_v4(words, t.kind, t.group, t.row0, t.end);
    ptx::st_shared_v2(words + 16, t.column, t.ready);
    ptx::mbarrier_arrive(full);
  }
  /// By one thread; `parity`: how many were read before, modulo 2.
  __device__ __forceinline__ Task read(uint32_t parity) const {
    const Task t = look(parity);
    ptx::mbarrier_arrive(empty);
    return t;
  }
  /// By a whole warp, which is known to have the same in all lanes then.
  __device__ __forceinline__ Task read_by_warp(uint32_t parity) const {
    Task t = look(parity);
    for (int* v : {&t.kind, &t.group, &t.row0, &t.end, &t.column, &t.ready}) *v = __shfl_sync(~0u, *v, 0);
    __syncwarp();  // all have read
    ptx::mbarrier_arrive_if(empty, threadIdx.x % 32 == 0);
    return t;
  }

 private:
  __device__ __forceinline__ Task look(uint32_t parity) const {
    ptx::mbarrier_wait(full, parity);
    const int4 v = ptx::ld_shared_v4(words);
    return {v.x, v.y, v.z, v.w, ptx::ld_shared(words + 16), ptx::ld_shared(words + 20)};
  }
};

/// The scheduler: one thread.
__device__ __forceinline__ void schedule_tasks(const MoeParams& p, const TaskSlot& slot) {
  TaskWalk walk(p);
  for (uint32_t turn = 0;; turn++) {
    ptx::mbarrier_wait(slot.empty, turn & 1 ^ 1);
    const Task t = walk.seek(int(atomicAdd(p.counters + MoeCounters::kQueue, 1u)));
    slot.leave(t);
    if (t.kind == Task::kNone) return;
  }
}

/// By all threads of a block that are done, with four bytes of shared memory: the last block leaves the words as it found them.
__device__ __forceinline__ void leave_counters(const MoeParams& p, uint32_t scratch) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    ptx::st_shared(scratch, atomicAdd(p.counters + MoeCounters::kLeft, 1u) == gridDim.x - 1);
    __threadfence();
  }
  __syncthreads();
  if (!ptx::ld_shared(scratch)) return;
  const int words = MoeCounters::kReady + (p.first.groups ? p.first.e.m / kMoeTileM + p.first.groups + 1 : 0);
  for (int i = threadIdx.x; i < words; i += blockDim.x) p.counters[i] = 0;
}

}  // namespace orrery::kernels
