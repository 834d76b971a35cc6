// Memory operations shared by both APIs; see memory_calls.h.
#include "api/memory_calls.h"

#include <algorithm>
#include <cstring>

#include "device/observed_work.h"

namespace orrery::api {
namespace {

using device::system;
using exec::MemoryKind;

std::mutex table_mutex;
std::map<uint64_t, unsigned>& flags_by_address() {
  static auto* const all = new std::map<uint64_t, unsigned>;
  return *all;
}
std::map<uint64_t, RangeFacts>& range_facts() {
  static auto* const all = new std::map<uint64_t, RangeFacts>;
  return *all;
}

void note_bad_free(const char* call, uint64_t address) {
  if (exec::Observer* o = system().observer()) o->api_error(call, int(Status::invalid_value), "cudaErrorInvalidValue", address);
}

void refuse_in_capture(Context& context) {
  // A thread in global capture mode must not make calls that could wait.
  (void)context;
}

}  // namespace

void wait_for_use(Context& context) {
  if (!context.idle()) context.synchronize();
}

void* allocate_device(Context& context, size_t bytes) {
  refuse_in_capture(context);
  if (bytes == 0) return nullptr;
  return reinterpret_cast<void*>(system().allocate(context.device(), bytes, MemoryKind::device));
}

void* allocate_pitched(Context& context, size_t* pitch, size_t width, size_t rows) {
  require(width < (size_t{1} << 40) && rows < (size_t{1} << 40), Status::out_of_memory);
  *pitch = (width + 511) / 512 * 512;
  return allocate_device(context, *pitch * rows);
}

void* allocate_host(Context& context, size_t bytes, unsigned flags) {
  if (bytes == 0) return nullptr;
  uint64_t address = system().allocate(context.device(), bytes, MemoryKind::pinned, 4096);
  std::lock_guard lock(table_mutex);
  flags_by_address()[address] = flags | 2;  // under unified addressing all of it is mapped
  return reinterpret_cast<void*>(address);
}

void* allocate_managed(Context& context, size_t bytes, unsigned flags) {
  require(bytes > 0 && (flags == 1 || flags == 2), Status::invalid_value);
  return reinterpret_cast<void*>(system().allocate(context.device(), bytes, MemoryKind::managed));
}

void free_device(Context& context, void* pointer) {
  if (!pointer) return;
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  auto found = system().memory().contains(address) ? system().memory().find(address) : std::nullopt;
  const bool mine = found && !found->mapping && found->address == address &&
                    (found->kind == MemoryKind::device || found->kind == MemoryKind::managed) && !system().deferred().frees(address);
  if (!mine) note_bad_free("cudaFree", address);
  require(mine, Status::invalid_value);
  wait_for_use(context);
  const auto release = [address] {
    if (device::release_pool_memory(address)) return true;
    {
      std::lock_guard lock(table_mutex);
      range_facts().erase(address);
    }
    return system().memory().release(address);
  };
  if (system().deferred().add_free(address, release)) return;
  require(release(), Status::invalid_value);
}

void free_host(Context& context, void* pointer) {
  if (!pointer) return;
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  auto found = system().memory().contains(address) ? system().memory().find(address) : std::nullopt;
  const bool mine = found && found->address == address && found->kind == MemoryKind::pinned;
  if (!mine) note_bad_free("cudaFreeHost", address);
  require(mine, Status::invalid_value);
  wait_for_use(context);
  {
    std::lock_guard lock(table_mutex);
    flags_by_address().erase(address);
  }
  system().memory().release(address);
}

void register_host(void* pointer, size_t bytes, unsigned flags) {
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  require(pointer && bytes && !(flags & ~0xfu), Status::invalid_value);
  require(!system().memory().contains(address), Status::invalid_value);
  require(system().memory().register_host(address, bytes), Status::host_already_registered);
  std::lock_guard lock(table_mutex);
  flags_by_address()[address] = flags | 2;
}

void unregister_host(void* pointer) {
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  require(pointer != nullptr, Status::invalid_value);
  require(system().memory().unregister_host(address), Status::host_not_registered);
  std::lock_guard lock(table_mutex);
  flags_by_address().erase(address);
}

unsigned host_flags(void* pointer) {
  device::Place place = device::place_of(reinterpret_cast<uint64_t>(pointer));
  require(!place.pageable && place.kind == MemoryKind::pinned, Status::invalid_value);
  std::lock_guard lock(table_mutex);
  auto at = flags_by_address().find(place.start);
  return at == flags_by_address().end() ? 0 : at->second;
}

void* device_pointer_of_host(void* pointer) {
  device::Place place = device::place_of(reinterpret_cast<uint64_t>(pointer));
  require(pointer && !place.pageable && (place.kind == MemoryKind::pinned || place.kind == MemoryKind::managed), Status::invalid_value);
  return pointer;
}

namespace {

// Memory of an allocation node lives as long as graphs that contain the node.
struct GraphMemory {
  std::shared_ptr<device::MemoryPool> pool;
  uint64_t address;
  ~GraphMemory() { pool->release(address); }
};

std::shared_ptr<device::Capture> capture_of(Context& context, const device::Stream& stream) {
  std::lock_guard lock(context.capture_lock());
  return device::capture_of(stream);
}

}  // namespace

void* allocate_async(Context& context, const std::shared_ptr<device::Stream>& stream, const std::shared_ptr<device::MemoryPool>& pool, size_t bytes) {
  if (bytes == 0) return nullptr;
  uint64_t address = pool->allocate(bytes);
  if (capture_of(context, *stream))
    context.submit(stream, device::AllocWork{address, bytes, std::make_shared<GraphMemory>(pool, address)});
  else
    device::observe_allocation(*stream, address, bytes);
  return reinterpret_cast<void*>(address);
}

void free_async(Context& context, const std::shared_ptr<device::Stream>& stream, void* pointer) {
  if (!pointer) return;
  uint64_t address = reinterpret_cast<uint64_t>(pointer);
  auto found = system().memory().contains(address) ? system().memory().find(address) : std::nullopt;
  const bool mine = found && !found->mapping && found->kind == MemoryKind::device;
  if (!mine) note_bad_free("cudaFreeAsync", address);
  require(mine, Status::invalid_value);
  // In a graph the memory belongs to the allocation node, for the next launch.
  if (capture_of(context, *stream)) context.submit(stream, device::FreeWork{0});
  else context.submit(stream, device::FreeWork{address});
}

std::shared_ptr<device::MemoryPool> make_pool(const abi::cudaMemPoolProps& props) {
  require(props.allocType == 1 || props.allocType == 2, Status::invalid_value);
  require(props.handleTypes == 0, Status::not_supported);
  device::Device& device = system().device(props.location.type == 1 ? props.location.id : 0);
  auto pool = std::make_shared<device::MemoryPool>(device, props.maxSize);
  device::register_pool(pool);
  handles<device::MemoryPool>().add(pool);
  return pool;
}

device::MemoryPool* default_pool_handle(device::Device& device) { return handles<device::MemoryPool>().add(device.default_pool_ref()); }
device::MemoryPool* current_pool_handle(device::Device& device) { return handles<device::MemoryPool>().add(device.pool()); }

void set_pool_attribute(device::MemoryPool& pool, int attribute, const void* value) {
  require(value != nullptr, Status::invalid_value);
  int flag;
  uint64_t number;
  switch (attribute) {
    case 1: case 2: case 3:
      std::memcpy(&flag, value, 4);
      (attribute == 1 ? pool.reuse_event : attribute == 2 ? pool.reuse_opportunistic : pool.reuse_internal) = flag;
      return;
    case 4:
      std::memcpy(&number, value, 8);
      pool.release_threshold = number;
      return;
    case 6: case 8:
      std::memcpy(&number, value, 8);
      require(number == 0, Status::invalid_value);
      pool.reset_high(attribute == 6);
      return;
    default: throw Failure(Status::invalid_value);
  }
}

void get_pool_attribute(device::MemoryPool& pool, int attribute, void* value) {
  require(value != nullptr && attribute >= 1 && attribute <= 8, Status::invalid_value);
  if (attribute <= 3) {
    int flag = attribute == 1 ? pool.reuse_event : attribute == 2 ? pool.reuse_opportunistic : pool.reuse_internal;
    std::memcpy(value, &flag, 4);
    return;
  }
  auto counters = pool.counters();
  uint64_t numbers[] = {pool.release_threshold, counters.reserved, counters.reserved_high, counters.used, counters.used_high};
  std::memcpy(value, &numbers[attribute - 4], 8);
}

namespace {
RangeFacts& facts_at(uint64_t address) {
  device::Place place = device::place_of(address);
  require(!place.pageable && place.kind == MemoryKind::managed, Status::invalid_value);
  return range_facts()[place.start];
}
}  // namespace

void advise(uint64_t address, size_t bytes, int advice, abi::cudaMemLocation location) {
  require(bytes > 0 && advice >= 1 && advice <= 6, Status::invalid_value);
  std::lock_guard lock(table_mutex);
  RangeFacts& facts = facts_at(address);
  if (location.type == 1 && advice >= 3) system().device(location.id);
  if (advice <= 2) facts.read_mostly = advice == 1;
  if (advice == 3) facts.preferred_type = location.type, facts.preferred_id = location.type == 1 ? location.id : -1;
  if (advice == 4) facts.preferred_type = 0, facts.preferred_id = -2;
  int id = location.type == 1 ? location.id : -1;
  if (advice >= 5) std::erase(facts.accessed_by, id);
  if (advice == 5) facts.accessed_by.push_back(id);
}

void note_prefetch(uint64_t address, size_t bytes, abi::cudaMemLocation location) {
  require(bytes > 0, Status::invalid_value);
  if (location.type == 1) system().device(location.id);
  std::lock_guard lock(table_mutex);
  RangeFacts& facts = facts_at(address);
  facts.prefetch_type = location.type;
  facts.prefetch_id = location.type == 1 ? location.id : -1;
  system().memory().settle(address, location.type == 1);
}

void get_range_attribute(void* data, size_t bytes, int attribute, uint64_t address) {
  require(data != nullptr && bytes >= 4 && bytes % 4 == 0, Status::invalid_value);
  std::lock_guard lock(table_mutex);
  const RangeFacts& facts = facts_at(address);
  std::vector<int> values(bytes / 4, -2);
  switch (attribute) {
    case 1: values[0] = facts.read_mostly; break;
    case 2: case 6: values[0] = facts.preferred_id; break;
    case 3:
      for (size_t i = 0; i < values.size() && i < facts.accessed_by.size(); i++) values[i] = facts.accessed_by[i];
      break;
    case 4: case 8: values[0] = facts.prefetch_id; break;
    case 5: values[0] = facts.preferred_type; break;
    case 7: values[0] = facts.prefetch_type; break;
    default: throw Failure(Status::invalid_value);
  }
  std::memcpy(data, values.data(), bytes);
}

std::shared_ptr<device::Array> array_of(const void* handle) { return handles<device::Array>().get(handle); }

device::CopySide array_side(const std::shared_ptr<device::Array>& array, size_t x_bytes, size_t y, size_t z) {
  require(x_bytes <= array->pitch && y < array->rows() && z < array->slices(), Status::invalid_value);
  return {array->address + z * array->slice + y * array->pitch + x_bytes, array->pitch, array->slice, array};
}

device::Format format_of(const abi::cudaChannelFormatDesc& desc) {
  device::Format format;
  const int bits[4] = {desc.x, desc.y, desc.z, desc.w};
  for (int i = 0; i < 4; i++) {
    require(bits[i] >= 0 && bits[i] <= 32, Status::invalid_channel_descriptor);
    format.bits[i] = uint8_t(bits[i]);
  }
  require(desc.f >= 0 && desc.f <= 2, Status::invalid_channel_descriptor);
  format.kind = desc.f == 0 ? exec::TexelKind::sint : desc.f == 1 ? exec::TexelKind::uint : exec::TexelKind::flt;
  return format;
}

abi::cudaChannelFormatDesc channel_of(const device::Format& format) {
  return {format.bits[0], format.bits[1], format.bits[2], format.bits[3],
          format.kind == exec::TexelKind::sint ? 0 : format.kind == exec::TexelKind::uint ? 1 : 2};
}

}  // namespace orrery::api
