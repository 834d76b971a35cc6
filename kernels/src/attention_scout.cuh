// How attention_kernel.cuh's producers and consumers come by this CTA's tiles of queries: each finds them by itself or, where a mask leaves
// few tiles of keys, a scout does, a warp of the producer's warpgroup that runs ahead of them and leaves in shared memory what it found. Found by
// everyone a tile costs each consumer warp some hundred instructions between its last product for one tile of queries and its first
// for the next, and with a neighbourhood four times as many.
//
// Two records, in turn: the producers and the consumer warps each tell when they have read one, and of a warp every lane does: one lane for all, behind a
// barrier of the warp, would be as good, but racecheck does not follow that. With a neighbourhood that needs masks a record has, beside the
// tile, where the windows of its queries start: of each place on each axis of the tile's box, from which a query's own is read; and then come, 16 at a time,
// entries for its tiles of keys, which say where each is and which warps need masks for it: found by every warp, that was a tenth of all it did. Where each
// warpgroup has tiles of its own there are no entries.
#pragma once
#include "attention_store.cuh"
#include "attention_view.cuh"
#include "ptx.cuh"

namespace orrery::kernels {

struct Place {
  uint32_t stage = 0, phase = 0;
  template <int kStages>
  __device__ __forceinline__ void next() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

/// Producers: one, or with a scout one of queries, one of keys and one of values. (Heads of more than 128 gain nothing by it.)
template <class S>
constexpr int kLoadersOf = S::kScout && S::kDim <= 128 ? 3 : 1;

constexpr int kRecords = 2, kRecordBytes = 48;
constexpr int kStartBytes = 4 * 132;  // sides of a box of 128 places add up to 130 at most
constexpr int kEntries = 16, kListBytes = 16 * kEntries;

/// Shared-window addresses of the records, and the barriers that say they are there and have been read.
template <class S>
struct Board {
  static constexpr int kBytes = S::kScout ? kRecords * (16 + kRecordBytes + (S::kStarts ? kStartBytes : 0) + (S::kCut ? 16 + kListBytes : 0)) : 0;
  uint32_t full, empty, records, starts, lists, list_full, list_empty;
  Board() = default;
  __device__ __forceinline__ explicit Board(uint32_t at) : full(at), empty(full + 8 * kRecords), records(empty + 8 * kRecords), starts(records + kRecords * kRecordBytes), lists(starts + kRecords * kStartBytes),
        list_full(lists + kRecords * kListBytes), list_empty(list_full + 8 * kRecords) {}
  __device__ __forceinline__ void init() const {
    for (int r = 0; r < kRecords; r++) {
      ptx::mbarrier_init(full + 8 * r, 32), ptx::mbarrier_init(empty + 8 * r, kLoadersOf<S> + 4 * S::kConsumers * 32);
      if (S::kCut) ptx::mbarrier_init(list_full + 8 * r, 32), ptx::mbarrier_init(list_empty + 8 * r, 8 * 32);
    }
  }
  __device__ __forceinline__ uint32_t starts_of(int record) const { return starts + record * kStartBytes; }

  /// By one lane.
  __device__ __forceinline__ void write(int record, const Work<S>& w) const {
    const uint32_t to = records + record * kRecordBytes;
    const NearTile& t = w.near;
    ptx::st_shared_v4(to, w.head, w.batch, w.key_tiles, S::kNear ? t.query[0] : w.row0);
    if constexpr (S::kNear) {
      ptx::st_shared_v4(to + 16, t.query[1], t.query[2], t.low[0], t.low[1]);
      if constexpr (S::kOwn) ptx::st_shared_v4(to + 32, t.low[2], w.own.alone, w.own.shift, w.own.far);
      else ptx::st_shared_v4(to + 32, t.low[2], t.count[0], t.count[1], t.count[2]);
    } else {
      if constexpr (S::kNarrow) ptx::st_shared_v4(to + 16, w.k_base, w.narrow.range[0], w.narrow.range[1], w.narrow.range[2]);
      else ptx::st_shared_v4(to + 16, w.k_base, 0, 0, 0);
      ptx::st_shared_v4(to + 32, 0, 0, 0, 0);  // warps read all of a record
    }
  }
  /// What `word(i)` says the i-th word of a record is.
  template <class Word>
  __device__ static __forceinline__ Work<S> work_of(Word word) {
    Work<S> w{{}, S::kNear ? 0 : word(3), word(0), word(1), word(2)};
    if constexpr (S::kNear) {
      NearTile& t = w.near;
      t.query[0] = word(3), t.query[1] = word(4), t.query[2] = word(5);
#pragma unroll
      for (int a = 0; a < 3; a++) t.low[a] = word(6 + a), t.count[a] = S::kOwn ? 0 : word(9 + a);
      if constexpr (S::kOwn) w.own = {word(9), word(10), word(11)};
    } else {
      w.k_base = word(4);
      if constexpr (S::kNarrow) w.narrow = {{word(5), word(6), word(7)}};
    }
    return w;
  }
  __device__ __forceinline__ Work<S> read(int record) const {
    return work_of([&](int i) { return ptx::ld_shared(records + record * kRecordBytes + 4 * i); });
  }
  /// By a whole warp, which ptxas then knows to have read the same.
  __device__ __forceinline__ Work<S> read_by_warp(int record) const {
    const int mine = ptx::ld_shared(records + record * kRecordBytes + 4 * min(int(threadIdx.x % 32), kRecordBytes / 4 - 1));
    return work_of([&](int i) { return __shfl_sync(~0u, mine, i); });
  }
};

/// By a whole warp: all tiles of this CTA, and that there are no more.
template <class S>
__device__ __forceinline__ void scout(const AttentionParams& p, const Board<S>& board) {
  const int lane = threadIdx.x % 32;
  Place at, list;
  for (int i = 0;; i++) {
    const Work<S> w = work_at<S>(p, i);
    if (w.key_tiles == kSkip) continue;
    if constexpr (!S::kNear)
      if (w.key_tiles == 0) {
        leave_zeros<S>(p, w);
        continue;
      }
    ptx::mbarrier_wait(board.empty + 8 * at.stage, at.phase ^ 1);
    if (lane == 0) board.write(at.stage, w);
    if constexpr (S::kStarts)
      if (w.key_tiles != kNoMore) near_starts(p.near, w.near, board.starts_of(at.stage));
    ptx::mbarrier_arrive(board.full + 8 * at.stage);
    if (w.key_tiles == kNoMore) return;
    __syncwarp();  // entries are found from where all lanes' windows start
    for (int begin = 0; S::kCut && begin < w.key_tiles; begin += kEntries) {
      const int4 entry = near_entry(p.near, w.near, board.starts_of(at.stage), begin);
      ptx::mbarrier_wait(board.list_empty + 8 * list.stage, list.phase ^ 1);
      if (lane < kEntries) ptx::st_shared_v4(board.lists + list.stage * kListBytes + 16 * lane, entry.x, entry.y, entry.z, entry.w);
      ptx::mbarrier_arrive(board.list_full + 8 * list.stage);
      list.next<kRecords>();
    }
    at.next<kRecords>();
  }
}

/// Where there is no scout, by a whole warp of the producer's warpgroup: zeros for this CTA's queries that see no key. Not by the consumers: behind
/// such stores ptxas takes a warp's lanes to be apart, and all of the loop over tiles of keys with them (NOTES.md).
template <class S>
__device__ __forceinline__ void leave_all_zeros(const AttentionParams& p) {
  if (!S::kLengths && p.offset >= 0) return;
  for (int i = 0;; i++) {
    const Work<S> w = work_at<S>(p, i);
    if (w.key_tiles == kNoMore) return;
    if (w.key_tiles == 0) leave_zeros<S>(p, w);
  }
}

/// The entries of a tile of queries' tiles of keys, as the consumers read them.
template <class S>
class Entries {
 public:
  __device__ __forceinline__ explicit Entries(const Board<S>& board) : board_(board) {}
  /// Of the next tile of keys; first: that of a tile of queries.
  __device__ __forceinline__ int4 next(bool first) {
    if constexpr (!S::kCut) return {};
    if (first || at_ == kListBytes) turn();
    const int4 entry = ptx::ld_shared_v4(board_.lists + list_.stage * kListBytes + at_);
    at_ += 16;
    return entry;
  }

 private:
  /// Gives back the list that was read, if any, and waits for the next.
  __device__ __forceinline__ void turn() {
    if (at_ != 0) {
      __syncwarp();
      ptx::mbarrier_arrive(board_.list_empty + 8 * list_.stage);
      list_.template next<kRecords>();
    }
    ptx::mbarrier_wait(board_.list_full + 8 * list_.stage, list_.phase);
    at_ = 0;
  }
  const Board<S> board_;
  Place list_;
  uint32_t at_ = 0;
};

/// The tiles of this CTA whose queries see keys.
template <class S>
class Queue {
 public:
  __device__ __forceinline__ Queue(const AttentionParams& p, const Board<S>& board) : p_(p), board_(board) {}

  /// False: there are no more, and w stays as it was. kWarps: by all warps of the consumers, else by the producer.
  template <bool kWarps>
  __device__ __forceinline__ bool next(Work<S>& w) {
    for (;;) {
      const Work<S> found = find<kWarps>();
      if (found.key_tiles == kNoMore) return false;
      if (S::kScout || S::kAlways || found.key_tiles > found.first) {
        w = found;
        return true;
      }
    }
  }
  /// What the scout left of the tile of queries has been read.
  template <bool kWarps>
  __device__ __forceinline__ void done() {
    if constexpr (S::kScout) {
      if (kWarps) __syncwarp();  // not needed, but windows take half a per cent longer without
      ptx::mbarrier_arrive(board_.empty + 8 * at_.stage);
      at_.template next<kRecords>();
    }
  }
  /// Where the windows of the tile's queries start; until done.
  __device__ __forceinline__ uint32_t starts() const { return board_.starts_of(at_.stage); }

 private:
  template <bool kWarps>
  __device__ __forceinline__ Work<S> find() {
    if constexpr (!S::kScout) return work_at<S>(p_, i_++);
    ptx::mbarrier_wait(board_.full + 8 * at_.stage, at_.phase);
    return kWarps ? board_.read_by_warp(at_.stage) : board_.read(at_.stage);
  }
  const AttentionParams& p_;
  const Board<S> board_;
  Place at_;   // with a scout
  int i_ = 0;  // without
};

}  // namespace orrery::kernels
