// timing/launch_choice.h: which launches of a program are timed: those of some kernels, past the first few, as many as asked for.
// The options are those of Nsight Compute, with its meaning: a name is the function's alone, without namespaces, template arguments and
// parameters, and only launches of kernels that match are counted.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace orrery::timing {

/// What is asked for; as it stands, every launch.
struct LaunchFilter {
  std::string kernel;                    ///< the function's name, or regex:EXPRESSION (ECMAScript), which may match any part of it; empty: all
  uint64_t skip = 0, count = UINT64_MAX;  ///< launches of such kernels passed over, and timed after them
  bool kill = false;                     ///< the program ends with the last one that is timed
};

enum class Choice { time, pass, end };  ///< time it, only run it, or end the program in its place

/// A launch in the order of the program's calls: which of those of such kernels it is, from 0, and what becomes of it.
struct Turn {
  uint64_t number = 0;
  Choice choice = Choice::time;
};

class LaunchChoice {
 public:
  /// Throws std::runtime_error for an expression that is none.
  explicit LaunchChoice(const LaunchFilter& filter);
  ~LaunchChoice();

  /// The next launch of the program, of the kernel with this (mangled) name. May be called by several threads.
  Turn next(const std::string& mangled);

  /// Shall the program end now that so many launches have been timed?
  bool over(uint64_t timed) const { return filter_.kill && timed >= filter_.count; }

 private:
  struct Pattern;
  const LaunchFilter filter_;
  std::unique_ptr<Pattern> pattern_;
  std::mutex mutex_;
  uint64_t seen_ = 0;
};

}  // namespace orrery::timing
