// sanitize/allocations.h: what is allocated, what was, and what an address has to do with it, in words.
//
// Freed allocations are remembered: a checked process does not use an address again. Lookups of neighbouring addresses
// are cheap (the last allocation is kept). Not thread-safe: the checker locks.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "exec/memory.h"

namespace orrery::sanitize {

struct Block {
  uint64_t begin = 0, end = 0;
  exec::MemoryKind kind = exec::MemoryKind::device;
  uint64_t number = 0;      // which allocation of the process it is, from 1
  bool constant = false;
  bool on_device = false;   // by malloc in a kernel
  bool freed = false;
  std::string name;         // of the variable
  std::string freed_by;     // in words
};

class Allocations {
 public:
  void add(uint64_t address, uint64_t bytes, exec::MemoryKind kind);
  void add_device_malloc(uint64_t address, uint64_t bytes);
  void remove(uint64_t address, const std::string& by);
  void name(uint64_t address, const std::string& name, bool constant);

  /// The live block that holds all of [address, address + bytes); null when none does.
  const Block* holder(uint64_t address, uint64_t bytes);
  /// The block, live or freed, that an address outside all live ones most likely was meant for; null when there is none.
  const Block* nearest(uint64_t address);
  const std::map<uint64_t, Block>& live() const { return live_; }

  /// "is 16 bytes past the end of the 1024-byte allocation at 0x... (cudaMalloc number 3)".
  std::string relation(uint64_t address, uint64_t bytes, std::string* kind, std::string* remedy);

 private:
  std::map<uint64_t, Block> live_, freed_;
  const Block* last_ = nullptr;
  uint64_t count_ = 0;
};

std::string describe(const Block& block);

}  // namespace orrery::sanitize
