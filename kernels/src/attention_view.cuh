// Which keys of a tile a thread's two rows see, whatever the mask. S is attention_kernel.cuh's Shape.
#pragma once
#include "attention_weights.cuh"
#include "attention_work.cuh"

namespace orrery::kernels {

/// What of a tile of queries decides which keys this thread's two rows see.
template <class S>
struct View {
  int limit[2], clear;          // rows see keys below; keys below `clear` are seen by every row of the warpgroup
  int low[2], clear_low;        // likewise from below
  NearView near;                // with a neighbourhood: the windows; what look found
  uint32_t seen[2];
  bool cut;
  std::conditional_t<S::kOwn, OwnView, std::false_type> own;
  View() = default;
  /// near_starts: what the scout left of the windows, with a neighbourhood.
  __device__ __forceinline__ View(const AttentionParams& p, const Work<S>& w, int group, uint32_t near_starts) {
    const int r = group * 64 + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, row = w.row0 + r, keys = keys_of<S>(p, w);
    if constexpr (S::kOwn) {
      own = OwnView(p, near_starts, r);
    } else if constexpr (S::kCut) {
      near = NearView(p.near, near_starts, r);
    } else if constexpr (!S::kNear) {
#pragma unroll
      for (int h = 0; h < 2; h++) limit[h] = S::kCausal ? min(keys, row + 8 * h + offset_of<S>(p, w) + 1) : keys;
      clear = S::kCausal ? min(keys, w.row0 + group * 64 + offset_of<S>(p, w) + 1) : keys;
      if constexpr (S::kWindow) {  // counted from the first key of the tiles
        const int before = offset_of<S>(p, w) - p.window + 1;  // tiles that end on the last key may begin with keys that are none
        int from;
        if constexpr (S::kPlain) from = w.k_from;
        else from = w.k_base;
        low[0] = max(row + before, 0) - from, low[1] = max(row + 8 + before, 0) - from, clear_low = max(w.row0 + group * 64 + 63 + before, 0) - from;
        limit[0] -= from, limit[1] -= from, clear -= from;
      }
    }
  }
  /// With a neighbourhood, while the scores of a tile of keys are multiplied: which of them are seen. entry: what the scout says of it.
  __device__ __forceinline__ void look(const AttentionParams& p, const Work<S>& w, int group, int tile, const int4& entry) {
    if constexpr (S::kOwn) {
      own.look(p.own, own_places(w.own, p.own.thick, group, tile, w.key_tiles));
    } else if constexpr (S::kCut) {
      cut = S::kEvery || entry.w & 1 << (threadIdx.x / 32 - 4);
      if (cut) seen[0] = near.seen(p.near, entry, 0), seen[1] = near.seen(p.near, entry, 1);
    }
  }
  /// Hides what is not seen of a tile of keys; kFirst: of the first that is worked on, the last of the tiles.
  template <bool kFirst>
  __device__ __forceinline__ void mask(float (&s)[S::kKeys / 2], int tile) const {
    if constexpr (S::kOwn) {
      own.hide(s);
    } else if constexpr (S::kCut) {
      if (cut) hide_unseen(s, seen);
    } else if constexpr (!S::kNear) {
      if ((kFirst || !S::kEndOnLast) && (tile + 1) * S::kKeys > clear) hide(s, tile * S::kKeys, limit);
      if constexpr (S::kWindow)
        if (tile * S::kKeys < clear_low) hide_below(s, tile * S::kKeys, low);
    }
  }
};

}  // namespace orrery::kernels
