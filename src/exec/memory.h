// exec/memory.h: device memory, which is host memory in one reserved address range.
//
// One range of addresses is reserved at start; every allocation is committed pages inside it, so that compiled code may
// access device memory with plain loads and stores: an address inside the range is either mapped or raises a page fault
// that exec/ turns into a Fault; an address outside the range is looked up among registered host ranges on a slow path.
// The same address means the same byte on host and device.
//
// Where allocations lie decides which wrong accesses fault. MemoryKind::device lies as an H200's driver puts it: up to
// 1 MiB in slabs of 2 MiB, 512 bytes apart at best, larger ones on whole slabs, nothing unmapped between or shortly before
// the first (an H200 reads 32 MiB below it, the driver's own memory); so what leaves an allocation by little hits a
// neighbour and faults no more than on the GPU, and memory freed in a slab stays readable.
// Under an observer (check), and for all other kinds, at least one unmapped page follows each allocation.
//
// Threads: all members may be called from any thread. `contains` and `base`/`size` take no lock.
// Not here: streams, pools, symbols (device/).
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace orrery::exec {

enum class MemoryKind : uint8_t { device, managed, pinned, module, heap, array, window };

struct Allocation {
  uint64_t address = 0, size = 0;   // bytes asked for
  uint64_t mapped = 0;              // bytes committed
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  uint64_t id = 0;                  // counts up; never reused
  bool mapping = false;             // shows memory that is counted elsewhere (map); size is 0 until it is opened
  bool packed = false;              // part of a slab
  bool on_gpu = false;              // managed: brought there as a whole, as far as is known (settle)
};

struct Observer;  // exec/observer.h

class DeviceMemory {
 public:
  /// Reserves `bytes` of address space (default 4 TiB, less where the system refuses).
  explicit DeviceMemory(uint64_t bytes = uint64_t{1} << 42);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  uint64_t base() const { return base_; }
  uint64_t size() const { return size_; }
  bool contains(uint64_t address) const { return address - base_ < size_; }

  /// Zero-filled memory of `bytes` > 0, aligned to `align` (a power of two, at least 512; 2 MiB for large ones);
  /// 0 when the address range is used up or the system refuses.
  uint64_t allocate(uint64_t bytes, MemoryKind kind, int device, uint64_t align = 512);
  /// False when `address` is not the start of a live allocation.
  bool release(uint64_t address);
  /// The live allocation that holds `address`; opened mappings that touch count as one.
  std::optional<Allocation> find(uint64_t address) const;
  /// The freed allocation that held `address`, else the live one nearest to it on either side, for messages.
  std::optional<Allocation> nearest(uint64_t address, bool* freed) const;
  /// Bytes asked for by live allocations of `kind` on `device`.
  uint64_t used(MemoryKind kind, int device) const;
  /// Is memory of the host registered with the device?
  bool has_registered() const;
  /// The live allocations of `kind`, by address.
  std::vector<Allocation> all(MemoryKind kind) const;
  /// Where the managed allocation that holds `address` lies from now on: on the GPU or with the host. Nothing for other memory.
  void settle(uint64_t address, bool on_gpu);
  /// How many bytes of [address, address + bytes) anybody has touched, by pages of the system.
  static uint64_t touched(uint64_t address, uint64_t bytes);

  /// Address space of `bytes` (pages) without memory, aligned to `align`; 0 when the range is used up.
  uint64_t reserve(uint64_t bytes, uint64_t align);
  /// False when that is not a whole reservation, or something is mapped in it.
  bool unreserve(uint64_t address, uint64_t bytes);
  /// Shows the first `bytes` of file `fd` at an address inside a reservation, closed to every access. False when it is
  /// not inside one, or something is mapped there, or the system refuses.
  bool map(uint64_t address, uint64_t bytes, int fd, int device);
  /// False when [address, address + bytes) is not made of whole mappings.
  bool unmap(uint64_t address, uint64_t bytes);
  /// Opens whole mappings to kernels and copies, or closes them. False as for unmap.
  bool open(uint64_t address, uint64_t bytes, bool accessible);

  /// Makes [address, address+bytes) of ordinary host memory accessible to kernels (cudaHostRegister).
  bool register_host(uint64_t address, uint64_t bytes);
  bool unregister_host(uint64_t address);

  /// Forks while nobody looks at what is allocated or changes it, so that the child, in which no other thread goes on, has a table that it can use.
  pid_t fork_process();

  /// Reports allocations and releases from now on; freed addresses are then not used again.
  void observe(Observer* observer) { observer_ = observer; }
  std::optional<Allocation> find_registered(uint64_t address) const;

  /// Memory of at least `bytes` for a running block (its shared and local memory); contents are unspecified. Kept for
  /// reuse when released, so that a launch costs no system call in the steady state.
  uint64_t acquire_window(uint64_t bytes);
  void release_window(uint64_t address);

 private:
  Observer* observer_ = nullptr;
  std::multimap<uint64_t, uint64_t> idle_windows_;  // size -> address
  uint64_t base_ = 0, size_ = 0, next_ = 0, next_id_ = 1;
  using Holes = std::multimap<uint64_t, uint64_t>;  // span -> address, freed spans for reuse
  struct Room {
    uint64_t bytes = 0;
    bool used = false;  // before: it must be cleared
  };
  uint64_t find_space(uint64_t span, uint64_t align);
  uint64_t find_space(Holes& holes, uint64_t& next, uint64_t end, uint64_t span, uint64_t align);
  uint64_t allocate_like_driver(uint64_t bytes, int device, uint64_t align);
  uint64_t take_room(uint64_t bytes, int device);
  void give_room(std::map<uint64_t, Room>& rooms, uint64_t address, Room room);
  bool made_of_mappings(uint64_t address, uint64_t bytes) const;

  mutable std::shared_mutex mutex_;
  std::map<uint64_t, Allocation> live_, freed_, registered_;
  std::map<uint64_t, uint64_t> reserved_;    // address -> bytes
  Holes holes_, driver_holes_;               // of the lower half of the range, and of the upper, where slabs are
  uint64_t driver_next_ = 0;                 // 0 before the first allocation there
  std::map<int, std::map<uint64_t, Room>> rooms_;  // by device: room in slabs, by address
};

}  // namespace orrery::exec
