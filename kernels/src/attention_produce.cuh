// The producers of attention_kernel.cuh: tiles of queries, keys and values, by TMA into their rings, whatever the mask. One thread loads all of them or, where
// a mask leaves few tiles of keys, a thread each: one that waits for a place for values does not ask for the next keys meanwhile, which there leaves places empty
// (NOTES.md).
#pragma once
#include "attention_fp8.cuh"
#include "attention_shape.cuh"

namespace orrery::kernels {

template <class S, int kRows>
__device__ __forceinline__ void load_tile(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row, int head,
                                          int batch, uint64_t hint) {
  ptx::mbarrier_arrive_expect_tx(bar, S::kSlabs * kRows * 128);
#pragma unroll
  for (int slab = 0; slab < S::kSlabs; slab++)
    ptx::tma_load_4d(dst + slab * kRows * 128, map, bar, slab * (128 / int(sizeof(typename S::T))), row, head, batch, hint);
}

/// A box of tokens of a grid, the first at these places.
template <class S, int kRows>
__device__ __forceinline__ void load_box(const CUtensorMap* map, uint32_t dst, uint32_t bar, int x, int y, int z, int head, uint64_t hint) {
  ptx::mbarrier_arrive_expect_tx(bar, S::kSlabs * kRows * 128);
#pragma unroll
  for (int slab = 0; slab < S::kSlabs; slab++) ptx::tma_load_5d(dst + slab * kRows * 128, map, bar, slab * 64, x, y, z, head, hint);
}

/// A piece of a tile of keys of a warpgroup's own, from place `at` on.
template <class S>
__device__ __forceinline__ void load_own(const CUtensorMap* map, uint32_t dst, uint32_t bar, const AttentionParams& p, const Work<S>& w, int at, int head) {
#pragma unroll
  for (int slab = 0; slab < S::kSlabs; slab++) {
    const NearTile& t = w.near;
    ptx::tma_load_5d(dst + slab * S::kSlabKv, map, bar, slab * 64, t.low[0], t.low[1] + (p.own.axis == 1 ? at : 0),
                     t.low[2] + w.batch * p.near.extent[2] + (p.own.axis == 2 ? at : 0), head, ptx::kEvictLast);
  }
}

/// The i-th tile of keys that the producer loads where warpgroups have their own.
template <class S>
__device__ __forceinline__ void load_own_tile(const CUtensorMap* map, const CUtensorMap* parts, uint32_t dst, uint32_t bar, const AttentionParams& p, const Work<S>& w, int i, int head) {
  const bool alone = i < 2 * w.own.alone;
  const OwnPlaces at = own_places(w.own, p.own.thick, alone ? i & 1 : 0, w.key_tiles - 1 - (alone ? i >> 1 : i - w.own.alone), w.key_tiles);
  ptx::mbarrier_arrive_expect_tx(bar, S::kBytesKv);
  if (at.middle == 0) return load_own<S>(map, dst, bar, p, w, at.high, head);
  const int bytes = p.own.place * 8 * 128;  // of a place
  for (int c = 0; c < p.own.thick; c += p.own.part) load_own<S>(parts, dst + c * bytes, bar, p, w, c + (c < at.middle ? at.low : at.high), head);
}

/// This CTA's share of a tile of keys or values, to all of the cluster.
template <class S>
__device__ __forceinline__ void load_shared_tile(const CUtensorMap* map, uint32_t dst, uint32_t bar, int row, int head, int batch) {
  if constexpr (S::kCluster == 1) {
    load_tile<S, S::kKeys>(map, dst, bar, row, head, batch, ptx::kEvictLast);
  } else {
    constexpr int kRows = S::kKeys / S::kCluster;
    const int first = int(blockIdx.x) % S::kCluster * kRows;
    ptx::mbarrier_arrive_expect_tx(bar, S::kBytesKv);
#pragma unroll
    for (int slab = 0; slab < S::kSlabs; slab++)
      ptx::tma_load_4d_multicast(dst + slab * S::kSlabKv + first * 128, map, bar, slab * 64, row + first, head, batch,
                                 (1 << S::kCluster) - 1, ptx::kEvictLast);
  }
}

/// What a producer loads; and calls `produce` with it as a value, of one that loads all or of several.
enum class Load { kAll, kQueries, kKeys, kValues };
template <int kLoaders, class Produce>
__device__ __forceinline__ void with_load(int loader, Produce produce) {
  if constexpr (kLoaders == 1) {
    produce(std::integral_constant<Load, Load::kAll>());
  } else {
    if (loader == 0) produce(std::integral_constant<Load, Load::kKeys>());
    else if (loader == 1) produce(std::integral_constant<Load, Load::kQueries>());
    else produce(std::integral_constant<Load, Load::kValues>());
  }
}

template <class S, Load kLoad>
__device__ __forceinline__ void produce(const AttentionParams& p, const Shared<S>& shared) {
  constexpr bool kAll = kLoad == Load::kAll, kQueriesToo = kAll || kLoad == Load::kQueries, kKeysToo = kAll || kLoad == Load::kKeys, kValuesToo = kAll || kLoad == Load::kValues;
  Place q, k, v;
  Queue<S> queue(p, shared.board);
  Work<S> w;
  while (queue.template next<false>(w)) {
    queue.template done<false>();
    const int kv_head = p.by_kv.divide(w.head), batch = S::kLengths ? 0 : w.batch;
    NearWalk at_k, at_v;
    const auto load = [&](const CUtensorMap* map, uint32_t dst, uint32_t bar, int j, NearWalk& at) {
      if constexpr (S::kNear) {
        load_box<S, S::kKeys>(map, dst, bar, at.key(p.near, w.near, 0), at.key(p.near, w.near, 1), at.key(p.near, w.near, 2) + batch * p.near.extent[2], kv_head, ptx::kEvictLast);
        at.back(w.near);
      } else {
        load_shared_tile<S>(map, dst, bar, w.k_base + j * S::kKeys, kv_head, batch);
      }
    };
    const auto load_values = [&](uint32_t dst, uint32_t bar, int j) {
      if constexpr (S::kFp8) {
        ptx::mbarrier_arrive_expect_tx(bar, S::kDim * 128);
        int from = 0;
        if constexpr (S::kPlain) from = w.k_from;
        if constexpr (S::kLengths) from += fp8_base(w.k_base - from, w.batch);
        ptx::tma_load_4d(dst, &p.v, bar, from + j * S::kKeys, 0, kv_head, batch, ptx::kEvictLast);
      } else {
        load(&p.v, dst, bar, j, at_v);
      }
    };
    if constexpr (kQueriesToo) {
      const uint32_t q_full = shared.q_full + 8 * q.stage, to = shared.q + q.stage * S::kBytesQ;
      ptx::mbarrier_wait(shared.q_empty + 8 * q.stage, q.phase ^ 1);
      if constexpr (S::kNear) load_box<S, kQueries>(&p.q, to, q_full, w.near.query[0], w.near.query[1], w.near.query[2] + batch * p.near.extent[2], w.head, ptx::kEvictFirst);
      else load_tile<S, kQueries>(&p.q, to, q_full, w.q_base + w.row0, w.head, batch, ptx::kEvictFirst);
    }
    if constexpr (S::kNear && !S::kOwn) at_k = at_v = NearWalk(w.near);
    if constexpr (kQueriesToo) q.template next<S::kBuffersQ>();
    if constexpr (kLoad == Load::kQueries) continue;
    if constexpr (S::kOwn) {
      const int tiles = w.key_tiles + w.own.alone;
      for (int i = 0; i <= tiles; i++) {
        if (kKeysToo && i < tiles) {
          ptx::mbarrier_wait(shared.k_empty + 8 * k.stage, k.phase ^ 1);
          load_own_tile<S>(&p.k, &p.own.k_part, shared.k + k.stage * S::kBytesKv, shared.k_full + 8 * k.stage, p, w, i, kv_head);
          k.template next<S::kStages>();
        }
        if (kValuesToo && i > 0) {
          ptx::mbarrier_wait(shared.v_empty + 8 * v.stage, v.phase ^ 1);
          load_own_tile<S>(&p.v, &p.own.v_part, shared.v + v.stage * S::kBytesKv, shared.v_full + 8 * v.stage, p, w, i - 1, kv_head);
          v.template next<S::kStages>();
        }
      }
    } else {
      for (int j = w.key_tiles - 1; j >= w.first - 1; j--) {  // keys run one tile ahead of values
        if (kKeysToo && j >= w.first) {
          ptx::mbarrier_wait(shared.k_empty + 8 * k.stage, k.phase ^ 1);
          load(&p.k, shared.k + k.stage * S::kBytesKv, shared.k_full + 8 * k.stage, j, at_k);
          k.template next<S::kStages>();
        }
        if (kValuesToo && j + 1 < w.key_tiles) {
          ptx::mbarrier_wait(shared.v_empty + 8 * v.stage, v.phase ^ 1);
          load_values(shared.v + v.stage * S::kBytesKv, shared.v_full + 8 * v.stage, j + 1);
          v.template next<S::kStages>();
        }
      }
    }
  }
}

}  // namespace orrery::kernels
