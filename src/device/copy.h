// device/copy.h: what an address is, and checked copies.
//
// Under unified addressing an address alone says where memory is. Host memory that nobody registered is "pageable":
// CUDA stages such sources and waits for such destinations, and so does submit_copy.
// Source: CUDA runtime API, "API synchronization behavior".
#pragma once
#include <optional>

#include "device/context.h"
#include "exec/memory.h"

namespace orrery::device {

enum class Direction : int { host_to_host, host_to_device, device_to_host, device_to_device, automatic };

struct Place {
  bool pageable = true;             // ordinary host memory
  exec::MemoryKind kind = exec::MemoryKind::pinned;
  int device = 0;
  uint64_t start = 0, size = 0;     // of the allocation
  bool registered = false;          // host memory made known by cudaHostRegister
};
Place place_of(uint64_t address);

/// Checks one side of a copy: inside one allocation, and on the side that `must_be_device` demands.
/// Throws Failure(invalid_value).
void check_side(const CopySide& side, uint64_t bytes, bool must_be_device);
/// Bytes from the first to the last byte touched.
uint64_t span_of(const CopySide& side, uint64_t width, uint64_t height, uint64_t depth);

/// Checks and submits a copy; `asynchronous` as the caller's function name says. Throws Failure.
void submit_copy(Context& context, const std::shared_ptr<Stream>& stream, CopyWork work, Direction direction, bool asynchronous);
void check_copy(const CopyWork& work, Direction direction);
void submit_fill(Context& context, const std::shared_ptr<Stream>& stream, const FillWork& work, bool asynchronous);
void check_fill(const FillWork& work);

}  // namespace orrery::device
