// What an attention kernel of attention_kernel.cuh is made for, what follows from it, and where things lie in its shared memory.
#pragma once
#include <type_traits>

#include "attention_params.h"
#include "attention_scout.cuh"
#include "ptx.cuh"

namespace orrery::kernels {

template <class T_, int kDim_, Mask kMask_, bool kSigmoid_, int kCluster_, bool kLengths_ = false, int kKeys_ = 0>
struct Shape {
  using T = T_;
  static constexpr int kCluster = kCluster_;
  static constexpr bool kLengths = kLengths_;  // sequences of their own lengths
  static constexpr bool kFp8 = sizeof(T) == 1;  // then V comes turned round, and outputs are bf16
  using Out = std::conditional_t<kFp8, __nv_bfloat16, T>;
  static constexpr int kDim = kDim_, kSlabs = (kDim * int(sizeof(T)) + 127) / 128, kOutSlabs = kDim / 64, kStages = 2;  // slabs of 128 bytes
  static constexpr bool kCausal = kMask_ == Mask::kCausal || kMask_ == Mask::kWindow, kWindow = kMask_ == Mask::kWindow;
  static constexpr bool kNarrow = false;
  static constexpr bool kAlways = kMask_ == Mask::kNone && !kLengths_;  // all queries see keys
  static constexpr int kRows = kQueries, kConsumers = 2;  // of a tile; warpgroups
  static constexpr bool kOwn = kMask_ == Mask::kOwn;  // warpgroups have tiles of keys of their own
  static constexpr bool kEvery = kMask_ == Mask::kEvery, kCut = kMask_ == Mask::kNear || kEvery, kNear = kCut || kMask_ == Mask::kWhole || kOwn;
  static constexpr bool kStarts = kCut || kOwn;  // the scout says where windows start
  static constexpr bool kSigmoid = kSigmoid_;
  // Windows in sequences of their own lengths, of e4m3 and, where they are not narrow, under sigmoids are causal attention that leaves out the first tiles
  // of keys: no scout.
  static constexpr bool kPlain = kWindow && (kLengths || kFp8 || kSigmoid);
  static constexpr bool kScout = (kWindow && !kPlain) || kNear;  // where a mask leaves few tiles of keys (attention_scout.cuh)
  static constexpr int kKeys = kFp8 ? 128 : kKeys_ ? kKeys_ : kOwn ? kOwnKeys : attention_keys(kDim, kMask_);
  // Where O += P V is waited for: between the exponentials (sigmoids), or after them. Between them there is room to rescale outputs; after them that is done lazily.
  static constexpr bool kBetween = (kNear && (!kOwn || kSigmoid)) || (kWindow && !kPlain && kKeys == 128), kLazy = kDim > 64 && !kFp8 && !kBetween;
  static constexpr bool kApart = kLazy || (kDim == 64 && !kBetween);  // how the maximum is found
  static constexpr bool kUniform = !kNear || kOwn;  // a warp's role and group are known to be the same in all of its lanes (NOTES.md)
  // With a window: the last tile of keys ends with the last key that is seen, so that it is the only one that the causal mask cuts.
  static constexpr bool kEndOnLast = kWindow && !kPlain && kCluster == 1 && kKeys >= kQueries && !kBetween;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = 232;
  static constexpr int kSlabQ = kQueries * 128, kSlabKv = kKeys * 128;
  static constexpr int kBytesQ = kOutSlabs * kSlabQ, kBytesKv = kSlabs * kSlabKv;
  // Barriers and what the scout leaves; the rest begins at a multiple of 1,024.
  static constexpr int kBytesSmall = 1024 + 32 + 32 * kStages + Board<Shape>::kBytes;
  static constexpr int kBuffersQ = 2 * kBytesQ + 2 * kStages * kBytesKv + kBytesSmall <= 232448 ? 2 : 1;
  static constexpr bool kJoined = kBuffersQ > 1;
  // Where there is room outputs have a place of their own; else they leave through their queries', which must wait for that.
  static constexpr int kBytesOut = kOutSlabs * kSlabQ, kBytesUsed = kBuffersQ * kBytesQ + 2 * kStages * kBytesKv + kBytesSmall;
  static constexpr bool kOwnPlace = kBuffersQ > 1 && kBytesUsed + kBytesOut <= 232448;
  static constexpr bool kOwed = kScout && kJoined && !kOwnPlace;  // queries are given back a tile of keys later, when outputs have left through their place
  static constexpr int kShared = kBytesUsed + (kOwnPlace ? kBytesOut : 0);
};

template <class S>
struct Shared {
  uint32_t q, k, v, out, q_full, q_empty, k_full, k_empty, v_full, v_empty;
  Board<S> board;
  __device__ __forceinline__ explicit Shared(uint32_t raw) {
    q = (raw + 1023) / 1024 * 1024;
    k = q + S::kBuffersQ * S::kBytesQ;
    v = k + S::kStages * S::kBytesKv;
    out = v + S::kStages * S::kBytesKv;
    q_full = out + (S::kOwnPlace ? S::kBytesOut : 0);
    q_empty = q_full + 16;
    k_full = q_full + 32, k_empty = k_full + 8 * S::kStages;
    v_full = k_empty + 8 * S::kStages, v_empty = v_full + 8 * S::kStages;
    board = Board<S>(v_empty + 8 * S::kStages);
  }
  __device__ __forceinline__ void init() const {
    for (int s = 0; s < 2; s++) ptx::mbarrier_init(q_full + 8 * s, 1), ptx::mbarrier_init(q_empty + 8 * s, 8);
    for (int s = 0; s < S::kStages; s++) {
      ptx::mbarrier_init(k_full + 8 * s, 1), ptx::mbarrier_init(v_full + 8 * s, 1);
      ptx::mbarrier_init(k_empty + 8 * s, 8 * S::kCluster), ptx::mbarrier_init(v_empty + 8 * s, 8 * S::kCluster);
    }
    if constexpr (S::kScout) board.init();
    ptx::fence_mbarrier_init();
  }
};

}  // namespace orrery::kernels
