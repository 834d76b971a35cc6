// exec/memory.cc: see memory.h. Spans are page multiples: the allocation's pages, then one page left unmapped. Slabs have
// the upper half of the range to themselves, so that nothing but device memory is next to device memory.
//
// Under an observer that gets no accesses (compiled code runs), allocations end where their pages end, but for
// alignment, so that an access past the end meets the unmapped page; the bytes around them hold kFenceByte.
#include "exec/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/error.h"
#include "exec/observer.h"

namespace orrery::exec {

namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t kLarge = uint64_t{2} << 20;
constexpr uint64_t kWindowAlign = uint64_t{1} << 18;  // unit.cc says why
constexpr uint64_t kFenceAlign = 256;  // what programs rely on
constexpr uint64_t kHint = 0x200000000000;  // the same addresses in every run, so compiled code can be kept on disk
constexpr uint64_t kDriversOwn = uint64_t{37} << 21;  // mapped between the first slab and the next: the driver's own memory
constexpr uint64_t kDriversBelow = uint64_t{17} << 21;  // and below the first slab, at least: programs read left[-1] there
uint64_t align_up(uint64_t v, uint64_t a) { return (v + a - 1) & ~(a - 1); }
bool commit(uint64_t address, uint64_t bytes) {
  return mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}
}  // namespace

DeviceMemory::DeviceMemory(uint64_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
#ifdef __SANITIZE_THREAD__
  constexpr bool kAnywhere = true;  // its shadow memory lies at the hint
  bytes = std::min(bytes, uint64_t{1} << 33);
#else
  constexpr bool kAnywhere = false;
#endif
  for (size_ = bytes; size_ >= (uint64_t{1} << 32); size_ /= 2) {
    void* p = kAnywhere ? MAP_FAILED : mmap(reinterpret_cast<void*>(kHint), size_, PROT_NONE, kFlags | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) p = mmap(nullptr, size_, PROT_NONE, kFlags, -1, 0);
    if (p == MAP_FAILED) continue;
    base_ = reinterpret_cast<uint64_t>(p);
    next_ = base_ + kLarge;
    return;
  }
  base::fail("cannot reserve address space for device memory; raise the limit on virtual memory (ulimit -v)");
}

DeviceMemory::~DeviceMemory() { munmap(reinterpret_cast<void*>(base_), size_); }

/// Unused addresses; the lock is held.
uint64_t DeviceMemory::find_space(Holes& holes, uint64_t& next, uint64_t end, uint64_t span, uint64_t align) {
  for (auto it = holes.lower_bound(span); !observer_ && it != holes.end() && it->first <= span * 2; ++it) {
    if (it->second & (align - 1)) continue;
    const uint64_t address = it->second, rest = it->first - span;
    holes.erase(it);
    if (rest >= 2 * kPage) holes.emplace(rest, address + span);
    return address;
  }
  const uint64_t at = align_up(next, align);
  if (at + span > end) return 0;
  next = at + span;
  return at;
}

uint64_t DeviceMemory::find_space(uint64_t span, uint64_t align) {
  return find_space(holes_, next_, base_ + size_ / 2, span, align);
}

/// Puts a free span among the others of a device's slabs, joined with those that it touches.
void DeviceMemory::give_room(std::map<uint64_t, Room>& rooms, uint64_t address, Room room) {
  auto after = rooms.lower_bound(address);
  if (after != rooms.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes == address && before->second.used == room.used && address % kLarge) {
      address = before->first;
      room.bytes += before->second.bytes;
      rooms.erase(before);
    }
  }
  const uint64_t end = address + room.bytes;
  if (after != rooms.end() && after->first == end && after->second.used == room.used && end % kLarge) {
    room.bytes += after->second.bytes;
    rooms.erase(after);
  }
  rooms[address] = room;
}

/// Best fit in the slabs of a device, with a new slab when none has room; 0 when the system refuses.
uint64_t DeviceMemory::take_room(uint64_t bytes, int device) {
  auto& rooms = rooms_[device];
  auto fits = [&] {
    auto best = rooms.end();
    for (auto it = rooms.begin(); it != rooms.end(); ++it)
      if (it->second.bytes >= bytes && (best == rooms.end() || it->second.bytes < best->second.bytes)) best = it;
    return best;
  };
  auto at = fits();
  if (at == rooms.end()) {
    const uint64_t slab = find_space(driver_holes_, driver_next_, base_ + size_, kLarge, kLarge);
    if (!slab || !commit(slab, kLarge)) return 0;
    rooms[slab] = {kLarge, false};
    at = fits();
  }
  const auto [address, room] = *at;
  rooms.erase(at);
  if (room.bytes > bytes) rooms[address + bytes] = {room.bytes - bytes, room.used};
  if (room.used) std::memset(reinterpret_cast<void*>(address), 0, bytes);
  return address;
}

uint64_t DeviceMemory::allocate_like_driver(uint64_t bytes, int device, uint64_t align) {
  constexpr uint64_t kUnit = 512, kLargestPacked = uint64_t{1} << 20;
  std::unique_lock lock(mutex_);
  if (!driver_next_) {
    const uint64_t zone = base_ + size_ / 2 + kLarge + kDriversBelow;
    if (!commit(zone - kDriversBelow, kDriversBelow + kDriversOwn)) return 0;
    rooms_[device][zone] = {kLarge, false};
    driver_next_ = zone + kDriversOwn;
  }
  Allocation a{.size = bytes, .mapped = align_up(bytes, kUnit), .device = device, .packed = true};
  if (bytes <= kLargestPacked && align <= kUnit) {
    a.address = take_room(a.mapped, device);
    if (!a.address) return 0;
  } else {
    a.packed = false;
    a.mapped = align_up(bytes, kLarge);
    const uint64_t end = driver_next_;
    a.address = find_space(driver_holes_, driver_next_, base_ + size_ - kLarge, a.mapped, std::max(align, kLarge));
    if (!a.address) return 0;
    if (a.address >= end && align <= kLarge) {
      // One slab apart from what is before: arrays of 2^n bytes side by side meet in the same places of the host's caches
      // and memory, which made a[i] = b[i] + c[i] twice as slow.
      if (!commit(a.address, kLarge)) return 0;
      a.address += kLarge;
      driver_next_ += kLarge;
    }
    if (!commit(a.address, a.mapped)) {
      driver_holes_.emplace(a.mapped, a.address);
      return 0;
    }
    madvise(reinterpret_cast<void*>(a.address), a.mapped, MADV_HUGEPAGE);
  }
  freed_.erase(freed_.lower_bound(a.address), freed_.lower_bound(a.address + a.mapped));
  a.id = next_id_++;
  live_[a.address] = a;
  return a.address;
}

uint64_t DeviceMemory::allocate(uint64_t bytes, MemoryKind kind, int device, uint64_t align) {
  if (bytes == 0 || bytes > size_) return 0;
  if (!observer_ && kind == MemoryKind::device) return allocate_like_driver(bytes, device, align);
  const uint64_t mapped = align_up(bytes, kPage), span = mapped + kPage;
  align = std::max({align, kPage, mapped >= kLarge ? kLarge : kPage});
  std::unique_lock lock(mutex_);
  uint64_t address = find_space(span, align);
  if (!address) return 0;
  void* p = reinterpret_cast<void*>(address);
  if (mmap(p, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    holes_.emplace(span, address);
    return 0;
  }
  if (mapped >= kLarge && (kind != MemoryKind::window || mapped >= 16 * kLarge)) madvise(p, mapped, MADV_HUGEPAGE);  // (much of a window is never touched)
  freed_.erase(freed_.lower_bound(address), freed_.lower_bound(address + span));
  uint64_t offset = 0;
  if (observer_ && !observer_->wants() && align <= kPage && (kind == MemoryKind::device || kind == MemoryKind::managed)) {
    offset = mapped - align_up(bytes, kFenceAlign);
    std::memset(p, kFenceByte, offset);
    std::memset(reinterpret_cast<void*>(address + offset + bytes), kFenceByte, mapped - offset - bytes);
  }
  address += offset;
  live_[address] = {address, bytes, mapped - offset, kind, device, next_id_++};
  const Allocation made = live_[address];
  lock.unlock();
  if (observer_ && kind != MemoryKind::window) observer_->allocated(made);
  return address;
}

pid_t DeviceMemory::fork_process() {
  mutex_.lock();
  const pid_t child = fork();
  if (child == 0) new (&mutex_) std::shared_mutex;  // threads that wait for the old one, which the child has not, would be let in first
  else mutex_.unlock();
  return child;
}

bool DeviceMemory::release(uint64_t address) {
  std::unique_lock lock(mutex_);
  const auto it = live_.find(address);
  if (it == live_.end() || it->second.mapping) return false;
  const Allocation a = it->second;
  if (observer_ && a.kind != MemoryKind::window) {
    lock.unlock();
    observer_->released(a);  // while its bytes can still be looked at
    lock.lock();
    if (!live_.contains(address)) return false;
  }
  live_.erase(address);
  freed_[address] = a;
  if (freed_.size() > 4096) freed_.erase(freed_.begin());
  if (a.packed) {
    give_room(rooms_[a.device], address, {a.mapped, true});
    return true;
  }
  const bool like_driver = address >= base_ + size_ / 2;
  const uint64_t begin = address / kPage * kPage, mapped = address + a.mapped - begin;
  mmap(reinterpret_cast<void*>(begin), mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (like_driver) driver_holes_.emplace(mapped, begin);
  else holes_.emplace(mapped + kPage, begin);
  return true;
}

namespace {
std::optional<Allocation> holder(const std::map<uint64_t, Allocation>& map, uint64_t address) {
  auto it = map.upper_bound(address);
  if (it == map.begin()) return std::nullopt;
  --it;
  if (address - it->second.address >= it->second.size) return std::nullopt;
  return it->second;
}
}  // namespace

std::optional<Allocation> DeviceMemory::find(uint64_t address) const {
  std::shared_lock lock(mutex_);
  auto found = holder(live_, address);
  if (!found || !found->mapping) return found;
  auto touches = [&](auto it) { return it != live_.end() && it->second.mapping && it->second.size; };
  for (auto it = live_.find(found->address + found->size); touches(it); it = live_.find(found->address + found->size))
    found->size += it->second.size;
  for (auto it = live_.find(found->address); it != live_.begin();) {
    if (--it; !touches(it) || it->first + it->second.size != found->address) break;
    found->address = it->first, found->size += it->second.size;
  }
  found->mapped = found->size;
  return found;
}

uint64_t DeviceMemory::reserve(uint64_t bytes, uint64_t align) {
  if (bytes == 0 || bytes > size_ || bytes % kPage) return 0;
  std::unique_lock lock(mutex_);
  const uint64_t address = find_space(bytes + kPage, std::max(align, kLarge));
  if (address) reserved_[address] = bytes;
  return address;
}

bool DeviceMemory::unreserve(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  const auto it = reserved_.find(address);
  if (it == reserved_.end() || it->second != bytes) return false;
  const auto inside = live_.lower_bound(address);
  if (inside != live_.end() && inside->first < address + bytes) return false;
  reserved_.erase(it);
  holes_.emplace(bytes + kPage, address);
  return true;
}

bool DeviceMemory::map(uint64_t address, uint64_t bytes, int fd, int device) {
  std::unique_lock lock(mutex_);
  auto holds = reserved_.upper_bound(address);
  if (bytes == 0 || (address | bytes) % kPage || holds == reserved_.begin()) return false;
  --holds;
  if (address - holds->first > holds->second || bytes > holds->second - (address - holds->first)) return false;
  const auto next = live_.lower_bound(address);
  if (next != live_.end() && next->first < address + bytes) return false;
  if (next != live_.begin() && std::prev(next)->second.mapping && std::prev(next)->first + std::prev(next)->second.mapped > address) return false;
  if (mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) return false;
  live_[address] = {.address = address, .mapped = bytes, .device = device, .id = next_id_++, .mapping = true};
  freed_.erase(freed_.lower_bound(address), freed_.lower_bound(address + bytes));
  return true;
}

/// The lock is held.
bool DeviceMemory::made_of_mappings(uint64_t address, uint64_t bytes) const {
  uint64_t at = address;
  for (auto it = live_.find(at); at < address + bytes && it != live_.end() && it->second.mapping; it = live_.find(at)) at += it->second.mapped;
  return bytes && at == address + bytes;
}

bool DeviceMemory::unmap(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (!made_of_mappings(address, bytes)) return false;
  mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  std::vector<Allocation> closed;
  for (auto it = live_.find(address); it != live_.end() && it->first < address + bytes; it = live_.erase(it)) {
    freed_[it->first] = it->second;
    if (it->second.size) closed.push_back(it->second);
  }
  lock.unlock();
  for (const Allocation& a : closed)
    if (observer_) observer_->released(a);
  return true;
}

bool DeviceMemory::open(uint64_t address, uint64_t bytes, bool accessible) {
  std::unique_lock lock(mutex_);
  if (!made_of_mappings(address, bytes)) return false;
  if (mprotect(reinterpret_cast<void*>(address), bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE)) return false;
  std::vector<Allocation> changed;
  for (auto it = live_.find(address); it != live_.end() && it->first < address + bytes; ++it) {
    if ((it->second.size != 0) == accessible) continue;
    it->second.size = it->second.mapped;
    changed.push_back(it->second);
    if (!accessible) it->second.size = 0;
  }
  lock.unlock();
  for (const Allocation& a : changed)
    if (observer_) accessible ? observer_->allocated(a) : observer_->released(a);
  return true;
}

std::optional<Allocation> DeviceMemory::nearest(uint64_t address, bool* freed) const {
  std::shared_lock lock(mutex_);
  if (freed) *freed = false;
  if (auto a = holder(freed_, address)) {
    if (freed) *freed = true;
    return a;
  }
  const auto above = live_.upper_bound(address);
  if (above == live_.begin()) return above == live_.end() ? std::nullopt : std::optional(above->second);
  const Allocation& below = std::prev(above)->second;
  const uint64_t end = below.address + below.size;
  const bool nearer = above != live_.end() && address >= end && above->first - address < address - end;
  return nearer ? above->second : below;
}

std::vector<Allocation> DeviceMemory::all(MemoryKind kind) const {
  std::shared_lock lock(mutex_);
  std::vector<Allocation> found;
  for (const auto& [address, a] : live_)
    if (a.kind == kind) found.push_back(a);
  return found;
}

void DeviceMemory::settle(uint64_t address, bool on_gpu) {
  std::unique_lock lock(mutex_);
  const auto above = live_.upper_bound(address);
  if (above == live_.begin()) return;
  Allocation& a = std::prev(above)->second;
  if (a.kind == MemoryKind::managed && address - a.address < a.size) a.on_gpu = on_gpu;
}

uint64_t DeviceMemory::touched(uint64_t address, uint64_t bytes) {
  const uint64_t page = uint64_t(sysconf(_SC_PAGESIZE)), first = address / page, count = (address + bytes + page - 1) / page - first;
  std::vector<unsigned char> there(count);
  if (mincore(reinterpret_cast<void*>(first * page), count * page, there.data()) != 0) return 0;
  const auto pages = std::count_if(there.begin(), there.end(), [](unsigned char p) { return p & 1; });
  return std::min(bytes, uint64_t(pages) * page);
}

uint64_t DeviceMemory::used(MemoryKind kind, int device) const {
  std::shared_lock lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [address, a] : live_)
    if (a.kind == kind && a.device == device && !a.mapping) sum += a.size;
  return sum;
}

bool DeviceMemory::has_registered() const {
  std::shared_lock lock(mutex_);
  return !registered_.empty();
}

uint64_t DeviceMemory::acquire_window(uint64_t bytes) {
  {
    std::unique_lock lock(mutex_);
    auto it = idle_windows_.lower_bound(bytes);
    if (it != idle_windows_.end() && it->first <= 4 * bytes + (uint64_t{1} << 20)) {
      const uint64_t address = it->second;
      idle_windows_.erase(it);
      return address;
    }
  }
  return allocate(bytes, MemoryKind::window, 0, kWindowAlign);
}

void DeviceMemory::release_window(uint64_t address) {
  {
    std::unique_lock lock(mutex_);
    const auto it = live_.find(address);
    if (it == live_.end()) return;
    if (idle_windows_.size() < 64 && it->second.size < (uint64_t{64} << 20)) {
      idle_windows_.emplace(it->second.size, address);
      return;
    }
  }
  release(address);
}

bool DeviceMemory::register_host(uint64_t address, uint64_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes == 0) return false;
  auto it = registered_.lower_bound(address);
  if (it != registered_.end() && it->first < address + bytes) return false;
  if (holder(registered_, address)) return false;
  registered_[address] = {address, bytes, bytes, MemoryKind::pinned, 0, next_id_++};
  return true;
}

bool DeviceMemory::unregister_host(uint64_t address) {
  std::unique_lock lock(mutex_);
  return registered_.erase(address) == 1;
}

std::optional<Allocation> DeviceMemory::find_registered(uint64_t address) const {
  std::shared_lock lock(mutex_);
  return holder(registered_, address);
}

}  // namespace orrery::exec
