// timing/touched_slices.h: which slices of L2 an SM has touched, and what its barriers of memory therefore ask them for.
//
// A barrier of memory for the GPU (a fence, a cluster's barrier that releases) of an H200 is sent to each slice that the SM has touched since
// the last one; at the end of a kernel each SM sends one to all that it has touched. Each is a sector for the profiler, and one more where it
// crosses to the other partition [calib/steps/ends.cu: 188 an SM, twice that with a fence, however many fences follow]. An H100 sends each to
// all, and what ends a kernel does not depend on it (ChipFigures::barrier_touched).
// Not here: when a fence is over (sm.cc), which slice serves a request (chip.cc: as far as times go).
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

#include "timing/chip.h"

namespace orrery::timing {

class TouchedSlices {
 public:
  static constexpr uint32_t kSlices = 96;
  /// The SM asks for, or writes to, that line (address / 128), or so many of all SMs do.
  void touch(uint64_t line, double of_all = 1) {
    const uint32_t slice = slice_of(line);
    of_all_ = std::max(of_all_, of_all);
    all_[slice / 64] |= uint64_t{1} << slice % 64, fresh_[slice / 64] |= uint64_t{1} << slice % 64;
  }
  /// Sectors that a barrier of memory costs an SM, to which a warp comes at `now`.
  double fence(const ChipFigures& f, double now) {
    const double sectors = f.barrier_touched ? of_all_ * f.barrier_sectors * count(fresh_) / kSlices : now < last_ + kTogether ? 0 : f.barrier_sectors;
    if (sectors) last_ = now;
    fresh_ = {}, of_all_ = 0;
    return sectors;
  }
  /// Slices touched so far.
  uint32_t touched() const { return count(all_); }
  /// Sectors that the end of a kernel costs an SM that touched so many slices while it ran a share of its blocks: the others touch as many more.
  static double at_end(const ChipFigures& f, double touched, double share) {
    return !f.barrier_touched ? 0 : f.barrier_sectors * (1 - std::pow(std::max(0.0, 1 - touched / kSlices), 1 / share));
  }

 private:
  using Slices = std::array<uint64_t, 2>;
  static constexpr double kTogether = 100;  // cycles: warps of an SM share a barrier that goes to all [H100, ends_fence_warps/2 and 4: one an SM, of eight 1.6]
  /// Of 4 KB eight, of 512 and 1,024 bytes two; of 16 KB 32, of 64 KB all [ends_store, ends_load and ends_bulk: 1.0, 1.8, 1.9, 3.6, 7.6, 29 and 94 for
  /// 256 bytes to 64 KB]. Words in lines of their own meet by chance [ends_words], and so do rows 4 KB apart [cast_parts_256/2, 128/2 and 64/2: 32, 64 and
  /// 128 rows of 28, 57 and 81 slices].
  static uint32_t slice_of(uint64_t line) {
    const uint64_t piece = line >> 5;
    return uint32_t((piece + (mix(piece >> 4) >> 30)) % 12 * 8 + (((line >> 1 & 1) | (line >> 2 & 6)) ^ (mix(piece) >> 40 & 7)));
  }
  static uint32_t count(const Slices& s) { return uint32_t(std::popcount(s[0]) + std::popcount(s[1])); }
  Slices all_{}, fresh_{};
  double last_ = -kTogether, of_all_ = 0;  // of_all_: the largest share of SMs that have touched what is fresh
};

}  // namespace orrery::timing
