// attention_forward: argument checks, tensor maps, the number of CTAs.
#include <algorithm>
#include <cmath>

#include "arguments.h"
#include "attention_params.h"
#include "attention_tensors.h"

namespace orrery::kernels {
namespace {

Status check(const AttentionArgs& a) {
  constexpr int64_t kMax = 1 << 24;
  const struct { const char* name; int64_t value; } sizes[] = {{"batch", a.batch},   {"heads", a.heads}, {"kv_heads", a.kv_heads}, {"seq_q", a.seq_q},
                                                               {"seq_k", a.seq_k}, {"q_rows", a.q_rows}, {"k_rows", a.k_rows}};
  const bool lengths = a.q_starts;
  for (const auto& it : sizes)
    if (it.value < 0 || it.value > kMax) return bad(it.name, "must be in [0, 2^24]");
  const bool fp8 = a.dtype == DType::kE4M3;
  if (a.dtype != DType::kBF16 && a.dtype != DType::kF16 && !fp8) return bad("dtype", "must be bf16, f16 or e4m3");
  if (fp8 && a.neighborhood.rank) return bad("dtype", "must be bf16 or f16 with a neighborhood");
  if (!fp8 && (a.scale_q || a.scale_k || a.scale_v)) return bad("scale_q", "and those of k and v are for e4m3");
  if (a.dim != 64 && a.dim != 128 && a.dim != 192 && a.dim != 256) return bad("dim", "must be 64, 128, 192 or 256");
  if (a.kv_heads == 0 ? a.heads != 0 : a.heads % a.kv_heads) return bad("kv_heads", "must divide heads");
  if (!std::isfinite(a.scale) || a.scale < 0) return bad("scale", "must be finite and not negative");
  if (a.window < 0 || (a.window > 0 && !a.causal)) return bad("window", "must not be negative, and needs causal");
  if (!std::isfinite(a.sigmoid_bias) || (a.sigmoid_bias != 0 && !a.sigmoid)) return bad("sigmoid_bias", "must be finite, and needs sigmoid");
  if (a.sigmoid && a.lse) return bad("lse", "must be null for sigmoid");
  if (!a.q_starts != !a.k_starts) return bad(a.q_starts ? "k_starts" : "q_starts", "is null while the other is not");
  if (!aligned(a.q_starts, 4)) return bad("q_starts", "is misaligned");
  if (!aligned(a.k_starts, 4)) return bad("k_starts", "is misaligned");
  if (Status s = check_near(a); !s.ok()) return s;
  if (a.batch == 0 || a.heads == 0 || a.seq_q == 0 || (lengths && a.q_rows == 0)) return {};
  if (lengths && a.k_rows == 0) return bad("k_rows", "must not be 0");
  if (a.seq_k == 0) return bad("seq_k", "must not be 0");
  const int64_t batch = lengths ? 1 : a.batch, queries = lengths ? a.q_rows : a.seq_q, keys = lengths ? a.k_rows : a.seq_k;
  if (Status s = check_tensor("q", "q_strides", a.q, a.q_strides, batch, queries, a.heads, a.dim, size_of(a.dtype)); !s.ok()) return s;
  if (Status s = check_tensor("k", "k_strides", a.k, a.k_strides, batch, keys, a.kv_heads, a.dim, size_of(a.dtype)); !s.ok()) return s;
  if (Status s = check_tensor("v", "v_strides", a.v, a.v_strides, batch, keys, a.kv_heads, a.dim, size_of(a.dtype)); !s.ok()) return s;
  if (Status s = check_tensor("out", "out_strides", a.out, a.out_strides, batch, queries, a.heads, a.dim); !s.ok())
    return s;
  if (!aligned(a.lse, 4)) return bad("lse", "is misaligned");
  if (fp8 && (!a.workspace || !aligned(a.workspace, 256))) return bad("workspace", "is null or not 256-byte aligned");
  if (fp8 && a.batch * a.kv_heads > 65535) return bad("batch", "times kv_heads must be less than 2^16 with e4m3");
  if (Status s = check_floats({{"scale_q", a.scale_q}, {"scale_k", a.scale_k}, {"scale_v", a.scale_v}}); !s.ok()) return s;
  const int size = size_of(a.dtype);
  const Extent q = extent_of_tensor("q", a.q, a.q_strides, batch, queries, a.heads, a.dim, size), out = extent_of_tensor("out", a.out, a.out_strides, batch, queries, a.heads, a.dim);
  const Extent k = extent_of_tensor("k", a.k, a.k_strides, batch, keys, a.kv_heads, a.dim, size), v = extent_of_tensor("v", a.v, a.v_strides, batch, keys, a.kv_heads, a.dim, size);
  const Extent starts_q = dense("q_starts", a.q_starts, (a.batch + 1) * 4), starts_k = dense("k_starts", a.k_starts, (a.batch + 1) * 4);
  const Extent scale_q = dense("scale_q", a.scale_q, 4), scale_k = dense("scale_k", a.scale_k, 4), scale_v = dense("scale_v", a.scale_v, 4);
  const Extent lse = dense("lse", a.lse, product(product(batch, queries), a.heads) * 4);
  if (Status s = apart(out, {q, k, v, lse, starts_q, starts_k, scale_q, scale_k, scale_v}); !s.ok()) return s;
  if (Status s = apart(lse, {q, k, v, starts_q, starts_k, scale_q, scale_k, scale_v}); !s.ok()) return s;
  return apart(dense("workspace", fp8 ? a.workspace : nullptr, int64_t(attention_workspace(a))), {q, k, v, out, lse, starts_q, starts_k, scale_q, scale_k, scale_v});
}

/// Keys of a row of turned values; where sequences have their own lengths one row has all of them (fp8_base).
int64_t padded_keys(const AttentionArgs& a) { return ((a.k_starts ? a.k_rows + 16 * a.batch + 256 : a.seq_k) + 127) / 128 * 128; }

/// Windows that are worked on as causal attention is (Shape::kPlain).
bool is_plain(const AttentionArgs& a, Mask mask) { return mask == Mask::kWindow && (a.q_starts || a.sigmoid || a.dtype == DType::kE4M3); }

/// Keys of a tile. What a window lets the queries of a tile see begins where the first tile of keys does, so that with wider tiles it may fill fewer.
int window_keys(const AttentionArgs& a, Mask mask, int cluster) {
  const int usual = attention_keys(int(a.dim), mask);
  if (mask != Mask::kWindow || cluster > 1 || a.dim > 128 || is_plain(a, mask)) return usual;
  const auto keys = [&](int64_t tile) { return (a.window + kQueries - 1 + tile - 1) / tile * tile; };
  return a.window < a.seq_k && keys(kMostKeys) <= keys(usual) ? kMostKeys : usual;
}

/// Whether warpgroups have tiles of keys that they share by threes, where keys are a sequence: with a window that is narrow beside a tile of queries.
bool is_narrow(const AttentionArgs& a, Mask mask) {
  if (a.dim > 128 || a.q_starts || a.dtype == DType::kE4M3) return false;
  if (mask == Mask::kWindow) return a.window <= kNarrowWindow && a.window < a.seq_k;
  return a.neighborhood.rank == 1 && a.neighborhood.window[0] <= kNarrowWindow && a.neighborhood.stride[0] < 64;
}

/// On a line all tiles are the same work, so that the last round of them leaves many CTAs with nothing to do: how many tiles of a head have queries for
/// three warpgroups, the others having them for two, so that the fullest CTA has least. `blocks`: of 64 queries.
int full_tiles(int64_t heads, int64_t blocks) {
  constexpr double kTwo = 0.78;  // what a tile of two warpgroups is thought to take of one of three
  const int64_t ctas = sm_count(), most = blocks / 3;
  int64_t best = most;
  double least = INFINITY;
  for (int64_t full = most; full >= std::max<int64_t>(0, most - 64); full--) {
    const int64_t rounds = full * heads / ctas, fuller = full * heads % ctas, twos = (blocks - 3 * full + 1) / 2 * heads;
    const int64_t room = fuller ? ctas - fuller : 0, left = std::max<int64_t>(twos - room, 0);  // for twos in the last round of threes; of them after it
    const double first = double(rounds + (fuller > 0));
    const double span = left > 0 && left <= room ? std::max(first, double(rounds) + 2 * kTwo) : first + kTwo * double((left + ctas - 1) / ctas);
    if (span < least - 1e-9) least = span, best = full;
  }
  return int(best);
}

/// The last round of tiles of queries with a narrow window, where it leaves most CTAs with nothing to do: its tiles in parts of 64 queries each, so
/// that no CTA has much more to do than the others. Where the first queries see no keys, zeros are left by whole tiles.
SplitTiles split_last_round(int64_t tiles, int64_t ctas, int64_t heads, int light_blocks, bool all_see_keys) {
  const int64_t last = tiles % ctas, light = light_blocks < 3 ? std::min(last, heads) : 0, heavy = last - light;
  const int64_t light_parts = light * light_blocks, parts = 3 * heavy + light_parts;
  if (!all_see_keys || tiles < ctas || parts > ctas + ctas / 4) return {1 << 30};
  return {int(tiles - last), int(heavy), light_blocks == 2, int(light_parts), int(parts)};
}

/// Its tensor maps, tiles and, of a neighbourhood, what the device wants to know.
bool plan_narrow(const AttentionArgs& a, AttentionParams* p, Mask* mask) {
  *mask = *mask == Mask::kWindow ? Mask::kNarrow : Mask::kLine;
  p->q_tiles = int((a.seq_q + kNarrowQueries - 1) / kNarrowQueries);
  p->keys = kNarrowKeys;
  if (*mask == Mask::kLine) {
    const int64_t blocks = (a.seq_q + 63) / 64;
    const int full = full_tiles(a.heads * a.batch, blocks);
    p->short_rows = int((blocks - 3 * full + 1) / 2), p->q_tiles = full + p->short_rows;
    p->near.extent[0] = int(a.seq_q), p->near.window[0] = int(a.neighborhood.window[0]);
    p->near.stride[0] = FastDivide(uint32_t(a.neighborhood.stride[0]));
  }
  return encode_tensor(&p->q, a.q, a.dtype, a.q_strides, a.batch, a.seq_q, a.heads, a.dim, 64) &&
         encode_tensor(&p->k, a.k, a.dtype, a.k_strides, a.batch, a.seq_k, a.kv_heads, a.dim, kNarrowKeys) &&
         encode_tensor(&p->v, a.v, a.dtype, a.v_strides, a.batch, a.seq_k, a.kv_heads, a.dim, kNarrowKeys) &&
         encode_tensor(&p->out, a.out, a.dtype, a.out_strides, a.batch, a.seq_q, a.heads, a.dim, 16);
}

/// Into how many runs the `units` tiles of a head are cut that see a narrow window whole, so that of each run a round has fewer tiles than a window
/// reaches over: the keys of a round that the one before has not seen are then asked for throughout it, not at its beginning (NOTES.md).
void plan_runs(int64_t window, int units, AttentionParams* p) {
  constexpr double kShare = 0.7;  // of a window
  const double reach = double(window + kNarrowQueries - 1) / kNarrowQueries;
  const int runs = std::clamp(int(sm_count() / (kShare * reach) / p->head_group), 1, units);
  p->by_runs = FastDivide(uint32_t(runs)), p->run = units / runs;
}

/// How many tiles and CTAs a cluster there are where keys are a sequence, and its tensor maps.
bool plan_sequence(const AttentionArgs& a, Mask mask, AttentionParams* p) {
  const bool lengths = a.q_starts;
  p->q_tiles = int((a.seq_q + kQueries - 1) / kQueries);
  // A cluster makes its longer tile's keys out of both: with a mask that pays from 16 tiles on (NOTES.md).
  // Neighbours with a window see different keys at both ends, which a short window does not make up for.
  if (a.dim > 128 || lengths || a.dtype == DType::kE4M3 || is_plain(a, mask) || (mask == Mask::kWindow && a.window < 2048)) p->cluster = 1;
  else p->cluster = mask == Mask::kNone ? (p->q_tiles > 1 ? 2 : 1) : (p->q_tiles >= 16 && a.dim == 128 ? 2 : 1);
  p->keys = window_keys(a, mask, p->cluster);
  const int kv_rows = p->keys / p->cluster;
  const int64_t batch = lengths ? 1 : a.batch, queries = lengths ? a.q_rows : a.seq_q, keys = lengths ? a.k_rows : a.seq_k;
  if (a.dtype == DType::kE4M3) {
    const int64_t padded = padded_keys(a);
    const AttentionArgs::Strides turned{a.kv_heads * a.dim * padded, padded, a.dim * padded};
    return encode_tensor(&p->q, a.q, a.dtype, a.q_strides, batch, queries, a.heads, a.dim, kQueries) &&
           encode_tensor(&p->k, a.k, a.dtype, a.k_strides, batch, keys, a.kv_heads, a.dim, 128) &&
           encode_tensor(&p->v, a.workspace, a.dtype, turned, batch, a.dim, a.kv_heads, padded, uint32_t(a.dim)) &&
           encode_tensor(&p->out, a.out, DType::kBF16, a.out_strides, batch, queries, a.heads, a.dim, 16);
  }
  return encode_tensor(&p->q, a.q, a.dtype, a.q_strides, batch, queries, a.heads, a.dim, kQueries) &&
         encode_tensor(&p->k, a.k, a.dtype, a.k_strides, batch, keys, a.kv_heads, a.dim, kv_rows) &&
         encode_tensor(&p->v, a.v, a.dtype, a.v_strides, batch, keys, a.kv_heads, a.dim, kv_rows) &&
         encode_tensor(&p->out, a.out, a.dtype, a.out_strides, batch, queries, a.heads, a.dim, 16);
}

}  // namespace

size_t attention_workspace(const AttentionArgs& a) { return a.dtype == DType::kE4M3 ? size_t((a.k_starts ? 1 : a.batch) * a.kv_heads * a.dim * padded_keys(a)) : 0; }

Status attention_forward(const AttentionArgs& a, cudaStream_t stream) {
  if (Status s = check(a); !s.ok()) return s;
  const bool lengths = a.q_starts;
  if (a.batch == 0 || a.heads == 0 || a.seq_q == 0 || (lengths && a.q_rows == 0)) return {};
  AttentionParams p{};
  Mask mask = a.neighborhood.rank ? Mask::kNear : !a.causal ? Mask::kNone : a.window > 0 ? Mask::kWindow : Mask::kCausal;
  const bool narrow = is_narrow(a, mask), planned = narrow ? plan_narrow(a, &p, &mask) : mask == Mask::kNear ? plan_near(a, &p, &mask) : plan_sequence(a, mask, &p);
  if (!planned) return {nullptr, "the driver refused a tensor map", cudaErrorUnknown};
  p.lse = a.lse, p.q_starts = a.q_starts, p.k_starts = a.k_starts, p.q_rows = int(a.q_rows), p.k_rows = int(a.k_rows);
  p.rows_out = a.out, p.out_seq = a.out_strides.seq, p.out_head = a.out_strides.head, p.out_batch = a.out_strides.batch;
  p.batch = int(a.batch), p.heads = int(a.heads), p.seq_q = int(a.seq_q), p.seq_k = int(a.seq_k);
  p.heads_per_kv = int(a.heads / a.kv_heads);
  p.offset = int(a.seq_k - a.seq_q);
  p.cluster = std::max(p.cluster, 1);
  const int64_t tiles = p.q_tiles * a.heads * a.batch;
  if (tiles > 1 << 30) return bad("batch", "times heads times seq_q is too large");
  p.tiles = int(tiles);
  const int64_t cache_bytes = int64_t(a.window >= 2048 ? 64 : 16) << 20;  // of L2, for the keys and values in work (NOTES.md)
  const int64_t window = mask == Mask::kLine ? a.neighborhood.window[0] : a.window;
  const int64_t kv_bytes = (window > 0 ? std::min(a.seq_k, window + 1024) : a.seq_k) * a.dim * 2 * 2;
  p.head_group = int(std::clamp<int64_t>(cache_bytes / kv_bytes, 1, a.heads * a.batch) * p.heads_per_kv);
  p.head_group = int(std::min<int64_t>(p.head_group, a.heads * a.batch));
  p.longest_first = narrow || (a.window > 0 && a.window < a.seq_k && !is_plain(a, mask));
  const int rows = (p.q_tiles + p.cluster - 1) / p.cluster, all_heads = int(a.heads * a.batch);
  const int64_t row_queries = narrow ? kNarrowQueries : kQueries * p.cluster;
  if (p.longest_first && mask != Mask::kLine) p.short_rows = int(std::clamp<int64_t>((a.window - 1 - p.offset + row_queries - 1) / row_queries, 0, rows));
  if (mask == Mask::kNarrow && (a.seq_q - 1) % kNarrowQueries < 128) p.light = 1, p.short_rows = std::min(p.short_rows, rows - 1) + 1;
  const int units = a.causal && !p.longest_first ? (rows + 1) / 2 : std::max(rows - p.short_rows, 1);
  if (narrow) plan_runs(window, units, &p);
  p.by_all = FastDivide(uint32_t(all_heads));
  p.by_group = FastDivide(uint32_t(p.head_group * units)), p.by_heads = FastDivide(uint32_t(p.head_group));
  p.by_last_heads = FastDivide(uint32_t(all_heads % p.head_group ? all_heads % p.head_group : p.head_group));
  p.by_batch = FastDivide(uint32_t(p.heads)), p.by_kv = FastDivide(uint32_t(p.heads_per_kv));
  const float scale = a.scale > 0 ? a.scale : 1.f / std::sqrt(float(a.dim));
  p.scale_log2 = a.sigmoid ? 0.5f * scale : scale * 1.44269504f;
  p.bias = 0.5f * a.sigmoid_bias, p.window = int(std::min<int64_t>(a.window, int64_t(1) << 30));
  const int blocks = std::min(sm_count(), p.tiles) / p.cluster * p.cluster;
  if (narrow) p.split = mask == Mask::kLine ? SplitTiles{1 << 30} : split_last_round(tiles, blocks, all_heads, int((a.seq_q - 1) % kNarrowQueries / 64) + 1, p.offset >= 0);
  if (a.dtype == DType::kE4M3) {
    p.scale_q = a.scale_q, p.scale_k = a.scale_k, p.scale_v = a.scale_v;
    if (cudaError_t e = launch_turn_values(a.workspace, a, padded_keys(a), stream); e != cudaSuccess) return launched(e);
    return launched((lengths ? launch_attention_fp8_lengths : launch_attention_fp8)(p, int(a.dim), mask, a.sigmoid, blocks, stream));
  }
  if (narrow) return launched(launch_attention_narrow(p, a.dtype, int(a.dim), mask, a.sigmoid, blocks, stream));
  if (mask == Mask::kOwn) return launched(launch_attention_own(p, a.dtype, int(a.dim), a.sigmoid, blocks, stream));
  if (a.neighborhood.rank && a.dim > 128) return launched(launch_attention_near_wide(p, a.dtype, int(a.dim), a.sigmoid, blocks, stream));
  if (a.neighborhood.rank) return launched(launch_attention_near(p, a.dtype, int(a.dim), mask, a.sigmoid, blocks, stream));
  const auto go = a.sigmoid ? launch_attention_sigmoid : lengths ? launch_attention_lengths : a.dim > 128 ? launch_attention_wide : launch_attention;
  return launched(go(p, a.dtype, int(a.dim), mask, blocks, stream));
}

}  // namespace orrery::kernels
