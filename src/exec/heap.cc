// exec/heap.cc: see heap.h.
#include "exec/heap.h"

namespace orrery::exec {

Heap::Heap(DeviceMemory& memory, uint64_t bytes) : memory_(memory), base_(memory.allocate(bytes, MemoryKind::heap, 0)) {
  if (base_) free_[base_] = bytes & ~uint64_t{15};
}

Heap::~Heap() {
  if (base_) memory_.release(base_);
}

uint64_t Heap::allocate(uint64_t bytes) {
  const uint64_t want = (bytes + 15) / 16 * 16;
  if (want < bytes || want == 0) return 0;
  std::lock_guard lock(mutex_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < want) continue;
    const uint64_t address = it->first, rest = it->second - want;
    free_.erase(it);
    if (rest) free_[address + want] = rest;
    used_[address] = want;
    return address;
  }
  return 0;
}

bool Heap::release(uint64_t address) {
  if (address == 0) return true;
  std::lock_guard lock(mutex_);
  const auto it = used_.find(address);
  if (it == used_.end()) return false;
  uint64_t start = it->first, size = it->second;
  used_.erase(it);
  auto after = free_.lower_bound(start);
  if (after != free_.end() && start + size == after->first) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == start) {
      before->second += size;
      return true;
    }
  }
  free_[start] = size;
  return true;
}

}  // namespace orrery::exec
