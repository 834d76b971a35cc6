// memcpy_async and wait of cooperative groups: cp.async where the alignment allows it, plain copies elsewhere.
#ifndef ORRERY_CC_CG_MEMCPY_ASYNC_H
#define ORRERY_CC_CG_MEMCPY_ASYNC_H
#include <cooperative_groups.h>

namespace cooperative_groups {
namespace details {
template <int N> ORRERY_CG void copy_piece(void* to, const void* from) {
  unsigned s = (unsigned)__cvta_generic_to_shared(to);
  size_t g = __cvta_generic_to_global(from);
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(s), "l"(g), "n"(N) : "memory");
}
template <int N, class Group> ORRERY_CG void copy_pieces(const Group& g, char* to, const char* from, size_t bytes) {
  for (size_t i = g.thread_rank() * (size_t)N; i < bytes; i += g.num_threads() * (size_t)N) copy_piece<N>(to + i, from + i);
}
}  // namespace details
template <class Group> ORRERY_CG void memcpy_async(const Group& g, void* to, const void* from, size_t bytes) {
  char* t = (char*)to;
  const char* f = (const char*)from;
  size_t alignment = (size_t)t | (size_t)f | bytes;
  if (__isShared(to) && __isGlobal(from) && alignment % 4 == 0) {
    if (alignment % 16 == 0) details::copy_pieces<16>(g, t, f, bytes);
    else if (alignment % 8 == 0) details::copy_pieces<8>(g, t, f, bytes);
    else details::copy_pieces<4>(g, t, f, bytes);
  } else {
    for (size_t i = g.thread_rank(); i < bytes; i += g.num_threads()) t[i] = f[i];
  }
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <class Group, class T> ORRERY_CG void memcpy_async(const Group& g, T* to, size_t to_count, const T* from, size_t from_count) {
  memcpy_async(g, (void*)to, (const void*)from, (to_count < from_count ? to_count : from_count) * sizeof(T));
}
template <class Group> ORRERY_CG void wait(const Group& g) {
  asm volatile("cp.async.wait_all;" ::: "memory");
  g.sync();
}
template <unsigned Stages, class Group> ORRERY_CG void wait_prior(const Group& g) {
  asm volatile("cp.async.wait_group %0;" ::"n"(Stages) : "memory");
  g.sync();
}
}  // namespace cooperative_groups
#endif
