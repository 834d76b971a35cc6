// device/device.h: the simulated machine: its GPUs, their memory, and the options it was started with.
//
// There is one System in a process, made at the first call that needs it. All devices share one range of addresses
// (as unified addressing demands) and one memory; each has its profile, its contexts and its share of the memory.
// Options come from the environment, where `orrery run` puts them:
//
//   ORRERY_GPU=h200  ORRERY_DEVICES=N  ORRERY_SCHEDULE=random:SEED  ORRERY_TIMEOUT=seconds  ORRERY_THREADS=N
//   ORRERY_NUMERICS=exact|fast  ORRERY_INTERPRET=1  ORRERY_QUIET=1  ORRERY_JSON=file
//
// Not here: contexts (context.h), what the API says about a device (api/).
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/array.h"
#include "device/check.h"
#include "device/context.h"
#include "device/deferred.h"
#include "device/pool.h"
#include "device/record.h"
#include "exec/launch.h"
#include "exec/memory.h"
#include "profile/profile.h"
#include "timing/launch_timer.h"

namespace orrery::device {

class Device {
 public:
  Device(int ordinal, const Profile& profile);
  int ordinal() const { return ordinal_; }
  const Profile& profile() const { return profile_; }
  const exec::GpuFacts& gpu() const { return gpu_; }
  uint32_t capability() const { return uint32_t(gpu_.compute_capability); }
  uint64_t total_memory() const { return total_memory_; }
  uint64_t free_memory() const;

  /// The primary context, made when first asked for.
  Context& primary();
  bool primary_exists() const { return primary_ != nullptr; }
  void reset_primary();
  /// Another context; it lives as long as the process, like all handles of its objects.
  Context& make_context(uint32_t flags);
  /// Nothing is left to do in any context.
  bool idle();
  uint32_t primary_flags = 0;
  std::atomic<uint64_t> physical_bytes{0};  // PhysicalMemory of this device

  MemoryPool& default_pool() { return *default_pool_; }
  std::shared_ptr<MemoryPool> pool();
  void set_pool(std::shared_ptr<MemoryPool> pool);
  std::shared_ptr<MemoryPool> default_pool_ref() { return default_pool_; }

 private:
  const int ordinal_;
  Profile profile_;
  exec::GpuFacts gpu_;
  uint64_t total_memory_ = 0;
  std::mutex mutex_;
  std::unique_ptr<Context> primary_;
  std::vector<std::unique_ptr<Context>> contexts_;  // all others
  std::shared_ptr<MemoryPool> default_pool_, pool_;
};

class System {
 public:
  System();
  int device_count() const { return int(devices_.size()); }
  /// Throws Failure(invalid_device).
  Device& device(int ordinal);
  exec::DeviceMemory& memory() { return memory_; }
  exec::Options& options() { return options_; }
  exec::CodeProvider* code() { return code_.get(); }
  /// Null in a process that is not checked.
  exec::Observer* observer() { return observer_.get(); }
  /// Null in a process whose launches are not timed.
  timing::LaunchTimer* timer() { return timer_.get(); }
  /// Launches that were timed and have not been run; empty where none are timed.
  Deferred& deferred() { return deferred_; }
  std::atomic<uint32_t>& interrupt() { return interrupt_; }
  TextureTable& textures() { return textures_; }
  Record& record() { return record_; }
  /// Stops kernels and compilation, shows the fidelity line and writes the run record; at exit.
  void finish();
  bool quiet() const { return quiet_; }

  /// Device memory of `bytes`, zero-filled. Throws Failure(out_of_memory).
  uint64_t allocate(Device& device, uint64_t bytes, exec::MemoryKind kind, uint64_t align = 512);

 private:
  exec::DeviceMemory memory_;
  exec::Options options_;
  std::unique_ptr<exec::Observer> observer_;
  std::unique_ptr<timing::LaunchTimer> timer_;
  Deferred deferred_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::unique_ptr<exec::CodeProvider> code_;
  std::atomic<uint32_t> interrupt_{0};
  TextureTable textures_;
  Record record_;
  bool quiet_ = false;
  const int process_;
  std::atomic<bool> finished_{false};
};

/// The process's system; made on first use, never destroyed.
System& system();
/// Makes sure that the system finishes before the process does, when this is the main thread; each thread that calls
/// the API calls it once.
void watch_this_thread();
/// Whether system() was called already.
bool system_exists();

}  // namespace orrery::device
