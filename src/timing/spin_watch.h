// timing/spin_watch.h: finds that a block which is traced alone will spin for ever, long before it has executed all that a block may.
//
// After each turn of the unit: when the registers of all of its warps are what they were after an earlier turn, and no
// word that a kept instruction writes has changed in between, the machine is where it was and goes round for ever.
// Invariant: says so only of a unit that nobody runs beside. Waits that read the clock, or count, never come back to
// where they were and are left to the limit of instructions.
// Not here: why it spins (exec/wait_graph.h); waits in which no warp is ready (Unit::report_hang).
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "exec/unit.h"

namespace orrery::timing {

class SpinWatch {
 public:
  explicit SpinWatch(exec::RunState& run) : run_(run) {}
  ~SpinWatch();
  SpinWatch(const SpinWatch&) = delete;
  SpinWatch& operator=(const SpinWatch&) = delete;

  /// After a turn of `unit`, which has executed so many warp instructions. True, and the launch's fault tells why: it spins for ever.
  bool spins(const exec::Unit& unit, uint64_t instructions);

 private:
  exec::RunState& run_;
  uint64_t next_ = 2'000'000;  // instructions: from when on it is watched again
  uint64_t until_ = 0;         // and until when, while it is
  uint64_t changes_ = 0;
  std::unordered_map<uint64_t, int> seen_;  // states since the last change, how often
};

}  // namespace orrery::timing
