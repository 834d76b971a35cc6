// exec/wgmma_queue.h: wgmma instructions that a unit's warps have issued and not yet carried out.
//
// A wgmma waits here for the end of its group: the wait_group by which all four warps of the warpgroup have committed it.
// Then a chain of instructions on the same D is carried out at once, for all four warps: B is read and arranged once, and
// accumulators stay in the host's registers. Shared memory is read then; A's registers are read at issue.
//
// Invariant: a warp's instructions are carried out in the order of their issue. What is never waited for is dropped when
// the next block starts: nobody can see it. Only for kernels whose other instructions do not touch the accumulators
// meanwhile (lower/in_flight.h); or for all but copies of them under `orrery check`, where such a use shall find old values.
#pragma once
#include <array>
#include <cstring>
#include <vector>

#include "exec/stepper.h"
#include "sem/tensor.h"

namespace orrery::exec {

class WgmmaQueue {
 public:
  static constexpr uint32_t kWarps = 4;   // of a warpgroup
  static constexpr size_t kMaxChain = 16;  // instructions carried out at once

  void clear() {
    if (!used_) return;
    for (Warpgroup& g : groups_) g.clear();
    used_ = false;
  }
  /// `o` may point to registers: their words are copied.
  void add(const Stepper& s, const Decoded& d, const sem::WgmmaOperands& o);
  /// Carries out what belongs to the groups before number `end` of the warpgroup of s.w.
  Next carry_out(Stepper& s, uint32_t end);
  bool empty() const { return !used_; }

 private:
  /// One warp's instruction. Its operands point into it.
  struct One {
    const Decoded* d = nullptr;
    uint32_t pc = 0, group = 0;
    sem::WgmmaOperands operands;
    uint32_t n_a = 0;  // A's registers
  };
  using Words = std::array<std::array<uint32_t, 32>, 5>;  // of A and the metadata
  struct Queue {
    std::vector<One> ones;  // [first, n) are there; the rest is room
    std::vector<Words> words;
    size_t first = 0, n = 0;
  };
  struct Warpgroup {
    std::array<Queue, kWarps> warps;
    void clear() {
      for (Queue& q : warps) q.first = q.n = 0;
    }
  };
  Warpgroup& of(const WarpContext& w);
  Next run(Stepper& s, Warpgroup& g, uint32_t first_warp, uint32_t warps, const std::array<size_t, kWarps>& counts);

  std::vector<Warpgroup> groups_;
  std::vector<sem::WgmmaOperands> steps_;
  bool used_ = false;
};

}  // namespace orrery::exec
