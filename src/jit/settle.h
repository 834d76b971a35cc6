// jit/settle.h: making sure that registers are as compiled code describes them, after the interpreter has run.
#pragma once
#include <cstdint>

#include "exec/warp.h"

namespace orrery::jit {

/// One live register at an entry that compiled code keeps in fewer than 32 elements.
struct SettleEntry {
  uint32_t offset;   // in the frame
  uint32_t bytes;    // 4 or 8 for each lane; 0: a predicate
  uint32_t chunks;   // 1, 2 or 4
  uint32_t pattern;  // index of its first element in the pattern table
};

/// 0 when all live lanes agree with `rows`; then lanes that have exited are given values that agree, too. 1 when
/// lanes differ: the warp cannot run compiled code from here.
uint32_t settle_registers(const exec::WarpContext& w, const SettleEntry* rows, const int64_t* patterns, uint32_t n);

}  // namespace orrery::jit
