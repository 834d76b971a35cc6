// exec/heap.h: the heap of device-side malloc and free, one per device, kept from launch to launch.
//
// First fit over a map of free spans, joined when freed; every block is 16-byte aligned. Thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

#include "exec/memory.h"

namespace orrery::exec {

class Heap {
 public:
  Heap(DeviceMemory& memory, uint64_t bytes);
  ~Heap();
  /// 0 when the heap has no room.
  uint64_t allocate(uint64_t bytes);
  /// False when `address` is no live block of this heap (null is fine).
  bool release(uint64_t address);

 private:
  DeviceMemory& memory_;
  uint64_t base_ = 0;
  std::mutex mutex_;
  std::map<uint64_t, uint64_t> free_, used_;  // address -> bytes
};

}  // namespace orrery::exec
