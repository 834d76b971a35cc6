// timing/join_cursor.h: where a warp's trace stands while its machine instructions are made; private to join.cc, issue.cc, entries.cc and walk.cc.
//
// PTX instructions are named by their place in Join's table (block_first_): events lie side by side, by place.
#pragma once
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "timing/join.h"

namespace orrery::timing {

struct Join::Cursor {
  /// Sorts a warp's events by PTX instruction.
  Cursor(const Join& join, const std::vector<Event>& warp);

  const std::vector<Event>& events;
  std::vector<size_t> enters;        // positions of `enter` events
  std::vector<uint32_t> positions;   // of all others, by place and then in order
  std::vector<uint32_t> first;       // where each place's begin among them; one more than there are places
  std::vector<uint32_t> next;        // of each place: how many are used
  uint32_t entered = UINT32_MAX;     // the PTX block whose entry the machine block that is issued uses,
  size_t entered_at = 0;             // and where among the events it is
  std::vector<std::pair<size_t, size_t>> put_off;              // events, from and to, of turns that most lanes do not do where an unrolled loop does them at once, but behind it
  std::map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> waiting;  // by place: their accesses, the machine instruction and the event
  std::vector<uint32_t> latest;      // of each place: the event that its last machine instruction took, or none

  size_t one_by_one = SIZE_MAX;      // where among the steps that begins which sets of lanes do one by one, and has not ended yet,
  uint32_t sets = 1;                 // and how many they are
  std::span<const uint32_t> of(uint32_t place) const { return {positions.data() + first[place], positions.data() + first[place + 1]}; }
};

}  // namespace orrery::timing
