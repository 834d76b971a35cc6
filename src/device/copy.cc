// Checked copies and fills; see copy.h.
#include "device/copy.h"

#include <cstring>

#include "device/array.h"
#include "device/device.h"
#include "device/graph.h"

namespace orrery::device {

Place place_of(uint64_t address) {
  exec::DeviceMemory& memory = system().memory();
  Place place;
  if (auto found = memory.contains(address) ? memory.find(address) : memory.find_registered(address)) {
    place.pageable = false;
    place.kind = found->kind;
    place.device = found->device;
    place.start = found->address;
    place.size = found->size;
    place.registered = !memory.contains(address);
    if (place.registered) place.kind = exec::MemoryKind::pinned;
  }
  return place;
}

uint64_t span_of(const CopySide& side, uint64_t width, uint64_t height, uint64_t depth) {
  return width + (height - 1) * side.pitch + (depth - 1) * side.slice;
}

void check_side(const CopySide& side, uint64_t bytes, bool must_be_device) {
  require(side.address != 0, Status::invalid_value);
  if (side.array) return;
  Place place = place_of(side.address);
  if (place.pageable) {
    require(!must_be_device && !system().memory().contains(side.address), Status::invalid_value);
  } else if (!place.registered) {
    require(side.address + bytes <= place.start + place.size, Status::invalid_value);
  }
}

void check_copy(const CopyWork& work, Direction direction) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  check_side(work.src, span_of(work.src, work.width, work.height, work.depth),
             direction == Direction::device_to_host || direction == Direction::device_to_device);
  check_side(work.dst, span_of(work.dst, work.width, work.height, work.depth),
             direction == Direction::host_to_device || direction == Direction::device_to_device);
  auto on_device = [](const CopySide& side) {
    Place place = place_of(side.address);
    return !place.pageable && (place.kind == exec::MemoryKind::device || place.kind == exec::MemoryKind::module);
  };
  if (direction == Direction::host_to_device || direction == Direction::host_to_host) require(!on_device(work.src), Status::invalid_value);
  if (direction == Direction::device_to_host || direction == Direction::host_to_host) require(!on_device(work.dst), Status::invalid_value);
}

namespace {

// Pageable source rows, copied now: the caller may change them as soon as the call returns.
void stage(CopyWork& work) {
  work.staged = std::make_shared<std::vector<std::byte>>(work.width * work.height * work.depth);
  std::byte* to = work.staged->data();
  for (uint64_t z = 0; z < work.depth; z++)
    for (uint64_t y = 0; y < work.height; y++, to += work.width)
      std::memcpy(to, reinterpret_cast<const void*>(work.src.address + z * work.src.slice + y * work.src.pitch), work.width);
  work.src.pitch = work.width;
  work.src.slice = work.width * work.height;
}

bool capturing(Context& context, const Stream& stream) {
  std::lock_guard lock(context.capture_lock());
  return capture_of(stream) != nullptr;
}

}  // namespace

void submit_copy(Context& context, const std::shared_ptr<Stream>& stream, CopyWork work, Direction direction, bool asynchronous) {
  check_copy(work, direction);
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  if (!work.dst.array && direction != Direction::device_to_host && direction != Direction::host_to_host) system().memory().settle(work.dst.address, true);
  bool captured = capturing(context, *stream);
  if (!asynchronous) {
    require(!captured, Status::capture_unsupported);
    return context.submit_and_wait(stream, std::move(work));
  }
  if (captured) {
    context.submit(stream, std::move(work));
    return;
  }
  bool from_pageable = !work.src.array && place_of(work.src.address).pageable;
  bool to_pageable = !work.dst.array && place_of(work.dst.address).pageable;
  if (to_pageable) return context.submit_and_wait(stream, std::move(work));
  if (from_pageable) {
    if (stream->idle()) return context.submit_and_wait(stream, std::move(work));
    stage(work);
  }
  context.submit(stream, std::move(work));
}

void check_fill(const FillWork& work) {
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  CopySide side{work.address, work.pitch, work.slice, nullptr};
  check_side(side, span_of(side, work.width * work.element, work.height, work.depth), true);
  require(work.address % work.element == 0, Status::invalid_value);
}

void submit_fill(Context& context, const std::shared_ptr<Stream>& stream, const FillWork& work, bool asynchronous) {
  check_fill(work);
  if (work.width == 0 || work.height == 0 || work.depth == 0) return;
  system().memory().settle(work.address, true);
  if (asynchronous) {
    context.submit(stream, work);
    return;
  }
  require(!capturing(context, *stream), Status::capture_unsupported);
  context.submit_and_wait(stream, work);
}

}  // namespace orrery::device
