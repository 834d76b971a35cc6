// Which tiles of queries a CTA of attention_kernel.cuh works on, in which order, and which keys they see: asked by its scout, and where it has
// none by its producer and its consumers alike, so that they agree. S is attention_kernel.cuh's Shape. Not here: what is done with a tile.
#pragma once
#include <type_traits>

#include "attention_near.cuh"
#include "attention_own.cuh"
#include "attention_params.h"

namespace orrery::kernels {

constexpr int kNoMore = -1, kSkip = -2;

/// The first tile of keys, which is 0. Compilers are not told so where there is no scout: with a constant for it causal attention takes 1% longer.
struct FirstTile { int first = 0; };
/// And with a window without a scout: where in the sequence tiles of keys begin, by the first key that is seen.
struct PlainFirstTile : FirstTile { int k_from = 0; };
struct KnownFirstTile { static constexpr int first = 0; };

/// Of a tile of queries with a narrow window: which of its tiles of keys each warpgroup sees, first and one past the last in the lower and the upper
/// half; 0 if it has no queries.
struct NarrowTiles {
  int range[3];
  __device__ __forceinline__ int of(int group) const { return group == 0 ? range[0] : group == 1 ? range[1] : range[2]; }
};

template <class S>
struct Work : std::conditional_t<S::kScout, KnownFirstTile, std::conditional_t<S::kPlain, PlainFirstTile, FirstTile>> {
  int row0, head, batch, key_tiles;  // key_tiles: one past the last; or kNoMore, kSkip
  int k_base = 0;  // where tiles of keys begin: with a window by the first key that is seen; of the sequence, where each has its own length, as are:
  int q_base = 0, seq_q = 0, seq_k = 0, offset = 0;
  NearTile near;  // with a neighbourhood mask
  std::conditional_t<S::kNarrow, NarrowTiles, std::false_type> narrow;
  std::conditional_t<S::kOwn, OwnTiles, std::false_type> own;  // of which each warpgroup has its own tiles
};

/// Fills in where sequence `w.batch` lies.
template <class S>
__device__ __forceinline__ void find_sequence(const AttentionParams& p, Work<S>& w) {
  w.q_base = min(max(__ldg(p.q_starts + w.batch), 0), p.q_rows), w.k_base = min(max(__ldg(p.k_starts + w.batch), 0), p.k_rows);
  w.seq_q = max(0, min(min(__ldg(p.q_starts + w.batch + 1), p.q_rows) - w.q_base, p.seq_q));
  w.seq_k = max(0, min(min(__ldg(p.k_starts + w.batch + 1), p.k_rows) - w.k_base, p.seq_k));
  w.offset = w.seq_k - w.seq_q;
}
template <class S>
__device__ __forceinline__ int queries_of(const AttentionParams& p, const Work<S>& w) { return S::kLengths ? w.seq_q : p.seq_q; }
template <class S>
__device__ __forceinline__ int keys_of(const AttentionParams& p, const Work<S>& w) { return S::kLengths ? w.seq_k : p.seq_k; }
template <class S>
__device__ __forceinline__ int offset_of(const AttentionParams& p, const Work<S>& w) { return S::kLengths ? w.offset : p.offset; }

/// The i-th tile of this CTA with a neighbourhood: of each kind those of some heads together after those of others, dealt in rounds, every other round
/// the other way round. A head's last tile comes first, as its tiles of keys do: what a round sees first is then asked for throughout it (NOTES.md).
template <class S>
__device__ __forceinline__ Work<S> near_work(const AttentionParams& p, int i) {
  const NearParams& n = p.near;
  const bool fuller = int(blockIdx.x) < n.fuller;
  const int ctas = fuller ? n.fuller : int(gridDim.x) - n.fuller, mine = int(blockIdx.x) - (fuller ? 0 : n.fuller), t = i * ctas + (i & 1 ? ctas - 1 - mine : mine);
  int k = 0, begin = 0;
  for (; k < 8 && t >= n.kinds[k].end[!fuller]; k++) begin = n.kinds[k].end[!fuller];
  if (k == 8) return Work<S>{{}, 0, 0, 0, kNoMore};
  const NearParams::Kind& kind = n.kinds[k];
  const int of_kind = t - begin + (fuller ? 0 : kind.split), group = kind.by_group.divide(of_kind), in_group = of_kind - group * int(kind.by_group.divisor);
  const int tile = n.by_heads.divide(in_group), all = (group - tile) * int(n.by_heads.divisor) + in_group, batch = p.by_batch.divide(all);
  Work<S> w{{}, 0, all - batch * p.heads, batch, 0};
  w.near = NearTile(n, kind, kind.tiles - 1 - tile);
  if constexpr (S::kOwn) {
    const bool y = p.own.axis == 1;
    const int a = y ? 1 : 2, half = 1 << (n.q_log[a] - 1), query = y ? w.near.query[1] : w.near.query[2], low = y ? w.near.low[1] : w.near.low[2];
    const auto start = [&](int place) { return near_start(n, a, min(query + place, n.extent[a] - 1)) - low; };
    w.key_tiles = own_tiles(w.own, p.own.thick, p.own.part, start(half), {start(half - 1) + n.window[a], start(2 * half - 1) + n.window[a]});
  } else {
    w.key_tiles = w.near.count[0] * w.near.count[1] * w.near.count[2];
  }
  return w;
}

/// Which keys a query with a narrow window sees: those from narrow_begin up to narrow_end, not including that.
template <class S>
__device__ __forceinline__ int narrow_begin(const AttentionParams& p, int row) {
  return S::kLine ? near_start(p.near, 0, min(row, p.seq_q - 1)) : max(row + p.offset - p.window + 1, 0);
}
template <class S>
__device__ __forceinline__ int narrow_end(const AttentionParams& p, int row) {
  return S::kLine ? near_start(p.near, 0, min(row, p.seq_q - 1)) + p.near.window[0] : min(row, p.seq_q - 1) + p.offset + 1;
}

/// Where the tiles of keys begin of a tile of queries of so many warpgroups, and which of them each sees.
template <class S>
__device__ __forceinline__ void find_narrow(const AttentionParams& p, int groups, Work<S>& w) {
  w.k_base = narrow_begin<S>(p, w.row0);
  const int seen = narrow_end<S>(p, w.row0 + 64 * groups - 1) - w.k_base;
  w.key_tiles = seen > 0 ? (seen + S::kKeys - 1) / S::kKeys : 0;
#pragma unroll
  for (int g = 0; g < S::kConsumers; g++) {
    const int row = w.row0 + 64 * g, first = (narrow_begin<S>(p, row) - w.k_base) / S::kKeys;
    const int last = min(max((narrow_end<S>(p, row + 63) - w.k_base + S::kKeys - 1) / S::kKeys, first + 1), w.key_tiles);
    w.narrow.range[g] = g < groups && row < p.seq_q ? first | last << 16 : 0;
  }
}

/// Tiles of which each warpgroup's queries are dealt on their own: the number of such a part becomes that of its tile, and which part it is
/// of that is returned; -1 where the tile is dealt whole.
__device__ __forceinline__ int part_of_tile(const SplitTiles& split, int& t) {
  if (t < split.first) return -1;
  int part = t - split.first;
  if (part >= split.parts) {
    t = 1 << 30;  // there are no more
    return -1;
  }
  if (part < split.light_parts) {  // they have the most tiles of keys
    t = split.first + split.heavy + (part >> split.light_log);
    return part & ((1 << split.light_log) - 1);
  }
  part -= split.light_parts;
  t = split.first + part / 3;
  return 2 - part % 3;  // the longest first
}

/// Tiles of a head that see a narrow window whole are dealt from each of its runs in turn (NOTES.md).
__device__ __forceinline__ int tile_of_runs(const AttentionParams& p, int unit) {
  const int runs = int(p.by_runs.divisor), place = p.by_runs.divide(unit);
  return place < p.run ? (unit - place * runs) * p.run + place : unit;
}

/// The i-th tile of this CTA. Heads go in groups whose keys and values fit in L2. With the causal mask a CTA takes the
/// tiles of a head in pairs, the i-th longest with the i-th shortest: all pairs are the same work. Or, as a window wants it,
/// tiles are dealt in rounds, the longest first (all heads' tiles that see a whole window, then the shorter ones), every other round the other way round. The CTAs of a cluster
/// take neighbouring tiles and see the keys of the longer one.
template <class S>
__device__ __forceinline__ Work<S> work_at(const AttentionParams& p, int i) {
  if constexpr (S::kNear) return near_work<S>(p, i);
  const int rows = (p.q_tiles + S::kCluster - 1) / S::kCluster;  // tiles of a head, counted by clusters
  const bool pairs = S::kCausal && !p.longest_first;
  const int shorter = S::kWindow ? p.short_rows : 0, units = pairs ? (rows + 1) / 2 : rows - shorter, clusters = int(gridDim.x) / S::kCluster, all_heads = p.heads * p.batch;
  const int round = pairs ? i / 2 : i, turned = p.longest_first & round, mine = int(blockIdx.x) / S::kCluster;
  int t = round * clusters + (turned ? clusters - 1 - mine : mine), part = -1;
  if constexpr (S::kNarrow) part = part_of_tile(p.split, t);
  if (t >= (units + shorter) * all_heads) return Work<S>{{}, 0, 0, 0, kNoMore};
  const int group = p.by_group.divide(t);
  const int first = group * p.head_group, heads = min(p.head_group, all_heads - first);
  const int in_group = t - first * units;
  int unit = (heads == p.head_group ? p.by_heads : p.by_last_heads).divide(in_group), head = first + in_group - unit * heads;
  if (S::kWindow && t >= units * all_heads) {
    const int rest = t - units * all_heads, row = p.by_all.divide(rest);
    unit = units + row, head = rest - row * all_heads;
  }
  if constexpr (S::kNarrow) {
    if (unit < units) unit = S::kLine ? units - 1 - tile_of_runs(p, unit) : tile_of_runs(p, unit);
  }
  int row = pairs && i % 2 ? unit : rows - 1 - unit;
  if constexpr (S::kNarrow) {
    if (S::kLine) row = unit;
    else if (p.light) row = unit == rows - 1 ? unit : row - 1;  // the light one, which is the last, after the short ones
  }
  if (pairs && i % 2 && unit == rows - 1 - unit) return Work<S>{{}, 0, 0, 0, kSkip};  // the middle one has no partner
  const int batch = p.by_batch.divide(head);
  Work<S> w{{}, (row * S::kCluster + int(blockIdx.x) % S::kCluster) * S::kRows, head - batch * p.heads, batch, 0};
  if constexpr (S::kNarrow) {
    const int twos = S::kLine ? max(row - units, 0) : 0;
    w.row0 += 64 * (max(part, 0) - twos);
    find_narrow<S>(p, part >= 0 ? 1 : S::kLine && row >= units ? 2 : S::kConsumers, w);
  } else {
    if constexpr (S::kLengths) {
      find_sequence<S>(p, w);
      if (w.row0 >= w.seq_q) return Work<S>{{}, 0, 0, 0, kSkip};
    }
    const int seq_k = keys_of<S>(p, w), last = S::kCausal ? min(seq_k, (row + 1) * S::kCluster * kQueries + offset_of<S>(p, w)) : seq_k;
    // Values that are turned round come in sixteens of keys.
    const int begin = S::kWindow ? max(0, row * S::kCluster * kQueries + offset_of<S>(p, w) - p.window + 1) & (S::kFp8 ? ~15 : ~0) : 0, seen = last - begin;
    w.key_tiles = seen > 0 ? (seen + S::kKeys - 1) / S::kKeys : 0;
    if constexpr (S::kPlain) w.k_from = begin, w.k_base += begin;
    else if constexpr (S::kWindow) w.k_base = S::kEndOnLast ? last - w.key_tiles * S::kKeys : begin;
  }
  return w;
}

}  // namespace orrery::kernels
