// graph/parallel.h: the same work for many items, on threads. Items are independent; what a thread throws reaches the caller.
#pragma once
#include <cstddef>
#include <functional>

namespace orrery::graph {

/// Calls `work(i)` once for each i below `items`, on `threads` threads (0: as many as the machine has), on no more than
/// there are items and at most 1,024. Throws what a call threw first; items not begun by then are left out.
void in_parallel(std::size_t items, int threads, const std::function<void(std::size_t)>& work);

}  // namespace orrery::graph
