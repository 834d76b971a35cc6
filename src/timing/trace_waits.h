// timing/trace_waits.h: what waiting leaves in a warp's stream of events, taken out again; private to
// trace.cc.
//
// How often a warp tries depends on how blocks were run, not on the program: only the try that passes stays.
// Lanes that come to a barrier apart meet there.
#pragma once
#include <cstdint>
#include <set>
#include <unordered_map>
#include <vector>

#include "timing/trace.h"

namespace orrery::timing {

/// Tries of a warp that may have to be taken out, by instruction.
struct Tries {
  struct Poll {
    size_t at = 0;                   // length of the stream before it
    uint32_t object = 0, phase = 0;  // what it waited for
  };
  std::unordered_map<uint32_t, Poll> failed;  // of mbarriers: the first that failed
  std::unordered_map<uint32_t, size_t>
      looks;  // at what other blocks write: length of the stream before the last one
};

/// A poll `e` of an mbarrier begins at `length` (its own entry into a block may follow there): what its lanes
/// did since a first one for the same phase failed goes. A poll for something else is no second try: who only
/// looked has done other work since.
void poll_again(std::vector<Event>& events, Tries& tries, const Event& e, size_t length);
/// It failed.
void poll_failed(const std::vector<Event>& events, Tries& tries, const Event& e);
/// A look `e` at what another block writes begins at `length`: an earlier one goes when nothing was done
/// between but looking.
void look_again(std::vector<Event>& events, Tries& tries, const Event& e, size_t length);
/// Lanes that came to a barrier of all threads earlier than others of their warp come with the last.
void meet_at_barriers(std::vector<Event>& events);

}  // namespace orrery::timing
