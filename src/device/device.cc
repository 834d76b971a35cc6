// The simulated machine; see device.h.
#include "device/device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <thread>

#include <sys/syscall.h>
#include <unistd.h>

#include "device/code.h"
#include "exec/gpu_facts.h"

namespace orrery::device {
namespace {

std::string setting(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

exec::Options options_from_environment() {
  exec::Options options;
  options.threads = unsigned(std::strtoul(setting("ORRERY_THREADS", "0").c_str(), nullptr, 10));
  std::string schedule = setting("ORRERY_SCHEDULE");
  if (schedule.starts_with("random:")) options.seed = std::strtoull(schedule.c_str() + 7, nullptr, 10);
  options.livelock_seconds = std::strtod(setting("ORRERY_LIVELOCK", "10").c_str(), nullptr);
  options.timeout_seconds = std::strtod(setting("ORRERY_TIMEOUT", "0").c_str(), nullptr);
  options.interpret_only = setting("ORRERY_INTERPRET") == "1";
  options.fast_numerics = setting("ORRERY_NUMERICS") == "fast";
  return options;
}

std::atomic<bool> exists{false};

}  // namespace

Device::Device(int ordinal, const Profile& profile)
    : ordinal_(ordinal), profile_(profile), gpu_(exec::facts_of(profile)), total_memory_(uint64_t(profile.memory_total().count())) {
  default_pool_ = std::make_shared<MemoryPool>(*this);
  register_pool(default_pool_);
  pool_ = default_pool_;
}

uint64_t Device::free_memory() const {
  exec::DeviceMemory& memory = system().memory();
  uint64_t used = uint64_t(profile_.context_bytes().count()) + physical_bytes;
  for (exec::MemoryKind kind : {exec::MemoryKind::device, exec::MemoryKind::managed, exec::MemoryKind::module, exec::MemoryKind::array})
    used += memory.used(kind, ordinal_);
  return used > total_memory_ ? 0 : total_memory_ - used;
}

Context& Device::primary() {
  std::lock_guard lock(mutex_);
  if (!primary_) primary_ = std::make_unique<Context>(*this, primary_flags, true);
  return *primary_;
}

void Device::reset_primary() {
  std::lock_guard lock(mutex_);
  if (!primary_) return;
  primary_->synchronize();
  primary_->active = false;
  primary_.release();  // kept: handles of its objects may still be around
}

Context& Device::make_context(uint32_t flags) {
  std::lock_guard lock(mutex_);
  contexts_.push_back(std::make_unique<Context>(*this, flags, false));
  return *contexts_.back();
}

bool Device::idle() {
  std::lock_guard lock(mutex_);
  return (!primary_ || primary_->idle()) && std::ranges::all_of(contexts_, [](auto& context) { return context->idle(); });
}

std::shared_ptr<MemoryPool> Device::pool() {
  std::lock_guard lock(mutex_);
  return pool_;
}

void Device::set_pool(std::shared_ptr<MemoryPool> pool) {
  std::lock_guard lock(mutex_);
  pool_ = std::move(pool);
}

System::System() : options_(options_from_environment()), observer_(make_observer(memory_)), timer_(timing::LaunchTimer::from_environment()), quiet_(setting("ORRERY_QUIET") == "1"), process_(getpid()) {
  Profile profile = load_profile(setting("ORRERY_GPU", "h200"));
  int count = std::max(1, std::min(64, std::atoi(setting("ORRERY_DEVICES", "1").c_str())));
  for (int i = 0; i < count; i++) devices_.push_back(std::make_unique<Device>(i, profile));
  if (observer_) {
    memory_.observe(observer_.get());
  }
  if (!options_.interpret_only) code_ = make_code_provider(observer_ ? observer_->wants() : 0);
}

Device& System::device(int ordinal) {
  require(ordinal >= 0 && ordinal < device_count(), Status::invalid_device);
  return *devices_[size_t(ordinal)];
}

uint64_t System::allocate(Device& device, uint64_t bytes, exec::MemoryKind kind, uint64_t align) {
  if (kind != exec::MemoryKind::pinned && bytes > device.free_memory()) deferred_.run();  // which may free some
  if (kind != exec::MemoryKind::pinned) require(bytes <= device.free_memory(), Status::out_of_memory);
  uint64_t address = memory_.allocate(bytes, kind, device.ordinal(), align);
  require(address != 0, Status::out_of_memory);
  return address;
}

// Kernels that still run are of little use, since nobody will see their results; but many programs launch a last short one
// and end, which is no reason for a message. Compilation must have stopped before the libraries that it uses are torn down.
void System::finish() {
  if (getpid() != process_ || finished_.exchange(true)) return;  // a child made by fork() has none of the threads
  auto idle = [&] { return std::ranges::all_of(devices_, [](auto& device) { return device->idle(); }); };
  auto wait = [&](std::chrono::milliseconds longest) {
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (!idle() && std::chrono::steady_clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait(std::chrono::milliseconds(observer_ ? 30000 : 200));  // what is checked is let finish
  interrupt_ = 1;
  wait(std::chrono::milliseconds(2000));
  // A launch that does not end in time still holds the compiler: then nothing is left for its thread to do.
  if (code_) code_->abandon();
  if (idle()) code_.reset();
  if (observer_) observer_->process_end();
  interrupt_ = 0;  // destructors of the program may still launch something; it is interpreted
  if (record_.launches() == 0) return;
  const std::string& gpu = devices_[0]->profile().name();
  if (!quiet_) std::fprintf(stderr, "%s\n", record_.fidelity(gpu).c_str());
  if (const std::string path = setting("ORRERY_JSON"); !path.empty()) std::ofstream(path) << record_.json(gpu, device_count());
}

System& system() {
  static System* const the_system = [] {
    auto* made = new System;
    exists = true;
    std::atexit([] { system().finish(); });
    return made;
  }();
  return *the_system;
}

namespace {

// exit() destroys the calling thread's variables before anything else, and so before what LLVM made lazily, which a
// handler registered earlier could not. Only the main thread's end is the end of the process.
struct EndOfMainThread {
  bool touched = false;
  ~EndOfMainThread() {
    if (touched && syscall(SYS_gettid) == getpid()) system().finish();
  }
};
thread_local EndOfMainThread end_of_main_thread;

}  // namespace

void watch_this_thread() { end_of_main_thread.touched = true; }

bool system_exists() { return exists; }

}  // namespace orrery::device
