// sanitize/allocations.cc: see allocations.h.
#include "sanitize/allocations.h"

#include <fmt/format.h>

namespace orrery::sanitize {

using exec::MemoryKind;

void Allocations::add(uint64_t address, uint64_t bytes, MemoryKind kind) {
  last_ = nullptr;
  freed_.erase(address);
  Block& b = live_[address];
  b = {};
  b.begin = address, b.end = address + bytes;
  b.kind = kind;
  if (kind == MemoryKind::device || kind == MemoryKind::managed || kind == MemoryKind::pinned || kind == MemoryKind::array) b.number = ++count_;
}

void Allocations::add_device_malloc(uint64_t address, uint64_t bytes) {
  add(address, bytes, MemoryKind::heap);
  live_[address].on_device = true;
}

void Allocations::remove(uint64_t address, const std::string& by) {
  last_ = nullptr;
  auto node = live_.extract(address);
  if (node.empty()) return;
  node.mapped().freed = true;
  node.mapped().freed_by = by;
  freed_[address] = std::move(node.mapped());
}

void Allocations::name(uint64_t address, const std::string& name, bool constant) {
  if (auto it = live_.find(address); it != live_.end()) it->second.name = name, it->second.constant = constant;
}

const Block* Allocations::holder(uint64_t address, uint64_t bytes) {
  if (last_ && address >= last_->begin && address + bytes <= last_->end) return last_;
  auto it = live_.upper_bound(address);
  while (it != live_.begin()) {
    --it;
    const Block& b = it->second;
    if (address + bytes <= b.end && address >= b.begin) return last_ = &b;
    if (address < b.end) {  // mappings side by side (cuMemMap) are one piece of memory
      uint64_t end = b.end;
      for (auto next = std::next(it); next != live_.end() && next->first == end && end < address + bytes; ++next) end = next->second.end;
      if (end >= address + bytes && !b.on_device) return &b;
    }
    // The heap is one block that holds the blocks of device malloc: those before the address do not hold it.
    if (!b.on_device) return nullptr;
  }
  return nullptr;
}

const Block* Allocations::nearest(uint64_t address) {
  if (auto it = freed_.upper_bound(address); it != freed_.begin())
    if (const Block& b = std::prev(it)->second; address < b.end) return &b;
  const Block* best = nullptr;
  uint64_t distance = ~uint64_t{0};
  auto it = live_.upper_bound(address);
  if (it != live_.end()) best = &it->second, distance = it->first - address;
  if (it != live_.begin()) {
    const Block& b = std::prev(it)->second;
    if (address - b.end <= distance) best = &b;  // past an end is likelier than before a beginning
  }
  return best;
}

std::string describe(const Block& b) {
  const uint64_t size = b.end - b.begin;
  if (!b.name.empty()) return fmt::format("the {}-byte {} variable {} at {:#x}", size, b.constant ? "constant" : "device", b.name, b.begin);
  if (b.on_device) return fmt::format("the {}-byte block at {:#x} that malloc in a kernel returned", size, b.begin);
  const char* what = b.kind == MemoryKind::managed ? "managed" : b.kind == MemoryKind::pinned ? "host" : b.kind == MemoryKind::array ? "array" : "device";
  if (!b.number) return fmt::format("the {} bytes at {:#x}", size, b.begin);
  return fmt::format("the {}-byte {} allocation at {:#x} (number {} of the process)", size, what, b.begin, b.number);
}

std::string Allocations::relation(uint64_t address, uint64_t bytes, std::string* kind, std::string* remedy) {
  *kind = "out-of-bounds";
  *remedy = "check the index against the number of elements, and the size that was asked for when the memory was allocated";
  const Block* b = nearest(address);
  if (address < 4096) {
    *kind = "null-pointer";
    *remedy = "pass a pointer that an allocation returned; check the pointer before the launch";
    return fmt::format("is a null pointer plus {}", address);
  }
  if (!b) {
    *kind = "invalid-pointer";
    return "is in no allocation; nothing is allocated";
  }
  if (b->freed && address < b->end && address >= b->begin) {
    *kind = "use-after-free";
    *remedy = "free the memory after its last use, or wait for the work that uses it before freeing";
    return fmt::format("is {} bytes into {}, which was freed{}", address - b->begin, describe(*b), b->freed_by);
  }
  if (address >= b->begin && address < b->end) return fmt::format("begins {} bytes before the end of {} and goes beyond it", b->end - address, describe(*b));
  if (address == b->end) return fmt::format("is just past the end of {}", describe(*b));
  if (address > b->end) return fmt::format("is {} bytes past the end of {}", address - b->end, describe(*b));
  return fmt::format("is {} bytes before the beginning of {}", b->begin - address, describe(*b));
}

}  // namespace orrery::sanitize
