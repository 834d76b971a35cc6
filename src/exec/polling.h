// exec/polling.h: what spinning threads look at, and whether anything still changes.
//
// While a launch is watched, the interpreter tells of every access to global and shared memory: which word a warp read,
// and whether a store or atomic changed its word. A launch in which all resident warps only spin and no word changes for
// some seconds cannot go on (scheduler.cc): that is a livelock, and what the warps last looked at explains it.
// A checked launch is watched from its start, so that the last change of a word is known; then changes by atomics and
// strong stores are kept, those by plain stores are not.
//
// Invariant: `changes` counts everything that may let another thread go on, and what may be a look at the time.
// While threads are only watched for what they spin on (`spinning`), a launch runs no compiled code. Before that it may:
// then changes by what compiled code leaves to exec/ are known.
#pragma once
#include <string>
#include <unordered_map>

#include "exec/stepper.h"

namespace orrery::exec {

/// One look at a word in memory.
struct Poll {
  const DecodedProgram* code = nullptr;
  uint32_t pc = 0, lanes = 0;
  uint64_t address = 0, value = 0;
  std::string who;                 // of a change
};

class Polling {
 public:
  explicit Polling(bool from_start) : from_start_(from_start) {}

  /// Around the execution of one instruction by the interpreter.
  void before(Stepper& s, const Decoded& d);
  void after(Stepper& s, const Decoded& d);

  /// The latest look of lanes of `mask`; null when they have not looked.
  const Poll* of(const WarpContext& w, uint32_t mask) const;
  /// The latest look of anybody at `address`.
  const Poll* at(uint64_t address) const;
  /// The last atomic or strong store that changed the word, where that is known.
  const Poll* last_change(uint64_t address) const;
  /// Every warp that looked at memory looked at the same few words again and again, which only kernels write.
  bool looks_in_vain(const DeviceMemory& memory) const;
  /// Forgets looks, not changes: a new round of spinning begins.
  void restart() { looks_.clear(); }

  bool spinning = false;  // all accesses count, not only strong ones
  uint64_t changes = 0;

 private:
  bool touches_memory(const Decoded& d) const;

  const bool from_start_;
  uint64_t address_[32] = {}, value_[32] = {};
  uint32_t bytes_ = 0, lanes_ = 0;       // of the instruction in flight; lanes_ 0: it is no access to memory
  struct Looks {
    static constexpr size_t kMost = 8;
    std::vector<Poll> at;                // different places and words, the latest look last
    bool roams = false;                  // more than that: the warp reads data, it does not wait
  };
  void look(Looks& looks, const Poll& poll);
  std::unordered_map<const WarpContext*, Looks> looks_;
  std::unordered_map<uint64_t, Poll> changed_;
};

/// Whether every access must be seen: no compiled code then.
inline bool is_watched(const RunState& run) { return run.polling && run.polling->spinning; }

}  // namespace orrery::exec
