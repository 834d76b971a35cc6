// timing/sm_apart.cc: how far the same blocks of other SMs are from where the detailed one is: what decides which of their requests
// come while another waits for the same data, and so become one with it (chip.h).
//
// SMs that begin together drift apart with every round trip to L2, since no two are equally far from it; blocks that share an SM drift
// faster, each as often as it may issue. What all wait for together from memory brings them together again, unless half of it is
// shared with some SMs and half with others. Blocks after the first of an SM begin when others are in the midst of theirs. One number
// of each block, a standard deviation, stands for all that; each ghost's place in it is drawn. Both SMs of a TPC are at one place in a
// third of the cases: what one response brought to both keeps them together.
// Not here: times, which go by the detailed block (sm_memory.cc): no SM waits for what this file draws.
#include <cmath>

#include "timing/sm_state.h"

namespace orrery::timing {

namespace {

// Chosen so that the requests that are left of calib/steps/together.cu and pipeline.cu come out (cases in brackets).
constexpr double kBegin = 50;          // cycles by which SMs begin apart
constexpr double kTrip = 5;            // a round trip to L2: clocks that SMs read in steps_work, warm, part by 4.9 to 5.7 cycles each (a run that was not kept)
constexpr double kCopyTrip = 1.5;        // the same of the copy engine, which runs ahead [tile_no_ends/16]
constexpr double kBlocksOfSm = 0.02;   // of the time in which blocks that share an SM do not wait [tiles64/16 to 256]
constexpr double kLater = 0.15, kCopyLater = 0.04;  // of the time that a block took, for the one after it [steps_many/4224; tile_blocks/4 to 16]
constexpr double kWithSome = 400, kCopyWithSome = 60;  // where half is shared with some and half with others [tiles64_grid/8; ring_one, ring_two]
constexpr double kTowards = 0.25;      // of the way to it with each wait
constexpr double kLeast = 5;           // always
constexpr double kCopyHolds = 0.1;     // of what a copy is late, the rest of its ring takes up the other [ring_own, share_blocks]
constexpr double kBeyondHit = 60;      // cycles
constexpr double kTpcTogether = 0.35;  // of TPCs [tiles64/256, steps_work_long/256]

/// What 256 equal parts of a normal distribution lie at.
struct Normal {
  float at[256];
  Normal() {
    for (int i = 0; i < 256; i++) {
      double low = -5, high = 5;
      for (int k = 0; k < 40; k++) {
        const double middle = (low + high) / 2;
        (0.5 * std::erfc(-middle / std::sqrt(2.0)) < (i + 0.5) / 256 ? low : high) = middle;
      }
      at[i] = float(low);
    }
  }
};
const Normal normal;

}  // namespace

/// Where a block stands that begins at `now` in the place of `before`, if that was used.
void Sm::State::begin_apart(Slot& fresh, const Slot& before, double now) const {
  fresh.apart = before.began > 0 ? before.apart + (tma > 0 ? kCopyLater : kLater) * (now - before.began) : kBegin;
  fresh.began = fresh.last_trip = std::max(1.0, now);
}

/// Cycles by which an SM's block is behind the middle of all, for the block that asks.
float Sm::State::late_of(uint32_t sm) const {
  const uint64_t tpc = mix((sm >> 1) + asking_key + 1000);
  const bool together = double(tpc >> 20 & 255) < kTpcTogether * 256;
  return asking_apart * normal.at[(together ? tpc : mix(sm + asking_key + 5000)) >> 32 & 255];
}

/// A warp has waited `waited` cycles from `at` on, for data of which the share `found` others have asked for, the ghosts `mates` for all.
void Sm::State::note_trip(const WarpRun& w, double at, double waited, double found, uint64_t mates) {
  Slot& slot = slots[w.slot];
  const double trips = copies ? 1.0 : 1.0 / slot.warps;
  uint32_t used = 0;
  for (const Slot& other : slots) used += other.used;
  if (used > 1) slot.apart += kBlocksOfSm * (std::max(0.0, at - slot.last_trip) - waited * trips);
  slot.last_trip = std::max(slot.last_trip, at);
  slot.apart += (copies ? kCopyTrip : kTrip) * trips;
  if (mates && slot.mates && slot.mates != mates) slot.of_several = true;
  if (mates) slot.mates = mates;
  if (mates && waited > f.l2_far_latency + kBeyondHit) {  // from memory
    if (slot.of_several) slot.apart += trips * kTowards * (copies ? kCopyHolds : 1) * ((copies ? kCopyWithSome : kWithSome) - slot.apart);
    else slot.apart -= trips * (copies ? kCopyHolds : 1) * found * (waited - f.l2_latency - kBeyondHit);
  }
  slot.apart = std::max(kLeast, slot.apart);
}

}  // namespace orrery::timing
