// inclusive_scan and exclusive_scan of cooperative groups.
#ifndef ORRERY_CC_CG_SCAN_H
#define ORRERY_CC_CG_SCAN_H
#include <cooperative_groups.h>

namespace cooperative_groups {
template <class Group, class T, class Op> ORRERY_CG T inclusive_scan(const Group& g, T value, Op op) {
  unsigned rank = g.thread_rank();
  for (unsigned step = 1; step < g.num_threads(); step *= 2) {
    T other = g.shfl_up(value, step);
    if (rank >= step) value = op(other, value);
  }
  return value;
}
template <class Group, class T> ORRERY_CG T inclusive_scan(const Group& g, T value) {
  return inclusive_scan(g, value, plus<T>());
}
template <class Group, class T, class Op> ORRERY_CG T exclusive_scan(const Group& g, T value, Op op) {
  T all = g.shfl_up(inclusive_scan(g, value, op), 1);
  return g.thread_rank() == 0 ? T() : all;
}
template <class Group, class T> ORRERY_CG T exclusive_scan(const Group& g, T value) {
  return exclusive_scan(g, value, plus<T>());
}
}  // namespace cooperative_groups
#endif
