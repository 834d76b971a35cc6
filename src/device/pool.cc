// Memory pools; see pool.h.
#include "device/pool.h"

#include <algorithm>
#include <vector>

#include "device/device.h"

namespace orrery::device {
namespace {
std::mutex pools_mutex;
std::vector<std::weak_ptr<MemoryPool>>& pools() {
  static auto* all = new std::vector<std::weak_ptr<MemoryPool>>;
  return *all;
}
}  // namespace

void register_pool(std::weak_ptr<MemoryPool> pool) {
  std::lock_guard lock(pools_mutex);
  std::erase_if(pools(), [](auto& other) { return other.expired(); });
  pools().push_back(std::move(pool));
}

bool release_pool_memory(uint64_t address) {
  std::lock_guard lock(pools_mutex);
  for (auto& weak : pools())
    if (auto pool = weak.lock(); pool && pool->release(address)) return true;
  return false;
}

MemoryPool::~MemoryPool() {
  for (auto& [address, bytes] : live_) system().memory().release(address);
  trim_locked(0);
}

uint64_t MemoryPool::allocate(uint64_t bytes) {
  exec::Observer* const observer = system().observer();
  const uint64_t asked = bytes;
  bytes = std::max<uint64_t>((bytes + 511) / 512 * 512, 512);
  std::lock_guard lock(mutex_);
  require(max_bytes_ == 0 || counters_.used + bytes <= max_bytes_, Status::out_of_memory);
  uint64_t address;
  if (auto at = kept_.find(bytes); at != kept_.end() && !observer) {
    address = at->second;
    kept_.erase(at);
  } else {
    address = system().allocate(device_, bytes, exec::MemoryKind::device);
    counters_.reserved += bytes;
    counters_.reserved_high = std::max(counters_.reserved_high, counters_.reserved);
  }
  live_[address] = bytes;
  if (observer) observer->allocated({address, asked, bytes, exec::MemoryKind::device, device_.ordinal(), 0});  // exact to the byte
  counters_.used += bytes;
  counters_.used_high = std::max(counters_.used_high, counters_.used);
  return address;
}

bool MemoryPool::owns(uint64_t address) {
  std::lock_guard lock(mutex_);
  return live_.contains(address);
}

bool MemoryPool::release(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto at = live_.find(address);
  if (at == live_.end()) return false;
  counters_.used -= at->second;
  kept_.emplace(at->second, address);
  if (exec::Observer* o = system().observer()) o->released({address, at->second, at->second, exec::MemoryKind::device, device_.ordinal(), 0});
  live_.erase(at);
  // A little is kept even below a threshold of zero: CUDA gives memory back at synchronisation only.
  trim_locked(std::max<uint64_t>(release_threshold, counters_.used + (uint64_t{64} << 20)));
  return true;
}

void MemoryPool::trim(uint64_t keep) {
  std::lock_guard lock(mutex_);
  trim_locked(keep);
}

void MemoryPool::trim_locked(uint64_t keep) {
  while (!kept_.empty() && counters_.reserved > keep) {
    auto largest = std::prev(kept_.end());
    system().memory().release(largest->second);
    counters_.reserved -= largest->first;
    kept_.erase(largest);
  }
}

MemoryPool::Counters MemoryPool::counters() {
  std::lock_guard lock(mutex_);
  return counters_;
}

void MemoryPool::reset_high(bool reserved) {
  std::lock_guard lock(mutex_);
  if (reserved) counters_.reserved_high = counters_.reserved;
  else counters_.used_high = counters_.used;
}

}  // namespace orrery::device
