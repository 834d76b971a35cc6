// Driver API: virtual memory management: addresses without memory, memory without addresses, and mapping one to the other.
#include <unistd.h>

#include "api/abi_driver.h"
#include "api/memory_calls.h"
#include "device/physical.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::kGranularity;
using orrery::device::PhysicalMemory;

namespace {

constexpr int kPinned = 1, kOnDevice = 1, kFileDescriptor = 1;  // CU_MEM_{ALLOCATION_TYPE_PINNED, LOCATION_TYPE_DEVICE, HANDLE_TYPE_...}

void require_granules(uint64_t bytes) { require(bytes != 0 && bytes % kGranularity == 0, Status::invalid_value); }

device::Device& device_named(const CUmemAllocationProp* prop) {
  require(prop != nullptr && prop->type == kPinned, Status::invalid_value);
  require(prop->location.type == kOnDevice, Status::not_supported);
  require((prop->requestedHandleTypes & ~kFileDescriptor) == 0, Status::not_supported);
  return device::system().device(prop->location.id);
}

CUmemGenericAllocationHandle handle_of(std::shared_ptr<PhysicalMemory> memory) {
  return reinterpret_cast<uint64_t>(handles<PhysicalMemory>().add(std::move(memory)));
}
std::shared_ptr<PhysicalMemory> memory_of(CUmemGenericAllocationHandle handle) {
  return handles<PhysicalMemory>().get(reinterpret_cast<const void*>(handle), Status::invalid_value);
}

}  // namespace

API(cuMemGetAllocationGranularity)(size_t* out, const CUmemAllocationProp* prop, int option) {
  return driver([&] {
    require(out != nullptr && (option == 0 || option == 1), Status::invalid_value);
    device_named(prop);
    *out = kGranularity;
  });
}
API(cuMemAddressReserve)(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr, unsigned long long flags) {
  return driver([&] {
    require(out != nullptr && flags == 0 && (alignment & (alignment - 1)) == 0, Status::invalid_value);
    require_granules(bytes);
    *out = device::system().memory().reserve(bytes, alignment);  // the address asked for is a hint only
    require(*out != 0, Status::out_of_memory);
  });
}
API(cuMemAddressFree)(CUdeviceptr address, size_t bytes) {
  return driver([&] { require(device::system().memory().unreserve(address, bytes), Status::invalid_value); });
}
API(cuMemCreate)(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags) {
  return driver([&] {
    require(out != nullptr && flags == 0, Status::invalid_value);
    require_granules(bytes);
    *out = handle_of(std::make_shared<PhysicalMemory>(device_named(prop), bytes, prop->requestedHandleTypes));
  });
}
API(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  return driver([&] { handles<PhysicalMemory>().take(reinterpret_cast<const void*>(handle), Status::invalid_value); });
}
API(cuMemMap)(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return driver([&] {
    require(offset == 0 && flags == 0 && address % kGranularity == 0, Status::invalid_value);
    require_granules(bytes);
    device::map_physical(address, bytes, memory_of(handle));
  });
}
API(cuMemUnmap)(CUdeviceptr address, size_t bytes) {
  return driver([&] {
    need_init();
    const auto& contexts = thread_state().contexts;  // none is needed: programs unmap after they destroyed theirs
    if (!contexts.empty() && contexts.back() && contexts.back()->active) contexts.back()->require_sound();
    wait_for_use_by_all();
    device::unmap_physical(address, bytes);
  });
}
API(cuMemSetAccess)(CUdeviceptr address, size_t bytes, const cudaMemAccessDesc* list, size_t count) {
  return driver_in([&](Context&) {
    require(list != nullptr && count != 0, Status::invalid_value);
    for (size_t i = 0; i < count; i++) {
      require(list[i].location.type == kOnDevice && list[i].flags != 1, Status::not_supported);  // neither host access nor read-only
      require(list[i].flags == 0 || list[i].flags == 3, Status::invalid_value);
      const int device = device::system().device(list[i].location.id).ordinal();
      if (list[i].flags == 0) wait_for_use_by_all();
      device::open_physical(address, bytes, device, list[i].flags == 3);
    }
  });
}
API(cuMemGetAccess)(unsigned long long* flags, const cudaMemLocation* location, CUdeviceptr address) {
  return driver([&] {
    require(flags != nullptr && location != nullptr && location->type == kOnDevice, Status::invalid_value);
    *flags = device::physical_is_open(address, location->id) ? 3 : 0;
  });
}
API(cuMemGetAllocationPropertiesFromHandle)(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
  return driver([&] {
    require(out != nullptr, Status::invalid_value);
    auto memory = memory_of(handle);
    *out = {};
    out->type = kPinned;
    out->requestedHandleTypes = memory->shareable;
    out->location = {kOnDevice, memory->device.ordinal()};
  });
}
API(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle* out, void* address) {
  return driver([&] {
    require(out != nullptr, Status::invalid_value);
    auto memory = device::physical_at(reinterpret_cast<uint64_t>(address));
    *out = handle_of(std::make_shared<PhysicalMemory>(memory->device, dup(memory->fd), memory->shareable));
  });
}
API(cuMemExportToShareableHandle)(void* out, CUmemGenericAllocationHandle handle, int type, unsigned long long flags) {
  return driver([&] {
    auto memory = memory_of(handle);
    require(out != nullptr && flags == 0 && type == kFileDescriptor && memory->shareable == kFileDescriptor, Status::invalid_value);
    const int fd = dup(memory->fd);
    require(fd >= 0, Status::out_of_memory);
    device::system().deferred().stop();
    *static_cast<int*>(out) = fd;
  });
}
API(cuMemImportFromShareableHandle)(CUmemGenericAllocationHandle* out, void* shared, int type) {
  return driver_in([&](Context& context) {
    require(out != nullptr && type == kFileDescriptor, Status::invalid_value);
    const int fd = dup(int(reinterpret_cast<intptr_t>(shared)));
    require(fd >= 0, Status::invalid_value);
    device::system().deferred().stop();
    try {
      *out = handle_of(std::make_shared<PhysicalMemory>(context.device(), fd, kFileDescriptor));
    } catch (...) {
      close(fd);
      throw;
    }
  });
}
