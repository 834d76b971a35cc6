// api/texture_calls.h: texture and surface objects, shared by both APIs.
#pragma once
#include "api/abi_driver.h"
#include "api/memory_calls.h"

namespace orrery::api {

struct Sampling {
  int address_mode[3] = {1, 1, 1};   // 0 wrap, 1 clamp, 2 mirror, 3 border
  bool linear = false, normalized = false, as_float = false, srgb = false, mip_linear = false;
  float border[4] = {0, 0, 0, 0}, bias = 0, min_level = 0, max_level = 0;
};

/// Where texels come from.
struct Resource {
  std::shared_ptr<device::Array> array;
  std::shared_ptr<device::MipmappedArray> mipmap;
  uint64_t address = 0;
  device::Format format;
  uint64_t width = 0, height = 0, pitch = 0;   // texels, rows, bytes; height 0: linear memory
};

/// Throws Failure(invalid_value) for what the hardware does not do.
uint64_t make_texture(const Resource& resource, const Sampling& sampling, std::vector<std::byte> resource_desc, std::vector<std::byte> texture_desc,
                      std::vector<std::byte> view_desc);
uint64_t make_surface(const Resource& resource, std::vector<std::byte> resource_desc);
void destroy_object(uint64_t handle, bool surface);
const device::ObjectRecord& object_record(uint64_t handle);

}  // namespace orrery::api
