// api/device_runtime.cc: the CUDA runtime as device code sees it: kernels that launch kernels (dynamic parallelism),
// device graph launches, the conditions of graph nodes, and the queries that go with them.
//
// Device code calls these by name. NVIDIA's compiler puts __cudaCDP2 before the name of every function of the device
// runtime that exists on the host, too; its library libcudadevrt, whose code these take the place of, is left out when a
// program is loaded (device/image.cc). A launch comes in two calls: the first gives room for the parameters, the second
// starts it. Codes are those that an H200 gave.
// Not here: when the work is done (device/grid.h).
#include <fmt/format.h>

#include <cstring>
#include <mutex>

#include "api/attributes.h"
#include "api/copying.h"
#include "api/errors.h"
#include "api/launching.h"
#include "device/grid.h"

namespace orrery::api {
namespace {

using device::Grid;
using device::Work;
using exec::DeviceCall;

constexpr uint64_t kTailLaunch = 3, kFireAndForget = 4;  // named streams; 0 to 2: the block's own
constexpr uint64_t kGraphTail = 0x0100000000000000, kGraphFork = 0x0200000000000000, kGraphSibling = 0x0300000000000000;

struct Dim {
  uint32_t x, y, z;
};

/// Runs a call; a failure is its result and the thread's last error.
template <class F>
uint64_t guarded(Grid& grid, DeviceCall& call, F body) {
  int code = 0;
  try {
    body();
  } catch (const Failure& failure) {
    code = int(failure.status());
  } catch (const std::exception&) {
    code = int(Status::unknown);
  }
  if (code) grid.set_error(call.thread(), code);
  return uint64_t(code);
}

/// True for the tail stream. Throws Failure(invalid_value) when the stream is none of this grid's.
bool is_tail(Grid& grid, uint64_t stream) {
  require(stream <= kFireAndForget || grid.is_handle(stream), Status::invalid_value);
  return stream == kTailLaunch;
}

// ---- launches ----

uint64_t prepare(Grid& grid, const Grid::Prepared& launch, uint64_t bytes) {
  try {
    return grid.parameter_buffer(bytes, launch);
  } catch (const Failure&) {
    return 0;
  }
}

uint64_t get_parameter_buffer(Grid& grid, DeviceCall& call) {
  return prepare(grid, {}, (call.argument<uint64_t>(1) + 63) / 64 * 64);
}

uint64_t get_parameter_buffer_v2(Grid& grid, DeviceCall& call) {
  const Dim g = call.argument<Dim>(1), b = call.argument<Dim>(2);
  Grid::Prepared launch{call.argument<uint64_t>(0), call.argument<uint32_t>(3), {g.x, g.y, g.z}, {b.x, b.y, b.z}};
  const auto function = grid.context().function_at(launch.function);
  return prepare(grid, launch, function ? function->param_bytes() : 0);
}

void launch(Grid& grid, const Grid::Prepared& what, uint64_t buffer, uint64_t stream) {
  const bool tail = is_tail(grid, stream);
  device::LaunchRequest request;
  request.function = grid.context().function_at(what.function);
  request.grid = what.grid;
  request.block = what.block;
  request.dynamic_shared = what.shared;
  const uint64_t bytes = request.function ? request.function->param_bytes() : 0;
  require(bytes == 0 || grid.prepared(buffer), Status::invalid_value);
  request.packed = reinterpret_cast<const void*>(buffer);
  request.packed_size = bytes;
  try {
    grid.ask(device::make_launch(grid.context(), request), tail);
  } catch (const Failure& failure) {  // whatever is wrong with the shape has one code on the device
    throw Failure(failure.status() == Status::invalid_value ? Status::invalid_configuration : failure.status());
  }
}

uint64_t launch_device_v2(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const auto buffer = call.argument<uint64_t>(0);
    const Grid::Prepared* const prepared = grid.prepared(buffer);
    require(prepared != nullptr, Status::invalid_configuration);
    launch(grid, *prepared, buffer, call.argument<uint64_t>(1));
  });
}

uint64_t launch_device(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const Dim g = call.argument<Dim>(2), b = call.argument<Dim>(3);
    launch(grid, {call.argument<uint64_t>(0), call.argument<uint32_t>(4), {g.x, g.y, g.z}, {b.x, b.y, b.z}}, call.argument<uint64_t>(1),
           call.argument<uint64_t>(5));
  });
}

// ---- streams and events: all work of a grid runs in the order of asking, so they need no more than a name ----

constexpr uint32_t kDisableTiming = 2;

uint64_t stream_create(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    require(call.argument<uint32_t>(1) <= 1, Status::invalid_value);
    call.store(call.argument<uint64_t>(0), grid.create_handle());
  });
}
uint64_t event_create(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    require(call.argument<uint32_t>(1) == kDisableTiming, Status::invalid_value);
    call.store(call.argument<uint64_t>(0), grid.create_handle());
  });
}
uint64_t handle_destroy(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] { require(grid.drop_handle(call.argument<uint64_t>(0)), Status::invalid_value); });
}
uint64_t event_record(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    require(grid.is_handle(call.argument<uint64_t>(0)), Status::invalid_value);
    is_tail(grid, call.argument<uint64_t>(1));
  });
}
uint64_t stream_wait_event(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    is_tail(grid, call.argument<uint64_t>(0));
    require(grid.is_handle(call.argument<uint64_t>(1)), Status::invalid_value);
  });
}

// ---- errors ----

uint64_t get_last_error(Grid& grid, DeviceCall& call) { return uint64_t(grid.error(call.thread(), true)); }
uint64_t peek_last_error(Grid& grid, DeviceCall& call) { return uint64_t(grid.error(call.thread(), false)); }

/// The device address of a text, for as long as the process lives.
uint64_t on_device(Grid& grid, const char* text) {
  static std::mutex mutex;
  static auto* const places = new std::map<std::string, uint64_t>;
  std::lock_guard lock(mutex);
  uint64_t& place = (*places)[text];
  if (!place) {
    const size_t bytes = std::strlen(text) + 1;
    place = device::system().allocate(grid.context().device(), bytes, exec::MemoryKind::module);
    std::memcpy(reinterpret_cast<void*>(place), text, bytes);
  }
  return place;
}
uint64_t error_string(Grid& grid, DeviceCall& call) { return on_device(grid, error_text(call.argument<int>(0))); }
uint64_t error_name(Grid& grid, DeviceCall& call) { return on_device(grid, runtime_error_name(call.argument<int>(0))); }

// ---- questions ----

template <class T, class F>
uint64_t answer(Grid& grid, DeviceCall& call, F value) {
  return guarded(grid, call, [&] { call.store(call.argument<uint64_t>(0), T(value())); });
}

uint64_t device_attribute_of(Grid& grid, DeviceCall& call) {
  return answer<int>(grid, call, [&] { return device_attribute(device::system().device(call.argument<int>(2)), call.argument<int>(1)); });
}
uint64_t device_limit(Grid& grid, DeviceCall& call) {
  return answer<uint64_t>(grid, call, [&] { return *limit_of(grid.context(), call.argument<int>(1)); });
}
uint64_t device_count(Grid& grid, DeviceCall& call) {
  return answer<int>(grid, call, [] { return device::system().device_count(); });
}
uint64_t current_device(Grid& grid, DeviceCall& call) {
  return answer<int>(grid, call, [&] { return grid.context().device().ordinal(); });
}
uint64_t cache_config(Grid& grid, DeviceCall& call) {
  return answer<int>(grid, call, [] { return 0; });
}
uint64_t shared_config(Grid& grid, DeviceCall& call) {
  constexpr int kFourByteBanks = 1;
  return answer<int>(grid, call, [] { return kFourByteBanks; });
}
uint64_t version(Grid& grid, DeviceCall& call) {
  constexpr int kDeviceRuntime = 6000;  // what every toolkit's device runtime says of itself
  return answer<int>(grid, call, [] { return kDeviceRuntime; });
}
uint64_t function_attributes(Grid& grid, DeviceCall& call) {
  return answer<abi::cudaFuncAttributes>(grid, call, [&] {
    const auto function = grid.context().function_at(call.argument<uint64_t>(1));
    require(function != nullptr, Status::invalid_device_function);
    return attributes_of(*function);
  });
}
uint64_t occupancy(Grid& grid, DeviceCall& call) {
  return answer<int>(grid, call, [&] {
    const auto function = grid.context().function_at(call.argument<uint64_t>(1));
    require(function != nullptr, Status::invalid_device_function);
    return int(device::blocks_per_sm(grid.context(), *function, call.argument<uint32_t>(2), call.argument<uint64_t>(3)));
  });
}

// ---- memory ----

/// Device code copies between what device code can reach.
void check_kind(int kind) { require(kind == 3 || kind == 4, Status::invalid_memcpy_direction); }

uint64_t copy_async(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    check_kind(call.argument<int>(3));
    const bool tail = is_tail(grid, call.argument<uint64_t>(4));
    const auto bytes = call.argument<uint64_t>(2);
    if (bytes == 0) return;
    device::CopyWork work = linear_copy(call.argument<void*>(0), call.argument<const void*>(1), bytes);
    device::check_copy(work, device::Direction::device_to_device);
    grid.ask(std::move(work), tail);
  });
}
uint64_t copy_2d_async(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    check_kind(call.argument<int>(6));
    const bool tail = is_tail(grid, call.argument<uint64_t>(7));
    device::CopyWork work;
    work.dst = {call.argument<uint64_t>(0), call.argument<uint64_t>(1), 0, nullptr};
    work.src = {call.argument<uint64_t>(2), call.argument<uint64_t>(3), 0, nullptr};
    work.width = call.argument<uint64_t>(4);
    work.height = call.argument<uint64_t>(5);
    require(work.width <= work.dst.pitch && work.width <= work.src.pitch, Status::invalid_pitch);
    if (work.width == 0 || work.height == 0) return;
    device::check_copy(work, device::Direction::device_to_device);
    grid.ask(std::move(work), tail);
  });
}

void fill(Grid& grid, uint64_t stream, uint64_t address, uint64_t pitch, uint64_t slice, int value, uint64_t width, uint64_t height, uint64_t depth) {
  const bool tail = is_tail(grid, stream);
  require(address != 0, Status::invalid_value);
  if (width == 0 || height == 0 || depth == 0) return;
  device::FillWork work{address, pitch, slice, uint32_t(value) & 0xFF, 1, width, height, depth};
  device::check_fill(work);
  grid.ask(work, tail);
}
uint64_t fill_async(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const auto bytes = call.argument<uint64_t>(2);
    fill(grid, call.argument<uint64_t>(3), call.argument<uint64_t>(0), bytes, 0, call.argument<int>(1), bytes, 1, 1);
  });
}
uint64_t fill_2d_async(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    fill(grid, call.argument<uint64_t>(5), call.argument<uint64_t>(0), call.argument<uint64_t>(1), 0, call.argument<int>(2), call.argument<uint64_t>(3),
         call.argument<uint64_t>(4), 1);
  });
}

uint64_t device_malloc(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const uint64_t bytes = call.argument<uint64_t>(1), address = bytes ? call.allocate(bytes) : 0;
    require(address != 0 || bytes == 0, Status::out_of_memory);
    call.store(call.argument<uint64_t>(0), address);
  });
}
uint64_t device_free(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const auto address = call.argument<uint64_t>(0);
    require(address == 0 || call.release(address), Status::invalid_value);
  });
}

// ---- graphs ----

uint64_t graph_launch(Grid& grid, DeviceCall& call) {
  return guarded(grid, call, [&] {
    const auto graph = handles<device::GraphExec>().get(call.argument<const void*>(0), Status::invalid_value);
    const auto stream = call.argument<uint64_t>(1);
    constexpr uint64_t kDeviceLaunch = 4;  // cudaGraphInstantiateFlagDeviceLaunch
    require(grid.graph() != nullptr && (graph->flags() & kDeviceLaunch), Status::invalid_value);
    require(stream == kGraphTail || stream == kGraphFork || stream == kGraphSibling, Status::invalid_value);
    (stream == kGraphTail ? grid.graph()->tail : grid.graph()->forked).push_back(graph->snapshot());
  });
}
uint64_t set_conditional(Grid&, DeviceCall& call) {
  if (const auto condition = device::find_condition(call.argument<uint64_t>(0))) condition->value = call.argument<uint32_t>(1);
  return 0;
}

const std::map<std::string, device::DeviceFunction, std::less<>>& table() {
  static auto* const functions = [] {
    auto* const all = new std::map<std::string, device::DeviceFunction, std::less<>>{
        {"cudaGraphLaunch", graph_launch},
        {"cudaGraphSetConditional", set_conditional},
    };
    const std::pair<const char*, uint64_t (*)(Grid&, DeviceCall&)> runtime[] = {
        {"GetParameterBuffer", get_parameter_buffer},
        {"GetParameterBufferV2", get_parameter_buffer_v2},
        {"LaunchDevice", launch_device},
        {"LaunchDeviceV2", launch_device_v2},
        {"StreamCreateWithFlags", stream_create},
        {"StreamDestroy", handle_destroy},
        {"StreamWaitEvent", stream_wait_event},
        {"EventCreateWithFlags", event_create},
        {"EventRecord", event_record},
        {"EventRecordWithFlags", event_record},
        {"EventDestroy", handle_destroy},
        {"GetLastError", get_last_error},
        {"PeekAtLastError", peek_last_error},
        {"GetErrorString", error_string},
        {"GetErrorName", error_name},
        {"DeviceGetAttribute", device_attribute_of},
        {"DeviceGetLimit", device_limit},
        {"DeviceGetCacheConfig", cache_config},
        {"DeviceGetSharedMemConfig", shared_config},
        {"GetDeviceCount", device_count},
        {"GetDevice", current_device},
        {"RuntimeGetVersion", version},
        {"FuncGetAttributes", function_attributes},
        {"OccupancyMaxActiveBlocksPerMultiprocessor", occupancy},
        {"OccupancyMaxActiveBlocksPerMultiprocessorWithFlags", occupancy},
        {"Malloc", device_malloc},
        {"Free", device_free},
        {"MemcpyAsync", copy_async},
        {"Memcpy2DAsync", copy_2d_async},
        {"MemsetAsync", fill_async},
        {"Memset2DAsync", fill_2d_async},
    };
    // The older name, a variant for programs whose default stream is the thread's own, and both prefixes.
    for (const auto& [name, function] : runtime)
      for (const char* suffix : {"", "_ptsz"})
        for (const char* prefix : {"__cudaCDP2", "cuda"}) (*all)[std::string(prefix) + name + suffix] = function;
    return all;
  }();
  return *functions;
}

[[maybe_unused]] const bool provided = (device::provide_device_functions(&table()), true);

}  // namespace
}  // namespace orrery::api
