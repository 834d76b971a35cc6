// device/physical.h: memory without an address (cuMemCreate), and where it is shown.
//
// Physical memory is an anonymous file of the system, so that it can be mapped at several addresses and handed to other
// processes as a file descriptor. It lives as long as a handle or a mapping refers to it.
// Source: CUDA driver API, "Virtual Memory Management".
#pragma once
#include <cstdint>
#include <memory>

namespace orrery::device {

class Device;

inline constexpr uint64_t kGranularity = uint64_t{2} << 20;

class PhysicalMemory {
 public:
  /// New memory of `bytes` on `device`, zero-filled. Throws Failure(out_of_memory).
  PhysicalMemory(Device& device, uint64_t bytes, int shareable);
  /// Memory that another handle of the same file shows; takes `fd` over. Throws Failure(invalid_value).
  PhysicalMemory(Device& device, int fd, int shareable);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  Device& device;
  const int fd;
  const uint64_t bytes;
  const int shareable;  // CUmemAllocationHandleType asked for
  const bool counted;   // against the device's memory

 private:
  PhysicalMemory(Device& device, int fd, uint64_t bytes, int shareable, bool counted);
};

/// Shows the first `bytes` of `memory` at `address`. Throws Failure(invalid_value).
void map_physical(uint64_t address, uint64_t bytes, const std::shared_ptr<PhysicalMemory>& memory);
/// Throws Failure(invalid_value) when that is not made of whole mappings.
void unmap_physical(uint64_t address, uint64_t bytes);
/// Lets `device` (or nobody) use the mappings. Throws Failure(invalid_value).
void open_physical(uint64_t address, uint64_t bytes, int device, bool accessible);
/// Whether open_physical named `device` for the mapping at `address`. Throws Failure(invalid_value) when there is none.
bool physical_is_open(uint64_t address, int device);
/// What is shown at `address`. Throws Failure(invalid_value).
std::shared_ptr<PhysicalMemory> physical_at(uint64_t address);

}  // namespace orrery::device
