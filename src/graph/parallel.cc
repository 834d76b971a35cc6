// graph/parallel.cc: see parallel.h.
#include "graph/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace orrery::graph {

void in_parallel(std::size_t items, int threads, const std::function<void(std::size_t)>& work) {
  constexpr std::size_t kMostThreads = 1024;
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failing;
  auto loop = [&] {
    try {
      for (std::size_t i; (i = next++) < items;) work(i);
    } catch (...) {
      std::lock_guard lock(failing);
      if (!failure) failure = std::current_exception();
      next = items;
    }
  };
  std::size_t count = threads > 0 ? static_cast<std::size_t>(threads) : std::max(1u, std::thread::hardware_concurrency());
  count = std::min({count, items, kMostThreads});
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) others.emplace_back(loop);
  loop();
  others.clear();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace orrery::graph
