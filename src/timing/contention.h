// timing/contention.h: whose turn it is to compare and swap, while blocks are traced side by side; private to trace.cc.
//
// A warp that comes to a compare and swap in a loop (swap_loops.h) is held, with all its lanes, until L2 serves it. L2 serves the lanes on one
// word one after the other, then any of the warps that wait for the word (calib/steps/contended.cu: who comes again does not wait for all that came
// before). Who was served after the word changed last expects what it holds when it comes back, others try in vain. What lies between two tries
// takes no time but that of the answer, which is later for half of the SMs: the word lies in one partition of L2.
//
// A warp that comes for the next piece of work has done one, which takes it as long as it has instructions: the first to come goes first.
#pragma once
#include <cstdint>
#include <random>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "exec/stepper.h"
#include "timing/trace.h"

namespace orrery::timing {

class Contention {
 public:
  explicit Contention(SwapTimes times) : times_(times) {}
  /// The lanes of `s` stand at a compare and swap: may they go on now? Else they are held.
  bool may_go(exec::Stepper& s, const exec::Decoded& d, uint32_t unit, bool for_work);
  /// Lets those go on whose turn is next, at most one for each word; their units, which are empty when nobody is held.
  std::vector<uint32_t> release();
  /// Did warps wait for each other? Else each found its word as it had seen it, and blocks might as well have been traced alone.
  bool crowded() const { return crowded_ * 10 > turns_; }

 private:
  struct Held {
    double comes = 0;                // when its request is at L2
    exec::WarpContext* warp = nullptr;
    uint32_t pc = 0, mask = 0, unit = 0;
  };
  struct Word {
    double free = 0;                 // when L2 is done with the lanes that it has served
    std::vector<Held> waiting;
    bool in_order = false;           // they come for work
    double next() const;
  };
  static constexpr double kInstruction = 8;  // cycles that a warp's instruction takes where it has work: blocks share it by that, whatever it is
  static constexpr double kTogether = 16;  // cycles within which the order of words does not matter
  static uint64_t key_of(const exec::WarpContext& w, int lane) { return reinterpret_cast<uint64_t>(&w) | uint32_t(lane); }
  uint32_t let_go(Word& word, double now);
  double way_of(uint32_t unit) { return times_.near + (unit & 1) * (times_.far - times_.near) + times_.spread * double(random_() >> 40) / double(1 << 24); }

  const SwapTimes times_;
  std::mt19937_64 random_{1};
  double now_ = 0;
  uint64_t turns_ = 0, crowded_ = 0;                               // those that went on, and those beside which others waited
  std::unordered_map<uint64_t, Word> words_;                       // by address / 32
  std::unordered_set<uint64_t> wanted_;                            // those for which somebody waits
  std::unordered_set<uint64_t> granted_;                           // warps and lanes
  static constexpr uint32_t kMostHeld = 256;  // times that all lanes of a warp are held: then those that have a lock go on while others want it
  std::unordered_map<const exec::WarpContext*, uint32_t> times_held_;
  struct Last {
    double comes = 0;                // when the next request of the warp can be at L2
    uint64_t instructions = 0;       // that it had executed
  };
  std::unordered_map<const exec::WarpContext*, Last> last_;
};

}  // namespace orrery::timing
