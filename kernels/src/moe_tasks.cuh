// The tasks of a mixture of experts in one launch (moe.cu): their order, and how a block takes them.
//
// The list, which follows from the sizes of the groups alone:
//
//   tiles of the first product, group by group, and then those of the second; within a group by columns, so that a group's weights are read by neighbours in time
//   pieces of the sums: kUnits units of 256 columns of a token
//
// (The second product of a group as soon as the first of some more groups was there, for what is between them to be found in L2, gained nothing: NOTES.md.)
//
// Invariant: a task needs only what tasks before it in the list have left. Blocks take tasks one after the other from a word in memory, so that what is needed has
// been taken by blocks that are running, each of which is at a task that comes before: the first of all tasks that are not done can always go on. Nobody
// need be resident for that but who has taken a task, and it does not matter which block takes which.
//
// One thread of a block, the scheduler, takes tasks ahead of those that work, finds out what each is, and leaves it in one of two slots of shared memory, for the two consumer
// warpgroups in turns (ping-pong) or for both; the producers read all. Threads that read arrive themselves, each of them: tools that look for races see that.
#pragma once
#include "group_range.cuh"
#include "make_barriers.cuh"
#include "ptx.cuh"

namespace orrery::kernels {

struct MoeParams {
  GemmParams first, second;      // e.d of both: in the workspace; e.n: inner, hidden; e.m: rows; tiles_n, k_steps
  unsigned* counters;            // as below
  int task_warps;                // consumer warps that have a task: 4, ping-pong, or all 8
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
constexpr int kMoeTileM = 128, kUnitColumns = 256, kUnits = 16;

/// A tile of rows has this number: groups before have at most one tile more than their rows fill.
__device__ __forceinline__ int row_tile_number(const GroupRange& at, int tile) { return at.begin / kMoeTileM + at.group + tile; }

struct Task {
  enum Kind { kFirst, kSecond, kCombine, kNone };
  int kind, group, row0, end;    // end: of the group's rows
  int column, ready;             // in tiles; the number of its tile of rows
  int count = 0;                 // stages of the block's ring that tasks before have filled, as far as it matters
  // kCombine: the first unit is in row0, rows of groups end at `end`, `ready` arrivals of the second product are waited for.
};

/// The list of tasks, walked forward: by groups of one product and then of the other.
struct TaskWalk {
  const MoeParams& p;
  GroupRange at;
  int kind = Task::kFirst, tiles_m, first = 0, count;  // the group's tiles of rows, the number of its first task and how many there are
  int second_tiles = 0, routed = 0;                    // tiles of the second product until now; rows of all groups
  __device__ __forceinline__ explicit TaskWalk(const MoeParams& params) : p(params), at(p.first) { open(); }

  __device__ __forceinline__ void open() {
    tiles_m = at.group < p.first.groups ? at.tiles(kMoeTileM) : 0;
    count = tiles_m * (kind == Task::kFirst ? p.first.tiles_n : p.second.tiles_n);
  }
  __device__ __forceinline__ void advance() {
    first += count;
    if (kind == Task::kSecond) second_tiles += count;
    if (at.group < p.first.groups) at.next(p.first);
    if (at.group >= p.first.groups) {
      routed = at.begin;
      kind++;
      if (kind == Task::kSecond) at = GroupRange(p.first);
    }
    open();
  }
  /// Task t, no earlier than the last.
  __device__ __forceinline__ Task seek(int t) {
    while (kind <= Task::kSecond && t >= first + count) advance();
    if (kind <= Task::kSecond) {
      const int tile = (t - first) % tiles_m;
      return {kind, at.group, at.begin + tile * kMoeTileM, at.end, (t - first) / tiles_m, row_tile_number(at, tile)};
    }
    const int64_t unit = int64_t(t - first) * kUnits;
    return {unit < p.units ? Task::kCombine : Task::kNone, 0, int(unit), routed, 0, second_tiles * p.task_warps};
  }
};

/// Where the scheduler leaves tasks: the n-th of a block in slot n % 2.
struct TaskSlots {
  static constexpr int kBytes = 96;
  uint32_t at;  // 16-byte aligned
  __device__ __forceinline__ uint32_t words(uint32_t n) const { return at + n % 2 * 32; }
  __device__ __forceinline__ uint32_t full(uint32_t n) const { return at + 64 + n % 2 * 8; }
  __device__ __forceinline__ uint32_t empty(uint32_t n) const { return at + 80 + n % 2 * 8; }
  __device__ __forceinline__ void init(int slot, int consumers) const {
    ptx::mbarrier_init(full(slot), 1);
    ptx::mbarrier_init(empty(slot), 2 + consumers);
  }
  __device__ __forceinline__ void wait_empty(uint32_t n) const { ptx::mbarrier_wait(empty(n), n / 2 & 1 ^ 1); }
  __device__ __forceinline__ void leave(uint32_t n, const Task& t) const {
    ptx::st_shared_v4(words(n), t.kind, t.group, t.row0, t.end);
    ptx::st_shared_v4(words(n) + 16, t.column, t.ready, t.count, 0);
    ptx::mbarrier_arrive(full(n));
  }
  __device__ __forceinline__ Task read(uint32_t n) const {
    ptx::mbarrier_wait(full(n), n / 2 & 1);
    const int4 v = ptx::ld_shared_v4(words(n)), w = ptx::ld_shared_v4(words(n) + 16);
    ptx::mbarrier_arrive(empty(n));
    return {v.x, v.y, v.z, v.w, w.x, w.y, w.z};
  }
  /// By a whole warp, which is known to have the same in all lanes then.
  __device__ __forceinline__ Task read_by_warp(uint32_t n) const {
    Task t = read(n);
    for (int* v : {&t.kind, &t.group, &t.row0, &t.end, &t.column, &t.ready, &t.count}) *v = __shfl_sync(~0u, *v, 0);
    return t;
  }
};

/// The scheduler: one thread. `ring`: what stages are counted modulo. What says that there is nothing more is left twice, for each warpgroup.
__device__ __forceinline__ void schedule_tasks(const MoeParams& p, const TaskSlots& slots, int ring) {
  TaskWalk walk(p);
  int count = 0;
  for (uint32_t n = 0, over = 0; over < 2; n++) {
    slots.wait_empty(n);
    Task t = walk.seek(int(atomicAdd(p.counters + MoeCounters::kQueue, 1u)));
    t.count = count;
    slots.leave(n, t);
    if (t.kind == Task::kNone) over++;
    else if (t.kind != Task::kCombine) count = (count + (t.kind == Task::kFirst ? p.first.k_steps : p.second.k_steps)) % ring;
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
