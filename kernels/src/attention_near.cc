// Neighbourhood masks, the host's part: checks, the boxes that tiles are, and their tensor maps.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "arguments.h"
#include "attention_params.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

using Box = std::array<int, 3>;    // logs of its sides
using Sides = std::array<uint32_t, 3>;

/// All boxes of 2^places on `rank` axes whose innermost side is 8 or more.
std::vector<Box> boxes(int rank, int places = 7) {
  std::vector<Box> out;
  for (int x = 3; x <= places; x++)
    for (int y = 0; x + y <= places; y++)
      if (const int z = places - x - y; (rank > 1 || y == 0) && (rank > 2 || z == 0)) out.push_back({x, y, z});
  return out;
}

/// Places of axis `a` counted from the innermost.
int64_t extent_of(const Neighborhood& n, int a) { return a < n.rank ? n.extent[n.rank - 1 - a] : 1; }
int64_t window_of(const Neighborhood& n, int a) { return a < n.rank ? n.window[n.rank - 1 - a] : 1; }
int64_t stride_of(const Neighborhood& n, int a) { return a < n.rank ? n.stride[n.rank - 1 - a] : 1; }

/// First key of the window of a query, on one axis.
int start_of(const NearParams& n, int a, int q) {
  const int stride = int(n.stride[a].divisor), middle = std::min(q / stride * stride + stride / 2, n.extent[a] - 1);
  return std::clamp(middle - n.window[a] / 2, 0, n.extent[a] - n.window[a]);
}

/// Tiles of keys of side 2^k_log that the tile of queries of side 2^q_log from q on needs, on one axis.
int64_t key_tiles(const NearParams& n, int a, int q, int q_log, int k_log) {
  return (start_of(n, a, std::min(q + (1 << q_log), n.extent[a]) - 1) + n.window[a] - start_of(n, a, q) + (1 << k_log) - 1) >> k_log;
}

/// The pair of boxes, that of keys of 2^key_places, with the least work: tiles of keys, and what the start and the end of a tile of queries cost. Returns it.
double choose_boxes(int rank, int key_places, NearParams* n) {
  constexpr double kTileCost = 0.5;  // in tiles of keys (NOTES.md)
  int64_t tiles[3][8][8], rows[3][8];
  for (int a = 0; a < 3; a++)
    for (int q = 0; q < 8; q++) {
      rows[a][q] = ((n->extent[a] - 1) >> q) + 1;
      for (int k = 0; k < 8; k++) {
        tiles[a][q][k] = 0;
        for (int at = 0; at < n->extent[a]; at += 1 << q) tiles[a][q][k] += key_tiles(*n, a, at, q, k);
      }
    }
  double least = INFINITY;
  for (const Box& q : boxes(rank)) {
    if (q[0] == 3 && q[1] == 0) continue;  // a warp's 16 rows are a box of their own
    for (const Box& k : boxes(rank, key_places)) {
      double work = 1, starts = kTileCost;
      for (int a = 0; a < 3; a++) work *= double(tiles[a][q[a]][k[a]]), starts *= double(rows[a][q[a]]);
      if (work + starts >= least) continue;
      least = work + starts;
      for (int a = 0; a < 3; a++) n->q_log[a] = q[a], n->k_log[a] = k[a];
    }
  }
  return least;
}

/// Tiles of keys of each warpgroup's own of the queries from q on, on the axis that the warpgroups share (attention_own.cuh).
int64_t own_tiles(const NearParams& n, int a, int q, int q_log, int thick, int part) {
  const int half = 1 << (q_log - 1);
  const auto start = [&](int place) { return start_of(n, a, std::min(q + place, n.extent[a] - 1)) - start_of(n, a, q); };
  const int shift = start(half) / part * part, end = std::max(start(half - 1), start(2 * half - 1) - shift) + n.window[a];
  return (end + thick - 1) / thick;
}

/// The box of queries, and that of so many keys of each warpgroup's own, with the least work, likewise; endless where there are none.
struct OwnBox {
  Box q;
  Sides k;
  int keys, part;
  double work = INFINITY;
};
OwnBox choose_own(int rank, const NearParams& n, int keys) {
  const double step = (keys + 16) / (128. + 16), start_cost = 0.5;  // in tiles of 128 keys, each of which costs as much as 16 keys beside its own
  OwnBox best;
  if (rank < 2) return best;
  const int axis = rank - 1, between = 3 - axis;
  for (const Box& q : boxes(rank)) {
    if (q[size_t(axis)] == 0) continue;
    int64_t span[3], rows = 1;  // keys that a tile of queries sees, at most
    for (int a = 0; a < 3; a++) {
      span[a] = 0;
      for (int at = 0; at < n.extent[a]; at += 1 << q[size_t(a)]) span[a] = std::max(span[a], key_tiles(n, a, at, q[size_t(a)], 0));
      if (a != axis) rows *= ((n.extent[a] - 1) >> q[size_t(a)]) + 1;
    }
    for (int64_t x = (span[0] + 7) / 8 * 8; x <= keys; x += 8)
      for (int64_t y = span[between]; x * y <= keys; y++) {
        const int thick = int(keys / (x * y)), part = std::gcd(thick, 1 << (q[size_t(axis)] - 1));
        if (thick * x * y != keys || (rank == 2 && y > 1)) continue;
        double work = 0;
        for (int at = 0; at < n.extent[axis]; at += 1 << q[size_t(axis)]) work += start_cost + step * double(own_tiles(n, axis, at, q[size_t(axis)], thick, part));
        work *= double(rows);
        if (work >= best.work) continue;
        best = {q, {}, keys, part, work};
        best.k[0] = uint32_t(x), best.k[size_t(between)] = uint32_t(y), best.k[size_t(axis)] = uint32_t(thick);
      }
  }
  return best;
}

/// Map of batch grids of tokens; `sides`: of the box.
bool encode(CUtensorMap* map, const void* data, const AttentionArgs& a, const NearParams& n, const AttentionArgs::Strides& s, int64_t heads,
            const Sides& sides) {
  const uint64_t x = uint64_t(n.extent[0]), y = uint64_t(n.extent[1]), z = uint64_t(n.extent[2]);
  const uint64_t sizes[5] = {uint64_t(a.dim), x, y, z * uint64_t(a.batch), uint64_t(heads)};
  const uint64_t seq = uint64_t(x * y * z > 1 ? s.seq : a.dim) * 2;
  const uint64_t pitches[4] = {seq, seq * x, x * y * z > 1 || a.batch == 1 ? seq * x * y : uint64_t(s.batch) * 2, uint64_t(heads > 1 ? s.head : a.dim) * 2};
  const uint32_t box[5] = {64, sides[0], sides[1], sides[2], 1};
  return encode_tensor_map(map, tensor_map_type(a.dtype), 5, data, sizes, pitches, box);
}

/// Which kernel fits: by the share of tiles of keys that a warp of queries (16 places) sees whole.
Mask choose_mask(const NearParams& n) {
  double tiles = 1, whole = 1;  // of all warps; both are products over the axes
  for (int a = 0, left = 4; a < 3; a++) {
    const int side = std::min(n.q_log[a], left);
    int64_t tiles_here = 0, whole_here = 0;
    left -= side;
    for (int q = 0; q < n.extent[a]; q += 1 << n.q_log[a]) {
      const int low = start_of(n, a, q), count = int(key_tiles(n, a, q, n.q_log[a], n.k_log[a])), end = std::min(q + (1 << n.q_log[a]), n.extent[a]);
      for (int w = q; w < end; w += 1 << side) {
        const int first = start_of(n, a, std::min(w + (1 << side), end) - 1), last = start_of(n, a, w) + n.window[a];  // what all of them see
        tiles_here += count, whole_here += std::max(0, std::min(count, (last - low) >> n.k_log[a]) - ((first - low + (1 << n.k_log[a]) - 1) >> n.k_log[a]));
      }
    }
    tiles *= double(tiles_here), whole *= double(whole_here);
  }
  return whole == tiles ? Mask::kWhole : whole < 0.25 * tiles ? Mask::kEvery : Mask::kNear;
}

/// Tiles of queries of a kind, all heads', and what each costs, in tiles of keys.
struct KindWork { double tiles, cost; };

/// The kinds of tiles of queries, those with the most tiles of keys first.
std::array<KindWork, 8> list_kinds(int64_t heads, const OwnParams* own, NearParams* n) {
  constexpr double kTileCost = 1;  // of a tile of queries beside its tiles of keys
  double mean[3][2];               // tiles of keys, inside and outside
  int count[3][2];
  for (int a = 0; a < 3; a++) {
    std::vector<int64_t> tiles(size_t(n->q_tiles[a]));
    for (int i = 0; i < n->q_tiles[a]; i++) {
      const int q = i << n->q_log[a];
      tiles[size_t(i)] = !own ? key_tiles(*n, a, q, n->q_log[a], n->k_log[a]) : a == own->axis ? own_tiles(*n, a, q, n->q_log[a], own->thick, own->part) : 1;
    }
    const int64_t most = *std::max_element(tiles.begin(), tiles.end());
    const auto first = std::find(tiles.begin(), tiles.end(), most), last = std::find(tiles.rbegin(), tiles.rend(), most).base();
    n->edge[a] = int(first - tiles.begin()), n->inner[a] = int(last - first);
    const double inside = double(std::accumulate(first, last, int64_t(0))), all = double(std::accumulate(tiles.begin(), tiles.end(), int64_t(0)));
    count[a][0] = n->inner[a], count[a][1] = n->q_tiles[a] - n->inner[a];
    mean[a][0] = inside / count[a][0], mean[a][1] = count[a][1] ? (all - inside) / count[a][1] : 0;
  }
  std::array<int, 8> order;
  std::iota(order.begin(), order.end(), 0);
  const auto cost = [&](int kind) { return mean[0][kind & 1] * mean[1][kind >> 1 & 1] * mean[2][kind >> 2] + kTileCost; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost(a) > cost(b); });
  std::array<KindWork, 8> out;
  for (int i = 0; i < 8; i++) {
    const int k = order[size_t(i)], x = count[0][k & 1], y = count[1][k >> 1 & 1], tiles = x * y * count[2][k >> 2];
    n->kinds[i] = {{}, 0, k, tiles, FastDivide(uint32_t(std::max(tiles, 1)) * n->by_heads.divisor), FastDivide(uint32_t(std::max(x, 1))), FastDivide(uint32_t(std::max(y, 1)))};
    out[size_t(i)] = {double(tiles) * double(heads), cost(k)};
  }
  return out;
}

/// How many heads are worked on together. At most four (NOTES.md), and so many that a round has about half as many tiles of each as a window reaches
/// over: with more of them all that a window sees would be new to a round. Where warpgroups have tiles of their own it makes no difference.
int heads_together(int64_t heads, bool is_own, const NearParams& n) {
  const int outer = n.q_tiles[2] > 1 ? 2 : n.q_tiles[1] > 1 ? 1 : 0;
  int64_t reach = std::max(n.window[outer] >> n.q_log[outer], 1);
  for (int a = 0; a < outer; a++) reach *= n.q_tiles[a];
  int64_t together = is_own ? 1 : std::clamp<int64_t>(sm_count() / reach, 1, std::min<int64_t>(heads, 4));
  while (heads % together) together--;
  return int(together);
}

/// In which order tiles of queries are dealt to `blocks` CTAs. Of a kind's tiles the fuller CTAs take the part a - b cost, so that they have as
/// many as they must and no more work than the others.
void deal(int64_t heads, int blocks, const OwnParams* own, NearParams* n) {
  n->by_heads = FastDivide(uint32_t(heads_together(heads, own, *n)));
  const std::array<KindWork, 8> kinds = list_kinds(heads, own, n);
  double all = 0, costs = 0, squares = 0;
  for (const KindWork& k : kinds) all += k.tiles, costs += k.tiles * k.cost, squares += k.tiles * k.cost * k.cost;
  n->fuller = int(all) % blocks;
  const double want = n->fuller * double(int(all) / blocks + 1), work = n->fuller * costs / blocks, scatter = all * squares - costs * costs;
  const double b = scatter > 1e-6 * costs * costs ? (costs * want - all * work) / scatter : 0, a = (want + b * costs) / all;
  int missing = int(want), end[2] = {0, 0};
  for (size_t i = 0; i < 8; i++) {
    n->kinds[i].split = int(std::clamp(std::round(kinds[i].tiles * (a - b * kinds[i].cost)), 0., kinds[i].tiles));
    missing -= n->kinds[i].split;
  }
  for (size_t i = 0; i < 8; i++) {
    NearParams::Kind& kind = n->kinds[i];
    const int tiles = int(kinds[i].tiles), more = std::clamp(missing, -kind.split, tiles - kind.split);
    kind.split += more, missing -= more;
    kind.end[0] = end[0] += kind.split, kind.end[1] = end[1] += tiles - kind.split;
  }
}

}  // namespace

Status check_near(const AttentionArgs& a) {
  const Neighborhood& n = a.neighborhood;
  if (n.rank < 0 || n.rank > 3) return bad("neighborhood.rank", "must be in [0, 3]");
  if (n.rank == 0) return {};
  if (a.causal || a.window > 0 || a.q_starts) return bad("neighborhood", "is not for causal, windowed or packed attention");
  int64_t places = 1;
  for (int i = 0; i < n.rank; i++) {
    if (n.extent[i] < 1 || n.extent[i] > 1 << 24) return bad("neighborhood.extent", "must be in [1, 2^24]");
    if (n.window[i] < 1 || n.window[i] > n.extent[i]) return bad("neighborhood.window", "must be in [1, extent]");
    if (n.stride[i] < 1 || n.stride[i] > n.window[i]) return bad("neighborhood.stride", "must be in [1, window]");
    places *= n.extent[i];
  }
  if (places != a.seq_q) return bad("seq_q", "must be the number of places of the neighborhood");
  if (places != a.seq_k) return bad("seq_k", "must be the number of places of the neighborhood");
  const struct { const char* name; const AttentionArgs::Strides& s; } all[] = {{"q_strides", a.q_strides}, {"k_strides", a.k_strides}, {"v_strides", a.v_strides}, {"out_strides", a.out_strides}};
  for (const auto& it : all)
    if (a.batch > 1 && places > 1 && it.s.batch != places * it.s.seq) return bad(it.name, "must have dense batches with a neighborhood");
  return {};
}

bool plan_near(const AttentionArgs& a, AttentionParams* p, Mask* mask) {
  NearParams& n = p->near;
  for (int i = 0; i < 3; i++) {
    n.extent[i] = int(extent_of(a.neighborhood, i)), n.window[i] = int(window_of(a.neighborhood, i));
    n.stride[i] = FastDivide(uint32_t(stride_of(a.neighborhood, i)));
  }
  const bool wide_heads = a.dim > 128;
  const double usual = choose_boxes(a.neighborhood.rank, wide_heads ? 6 : 7, &n);
  *mask = wide_heads ? Mask::kNear : choose_mask(n);
  const OwnBox narrow = choose_own(a.neighborhood.rank, n, kOwnKeys), wide = choose_own(a.neighborhood.rank, n, kMostKeys), own = wide.work < narrow.work ? wide : narrow;
  const bool is_own = *mask != Mask::kWhole && !wide_heads && own.work < 0.95 * usual;  // those a little better are not faster (NOTES.md)
  if (is_own) {
    *mask = Mask::kOwn, p->keys = own.keys;
    OwnParams& o = p->own;
    o.axis = a.neighborhood.rank - 1;
    for (int i = 0; i < 3; i++) n.q_log[i] = own.q[size_t(i)];
    o.thick = int(own.k[size_t(o.axis)]), o.part = own.part;
    o.line = int(own.k[0]) / 8, o.place = own.keys / 8 / o.thick;
    for (int i = 0; i < o.place; i += o.line) o.spread_x |= 1u << i;
    for (int i = 0; i < own.keys / 8; i += o.place) o.spread_t |= 1u << i;
  }
  for (int i = 0; i < 3; i++) n.q_tiles[i] = ((n.extent[i] - 1) >> n.q_log[i]) + 1;
  const int line = n.k_log[0] - 2, plane = line + n.k_log[1];
  n.spread_x = n.spread_y = 0, n.line = line, n.plane = plane;
  for (int i = 0; i < 1 << n.k_log[1]; i++) n.spread_x |= 1u << (i << line);
  for (int i = 0; i < 1 << n.k_log[2]; i++) n.spread_y |= 1u << (i << plane);
  p->q_tiles = n.q_tiles[0] * n.q_tiles[1] * n.q_tiles[2];
  if (const int64_t tiles = p->q_tiles * a.heads * a.batch; tiles <= 1 << 30) deal(a.heads * a.batch, int(std::min<int64_t>(sm_count(), tiles)), is_own ? &p->own : nullptr, &n);
  const auto sides = [](const int (&logs)[3]) { return Sides{1u << logs[0], 1u << logs[1], 1u << logs[2]}; };
  const Sides q = sides(n.q_log), k = is_own ? own.k : sides(n.k_log), out = sides({std::min(n.q_log[0], 4), 4 - std::min(n.q_log[0], 4), 0});
  if (is_own) {
    Sides part = k;
    part[size_t(p->own.axis)] = uint32_t(own.part);
    if (!encode(&p->own.k_part, a.k, a, n, a.k_strides, a.kv_heads, part) || !encode(&p->own.v_part, a.v, a, n, a.v_strides, a.kv_heads, part)) return false;
  }
  return encode(&p->q, a.q, a, n, a.q_strides, a.heads, q) && encode(&p->k, a.k, a, n, a.k_strides, a.kv_heads, k) &&
         encode(&p->v, a.v, a, n, a.v_strides, a.kv_heads, k) && encode(&p->out, a.out, a, n, a.out_strides, a.heads, out);
}

}  // namespace orrery::kernels
