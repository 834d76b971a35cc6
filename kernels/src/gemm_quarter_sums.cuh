// Sums of a tile whose K four groups share, two of each CTA of a cluster of two: in the end each has those of all four, of a quarter of the columns.
//
//   groups    of a CTA give each other the sums of half of the columns, through a place of the ring that was their own
//   CTAs      give each other half of what is left, by stores to the other's shared memory whose bytes complete on a barrier there (st.async), in a place that
//             nothing else uses: the other one may still be multiplying. That it has made its barriers is all that is waited for, at the end of K
//
// All add up the same numbers in an order that does not depend on who comes first. Not here: products, and how D is stored.
//
// What a tile's shared memory must offer (`Shared`):
//   left(group), sent(group)   where this thread's first quad is of what a group leaves or is sent, quads being 2,048 bytes apart
//   landed(group)              a barrier with four arrivals, made before this CTA's arrival at the cluster's barrier
#pragma once
#include "ptx.cuh"

namespace orrery::kernels {

/// Adds what lies in shared memory, this thread's quads.
template <int kCount>
__device__ __forceinline__ void add_quads(float (&sums)[kCount], uint32_t from) {
#pragma unroll
  for (int q = 0; q < kCount / 4; q++) {
    const int4 v = ptx::ld_shared_v4(from + q * 2048);
    sums[4 * q] += __int_as_float(v.x), sums[4 * q + 1] += __int_as_float(v.y), sums[4 * q + 2] += __int_as_float(v.z), sums[4 * q + 3] += __int_as_float(v.w);
  }
}

/// What the groups of a CTA give each other: `sums` becomes that of both, of the columns that are this one's. The named barriers 1 and kBarrier + group are used.
template <int kGroup, int kBarrier, int kCount, class Shared, class Acc>
__device__ __forceinline__ void exchange_in_cta(const Shared& shared, const Acc (&acc)[2 * kCount], float (&sums)[kCount]) {
  const auto word = [&](int i) { return __float_as_int(float(acc[(kGroup ^ 1) * kCount + i])); };
  ptx::bar_sync(kBarrier + kGroup, 128);  // the group's places are idle
#pragma unroll
  for (int q = 0; q < kCount / 4; q++) ptx::st_shared_v4(shared.left(kGroup) + q * 2048, word(4 * q), word(4 * q + 1), word(4 * q + 2), word(4 * q + 3));
#pragma unroll
  for (int i = 0; i < kCount; i++) sums[i] = float(acc[kGroup * kCount + i]);
  ptx::bar_sync(1, 256);  // and now all of the ring
  add_quads(sums, shared.left(kGroup ^ 1));
}

/// The same with the group of the other CTA that has these columns.
template <int kRank, int kCount, class Shared>
__device__ __forceinline__ void exchange_in_cluster(const Shared& shared, int group, const float (&half)[2 * kCount], float (&sums)[kCount]) {
  const uint32_t mine = shared.sent(group), landed = shared.landed(group), theirs = ptx::mapa(mine, kRank ^ 1), there = ptx::mapa(landed, kRank ^ 1);
  const float* const other = half + (kRank ^ 1) * kCount;
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive_expect_tx(landed, kCount / 4 * 512);
  ptx::cluster_wait();  // its barriers have been made
#pragma unroll
  for (int q = 0; q < kCount / 4; q++) ptx::st_async_f4(theirs + q * 2048, make_float4(other[4 * q], other[4 * q + 1], other[4 * q + 2], other[4 * q + 3]), there);
#pragma unroll
  for (int i = 0; i < kCount; i++) sums[i] = half[kRank * kCount + i];
  ptx::mbarrier_wait_cluster(landed, 0);
  add_quads(sums, mine);
}

/// From a group's accumulators, of 4 kCount columns by a thread's share of 64 rows, to the sums of its quarter: that of columns from (2 group + rank) kCount on.
template <int kBarrier, int kCount, class Shared, class Acc>
__device__ __forceinline__ void sum_quarters(const Shared& shared, int rank, int group, const Acc (&acc)[4 * kCount], float (&sums)[kCount]) {
  float half[2 * kCount];
  if (group == 0) exchange_in_cta<0, kBarrier>(shared, acc, half);
  else exchange_in_cta<1, kBarrier>(shared, acc, half);
  if (rank == 0) exchange_in_cluster<0>(shared, group, half, sums);
  else exchange_in_cluster<1>(shared, group, half, sums);
}

}  // namespace orrery::kernels
