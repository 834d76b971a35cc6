// Error codes, current contexts and streams; see entry.h.
#include "api/entry.h"

#include <unistd.h>

#include <cstdio>
#include <set>

namespace orrery::api {
namespace {

// Codes that exist in the runtime only, as the driver says them.
int driver_code(Status status) {
  switch (status) {
    case Status::invalid_configuration:
    case Status::invalid_pitch:
    case Status::invalid_channel_descriptor:
    case Status::invalid_memcpy_direction:
    case Status::invalid_texture: return 1;
    case Status::invalid_symbol: return 500;
    case Status::invalid_device_function: return 500;
    default: return int(status);
  }
}

// Programs built with CUDA 13 get cudaErrorInvalidValue for impossible launch shapes, older ones the specific code.
int runtime_code(Status status) {
  if (status == Status::invalid_configuration && runtime_version() >= 13) return 1;
  return int(status);
}

template <class Code>
int run(const std::function<void()>& body, Code code) {
  try {
    body();
    return 0;
  } catch (const Failure& failure) {
    if (*failure.what()) explain(failure.what());
    return code(failure.status());
  } catch (const std::bad_alloc&) {
    return int(Status::out_of_memory);
  } catch (const std::exception& error) {
    explain(error.what());
    return int(Status::unknown);
  }
}

}  // namespace

void explain(const std::string& text) {
  static std::mutex mutex;
  static auto* const said = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (said->size() < 1000 && said->insert(text).second) std::fprintf(stderr, "orrery: %s\n", text.c_str());
}

ThreadState& thread_state() {
  // Destructors of a program's static objects call cudaFree after the main thread's own thread_local objects are gone:
  // the pointer outlives them, and the main thread's state is never destroyed.
  thread_local ThreadState* state = nullptr;
  if (!state) {
    state = new ThreadState;
    struct Owner {
      ThreadState* of = state;
      ~Owner() {
        if (gettid() != getpid()) delete of, state = nullptr;
      }
    };
    thread_local Owner owner;
  }
  return *state;
}

int runtime(const std::function<void()>& body) {
  int code = run(body, runtime_code);
  if (code) thread_state().last_error = code;
  return code;
}

int driver(const std::function<void()>& body) { return run(body, driver_code); }

int runtime_in(const std::function<void(Context&)>& body) {
  return runtime([&] {
    Context& context = runtime_context();
    context.require_sound();
    body(context);
  });
}

int driver_in(const std::function<void(Context&)>& body) {
  return driver([&] {
    Context& context = driver_context();
    context.require_sound();
    body(context);
  });
}

Context& runtime_context() {
  ThreadState& state = thread_state();
  if (state.contexts.empty() || !state.contexts.back() || !state.contexts.back()->active) {
    Context& primary = device::system().device(state.device).primary();
    set_current(&primary);
  }
  return *state.contexts.back();
}

Context& driver_context() {
  ThreadState& state = thread_state();
  require(!state.contexts.empty() && state.contexts.back(), Status::invalid_context);
  require(state.contexts.back()->active, Status::context_destroyed);
  return *state.contexts.back();
}

void set_current(Context* context) {
  auto& stack = thread_state().contexts;
  if (stack.empty()) stack.push_back(context);
  else stack.back() = context;
  if (context) thread_state().device = context->device().ordinal();
}

std::shared_ptr<device::Stream> stream_of(Context& context, const void* handle) {
  uintptr_t value = reinterpret_cast<uintptr_t>(handle);
  if (value == 2 || (value == 0 && thread_state().per_thread_default)) return context.thread_stream();
  if (value <= 1) return context.legacy_stream();
  return handles<device::Stream>().get(handle);
}

}  // namespace orrery::api
