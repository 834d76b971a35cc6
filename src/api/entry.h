// api/entry.h: what every exported function shares: error codes, the current context, handles, streams.
//
// A function body runs inside runtime() or driver(): exceptions become codes, the runtime's become the thread's last
// error too. Handles that programs hold are pointers to the objects; Handles<T> knows which are alive, so that a stale
// or foreign handle is an error code and not a crash.
//
//   API(name) defines orrery_<name>, which src/api/runtime.def or driver.def exports as <name>
//   PER_THREAD(name, suffix) defines the variant whose default stream is the calling thread's own
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "api/abi_runtime.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/graph.h"
#include "device/launch.h"

namespace orrery::api {

using device::Context;
using device::Failure;
using device::require;
using device::Status;

/// Objects of one kind that programs hold handles of.
template <class T>
class Handles {
 public:
  T* add(std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    T* handle = object.get();
    live_[handle] = std::move(object);
    return handle;
  }
  /// Null when the handle is not alive.
  std::shared_ptr<T> find(const void* handle) const {
    std::shared_lock lock(mutex_);
    auto at = live_.find(static_cast<const T*>(handle));
    return at == live_.end() ? nullptr : at->second;
  }
  /// Throws Failure(code) when the handle is not alive.
  std::shared_ptr<T> get(const void* handle, Status code = Status::invalid_handle) const {
    auto object = find(handle);
    require(object != nullptr, code);
    return object;
  }
  std::shared_ptr<T> take(const void* handle, Status code = Status::invalid_handle) {
    std::unique_lock lock(mutex_);
    auto at = live_.find(static_cast<const T*>(handle));
    require(at != live_.end(), code);
    auto object = std::move(at->second);
    live_.erase(at);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const T*, std::shared_ptr<T>> live_;
};
/// The registry of a kind, never destroyed.
template <class T>
Handles<T>& handles() {
  static auto* const all = new Handles<T>;
  return *all;
}

/// Per-thread state of both APIs.
struct ThreadState {
  ThreadState() { device::watch_this_thread(); }
  int last_error = 0;
  int device = 0;                      // of the runtime
  std::vector<Context*> contexts;      // of the driver; the last is current
  bool per_thread_default = false;     // stream 0 means the thread's own stream
  int capture_mode = 0;
};
ThreadState& thread_state();

/// Runs a runtime function; keeps a failure as the thread's last error.
int runtime(const std::function<void()>& body);
/// Runs a driver function; codes that only the runtime has are mapped.
int driver(const std::function<void()>& body);
/// Like runtime(), for bodies that need the current context and fail when it is broken.
int runtime_in(const std::function<void(Context&)>& body);
int driver_in(const std::function<void(Context&)>& body);
/// Says a failure's explanation on standard error, once per text.
void explain(const std::string& text);

/// The context runtime calls of this thread use (made when there is none). Throws Failure.
Context& runtime_context();
/// The thread's current driver context. Throws Failure(invalid_context).
Context& driver_context();
void set_current(Context* context);
/// Throws Failure(not_initialized) before cuInit and any call of the runtime that needs a device.
void need_init();

/// The stream a handle means: 0, 1 (legacy), 2 (per thread) or a created one.
std::shared_ptr<device::Stream> stream_of(Context& context, const void* handle);

/// Major version of the runtime whose libraries the program uses: 12 or 13.
int runtime_version();
constexpr int kDriverVersion = 13000;

/// Code of an exported function by name, for entry point queries; null when it is not implemented.
void* find_driver_function(const std::string& name, int version, bool per_thread, bool* too_new);
void* find_runtime_function(const std::string& name, int version);
bool add_per_thread_variant(const char* name, void* function);

template <auto F>
struct PerThread;
template <class R, class... A, R (*F)(A...)>
struct PerThread<F> {
  static R call(A... arguments) {
    ThreadState& state = thread_state();
    const bool before = state.per_thread_default;
    state.per_thread_default = true;
    R result = F(arguments...);
    state.per_thread_default = before;
    return result;
  }
};

}  // namespace orrery::api

#define API(name) extern "C" int orrery_##name
#define PER_THREAD(name, suffix)                   \
  [[maybe_unused]] static const bool per_thread_##name = \
      ::orrery::api::add_per_thread_variant(#name #suffix, reinterpret_cast<void*>(&::orrery::api::PerThread<&orrery_##name>::call));
