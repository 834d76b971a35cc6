// timing/energy.h: joules of a launch by kind of event, and the clock that a board's limit leaves.
//
// An event's energy goes with the square of the voltage, which goes with the clock (of one launch); memory has a voltage of its own.
#pragma once
#include <algorithm>
#include <cmath>

namespace orrery::timing {

/// What a launch spends beside idle power, all clocks at their highest.
struct Spent {
  double chip = 0, memory = 0;  // joules: SMs and L2, whose voltage goes with the clock; device memory
  double cycles = 0, full_clock = 0;
  /// Watts beside idle power at a clock, where an event takes the share (clock / full_clock)^`power`.
  double watts(double clock, double power) const { return (chip * std::pow(clock / full_clock, power) + memory) * clock / cycles; }
  /// The highest clock from `from` down that keeps to `limit` watts beside idle power.
  double clock_within(double limit, double from, double power) const {
    if (watts(from, power) <= limit) return from;
    double low = 0, high = from;
    for (int i = 0; i < 50; i++) {
      const double middle = (low + high) / 2;
      (watts(middle, power) > limit ? high : low) = middle;
    }
    return low;
  }
};

}  // namespace orrery::timing
