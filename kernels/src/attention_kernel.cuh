// Attention forward: softmax(scale Q K') V by tiles of 128 queries, for head dimensions 64, 128, 192 and 256; or sigmoid(...) V,
// which has no maximum to follow and nothing to rescale; masks: causal, causal within a window, and neighbourhoods on a grid of
// tokens (attention_near.cuh); sequences of one length, or of their own lengths one after the other. With e4m3 operands V comes turned round (attention_fp8.cuh).
//
// A persistent CTA has producer threads (attention_produce.cuh), a warp that finds the tiles of queries to work on (attention_scout.cuh) and two consumer warpgroups of 64 queries each. Keys and values arrive by TMA
// in tiles of 80 to 160, each in a ring of its own, from the last tile to the first, so that the masked tiles come first.
// In a cluster of two, the CTAs take neighbouring tiles of queries of one head: each loads half of every tile of keys and
// values and multicasts it, which halves what is read from L2. Queries have two buffers where there is room, so that one warpgroup starts its next tile while the other stores its last.
// Two overlaps hide the exponentials, which the tensor core must not wait for:
//
//   within a warpgroup    S = Q K'(next) and O += P V(this) are issued together; the softmax of the next tile runs while
//                         O += P V is still multiplying. Where Q has two buffers the next tile may be the first of the next
//                         queries, so that the end of one tile of queries hides behind the start of another.
//   between warpgroups    `turn` barriers let one issue its products while the other is at its softmax.
//
// P never leaves the registers: the accumulator layout of S is the operand layout of A, two columns to a register.
//
// Shared memory: Q twice, [slab][128 rows][128 bytes] | K stages, likewise | V stages, likewise: slabs of 64 of dim.
// The finished O leaves through a place of its own, or through the rows of Q that the warp itself has read.
//
// Windows have tiles of 160 keys where those hold what a tile of queries sees as tightly as 128 do; narrow ones, and neighbourhoods on a line, have a kernel of their own
// (attention_narrow.cuh). Neighbourhoods have three kernels, by how many tiles of keys need masks (attention_params.h),
// and a fourth where each warpgroup has tiles of keys of its own (attention_own.cuh).
//
// A new maximum makes what has been summed up worth less. Outputs are rescaled for it only when it is 2^8 times the weight that the old one had (kLazy), where
// they would be rescaled behind the exponentials; until then weights are larger than 1, which costs no bits. What consumers wait for, count and branch on is the
// same in all lanes of a warp, and ptxas has to see that (kUniform): then descriptors are made beside what lanes compute.
//
// Source of the schedule: Shah et al., "FlashAttention-3" (2024); this is an implementation of its own.
#pragma once
#include <type_traits>

#include "attention_fp8.cuh"
#include "attention_produce.cuh"
#include "attention_shape.cuh"
#include "ptx.cuh"
#include "roles.cuh"
#include "wgmma.cuh"

namespace orrery::kernels {

constexpr int kThreads = 384;

/// Gives a stage back to every producer that writes into it; lane i of a warp tells CTA i.
template <class S>
__device__ __forceinline__ void release(uint32_t bar) {
  const int lane = threadIdx.x % 32;
  if constexpr (S::kCluster == 1) ptx::mbarrier_arrive_if(bar, lane == 0);
  else ptx::mbarrier_arrive_cluster_if(ptx::mapa(bar, lane % S::kCluster), lane < S::kCluster);
}

template <class S>
__device__ __forceinline__ void issue_scores(float (&s)[S::kKeys / 2], uint32_t q, uint32_t k) {
  const ptx::Descriptor dq = ptx::descriptor_k_major(q), dk = ptx::descriptor_k_major(k);
#pragma unroll
  for (int j = 0; j < S::kDim * int(sizeof(typename S::T)) / 32; j++)
    wgmma_ss<typename S::T, typename S::T, S::kKeys, 0, 0>(
        s, dq.at(j / 4 * S::kSlabQ + j % 4 * ptx::kStepKMajor), dk.at(j / 4 * S::kSlabKv + j % 4 * ptx::kStepKMajor), j > 0);
  ptx::wgmma_commit_group();
}

/// o += P V, or with a scout, where `keep` is false, o = P V: elsewhere o begins as zeros.
template <class S>
__device__ __forceinline__ void issue_values(float (&o)[S::kDim / 2], const uint32_t (&probabilities)[S::kKeys * int(sizeof(typename S::T)) / 32][4],
                                             uint32_t v, bool keep) {
  if constexpr (S::kFp8) {
    const ptx::Descriptor dv = ptx::descriptor_k_major(v);
#pragma unroll
    for (int j = 0; j < S::kKeys / 32; j++) wgmma_rs_e4m3<S::kDim>(o, probabilities[j], dv.at(j * ptx::kStepKMajor));
  } else {
    const ptx::Descriptor dv = ptx::descriptor_mn_major(v, S::kKeys);
#pragma unroll
    for (int j = 0; j < S::kKeys / 16; j++) wgmma_rs<typename S::T, S::kDim, 1>(o, probabilities[j], dv.at(j * ptx::kStepMnMajor), !S::kScout || j > 0 ? 1 : keep);
  }
  ptx::wgmma_commit_group();
}

template <class S>
__device__ __forceinline__ void consume(const AttentionParams& p, const Shared<S>& shared) {
  const int group = (S::kUniform ? ptx::warpgroup() : int(threadIdx.x / 128)) - 1, warp_row = group * 64 + threadIdx.x % 128 / 32 * 16;
  constexpr int kKeys = S::kKeys;
  Place q, k, v;
  Queue<S> queue(p, shared.board);
  Work<S> w;
  View<S> view;
  Entries<S> entries(shared.board);
  float o[S::kDim / 2], s[kKeys / 2], rescale[2];
  uint32_t probabilities[kKeys * int(sizeof(typename S::T)) / 32][4], queries = 0;  // queries: which buffer holds those of w
  int owed = -1;                                                                    // a buffer of queries to give back when outputs have left it
  bool keep = false;                                                                // whether o holds sums of these queries
  bool own_k = false, own_v = false;                                                // whether these scores, these weights are of a tile that only this warpgroup has
  Softmax softmax;
  const float scale = scale_of<S>(p), reach = S::kLazy ? Softmax::reach_of(scale) : 0.f;
  const auto settle = [&]() __attribute__((always_inline)) {
    if (!S::kOwed || owed < 0) return;
    if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>(), ptx::mbarrier_arrive(shared.q_empty + 8 * owed);
    owed = -1;
  };
  const auto begin = [&]() __attribute__((always_inline)) {  // on the queries of w
    settle();
    view = View<S>(p, w, group, queue.starts());
    queue.template done<true>();
    ptx::mbarrier_wait(shared.q_full + 8 * q.stage, q.phase);
    queries = q.stage, softmax = Softmax();
    q.template next<S::kBuffersQ>();
  };
  const auto end = [&](const Work<S>& of, const Softmax& sums, uint32_t buffer) __attribute__((always_inline)) {
    finish<S>(p, of, o, sums, (S::kOwnPlace ? shared.out : shared.q + buffer * S::kBytesQ) + warp_row * 128, warp_row);
    if (S::kOwed) owed = int(buffer);
    else if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(shared.q_empty + 8 * buffer);
  };
  // The other warpgroup's tile in a ring: this one gives it back too, so that neither is a turn of the ring ahead. The second warpgroup's tiles follow the first's.
  const auto pass = [&](bool own, int of, uint32_t full, uint32_t empty, Place& at) __attribute__((always_inline)) {
    if (!S::kOwn || !own || group != of) return;
    ptx::mbarrier_wait(full + 8 * at.stage, at.phase);
    release<S>(empty + 8 * at.stage);
    at.template next<S::kStages>();
  };
  const auto turn = [&](int tile) __attribute__((always_inline)) {  // to scores of this tile
    if constexpr (S::kOwn) {
      own_v = own_k, own_k = tile >= w.key_tiles - w.own.alone;
      pass(own_k, 1, shared.k_full, shared.k_empty, k);
    }
  };
  // The next scores, the first of their queries or not, and the product of these weights with their values; returns once the scores are there.
  const auto issue = [&](int tile, bool first) __attribute__((always_inline)) {
    turn(tile);
    pass(own_v, 1, shared.v_full, shared.v_empty, v);
    ptx::mbarrier_wait(shared.k_full + 8 * k.stage, k.phase);
    ptx::bar_sync(2 + group, 256);
    ptx::wgmma_fence();
    issue_scores<S>(s, shared.q + queries * S::kBytesQ + group * 64 * 128, shared.k + k.stage * S::kBytesKv);
    ptx::mbarrier_wait(shared.v_full + 8 * v.stage, v.phase);
    ptx::wgmma_fence();
    issue_values<S>(o, probabilities, shared.v + v.stage * S::kBytesKv, keep);
    keep = true;
    ptx::bar_arrive(3 - group, 256);
    view.look(p, w, group, tile, entries.next(first));
    settle();
    ptx::wgmma_wait_group<1>();
    ptx::wgmma_pin(s);
    release<S>(shared.k_empty + 8 * k.stage);
    k.template next<S::kStages>();
    pass(own_k, 0, shared.k_full, shared.k_empty, k);
  };
  // Until the product with these weights is done. Left to itself ptxas puts this wait where the next scores are there, ahead of their masks and
  // softmax, which then hide nothing of the product. It moves none out of its basic block, and the loop that waits for values, which
  // have long been there, ends one: with a neighbourhood that is worth more than it costs (NOTES.md).
  const auto retire = [&]() __attribute__((always_inline)) {
    if constexpr (S::kBetween) ptx::mbarrier_wait(shared.v_full + 8 * v.stage, v.phase);
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(o);
    release<S>(shared.v_empty + 8 * v.stage);
    v.template next<S::kStages>();
    pass(own_v, 0, shared.v_full, shared.v_empty, v);
  };
  // Weights of a tile of keys; where there is no maximum to follow, outputs need no rescaling. Calls `retire`: with a neighbourhood between the
  // exponentials or sigmoids, when the product has just been multiplied, so that values are given back no later than they can be.
  const auto weigh = [&](int tile, auto first, auto retire) __attribute__((always_inline)) {
    bool moved = false;
    view.template mask<first>(s, tile);
    constexpr int kFirst = kKeys <= 64 ? 16 : S::kSigmoid ? (S::kOwn || S::kEvery ? 48 : S::kCut ? 32 : 16) : S::kCut && !S::kEvery ? 16 : 32;  // NOTES.md
    const auto between = [&] {
      if constexpr (S::kBetween) {
#pragma unroll
        for (int i = 0; i < kFirst; i++) asm volatile("" : "+f"(s[i]));
        retire();
      }
    };
    if constexpr (S::kSigmoid) take_sigmoid<kFirst>(s, S::kFp8 ? scale : p.scale_log2, p.bias, S::kFp8 ? kFp8Lift : 0, between);
    else moved = softmax.template take<S::kFp8 ? kFp8Lift : 0, kFirst, S::kApart, S::kLazy>(s, scale, reach, rescale, between);
    if constexpr (!S::kBetween) retire();
    return moved;
  };
  const auto clear = [&]() __attribute__((always_inline)) {
    keep = false;
#pragma unroll
    for (int i = 0; i < (S::kScout ? 0 : S::kDim / 2); i++) o[i] = 0.f;
  };
  if (group == 1) ptx::bar_arrive(2, 256);  // the first turn is group 0's
  bool more = queue.template next<true>(w);
  while (more) {  // once, where tiles are joined
    clear();
    begin();
    int j = w.key_tiles - 1;
    turn(j);
    ptx::mbarrier_wait(shared.k_full + 8 * k.stage, k.phase);
    ptx::bar_sync(2 + group, 256);
    ptx::wgmma_fence();
    issue_scores<S>(s, shared.q + queries * S::kBytesQ + group * 64 * 128, shared.k + k.stage * S::kBytesKv);
    ptx::bar_arrive(3 - group, 256);
    view.look(p, w, group, j, entries.next(true));
    ptx::wgmma_wait_group<0>();
    ptx::wgmma_pin(s);
    release<S>(shared.k_empty + 8 * k.stage);
    k.template next<S::kStages>();
    pass(own_k, 0, shared.k_full, shared.k_empty, k);
    weigh(j, std::true_type(), [] {});
    pack<typename S::T>(probabilities, s);
    for (;;) {
      for (j--; j >= w.first; j--) {
        issue(j, false);
        if (weigh(j, std::false_type(), retire)) {
#pragma unroll
          for (int i = 0; i < (S::kSigmoid ? 0 : S::kDim / 2); i++) o[i] *= rescale[i / 2 % 2];
        }
        pack<typename S::T>(probabilities, s);
      }
      if (!S::kJoined) break;
      const Work<S> done = w;
      const Softmax sums = softmax;
      const uint32_t buffer = queries;
      more = queue.template next<true>(w);
      if (!more) break;
      begin();  // the next scores are those of other queries
      j = w.key_tiles - 1;
      issue(j, true);
      weigh(j, std::true_type(), retire);
      end(done, sums, buffer);
      clear();
      pack<typename S::T>(probabilities, s);
    }
    own_v = own_k;
    pass(own_v, 1, shared.v_full, shared.v_empty, v);
    ptx::mbarrier_wait(shared.v_full + 8 * v.stage, v.phase);
    ptx::wgmma_fence();
    issue_values<S>(o, probabilities, shared.v + v.stage * S::kBytesKv, keep);
    retire();
    end(w, softmax, queries);
    if (!S::kJoined) more = queue.template next<true>(w);
  }
  if (threadIdx.x % 32 == 0) ptx::bulk_wait_group_read<0>();
  if (group == 0) ptx::bar_sync(2, 256);  // takes the arrival that nobody waits for
}

template <class S>
__global__ void __launch_bounds__(kThreads, 1) attention(const __grid_constant__ AttentionParams p) {
  extern __shared__ uint8_t raw[];
  const Shared<S> shared(ptx::smem_address(raw));
  const auto init = [&] {
    if (threadIdx.x != 0) return;
    ptx::prefetch_tensormap(&p.q);
    ptx::prefetch_tensormap(&p.k);
    ptx::prefetch_tensormap(&p.v);
    shared.init();
  };
  const auto run = [&](auto... scouts) {
    constexpr int kLoaders = kLoadersOf<S>;
    run_warp_roles<kLoaders, S::kProducerRegisters, S::kConsumerRegisters, Dependent::kWhole, S::kUniform>(
        S::kCluster > 1, init, [&](int loader) { with_load<kLoaders>(loader, [&](auto load) { produce<S, decltype(load)::value>(p, shared); }); },
        [&] { consume<S>(p, shared); }, scouts...);
  };
  if constexpr (S::kScout) run([&] { scout<S>(p, shared.board); });
  else if constexpr (!S::kAlways) run([&] { leave_all_zeros<S>(p); });
  else run();
}

template <class S>
cudaError_t launch(const AttentionParams& p, int blocks, cudaStream_t stream) {
  const auto kernel = attention<S>;
  if (cudaError_t e = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::kShared)) return e;
  cudaLaunchAttribute attribute[2];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  attribute[1].id = cudaLaunchAttributeClusterDimension;
  attribute[1].val.clusterDim = {S::kCluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks), config.blockDim = dim3(kThreads), config.dynamicSmemBytes = S::kShared, config.stream = stream;
  config.attrs = attribute, config.numAttrs = S::kCluster > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

}  // namespace orrery::kernels
