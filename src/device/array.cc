// Arrays and the table of texture objects; see array.h.
#include "device/array.h"

#include "device/device.h"

namespace orrery::device {

int Format::channels() const {
  int n = 0;
  while (n < 4 && bits[n]) n++;
  return n;
}

uint32_t Format::texel_bytes() const { return (bits[0] + bits[1] + bits[2] + bits[3]) / 8; }

Array::~Array() {
  system().deferred().run();
  if (address && !owner) system().memory().release(address);
}

std::shared_ptr<Array> make_array(Device& device, uint64_t width, uint64_t height, uint64_t depth, Format format, uint32_t flags) {
  int channels = format.channels();
  bool known = channels == 1 || channels == 2 || channels == 4;
  for (int i = 0; i < channels; i++) known &= format.bits[i] == format.bits[0] && (format.bits[i] == 8 || format.bits[i] == 16 || format.bits[i] == 32);
  require(known, Status::invalid_channel_descriptor);
  require(width > 0 && width <= 131072 && height <= 65536 && depth <= 16384, Status::invalid_value);
  auto array = std::make_shared<Array>();
  array->device = &device;
  array->width = width;
  array->height = height;
  array->depth = depth;
  array->format = format;
  array->flags = flags;
  array->pitch = (width * format.texel_bytes() + 31) / 32 * 32;
  array->slice = array->pitch * array->rows();
  array->address = system().allocate(device, array->slice * array->slices(), exec::MemoryKind::array);
  return array;
}

uint64_t TextureTable::add(std::unique_ptr<ObjectRecord> record) {
  std::lock_guard lock(mutex_);
  uint64_t handle;
  if (!free_.empty()) {
    handle = free_.back();
    free_.pop_back();
  } else {
    require(next_ < kCapacity, Status::out_of_memory);
    handle = next_++;
  }
  slots_[handle].store(record.release(), std::memory_order_release);
  return handle;
}

bool TextureTable::remove(uint64_t handle) {
  std::lock_guard lock(mutex_);
  if (handle < kFirst || handle >= next_) return false;
  ObjectRecord* record = slots_[handle].exchange(nullptr);
  if (!record) return false;
  delete record;
  free_.push_back(handle);
  return true;
}

const ObjectRecord* TextureTable::find(uint64_t handle) const {
  return handle < kFirst || handle >= kCapacity ? nullptr : slots_[handle].load(std::memory_order_acquire);
}

}  // namespace orrery::device
