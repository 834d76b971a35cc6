// device/deferred.h: launches that have been timed and whose results nothing has asked for yet.
//
// Where launches are timed (timing/launch_timer.h) most of the time may go into what kernels compute, which a program that only measures never looks at.
// Such launches stand here in the order in which they would have run, with the memory that was freed behind them. They run when anything but a launch
// touches memory, or one whose time memory may decide; what stands here when the program ends is dropped.
// Invariant: a launch stands here only while there is no memory that the host may read by itself (managed, pinned) or that is shared with other processes, and only kernels that call nothing
// (printf, malloc, other kernels) and read no textures.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "device/work.h"

namespace orrery::device {

class Deferred {
 public:
  /// May a launch of the kernel stand here?
  bool takes(const exec::Kernel& kernel) const;
  void add(Context& context, const LaunchWork& work);
  /// Releases memory behind the launches that stand here; false when there are none.
  bool add_free(uint64_t address, std::function<void()> release);
  /// Was the memory freed behind launches that stand here?
  bool frees(uint64_t address);
  /// Runs all that stands here.
  void run();
  /// Another process may look at memory: runs all, and nothing stands here from now on.
  void stop();

 private:
  struct Entry {
    Context* context = nullptr;  // of a launch
    LaunchWork work;
    uint64_t address = 0;  // of memory that is freed
    std::function<void()> release;
  };
  std::recursive_mutex mutex_;  // held while they run: what comes meanwhile waits
  std::vector<Entry> entries_;
  std::atomic<bool> any_{false}, stopped_{false};
};

}  // namespace orrery::device
