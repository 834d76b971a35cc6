// Neighbourhood masks, the host's part: checks, the boxes that tiles are, and their tensor maps.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "arguments.h"
#include "attention_params.h"
#include "tensor_map.h"

namespace orrery::kernels {
namespace {

using Box = std::array<int, 3>;  // logs of its sides

/// All boxes of 128 places on `rank` axes whose innermost side is 8 or more.
std::vector<Box> boxes(int rank) {
  std::vector<Box> out;
  for (int x = 3; x <= 7; x++)
    for (int y = 0; x + y <= 7; y++)
      if (const int z = 7 - x - y; (rank > 1 || y == 0) && (rank > 2 || z == 0)) out.push_back({x, y, z});
  return out;
}

/// Places of axis `a` counted from the innermost.
int64_t extent_of(const Neighborhood& n, int a) { return a < n.rank ? n.extent[n.rank - 1 - a] : 1; }
int64_t window_of(const Neighborhood& n, int a) { return a < n.rank ? n.window[n.rank - 1 - a] : 1; }
int64_t stride_of(const Neighborhood& n, int a) { return a < n.rank ? n.stride[n.rank - 1 - a] : 1; }

/// Tiles of keys of side 2^k_log over all tiles of queries of side 2^q_log, on one axis.
int64_t key_tiles(const NearParams& n, int a, int q_log, int k_log) {
  const auto start = [&](int q) {
    const int stride = int(n.stride[a].divisor), middle = std::min(q / stride * stride + stride / 2, n.extent[a] - 1);
    return std::clamp(middle - n.window[a] / 2, 0, n.extent[a] - n.window[a]);
  };
  int64_t sum = 0;
  for (int q = 0; q < n.extent[a]; q += 1 << q_log)
    sum += (start(std::min(q + (1 << q_log), n.extent[a]) - 1) + n.window[a] - start(q) + (1 << k_log) - 1) >> k_log;
  return sum;
}

/// The pair of boxes with the least work: tiles of keys, and what the start and the end of a tile of queries cost.
void choose_boxes(int rank, NearParams* n) {
  constexpr double kTileCost = 0.5;  // in tiles of keys (NOTES.md)
  int64_t tiles[3][8][8], rows[3][8];
  for (int a = 0; a < 3; a++)
    for (int q = 0; q < 8; q++) {
      rows[a][q] = ((n->extent[a] - 1) >> q) + 1;
      for (int k = 0; k < 8; k++) tiles[a][q][k] = key_tiles(*n, a, q, k);
    }
  double least = INFINITY;
  for (const Box& q : boxes(rank)) {
    if (q[0] == 3 && q[1] == 0) continue;  // a warp's 16 rows are a box of their own
    for (const Box& k : boxes(rank)) {
      double work = 1, starts = kTileCost;
      for (int a = 0; a < 3; a++) work *= double(tiles[a][q[a]][k[a]]), starts *= double(rows[a][q[a]]);
      if (work + starts >= least) continue;
      least = work + starts;
      for (int a = 0; a < 3; a++) n->q_log[a] = q[a], n->k_log[a] = k[a];
    }
  }
}

/// Map of batch grids of tokens; `sides`: logs of the box.
bool encode(CUtensorMap* map, const void* data, const AttentionArgs& a, const NearParams& n, const AttentionArgs::Strides& s, int64_t heads,
            const Box& sides) {
  const uint64_t x = uint64_t(n.extent[0]), y = uint64_t(n.extent[1]), z = uint64_t(n.extent[2]);
  const uint64_t sizes[5] = {uint64_t(a.dim), x, y, z * uint64_t(a.batch), uint64_t(heads)};
  const uint64_t seq = uint64_t(x * y * z > 1 ? s.seq : a.dim) * 2;
  const uint64_t pitches[4] = {seq, seq * x, x * y * z > 1 || a.batch == 1 ? seq * x * y : uint64_t(s.batch) * 2, uint64_t(heads > 1 ? s.head : a.dim) * 2};
  const uint32_t box[5] = {64, 1u << sides[0], 1u << sides[1], 1u << sides[2], 1};
  return encode_tensor_map(map, tensor_map_type(a.dtype), 5, data, sizes, pitches, box);
}

}  // namespace

Status check_near(const AttentionArgs& a) {
  const Neighborhood& n = a.neighborhood;
  if (n.rank < 0 || n.rank > 3) return bad("neighborhood.rank", "must be in [0, 3]");
  if (n.rank == 0) return {};
  if (a.causal || a.window > 0 || a.sigmoid || a.q_starts) return bad("neighborhood", "is not for causal, windowed, sigmoid or packed attention");
  if (a.dim > 128) return bad("dim", "must be 64 or 128 with a neighborhood");
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

bool plan_near(const AttentionArgs& a, AttentionParams* p) {
  NearParams& n = p->near;
  for (int i = 0; i < 3; i++) {
    n.extent[i] = int(extent_of(a.neighborhood, i)), n.window[i] = int(window_of(a.neighborhood, i));
    n.stride[i] = FastDivide(uint32_t(stride_of(a.neighborhood, i)));
  }
  choose_boxes(a.neighborhood.rank, &n);
  for (int i = 0; i < 3; i++) n.q_tiles[i] = ((n.extent[i] - 1) >> n.q_log[i]) + 1;
  n.by_x = FastDivide(uint32_t(n.q_tiles[0])), n.by_y = FastDivide(uint32_t(n.q_tiles[1]));
  const int line = n.k_log[0] - 2, plane = line + n.k_log[1];
  n.spread_x = n.spread_y = 0, n.line = line, n.plane = plane;
  for (int i = 0; i < 1 << n.k_log[1]; i++) n.spread_x |= 1u << (i << line);
  for (int i = 0; i < 1 << n.k_log[2]; i++) n.spread_y |= 1u << (i << plane);
  p->q_tiles = n.q_tiles[0] * n.q_tiles[1] * n.q_tiles[2];
  const Box q = {n.q_log[0], n.q_log[1], n.q_log[2]}, k = {n.k_log[0], n.k_log[1], n.k_log[2]};
  const int side = std::min(q[0], 4);
  return encode(&p->q, a.q, a, n, a.q_strides, a.heads, q) && encode(&p->k, a.k, a, n, a.k_strides, a.kv_heads, k) &&
         encode(&p->v, a.v, a, n, a.v_strides, a.kv_heads, k) && encode(&p->out, a.out, a, n, a.out_strides, a.heads, {side, 4 - side, 0});
}

}  // namespace orrery::kernels
