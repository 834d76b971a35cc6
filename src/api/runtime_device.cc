// Runtime API: devices, limits, peers, versions, errors, entry points.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "api/attributes.h"
#include "api/errors.h"
#include "api/program.h"
#include "api/stream_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::Device;
using orrery::device::system;

namespace {
// The program has looked at the error of a launch.
void note_seen() {
  if (!device::system_exists()) return;
  if (exec::Observer* o = system().observer()) o->api_error("seen", 0, "", 0);
}
}  // namespace
API(cudaGetLastError)() { return note_seen(), std::exchange(thread_state().last_error, 0); }
API(cudaPeekAtLastError)() { return note_seen(), thread_state().last_error; }
extern "C" const char* orrery_cudaGetErrorName(int code) { return runtime_error_name(code); }
extern "C" const char* orrery_cudaGetErrorString(int code) { return error_text(code); }

API(cudaGetDeviceCount)(int* count) {
  return runtime([&] {
    require(count != nullptr, Status::invalid_value);
    *count = system().device_count();
  });
}
API(cudaSetDevice)(int ordinal) {
  return runtime([&] {
    Context& primary = system().device(ordinal).primary();
    set_current(&primary);
  });
}
API(cudaInitDevice)(int ordinal, unsigned, unsigned) {
  return runtime([&] { system().device(ordinal).primary(); });
}
API(cudaGetDevice)(int* ordinal) {
  return runtime([&] {
    require(ordinal != nullptr, Status::invalid_value);
    auto& contexts = thread_state().contexts;
    *ordinal = contexts.empty() || !contexts.back() ? thread_state().device : contexts.back()->device().ordinal();
  });
}
API(cudaSetValidDevices)(int* list, int count) {
  return runtime([&] {
    for (int i = 0; i < count; i++) system().device(list[i]);
  });
}
API(cudaChooseDevice)(int* ordinal, const void*) {
  return runtime([&] {
    require(ordinal != nullptr, Status::invalid_value);
    *ordinal = 0;
  });
}
API(cudaSetDeviceFlags)(unsigned flags) {
  return runtime([&] { system().device(thread_state().device).primary_flags = flags; });
}
API(cudaGetDeviceFlags)(unsigned* flags) {
  return runtime([&] {
    require(flags != nullptr, Status::invalid_value);
    *flags = system().device(thread_state().device).primary_flags | 8;  // host memory can always be mapped
  });
}
API(cudaDeviceReset)() {
  return runtime([&] {
    Device& device = system().device(thread_state().device);
    device.reset_primary();
    thread_state().contexts.clear();
  });
}
API(cudaDeviceSynchronize)() {
  return runtime_in([](Context& context) {
    context.synchronize();
    context.require_sound();
  });
}
API(cudaDeviceGetAttribute)(int* value, int attribute, int ordinal) {
  return runtime([&] {
    require(value != nullptr, Status::invalid_value);
    *value = device_attribute(system().device(ordinal), attribute);
  });
}
API(cudaGetDeviceProperties)(cudaDeviceProp13* out, int ordinal) {
  return runtime([&] {
    require(out != nullptr, Status::invalid_value);
    fill_properties(*out, system().device(ordinal));
  });
}
API(cudaGetDeviceProperties_v2)(cudaDeviceProp12* out, int ordinal) {
  return runtime([&] {
    require(out != nullptr, Status::invalid_value);
    fill_properties(*out, system().device(ordinal));
  });
}
// The layout before CUDA 12 is a prefix of the later one, 728 bytes long, without uuid moves.
API(cudaGetDeviceProperties_12)(void* out, int ordinal) {
  return runtime([&] {
    require(out != nullptr, Status::invalid_value);
    cudaDeviceProp12 all;
    fill_properties(all, system().device(ordinal));
    std::memcpy(out, &all, offsetof(cudaDeviceProp12, hostRegisterSupported));
  });
}
API(cudaDeviceSetLimit)(int limit, size_t value) {
  return runtime_in([&](Context& context) { set_limit(context, limit, value); });
}
API(cudaDeviceGetLimit)(size_t* value, int limit) {
  return runtime_in([&](Context& context) {
    require(value != nullptr, Status::invalid_value);
    *value = *limit_of(context, limit);
  });
}
API(cudaDeviceGetCacheConfig)(int* config) {
  return runtime([&] { *config = 0; });
}
API(cudaDeviceSetCacheConfig)(int) { return 0; }
API(cudaDeviceGetSharedMemConfig)(int* config) {
  return runtime([&] { *config = 1; });
}
API(cudaDeviceSetSharedMemConfig)(int) { return 0; }
API(cudaDeviceGetStreamPriorityRange)(int* least, int* greatest) {
  return runtime_in([&](Context&) {
    if (least) *least = kLowestPriority;
    if (greatest) *greatest = kHighestPriority;
  });
}
API(cudaDeviceGetPCIBusId)(char* text, int length, int ordinal) {
  return runtime([&] {
    require(text != nullptr && length >= 13, Status::invalid_value);
    std::snprintf(text, size_t(length), "0000:%02X:00.0", device_attribute(system().device(ordinal), kPciBusId));
  });
}
API(cudaDeviceGetByPCIBusId)(int* ordinal, const char* text) {
  return runtime([&] {
    require(ordinal != nullptr && text != nullptr, Status::invalid_value);
    unsigned domain = 0, bus = 0;
    require(std::sscanf(text, "%x:%x", &domain, &bus) == 2, Status::invalid_value);
    for (*ordinal = 0; *ordinal < system().device_count(); ++*ordinal)
      if (device_attribute(system().device(*ordinal), kPciBusId) == int(bus)) return;
    throw Failure(Status::invalid_device);
  });
}
API(cudaDeviceGetTexture1DLinearMaxWidth)(size_t* width, const cudaChannelFormatDesc*, int ordinal) {
  return runtime([&] {
    system().device(ordinal);
    *width = size_t{1} << 28;
  });
}
API(cudaCtxResetPersistingL2Cache)() { return 0; }
API(cudaDeviceFlushGPUDirectRDMAWrites)(int, int) { return 0; }

API(cudaDeviceCanAccessPeer)(int* can, int ordinal, int peer) {
  return runtime([&] {
    require(can != nullptr, Status::invalid_value);
    system().device(ordinal);
    system().device(peer);
    *can = ordinal != peer;
  });
}
API(cudaDeviceEnablePeerAccess)(int peer, unsigned flags) {
  return runtime_in([&](Context& context) { enable_peer(context, peer, flags); });
}
API(cudaDeviceDisablePeerAccess)(int peer) {
  return runtime_in([&](Context& context) {
    system().device(peer);
    require(context.peers.erase(peer) == 1, Status::peer_not_enabled);
  });
}
API(cudaDeviceGetP2PAttribute)(int* value, int attribute, int from, int to) {
  return runtime([&] {
    require(value != nullptr && attribute >= 1 && attribute <= 5 && from != to, Status::invalid_value);
    system().device(from);
    system().device(to);
    *value = attribute == 1 || attribute == 5 ? 0 : 1;
  });
}

API(cudaDriverGetVersion)(int* version) {
  return runtime([&] {
    require(version != nullptr, Status::invalid_value);
    *version = kDriverVersion;
  });
}
API(cudaRuntimeGetVersion)(int* version) {
  return runtime([&] {
    require(version != nullptr, Status::invalid_value);
    *version = runtime_version() >= 13 ? 13000 : 12080;
  });
}
API(cudaGetDriverEntryPointByVersion)(const char* name, void** out, unsigned version, unsigned long long flags, int* result) {
  return runtime([&] {
    require(name != nullptr && out != nullptr, Status::invalid_value);
    bool too_new = false;
    bool per_thread = flags == 2 || (flags == 0 && thread_state().per_thread_default);
    *out = find_driver_function(name, int(version), per_thread, &too_new);
    if (result) *result = *out ? 0 : too_new ? 2 : 1;
    require(*out || result, Status::symbol_not_found);
  });
}
PER_THREAD(cudaGetDriverEntryPointByVersion, _ptsz)
API(cudaGetDriverEntryPoint)(const char* name, void** out, unsigned long long flags, int* result) {
  return orrery_cudaGetDriverEntryPointByVersion(name, out, kDriverVersion, flags, result);
}
PER_THREAD(cudaGetDriverEntryPoint, _ptsz)
API(__cudaGetProcAddress)(const char* name, void** out, int, uint64_t, int* result) {
  *out = find_runtime_function(name, runtime_version());
  if (result) *result = *out ? 0 : 1;
  return *out ? 0 : 500;
}
API(cudaProfilerStart)() { return 0; }
API(cudaProfilerStop)() { return 0; }

API(cudaThreadSynchronize)() { return orrery_cudaDeviceSynchronize(); }
API(cudaThreadExit)() { return orrery_cudaDeviceReset(); }
API(cudaThreadSetLimit)(int limit, size_t value) { return orrery_cudaDeviceSetLimit(limit, value); }
API(cudaThreadGetLimit)(size_t* value, int limit) { return orrery_cudaDeviceGetLimit(value, limit); }
API(cudaThreadGetCacheConfig)(int* config) { return orrery_cudaDeviceGetCacheConfig(config); }
API(cudaThreadSetCacheConfig)(int) { return 0; }
API(cudaSetDoubleForDevice)(double*) { return 0; }
API(cudaSetDoubleForHost)(double*) { return 0; }
