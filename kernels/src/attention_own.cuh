// Tiles of keys of each warpgroup's own, for neighbourhoods that are narrow beside a tile of queries: what its 128 queries see together is up to a third
// more than what 64 of them see, and a warpgroup multiplies its own only. The warpgroups share the grid's outermost axis between them: the second's keys
// begin and end `shift` places after the first's. As many tiles as that distance takes are worked on by one warpgroup alone, the others by both:
//
//   first warpgroup    [0, alone) | [alone, end)
//   second             [shift, alone) and [end, end + shift), one after the other | [alone, end)
//
// so both have the same number of tiles, those of their own first, and a tile of 144 or 160 keys is a place of the ring whose rows follow each other. It spans what
// the queries see on the other axes, and `thick` places on this one; only the second warpgroup's first may be two pieces of it.
// The tiles of one warpgroup alone come in turns, the first's before the second's; the other one gives them back without having read them.
#pragma once
#include "attention_near.cuh"
#include "attention_params.h"

namespace orrery::kernels {

/// Of a tile of queries; places are counted from the first that any of them sees.
struct OwnTiles {
  int alone = 0;  // tiles of each warpgroup's alone
  int shift = 0;  // of the second warpgroup
  int far = 0;    // what in the tiles of the second warpgroup alone follows the first piece lies so many places further on than in the tile
};

/// begin, end: where what the warpgroups see begins and ends, counted from where the first's begins. Returns how many tiles each warpgroup has.
__device__ __forceinline__ int own_tiles(OwnTiles& t, int thick, int part, int begin, const int (&end)[2]) {
  t.shift = begin / part * part;
  const int all = (max(end[0], end[1] - t.shift) + thick - 1) / thick;
  t.alone = (t.shift + thick - 1) / thick;
  t.far = (all - t.alone) * thick + t.shift;
  return all;
}

/// Which places a tile of keys holds: i is at i + low, or from `middle` on at i + high.
struct OwnPlaces {
  int low, middle, high;
  /// Where in the tile the places from `place` on begin.
  __device__ __forceinline__ int find(int place) const { return max(min(place - low, middle), place - high); }
};

/// Of the `back`-th tile of a warpgroup from its last, of `count`.
__device__ __forceinline__ OwnPlaces own_places(const OwnTiles& t, int thick, int group, int back, int count) {
  const int i = count - 1 - back, at = (i < t.alone ? i : t.alone + back) * thick;
  if (group == 0 || i >= t.alone) return {at, 0, at};
  const int middle = i > 0 ? 0 : t.alone * thick - t.shift;
  return {middle > 0 ? t.shift : at + t.far, middle, at + t.far};
}

/// Which keys of a tile a thread's two rows see. Of each eight keys side by side it has two: bit i of a word is the one or the other of the i-th eight.
struct OwnView {
  int low[2], high[2];    // places on the axis that the rows see
  uint32_t inside[2][2];  // keys that row h would see were it not for that axis: the one and the other of two
  uint32_t seen[2][2];    // of a tile
  OwnView() = default;
  /// starts: what near_starts left of the tile of queries; row: of the tile.
  __device__ __forceinline__ OwnView(const AttentionParams& p, uint32_t starts, int row) {
    const NearParams& n = p.near;
    const OwnParams& o = p.own;
    const uint32_t y = starts + (4 << n.q_log[0]), z = y + (4 << n.q_log[1]);
    const int pair = threadIdx.x % 4 * 2;
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int r = row + 8 * h, x = ptx::ld_shared(starts + 4 * near_place(n, 0, r));
      const int at_y = ptx::ld_shared(y + 4 * near_place(n, 1, r)), at_z = ptx::ld_shared(z + 4 * near_place(n, 2, r));
      const int line = (o.axis == 1 ? at_z : at_y) * o.line;  // on the axis between
      const uint32_t lines = bits_from(line) & ~bits_from(line + n.window[o.axis == 1 ? 2 : 1] * o.line) & ~bits_from(o.place);
      low[h] = o.axis == 1 ? at_y : at_z, high[h] = low[h] + n.window[o.axis == 1 ? 1 : 2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const uint32_t bits = bits_from((x - pair - e + 7) >> 3) & ~bits_from((x + n.window[0] - pair - e + 7) >> 3) & ~bits_from(o.line);
        inside[h][e] = (bits * o.spread_x & lines) * o.spread_t;
      }
    }
  }
  /// What is seen of a tile.
  __device__ __forceinline__ void look(const OwnParams& o, const OwnPlaces& t) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const uint32_t places = bits_from(t.find(low[h]) * o.place) & ~bits_from(t.find(high[h]) * o.place);
      for (int e = 0; e < 2; e++) seen[h][e] = inside[h][e] & places;
    }
  }
  /// Hides what is not seen.
  template <int kCount>
  __device__ __forceinline__ void hide(float (&s)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; i++)
      if (!(seen[i / 2 % 2][i % 2] >> i / 4 & 1)) s[i] = -INFINITY;
  }
};

}  // namespace orrery::kernels
