// Driver API: initialisation, devices, contexts, errors, entry points.
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "api/abi_driver.h"
#include "api/attributes.h"
#include "api/errors.h"
#include "api/launching.h"
#include "api/memory_calls.h"
#include "api/stream_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::Device;
using orrery::device::system;

namespace {

CUcontext to_handle(Context* context) { return reinterpret_cast<CUcontext>(context); }

// Contexts live as long as the process; a destroyed one is only marked.
std::mutex contexts_mutex;  // never held while waiting for work
std::set<Context*>& known_contexts() {
  static auto* const all = new std::set<Context*>;
  return *all;
}

Context* context_of(CUcontext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  if (!context) return nullptr;
  for (int i = 0; i < system().device_count(); i++)
    if (system().device(i).primary_exists() && &system().device(i).primary() == context) return context;
  std::lock_guard lock(contexts_mutex);
  require(known_contexts().contains(context), Status::invalid_context);
  return context;
}

bool initialised = false;

int on_device(CUdevice ordinal, const std::function<void(Device&)>& body) {
  return driver([&] {
    need_init();
    body(system().device(ordinal));
  });
}

int create_context(CUcontext* out, unsigned flags, CUdevice ordinal) {
  return driver([&] {
    need_init();
    require(out != nullptr, Status::invalid_value);
    Context* context = &system().device(ordinal).make_context(flags);
    {
      std::lock_guard lock(contexts_mutex);
      known_contexts().insert(context);
    }
    thread_state().contexts.push_back(context);
    *out = to_handle(context);
  });
}

}  // namespace

// The runtime initialises the driver when it first needs a device, and with it the system of devices.
void orrery::api::need_init() { require(initialised || device::system_exists(), Status::not_initialized); }

void orrery::api::wait_for_use_by_all() {
  std::vector<Context*> all;
  for (int i = 0; i < system().device_count(); i++)
    if (system().device(i).primary_exists()) all.push_back(&system().device(i).primary());
  {
    std::lock_guard lock(contexts_mutex);
    all.insert(all.end(), known_contexts().begin(), known_contexts().end());
  }
  for (Context* context : all) wait_for_use(*context);
}

API(cuInit)(unsigned flags) {
  return driver([&] {
    require(flags == 0, Status::invalid_value);
    system();
    initialised = true;
  });
}
API(cuDriverGetVersion)(int* version) {
  return driver([&] {
    require(version != nullptr, Status::invalid_value);
    *version = kDriverVersion;
  });
}
API(cuGetErrorName)(int code, const char** name) {
  *name = driver_error_name(code);
  return *name ? 0 : 1;
}
API(cuGetErrorString)(int code, const char** text) {
  *text = is_driver_code(code) ? error_text(code) : nullptr;
  return *text ? 0 : 1;
}
API(cuGetProcAddress_v2)(const char* name, void** out, int version, uint64_t flags, int* result) {
  return driver([&] {
    require(name != nullptr && out != nullptr, Status::invalid_value);
    bool too_new = false;
    *out = find_driver_function(name, version, flags & 2, &too_new);
    if (result) *result = *out ? 0 : too_new ? 2 : 1;
    require(*out != nullptr, Status::not_found);
  });
}
API(cuGetProcAddress)(const char* name, void** out, int version, uint64_t flags) { return orrery_cuGetProcAddress_v2(name, out, version, flags, nullptr); }

API(cuDeviceGetCount)(int* count) {
  return driver([&] {
    need_init();
    require(count != nullptr, Status::invalid_value);
    *count = system().device_count();
  });
}
API(cuDeviceGet)(CUdevice* out, int ordinal) {
  return on_device(ordinal, [&](Device&) { *out = ordinal; });
}
API(cuDeviceGetName)(char* name, int length, CUdevice device) {
  return on_device(device, [&](Device& d) { std::snprintf(name, size_t(length), "%s", d.profile().name().c_str()); });
}
API(cuDeviceGetUuid_v2)(char* uuid, CUdevice device) {
  return on_device(device, [&](Device& d) {
    cudaDeviceProp13 p;
    fill_properties(p, d);
    std::memcpy(uuid, p.uuid.bytes, 16);
  });
}
API(cuDeviceGetUuid)(char* uuid, CUdevice device) { return orrery_cuDeviceGetUuid_v2(uuid, device); }
API(cuDeviceTotalMem_v2)(size_t* bytes, CUdevice device) {
  return on_device(device, [&](Device& d) { *bytes = d.total_memory(); });
}
API(cuDeviceGetAttribute)(int* value, int attribute, CUdevice device) {
  return on_device(device, [&](Device& d) {
    require(value != nullptr, Status::invalid_value);
    *value = device_attribute(d, attribute);
  });
}
API(cuDeviceComputeCapability)(int* major, int* minor, CUdevice device) {
  return on_device(device, [&](Device& d) {
    *major = device_attribute(d, 75);
    *minor = device_attribute(d, 76);
  });
}
API(cuDeviceGetProperties)(CUdevprop* out, CUdevice device) {
  return on_device(device, [&](Device& d) {
    auto get = [&](int attribute) { return device_attribute(d, attribute); };
    *out = {get(1), {get(2), get(3), get(4)}, {get(5), get(6), get(7)}, get(8), get(9), get(10), get(11), get(12), get(13), get(14)};
  });
}
API(cuDeviceGetPCIBusId)(char* text, int length, CUdevice device) {
  return on_device(device, [&](Device& d) { std::snprintf(text, size_t(length), "0000:%02X:00.0", device_attribute(d, kPciBusId)); });
}
API(cuDeviceGetByPCIBusId)(CUdevice* out, const char* text) {
  return driver([&] {
    unsigned domain = 0, bus = 0;
    require(out && text && std::sscanf(text, "%x:%x", &domain, &bus) == 2, Status::invalid_value);
    for (*out = 0; *out < system().device_count(); ++*out)
      if (device_attribute(system().device(*out), kPciBusId) == int(bus)) return;
    throw Failure(Status::invalid_device);
  });
}
API(cuDeviceCanAccessPeer)(int* can, CUdevice device, CUdevice peer) {
  return on_device(device, [&](Device&) {
    system().device(peer);
    *can = device != peer;
  });
}
API(cuDeviceGetP2PAttribute)(int* value, int attribute, CUdevice from, CUdevice to) {
  return on_device(from, [&](Device&) {
    system().device(to);
    require(from != to, Status::invalid_device);
    *value = attribute == 1 || attribute == 5 ? 0 : 1;
  });
}
API(cuDeviceGetTexture1DLinearMaxWidth)(size_t* width, int, unsigned, CUdevice device) {
  return on_device(device, [&](Device&) { *width = size_t{1} << 28; });
}

API(cuDevicePrimaryCtxRetain)(CUcontext* out, CUdevice device) {
  return on_device(device, [&](Device& d) {
    require(out != nullptr, Status::invalid_value);
    d.primary().references++;
    *out = to_handle(&d.primary());
  });
}
API(cuDevicePrimaryCtxRelease_v2)(CUdevice device) {
  return on_device(device, [&](Device& d) {
    require(d.primary_exists() && d.primary().references > 0, Status::invalid_context);
    d.primary().references--;
  });
}
API(cuDevicePrimaryCtxRelease)(CUdevice device) { return orrery_cuDevicePrimaryCtxRelease_v2(device); }
API(cuDevicePrimaryCtxReset_v2)(CUdevice device) {
  return on_device(device, [&](Device& d) { d.reset_primary(); });
}
API(cuDevicePrimaryCtxReset)(CUdevice device) { return orrery_cuDevicePrimaryCtxReset_v2(device); }
API(cuDevicePrimaryCtxSetFlags_v2)(CUdevice device, unsigned flags) {
  return on_device(device, [&](Device& d) { d.primary_flags = flags; });
}
API(cuDevicePrimaryCtxSetFlags)(CUdevice device, unsigned flags) { return orrery_cuDevicePrimaryCtxSetFlags_v2(device, flags); }
API(cuDevicePrimaryCtxGetState)(CUdevice device, unsigned* flags, int* active) {
  return on_device(device, [&](Device& d) {
    if (flags) *flags = d.primary_flags;
    if (active) *active = d.primary_exists();
  });
}

API(cuCtxCreate_v2)(CUcontext* out, unsigned flags, CUdevice device) { return create_context(out, flags, device); }
API(cuCtxCreate_v3)(CUcontext* out, void*, int count, unsigned flags, CUdevice device) { return count ? 801 : create_context(out, flags, device); }
API(cuCtxCreate_v4)(CUcontext* out, void*, unsigned flags, CUdevice device) { return create_context(out, flags, device); }
API(cuCtxCreate)(CUcontext* out, unsigned flags, CUdevice device) { return create_context(out, flags, device); }
API(cuCtxDestroy_v2)(CUcontext handle) {
  return driver([&] {
    Context* context = context_of(handle);
    require(context != nullptr, Status::invalid_value);
    context->synchronize();
    if (!context->primary()) context->active = false;
    auto& stack = thread_state().contexts;
    if (!stack.empty() && stack.back() == context) stack.pop_back();
  });
}
API(cuCtxDestroy)(CUcontext handle) { return orrery_cuCtxDestroy_v2(handle); }
API(cuCtxSetCurrent)(CUcontext handle) {
  return driver([&] {
    need_init();
    Context* context = context_of(handle);
    if (!context && !thread_state().contexts.empty()) thread_state().contexts.pop_back();
    else if (context) set_current(context);
  });
}
API(cuCtxGetCurrent)(CUcontext* out) {
  return driver([&] {
    need_init();
    require(out != nullptr, Status::invalid_value);
    auto& stack = thread_state().contexts;
    *out = stack.empty() ? nullptr : to_handle(stack.back());
  });
}
API(cuCtxPushCurrent_v2)(CUcontext handle) {
  return driver([&] {
    Context* context = context_of(handle);
    require(context != nullptr, Status::invalid_context);
    thread_state().contexts.push_back(context);
  });
}
API(cuCtxPushCurrent)(CUcontext handle) { return orrery_cuCtxPushCurrent_v2(handle); }
API(cuCtxPopCurrent_v2)(CUcontext* out) {
  return driver([&] {
    auto& stack = thread_state().contexts;
    require(!stack.empty(), Status::invalid_context);
    if (out) *out = to_handle(stack.back());
    stack.pop_back();
  });
}
API(cuCtxPopCurrent)(CUcontext* out) { return orrery_cuCtxPopCurrent_v2(out); }
API(cuCtxGetDevice)(CUdevice* out) {
  return driver([&] { *out = driver_context().device().ordinal(); });
}
API(cuCtxGetDevice_v2)(CUdevice* out, CUcontext handle) {
  return driver([&] { *out = (handle ? *context_of(handle) : driver_context()).device().ordinal(); });
}
API(cuCtxGetFlags)(unsigned* flags) {
  return driver([&] { *flags = driver_context().flags; });
}
API(cuCtxSetFlags)(unsigned flags) {
  return driver([&] { driver_context().flags = flags; });
}
API(cuCtxGetId)(CUcontext handle, unsigned long long* id) {
  return driver([&] { *id = (handle ? *context_of(handle) : driver_context()).id(); });
}
API(cuCtxGetApiVersion)(CUcontext, unsigned* version) {
  *version = 3020;
  return 0;
}
API(cuCtxSynchronize)() {
  return driver_in([](Context& context) {
    context.synchronize();
    context.require_sound();
  });
}
API(cuCtxSynchronize_v2)(CUcontext handle) {
  return driver([&] {
    Context& context = handle ? *context_of(handle) : driver_context();
    context.require_sound();
    context.synchronize();
    context.require_sound();
  });
}
API(cuCtxSetLimit)(int limit, size_t value) {
  return driver_in([&](Context& context) { set_limit(context, limit, value); });
}
API(cuCtxGetLimit)(size_t* value, int limit) {
  return driver_in([&](Context& context) { *value = *limit_of(context, limit); });
}
API(cuCtxGetCacheConfig)(int* config) {
  *config = 0;
  return 0;
}
API(cuCtxSetCacheConfig)(int) { return 0; }
API(cuCtxGetSharedMemConfig)(int* config) {
  *config = 1;
  return 0;
}
API(cuCtxSetSharedMemConfig)(int) { return 0; }
API(cuCtxResetPersistingL2Cache)() { return 0; }
API(cuCtxGetStreamPriorityRange)(int* least, int* greatest) {
  if (least) *least = kLowestPriority;
  if (greatest) *greatest = kHighestPriority;
  return 0;
}
API(cuCtxEnablePeerAccess)(CUcontext peer, unsigned flags) {
  return driver_in([&](Context& context) {
    Context* other = context_of(peer);
    require(other != nullptr, Status::invalid_context);
    enable_peer(context, other->device().ordinal(), flags);
  });
}
API(cuCtxDisablePeerAccess)(CUcontext peer) {
  return driver_in([&](Context& context) {
    Context* other = context_of(peer);
    require(other && context.peers.erase(other->device().ordinal()) == 1, Status::peer_not_enabled);
  });
}
// Undocumented tables. Programs probe for them and go on without; NVIDIA's own runtime does not. Its mathematical libraries
// hold a copy of it and answer their first call with an error that many programs do not look at: so it is said here.
API(cuGetExportTable)(const void** table, const void*) {
  Dl_info caller{};
  if (dladdr(__builtin_return_address(0), &caller) && caller.dli_fname) {
    const std::string_view path = caller.dli_fname, file = path.substr(path.rfind('/') + 1);
    static constexpr std::string_view kNames[] = {"libcublas", "libcudnn", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnpp", "libnvjpeg", "libnccl"};
    if (std::ranges::any_of(kNames, [&](std::string_view name) { return file.starts_with(name); }))
      explain(fmt::format("{} cannot work here: NVIDIA's library of machine code, with a CUDA runtime of its own; its calls return errors "
                          "and leave results as they were", file));
  }
  if (table) *table = nullptr;
  return int(Status::not_found);
}
API(cuProfilerStart)() { return 0; }
API(cuProfilerStop)() { return 0; }
API(cuFlushGPUDirectRDMAWrites)(int, int) { return 0; }
API(cuModuleGetLoadingMode)(int* mode) {
  *mode = 2;  // lazy
  return 0;
}
API(cuThreadExchangeStreamCaptureMode)(int* mode) {
  return driver([&] {
    require(mode != nullptr && *mode >= 0 && *mode <= 2, Status::invalid_value);
    std::swap(*mode, thread_state().capture_mode);
  });
}
