// Neighbourhood masks on the device: where a query's window lies, which tiles of keys a tile of queries needs, and which
// keys of such a tile each of a thread's two rows sees.
//
// Tokens are places of a grid of one to three axes, axis 0 innermost. Tiles of queries and of keys are boxes of 128 places (of keys, with
// head dimensions above 128, of 64), powers of two on each axis, cut out by five-dimensional tensor maps; tiles of keys begin where the first window of the
// tile of queries begins, so that the count of tiles on an axis is the fewest that the windows allow. A thread holds 32 keys
// of each of its rows, or 16; they are bits, and a window is an interval of them on each axis.
//
// Source of the windows: Hassani et al., "Neighborhood Attention Transformer" (2023) and "Generalized Neighborhood
// Attention" (2025): the queries of a group of `stride` share the window of its middle, which is moved inside at the edges.
#pragma once
#include "attention_params.h"
#include "ptx.cuh"

namespace orrery::kernels {

/// First key of the window of a query, on one axis.
__device__ __forceinline__ int near_start(const NearParams& n, int axis, int query) {
  const int stride = n.stride[axis].divisor, middle = min(int(n.stride[axis].divide(query)) * stride + stride / 2, n.extent[axis] - 1);
  return min(max(middle - n.window[axis] / 2, 0), n.extent[axis] - n.window[axis]);
}

/// A tile of queries: its first place, and the tiles of keys that its windows need.
struct NearTile {
  int query[3], low[3], count[3];
  NearTile() = default;
  /// The i-th tile of a head of this kind.
  __device__ __forceinline__ NearTile(const NearParams& n, const NearParams::Kind& kind, int i) {
    const int row = kind.by_x.divide(i), plane = kind.by_y.divide(row);
    const int places[3] = {i - row * int(kind.by_x.divisor), row - plane * int(kind.by_y.divisor), plane};
#pragma unroll
    for (int a = 0; a < 3; a++) {
      const bool outer = kind.outer >> a & 1;
      query[a] = places[a] + (!outer ? n.edge[a] : places[a] < n.edge[a] ? 0 : n.inner[a]) << n.q_log[a];
      low[a] = near_start(n, a, query[a]);
      const int end = near_start(n, a, min(query[a] + (1 << n.q_log[a]), n.extent[a]) - 1) + n.window[a];
      count[a] = (end - low[a] + (1 << n.k_log[a]) - 1) >> n.k_log[a];
    }
  }
};

/// The tiles of keys of a NearTile, from the last to the first.
struct NearWalk {
  int at[3];
  NearWalk() = default;
  __device__ __forceinline__ explicit NearWalk(const NearTile& t) : at{t.count[0] - 1, t.count[1] - 1, t.count[2] - 1} {}
  __device__ __forceinline__ void back(const NearTile& t) {
    if (--at[0] >= 0) return;
    at[0] = t.count[0] - 1;
    if (--at[1] >= 0) return;
    at[1] = t.count[1] - 1, at[2]--;
  }
  /// The first key of this tile on an axis.
  __device__ __forceinline__ int key(const NearParams& n, const NearTile& t, int axis) const { return t.low[axis] + (at[axis] << n.k_log[axis]); }
};

/// Place on an axis of row r of a tile of queries, counted from the tile's first.
__device__ __forceinline__ int near_place(const NearParams& n, int axis, int r) {
  return r >> (axis > 0 ? n.q_log[0] : 0) + (axis > 1 ? n.q_log[1] : 0) & (1 << n.q_log[axis]) - 1;
}

/// By a whole warp: where the windows start of each place on each axis of a tile of queries, counted from the first key of its tiles of
/// keys, to `to`, one axis after the other.
__device__ __forceinline__ void near_starts(const NearParams& n, const NearTile& t, uint32_t to) {
#pragma unroll
  for (int a = 0; a < 3; a++) {
    for (int place = threadIdx.x % 32; place < 1 << n.q_log[a]; place += 32) ptx::st_shared(to + 4 * place, near_start(n, a, t.query[a] + place) - t.low[a]);
    to += 4 << n.q_log[a];
  }
}

/// Bits from `first` on; none of them from 32 on.
__device__ __forceinline__ uint32_t bits_from(int first) {
  uint32_t bits;
  asm("shl.b32 %0, %1, %2;" : "=r"(bits) : "r"(~0u), "r"(max(first, 0)));  // PTX clamps where C++ does not say
  return bits;
}

/// By a whole warp: of the tiles of keys that follow the first `begin` of a tile of queries (from the last on), lane i of 16 says of the
/// i-th where its keys begin, in bits of a NearView, and (w) which warps of queries do not see all of it. starts: what near_starts left.
__device__ __forceinline__ int4 near_entry(const NearParams& n, const NearTile& t, uint32_t starts, int begin) {
  const int lane = threadIdx.x % 32;
  // A warp's 16 rows are a box, whose corners have the first and the last windows: lane 3 warp + axis keeps what all of them see.
  const int axis = lane % 3, rows = min(lane / 3, 7) * 16;
  const uint32_t of_axis = starts + (axis > 0 ? 4 << n.q_log[0] : 0) + (axis > 1 ? 4 << n.q_log[1] : 0);
  const int first = ptx::ld_shared(of_axis + 4 * near_place(n, axis, rows + 15)), last = ptx::ld_shared(of_axis + 4 * near_place(n, axis, rows)) + n.window[axis];
  const int index = t.count[0] * t.count[1] * t.count[2] - 1 - begin - lane % 16, row = index / t.count[0], plane = row / t.count[1];
  const int at[3] = {index - row * t.count[0], row - plane * t.count[1], plane};
  uint32_t cut = 0;
#pragma unroll
  for (int w = 0; w < 4; w++) {  // the lower lanes look for warps 0 to 3, the upper for 4 to 7
    const int warp = lane / 16 * 4 + w;
    bool whole = true;
#pragma unroll
    for (int a = 0; a < 3; a++) {
      const int low = __shfl_sync(~0u, first, 3 * warp + a), high = __shfl_sync(~0u, last, 3 * warp + a), key = at[a] << n.k_log[a];
      whole = whole && low <= key && key + (1 << n.k_log[a]) <= high;
    }
    cut |= uint32_t(!whole) << warp;
  }
  cut |= __shfl_xor_sync(~0u, cut, 16);
  return make_int4(at[0] << n.line, at[1] << n.plane, at[2] << (n.plane + n.k_log[2]), int(cut));
}

/// The windows of a thread's two rows, as bits of all tiles of keys laid side by side, each axis by itself: from the first up to the
/// last, not including that. Tiles begin at multiples of eight keys from the first tile, so that what a thread has of the eight at an
/// end of a window is the same for all of them.
struct NearView {
  int x_first[2], x_last[2], y_first[2], z_first[2];
  NearView() = default;
  /// starts: what near_starts left of this tile.
  __device__ __forceinline__ NearView(const NearParams& n, uint32_t starts, int row) {
    const int pair = threadIdx.x % 4 * 2;  // of eight keys side by side a thread has two neighbours
    const auto before = [&](int x) { return (x & ~7) / 4 + min(max(x % 8 - pair, 0), 2); };
    const uint32_t y = starts + (4 << n.q_log[0]), z = y + (4 << n.q_log[1]);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int r = row + 8 * h, first = ptx::ld_shared(starts + 4 * near_place(n, 0, r));
      x_first[h] = before(first), x_last[h] = before(first + n.window[0]);
      y_first[h] = ptx::ld_shared(y + 4 * near_place(n, 1, r)) << n.line, z_first[h] = ptx::ld_shared(z + 4 * near_place(n, 2, r)) << n.plane;
    }
  }
  /// Which of the thread's keys of a tile row h sees: bit e is its e-th key of that row. tile: a near_entry.
  __device__ __forceinline__ uint32_t seen(const NearParams& n, const int4& tile, int h) const {
    const int y = y_first[h] - tile.y, z = z_first[h] - tile.z, width = 1 << n.line;
    uint32_t bits = (bits_from(min(x_first[h] - tile.x, width)) & ~bits_from(min(x_last[h] - tile.x, width))) * n.spread_x;
    bits = (bits & bits_from(y) & ~bits_from(y + (n.window[1] << n.line))) * n.spread_y;
    return bits & bits_from(z) & ~bits_from(z + (n.window[2] << n.plane));
  }
};

/// Hides the keys whose bit is not set.
template <int kCount>
__device__ __forceinline__ void hide_unseen(float (&s)[kCount], const uint32_t (&seen)[2]) {
  static_assert(kCount <= 64);
#pragma unroll
  for (int i = 0; i < kCount; i++)
    if (!(seen[i / 2 % 2] >> (i / 4 * 2 + i % 2) & 1)) s[i] = -INFINITY;
}

}  // namespace orrery::kernels
