// timing/launch_timer.h: predicts each launch of a running program, in a forked process so that the program's memory
// stays as it is, and writes one JSON line for each to the file that $ORRERY_TIME names.
//
// $ORRERY_TIME_CACHE is cold or warm; $ORRERY_TIME_RESULTS says whether kernels are then run for their results as well:
// full, none, or auto (long ones when something asks for them, not when that would take minutes; the records of later launches say so). $ORRERY_TIME_KERNEL, _SKIP, _COUNT and _KILL choose
// launches (launch_choice.h); the others are only run.
#pragma once
#include <memory>

#include "exec/launch.h"
#include "profile/profile.h"
#include "timing/launch_choice.h"

namespace orrery::timing {

/// Is a launch run for what its kernel computes?
enum class Results { now, when_asked, none };  ///< when_asked: as soon as something may look at it

class LaunchTimer {
 public:
  /// Null when the environment does not ask for it.
  static std::unique_ptr<LaunchTimer> from_environment();
  virtual ~LaunchTimer() = default;
  /// What becomes of a launch of the kernel with this (mangled) name: asked for each in the order of the program's calls.
  virtual Turn turn(const std::string& mangled) = 0;
  /// Is its time told already, whatever is in memory?
  virtual bool knows(exec::Machine& machine, const exec::Launch& launch) = 0;
  /// Times a launch, one after the other if streams run side by side.
  virtual Results launch(exec::Machine& machine, const exec::Launch& launch, const Profile& profile, const Turn& turn) = 0;
};

}  // namespace orrery::timing
