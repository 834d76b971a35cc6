// reduce and the update functions of cooperative groups.
#ifndef ORRERY_CC_CG_REDUCE_H
#define ORRERY_CC_CG_REDUCE_H
#include <cooperative_groups.h>

namespace cooperative_groups {
// Tiles: a butterfly, so that every thread has the result.
template <unsigned N, class P, class T, class Op>
ORRERY_CG T reduce(const thread_block_tile<N, P>& g, T value, Op op) {
  for (unsigned step = N / 2; step; step /= 2) value = op(value, g.shfl_xor(value, step));
  return value;
}
// Any set of lanes: by rank, halving, then the result from rank 0.
template <class T, class Op> ORRERY_CG T reduce(const coalesced_group& g, T value, Op op) {
  unsigned n = g.num_threads(), rank = g.thread_rank();
  for (unsigned width = n; width > 1;) {
    unsigned half = (width + 1) / 2;
    T other = g.shfl_down(value, half);
    if (rank + half < width) value = op(value, other);
    width = half;
  }
  return g.shfl(value, 0);
}
template <class Group, class Atomic, class T, class Op>
ORRERY_CG void reduce_update_async(const Group& g, Atomic& atomic, T value, Op op) {
  T total = reduce(g, value, op);
  if (g.thread_rank() == 0) atomic.fetch_add(total);
}
template <class Group, class T, class Op> ORRERY_CG void reduce_store_async(const Group& g, T* to, T value, Op op) {
  T total = reduce(g, value, op);
  if (g.thread_rank() == 0) *to = total;
}
}  // namespace cooperative_groups
#endif
