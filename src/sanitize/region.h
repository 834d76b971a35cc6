// sanitize/region.h: which memory an address names: shared memory of which block, a thread's local memory, or global.
#pragma once
#include "exec/observer.h"

namespace orrery::sanitize {

enum class Region : uint8_t {
  global,   // also const, and host memory
  shared,   // of `cta`
  local,    // of lane `lane` of the accessing warp
  param,
  outside,  // a shared or local address that lies in no block's or thread's memory
};

struct Target {
  Region region = Region::global;
  const exec::CtaContext* cta = nullptr;
  int lane = 0;
  uint64_t offset = 0;  // in the block's shared memory or the thread's local memory; global: the address
};

/// The first byte of an access by `lane`.
Target find_target(const exec::Where& where, isa::Space space, uint64_t address, int lane);

/// The block of the cluster whose shared memory holds the host address; null when none does.
const exec::CtaContext* shared_owner(const exec::CtaContext& any, const void* address, uint64_t* offset);

inline bool is_shared(isa::Space s) { return s == isa::Space::shared || s == isa::Space::shared_cta || s == isa::Space::shared_cluster; }

}  // namespace orrery::sanitize
