// Attention forward with narrow windows, causal ones or neighbourhoods on a line, softmax or sigmoids, for head dimensions 64 and 128: three consumer warpgroups of 64
// queries each, which share tiles of 64 keys. Of those a warpgroup works on the ones that its own queries see and passes over the others: a window
// of 512 keys are 9 tiles for each, of 11 for all three, where two warpgroups that share tiles of 160 keys multiply 640 each. A third chain of
// product, softmax and product fills what two leave, so that there are no turns, and masks are of the first and the last tile only.
//
// Tiles of keys lie in rings of four, from the last to the first; a warpgroup that passes over one (three at most between two that it sees) waits for
// it and gives it back like those that it works on, as a parity cannot tell a phase from the one before the last. Tiles of queries that have some for
// one or two warpgroups only come last, and of those producers give tiles of keys back for the others, which are done. Queries have two
// buffers for each warpgroup, through which its outputs leave. The rest is as in attention_kernel.cuh.
#pragma once
#include "attention_kernel.cuh"

namespace orrery::kernels {

template <class T_, int kDim_, bool kLine_, bool kSigmoid_>
struct Narrow {
  using T = T_;
  using Out = T;
  static constexpr int kDim = kDim_, kCluster = 1, kConsumers = 3, kRows = kNarrowQueries, kKeys = kNarrowKeys, kStages = 4;
  static constexpr bool kLazy = kDim > 64 && !kSigmoid_, kLine = kLine_, kNarrow = true, kAlways = false, kCausal = true, kWindow = true, kScout = true, kPlain = false, kOwed = true;
  static constexpr bool kLengths = false, kFp8 = false, kOwn = false, kCut = false, kNear = false, kStarts = false, kSigmoid = kSigmoid_, kOwnPlace = false;
  static constexpr int kProducerRegisters = 32, kConsumerRegisters = 160;
  static constexpr int kSlabs = kDim / 64, kOutSlabs = kSlabs, kSlabQ = 64 * 128, kSlabKv = kKeys * 128;
  static constexpr int kBytesQ = kSlabs * kSlabQ, kBytesKv = kSlabs * kSlabKv;  // of a warpgroup's queries; of a tile
  static constexpr int kShared = 1024 + 2 * kConsumers * kBytesQ + 2 * kStages * kBytesKv + 32 * kConsumers + 32 * kStages + Board<Narrow>::kBytes;
  static_assert(kShared <= 232448);
};

/// Shared-window addresses.
template <class S>
struct NarrowShared {
  uint32_t q, k, v, q_full, q_empty, k_full, k_empty, v_full, v_empty;
  Board<S> board;
  __device__ __forceinline__ explicit NarrowShared(uint32_t raw) {
    q = (raw + 1023) / 1024 * 1024;
    k = q + 2 * S::kConsumers * S::kBytesQ, v = k + S::kStages * S::kBytesKv;
    q_full = v + S::kStages * S::kBytesKv, q_empty = q_full + 16 * S::kConsumers;
    k_full = q_empty + 16 * S::kConsumers, k_empty = k_full + 8 * S::kStages;
    v_full = k_empty + 8 * S::kStages, v_empty = v_full + 8 * S::kStages;
    board = Board<S>(v_empty + 8 * S::kStages);
  }
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 2 * S::kConsumers; i++) ptx::mbarrier_init(q_full + 8 * i, 1), ptx::mbarrier_init(q_empty + 8 * i, 4);
    for (int s = 0; s < S::kStages; s++) {
      ptx::mbarrier_init(k_full + 8 * s, 1), ptx::mbarrier_init(v_full + 8 * s, 1);
      ptx::mbarrier_init(k_empty + 8 * s, 4 * S::kConsumers), ptx::mbarrier_init(v_empty + 8 * s, 4 * S::kConsumers);
    }
    board.init();
    ptx::fence_mbarrier_init();
  }
};

template <class S, Load kLoad>
__device__ __forceinline__ void produce_narrow(const AttentionParams& p, const NarrowShared<S>& shared) {
  constexpr bool kValues = kLoad == Load::kValues;
  const uint32_t ring = kValues ? shared.v : shared.k, full = kValues ? shared.v_full : shared.k_full, empty = kValues ? shared.v_empty : shared.k_empty;
  Place q[S::kConsumers], at;
  Queue<S> queue(p, shared.board);
  Work<S> w;
  while (queue.template next<false>(w)) {
    queue.template done<false>();
    if constexpr (kLoad == Load::kQueries) {
#pragma unroll
      for (int g = S::kConsumers - 1; g >= 0; g--) {  // the last begins first
        if (w.narrow.range[g] == 0) continue;
        const int place = 2 * g + q[g].stage;
        ptx::mbarrier_wait(shared.q_empty + 8 * place, q[g].phase ^ 1);
        load_tile<S, 64>(&p.q, shared.q + place * S::kBytesQ, shared.q_full + 8 * place, w.row0 + 64 * g, w.head, w.batch, ptx::kEvictFirst);
        q[g].template next<2>();
      }
    } else {
      const int kv_head = p.by_kv.divide(w.head);
      int done = 0;  // warps that have no queries any more
#pragma unroll
      for (int g = 0; g < S::kConsumers; g++) done += w.narrow.range[g] ? 0 : 4;
      for (int j = w.key_tiles - 1; j >= 0; j--) {
        ptx::mbarrier_wait(empty + 8 * at.stage, at.phase ^ 1);
        if (done) ptx::mbarrier_arrive_count(empty + 8 * at.stage, done);
        load_tile<S, S::kKeys>(kValues ? &p.v : &p.k, ring + at.stage * S::kBytesKv, full + 8 * at.stage, w.k_base + j * S::kKeys, kv_head, w.batch, ptx::kEvictLast);
        at.template next<S::kStages>();
      }
    }
  }
}

/// Which keys a thread's two rows see, counted from the first key of the tiles.
template <class S>
struct NarrowView {
  int end[2], clear, clear_low;  // rows see keys below `end`, a window of them; keys from clear_low up to `clear` are seen by every row of the warpgroup
  int window;
  NarrowView() = default;
  __device__ __forceinline__ NarrowView(const AttentionParams& p, const Work<S>& w, int group) {
    const int first = w.row0 + group * 64, row = first + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
    window = S::kLine ? p.near.window[0] : p.window;
#pragma unroll
    for (int h = 0; h < 2; h++) end[h] = narrow_end<S>(p, row + 8 * h) - w.k_base;
    clear = narrow_end<S>(p, first) - w.k_base, clear_low = narrow_end<S>(p, first + 63) - w.k_base - window;
  }
  __device__ __forceinline__ void mask(float (&s)[S::kKeys / 2], int tile) const {
    const int key = tile * S::kKeys;
    if (key + S::kKeys > clear) hide(s, key, end);
    if (key < clear_low) {
      const int low[2] = {end[0] - window, end[1] - window};
      hide_below(s, key, low);
    }
  }
};

template <class S>
__device__ __forceinline__ void consume_narrow(const AttentionParams& p, const NarrowShared<S>& shared) {
  const int group = ptx::warpgroup() - 1, warp_row = group * 64 + threadIdx.x % 128 / 32 * 16;
  const uint32_t q = shared.q + 2 * group * S::kBytesQ, q_full = shared.q_full + 16 * group, q_empty = shared.q_empty + 16 * group;
  Queue<S> queue(p, shared.board);
  Work<S> w;
  w.key_tiles = 0;
  NarrowView<S> view;
  Place buffer;                     // of the next queries
  uint32_t start = 0;               // tiles of keys in the rings before those of w
  uint32_t k_at = ~0u, v_at = ~0u;  // which tile in the rings these scores are of, these weights
  uint32_t queries = 0;             // which buffer holds those of w
  int owed = -1;                    // a buffer of queries to give back when outputs have left it
  bool keep = false;                // whether o holds sums of these queries
  bool others = false;              // whether w is one of which only other warpgroups have queries
  float o[S::kDim / 2], s[S::kKeys / 2], rescale[2];
  uint32_t probabilities[S::kKeys / 16][4];
  Softmax softmax;
  const float scale = p.scale_log2, reach = S::kLazy ? Softmax::reach_of(scale) : 0.f;
  const auto settle = [&]() __attribute__((always_inline)) {
    if (owed < 0) return;
    if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>(), ptx::mbarrier_arrive(q_empty + 8 * owed);
    owed = -1;
  };
  // The next tile of queries, if this warpgroup has some of it; if not, of none that follow.
  const auto next = [&]() __attribute__((always_inline)) {
    const uint32_t after = start + w.key_tiles;
    const bool found = queue.template next<true>(w);
    start = after, others = found && w.narrow.of(group) == 0;
    return found && !others;
  };
  // Gives back the tiles from `from` up to `to`, which this warpgroup passes over.
  const auto pass = [&](uint32_t full, uint32_t empty, uint32_t from, uint32_t to) __attribute__((always_inline)) {
#pragma unroll 1
    for (; from < to; from++) {
      const uint32_t stage = from % S::kStages;
      ptx::mbarrier_wait(full + 8 * stage, from / S::kStages & 1);
      ptx::mbarrier_arrive_if(empty + 8 * stage, threadIdx.x % 32 == 0);
    }
  };
  const auto begin = [&]() __attribute__((always_inline)) {  // on the queries of w; returns their last tile of keys
    settle();
    view = NarrowView<S>(p, w, group);
    queue.template done<true>();
    ptx::mbarrier_wait(q_full + 8 * buffer.stage, buffer.phase);
    queries = buffer.stage, softmax = Softmax(), keep = false;
    buffer.template next<2>();
    const int tile = (w.narrow.of(group) >> 16) - 1;
    const uint32_t passed = k_at + 1;
    k_at = start + w.key_tiles - 1 - tile;
    pass(shared.k_full, shared.k_empty, passed, k_at);
    return tile;
  };
  const auto end = [&](const Work<S>& of, const Softmax& sums, uint32_t from) __attribute__((always_inline)) {
    finish<S>(p, of, o, sums, q + from * S::kBytesQ + (warp_row - group * 64) * 128, warp_row);
    owed = int(from);
  };
  const auto scores = [&]() __attribute__((always_inline)) {
    const uint32_t stage = k_at % S::kStages;
    ptx::mbarrier_wait(shared.k_full + 8 * stage, k_at / S::kStages & 1);
    ptx::wgmma_fence();
    issue_scores<S>(s, q + queries * S::kBytesQ, shared.k + stage * S::kBytesKv);
  };
  const auto values = [&](bool add) __attribute__((always_inline)) {
    const uint32_t stage = v_at % S::kStages;
    ptx::mbarrier_wait(shared.v_full + 8 * stage, v_at / S::kStages & 1);
    ptx::wgmma_fence();
    issue_values<S>(o, probabilities, shared.v + stage * S::kBytesKv, add);
  };
  const auto have_scores = [&]() __attribute__((always_inline)) {
    ptx::wgmma_pin(s);
    ptx::mbarrier_arrive_if(shared.k_empty + 8 * (k_at % S::kStages), threadIdx.x % 32 == 0);
  };
  const auto retire = [&]() __attribute__((always_inline)) {
    ptx::mbarrier_wait(shared.v_full + 8 * (v_at % S::kStages), v_at / S::kStages & 1);  // as in attention_kernel.cuh
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(o);
    ptx::mbarrier_arrive_if(shared.v_empty + 8 * (v_at % S::kStages), threadIdx.x % 32 == 0);
  };
  constexpr int kFirst = S::kSigmoid ? 8 : 12;  // NOTES.md
  const auto weigh = [&](int tile, auto retire) __attribute__((always_inline)) {
    const auto between = [&] {
#pragma unroll
      for (int i = 0; i < kFirst; i++) asm volatile("" : "+f"(s[i]));
      retire();
    };
    view.mask(s, tile);
    if constexpr (S::kSigmoid) return take_sigmoid<kFirst>(s, scale, p.bias, 0, between), false;
    else return softmax.template take<0, kFirst, S::kLazy, S::kLazy>(s, scale, reach, rescale, between);
  };
  if (next()) {
    int j = begin();
    scores();
    ptx::wgmma_wait_group<0>();
    have_scores();
    weigh(j, [] {});
    pack<typename S::T>(probabilities, s);
    pass(shared.v_full, shared.v_empty, 0, k_at);
    Work<S> done;
    Softmax sums;
    uint32_t from;
    bool add;
    for (;;) {
      const int first = w.narrow.of(group) & 0xffff;
      for (j--; j >= first; j--) {
        v_at = k_at++;
        scores();
        values(keep);
        keep = true;
        settle();
        ptx::wgmma_wait_group<1>();
        have_scores();
        if (weigh(j, retire)) {
#pragma unroll
          for (int i = 0; i < (S::kSigmoid ? 0 : S::kDim / 2); i++) o[i] *= rescale[i / 2 % 2];
        }
        pack<typename S::T>(probabilities, s);
      }
      done = w, sums = softmax, from = queries, add = keep;
      v_at = k_at;
      if (!next()) break;
      j = begin();  // the next scores are those of other queries
      scores();
      values(add);
      ptx::wgmma_wait_group<1>();
      have_scores();
      weigh(j, retire);
      pass(shared.v_full, shared.v_empty, v_at + 1, k_at);
      end(done, sums, from);
      pack<typename S::T>(probabilities, s);
    }
    values(add);
    retire();
    pass(shared.k_full, shared.k_empty, k_at + 1, start);
    pass(shared.v_full, shared.v_empty, v_at + 1, start);
    end(done, sums, from);
  }
  while (others) {
    queue.template done<true>();
    others = queue.template next<true>(w);
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
}

template <class S>
__global__ void __launch_bounds__(128 * (1 + S::kConsumers), 1) attention_narrow(const __grid_constant__ AttentionParams p) {
  extern __shared__ uint8_t raw[];
  const NarrowShared<S> shared(ptx::smem_address(raw));
  const auto init = [&] {
    if (threadIdx.x != 0) return;
    ptx::prefetch_tensormap(&p.q), ptx::prefetch_tensormap(&p.k), ptx::prefetch_tensormap(&p.v);
    shared.init();
  };
  run_warp_roles<kLoadersOf<S>, S::kProducerRegisters, S::kConsumerRegisters, Dependent::kWhole, true>(
      false, init, [&](int loader) { with_load<kLoadersOf<S>>(loader, [&](auto load) { produce_narrow<S, decltype(load)::value>(p, shared); }); },
      [&] { consume_narrow<S>(p, shared); }, [&] { scout<S>(p, shared.board); });
}

}  // namespace orrery::kernels
