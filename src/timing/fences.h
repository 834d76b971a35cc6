// timing/fences.h: barriers of memory of an SM that are under way together.
//
// One that finds nothing to wait for passes by itself, 9.75 cycles behind the one before it. Where the SM has touched L2 since the last one, or has put
// words into other blocks' shared memory or asked for some that are not there yet, it opens a round: it waits for these (`open`), then for as long as any
// barrier of memory takes (`ends`). Who comes while the round is open joins it, and whoever is in it goes on at its end, together; who comes later waits for
// its end and opens the next one. So the blocks of an SM that meet come to go in step, and their accesses lie between rounds rather than beside them
// [calib/fences.cu: store_fence of 1, 2, 4 ... 64 warps 557, 611, 670, 736, 784, 871, 1,160 cycles a round; calib/steps/peers.cu: meet_put4_1_2 and
// meet_take4_1_2 of 1, 2, 4 and 8 blocks]. Warps of a block that has met come all at once; those that come long behind the first are late for its round, but
// where stores that are not there yet and other blocks' warps keep it open [calib/drains.cu]. Why is not known: two rounds are what was measured.
// Those that have nothing of their own on its way wait for slices one beside the other. All wait for the bulk copies that the SM's engine has under way or
// is given before slices have answered, as far as it has asked for them by then [calib/copy_fences.cu]; not for what other blocks' engines copy here.
// Not here: how a warp comes to one (sm_fences.cc); which slices of L2 it asks (touched_slices.h).
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace orrery::timing {

inline constexpr double kFenceOfWarp = 9.75;  // cycles until the next barrier of memory of an SM may follow [fences.cu: fence, 64 warps: 624 cycles a round]
inline constexpr double kFenceQueue = 39;     // ... and for which one that finds nothing under way may wait without taking longer [fences.cu: meet of 1, 4 and 8 warps 356, 366 and 380 cycles; barrier.cluster.4ctas]
inline constexpr double kStoreTravels = 72;   // cycles from a store until L2 has taken it, for which slices need not wait any more [fences.cu: store_fence, one warp 557 cycles a round, fence 280]
inline constexpr double kRemoteStored = 95;   // cycles from where a store to another block has left until that one has it [meet_put_threads_2/32: 440 cycles a round, meet_threads_2/32: 345]
inline constexpr double kFenceOpen = 100;     // cycles for which a round that slices need not answer stays open behind the last that joined it [meet_put4_1_2/2 to 8]
inline constexpr double kFenceLate = 100;     // of a block that has just met, warps that come so long behind its first do not join its round [drains.cu: fence_bar of 8, 12 and 16 warps 688, 889 and 1,062 cycles]
inline constexpr double kFenceBehind = 60;    // cycles behind one that waits for slices in which those end that began meanwhile and find nothing else [copy_fences.cu: shot, second: 67 to 430 cycles behind one of 680, both over after 740]
inline constexpr double kSliceSpread = 27;    // cycles by which the farthest of twice as many slices answers later ...
inline constexpr double kSlicesApart = 96;    // ... up to so many [fences.cu: store_fence of 1 to 16 warps; drains.cu: meet of 1 to 8; copy_fences.cu: shot behind copies of 1 to 196 KB that have come: 526 to 694 cycles]
inline constexpr double kAsksAhead = 1.4;     // times as fast as data come a copy engine asks for them [copy_fences.cu: shot, one SM, 4 copies of 48 KB: fences 100 to 800 cycles behind]

/// A copy into shared memory: since when its engine has had something to copy, from when to when the copy's lines come, and when the last is there.
struct CopyUnderWay {
  double busy = 0, begins = 0, ends = 0, done = 0;
  /// When what the engine has asked for by `when` is there; 0 where that is nothing of it.
  double there(double when) const {
    const double seen = busy + kAsksAhead * (when - busy);
    return begins <= seen ? done - std::max(0.0, ends - seen) : 0;
  }
};

struct Fences {
  struct Waiting {
    uint32_t warp = 0;
    double answered = 0;          // when all is there that it waits for but copies
  };
  double free = 0;                // when the next may begin
  double begins = -1e9, open = -1e9, ends = -1;  // of the latest round
  double first = 0, there = 0;    // when what its first warp and all of them wait for, but for slices, is there
  double slices = 0;              // that answer
  double opened = -1, opener = -1;  // of those that wait for slices alone the first: when it began and slices have answered it
  bool touched = false;           // do any?
  std::vector<Waiting> warps;     // in it
};

}  // namespace orrery::timing
