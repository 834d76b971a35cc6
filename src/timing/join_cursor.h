// timing/join_cursor.h: where a warp's trace stands while its machine instructions are made; private to join.cc and walk.cc.
#pragma once
#include <unordered_map>
#include <vector>

#include "timing/join.h"

namespace orrery::timing {

struct Join::Cursor {
  const std::vector<Event>& events;
  std::vector<size_t> enters;                                    // positions of `enter` events
  std::unordered_map<uint32_t, std::vector<uint32_t>> of_pc;     // events of a PTX instruction
  std::unordered_map<uint32_t, size_t> next;                     // how many of them are used
};

}  // namespace orrery::timing
