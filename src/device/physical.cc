// device/physical.cc: see physical.h.
#include "device/physical.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>

#include "device/device.h"
#include "device/status.h"

namespace orrery::device {

namespace {

int new_file(Device& device, uint64_t bytes) {
  require(bytes <= device.free_memory(), Status::out_of_memory);
  const int fd = memfd_create("device memory", MFD_CLOEXEC);
  require(fd >= 0, Status::out_of_memory);
  if (ftruncate(fd, off_t(bytes)) != 0) {
    close(fd);
    throw Failure(Status::out_of_memory);
  }
  return fd;
}

uint64_t size_of_file(int fd) {
  struct stat facts;
  require(fstat(fd, &facts) == 0 && facts.st_size > 0 && uint64_t(facts.st_size) % kGranularity == 0, Status::invalid_value);
  return uint64_t(facts.st_size);
}

struct Mapping {
  uint64_t bytes = 0;
  std::shared_ptr<PhysicalMemory> memory;
  std::set<int> devices;  // that may use it
};

struct Mappings {
  std::mutex mutex;
  std::map<uint64_t, Mapping> by_address;
  Mapping& at(uint64_t address) {
    auto it = by_address.upper_bound(address);
    require(it != by_address.begin(), Status::invalid_value);
    --it;
    require(address - it->first < it->second.bytes, Status::invalid_value);
    return it->second;
  }
};
Mappings& mappings() {
  static auto* const all = new Mappings;
  return *all;
}

}  // namespace

PhysicalMemory::PhysicalMemory(Device& on, int file, uint64_t size, int handle_type, bool counts)
    : device(on), fd(file), bytes(size), shareable(handle_type), counted(counts) {
  if (counted) device.physical_bytes += bytes;
}
PhysicalMemory::PhysicalMemory(Device& on, uint64_t size, int handle_type) : PhysicalMemory(on, new_file(on, size), size, handle_type, true) {}
PhysicalMemory::PhysicalMemory(Device& on, int file, int handle_type) : PhysicalMemory(on, file, size_of_file(file), handle_type, false) {}
PhysicalMemory::~PhysicalMemory() {
  close(fd);
  if (counted) device.physical_bytes -= bytes;
}

void map_physical(uint64_t address, uint64_t bytes, const std::shared_ptr<PhysicalMemory>& memory) {
  require(bytes <= memory->bytes, Status::invalid_value);
  Mappings& all = mappings();
  std::lock_guard lock(all.mutex);
  require(system().memory().map(address, bytes, memory->fd, memory->device.ordinal()), Status::invalid_value);
  all.by_address[address] = {bytes, memory, {}};
}

void unmap_physical(uint64_t address, uint64_t bytes) {
  system().deferred().run();
  Mappings& all = mappings();
  std::lock_guard lock(all.mutex);
  require(system().memory().unmap(address, bytes), Status::invalid_value);
  all.by_address.erase(all.by_address.lower_bound(address), all.by_address.lower_bound(address + bytes));
}

void open_physical(uint64_t address, uint64_t bytes, int device, bool accessible) {
  Mappings& all = mappings();
  std::lock_guard lock(all.mutex);
  const auto first = all.by_address.lower_bound(address), end = all.by_address.lower_bound(address + bytes);
  bool anybody = accessible;
  for (auto it = first; it != end; ++it) anybody |= it->second.devices.size() > it->second.devices.count(device);
  require(system().memory().open(address, bytes, anybody), Status::invalid_value);
  for (auto it = first; it != end; ++it) {
    if (accessible) it->second.devices.insert(device);
    else it->second.devices.erase(device);
  }
}

bool physical_is_open(uint64_t address, int device) {
  Mappings& all = mappings();
  std::lock_guard lock(all.mutex);
  return all.at(address).devices.contains(device);
}

std::shared_ptr<PhysicalMemory> physical_at(uint64_t address) {
  Mappings& all = mappings();
  std::lock_guard lock(all.mutex);
  return all.at(address).memory;
}

}  // namespace orrery::device
