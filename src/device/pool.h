// device/pool.h: memory pools of stream-ordered allocation.
//
// Memory is handed out at the call and given back when the free is reached in its stream; freed blocks are kept for
// reuse up to the release threshold, as CUDA does, so that the pool's counters mean the same.
// Source: CUDA runtime API, stream ordered memory allocator.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "exec/memory.h"

namespace orrery::device {

class Device;

class MemoryPool {
 public:
  explicit MemoryPool(Device& device, uint64_t max_bytes = 0) : device_(device), max_bytes_(max_bytes) {}
  ~MemoryPool();
  Device& device() const { return device_; }

  /// Throws Failure(out_of_memory).
  uint64_t allocate(uint64_t bytes);
  /// False when the address is not one of this pool's.
  bool release(uint64_t address);
  bool owns(uint64_t address);
  void trim(uint64_t keep);

  struct Counters {
    uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  };
  Counters counters();
  void reset_high(bool reserved);
  uint64_t release_threshold = 0;
  int reuse_event = 1, reuse_opportunistic = 1, reuse_internal = 1;
  std::map<int, int> access;  // by device

 private:
  void trim_locked(uint64_t keep);

  Device& device_;
  const uint64_t max_bytes_;
  std::mutex mutex_;
  Counters counters_;
  std::map<uint64_t, uint64_t> live_;         // address -> bytes
  std::multimap<uint64_t, uint64_t> kept_;    // bytes -> address
};

/// Frees pool memory wherever it belongs; false when no pool has it.
bool release_pool_memory(uint64_t address);
void register_pool(std::weak_ptr<MemoryPool> pool);

}  // namespace orrery::device
