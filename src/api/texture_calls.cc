// Texture and surface objects; see texture_calls.h.
#include "api/texture_calls.h"

namespace orrery::api {
namespace {

exec::AddressMode mode_of(int number) {
  require(number >= 0 && number <= 3, Status::invalid_value);
  static constexpr exec::AddressMode kModes[] = {exec::AddressMode::wrap, exec::AddressMode::clamp, exec::AddressMode::mirror, exec::AddressMode::border};
  return kModes[number];
}

void set_format(exec::TextureObject& object, const device::Format& format) {
  int channels = format.channels();
  require(channels == 1 || channels == 2 || channels == 4, Status::invalid_channel_descriptor);
  object.channels = uint8_t(channels);
  object.channel_bits = format.bits[0];
  object.kind = format.kind;
}

void set_array(exec::TextureObject& object, const device::Array& array) {
  object.data = array.address;
  object.array = true;
  object.width = uint32_t(array.width);
  object.height = uint32_t(array.height);
  object.cubemap = array.flags & device::kCubemap;
  bool layered = array.flags & (device::kLayered | device::kCubemap);
  object.depth = layered ? 0 : uint32_t(array.depth);
  object.layers = layered ? uint32_t(array.depth) : 0;
  object.pitch = array.pitch;
  object.slice = array.slice;
  set_format(object, array.format);
}

void set_sampling(exec::TextureObject& object, const Sampling& sampling) {
  for (int i = 0; i < 3; i++) {
    object.mode[i] = mode_of(sampling.address_mode[i]);
    object.border[i] = sampling.border[i];
  }
  object.border[3] = sampling.border[3];
  object.normalized_coords = sampling.normalized;
  object.linear_filter = sampling.linear;
  object.read_normalized_float = sampling.as_float && object.kind != exec::TexelKind::flt;
  object.srgb = sampling.srgb;
  object.mip_linear = sampling.mip_linear;
  object.mip_bias = sampling.bias;
  object.mip_min = sampling.min_level;
  object.mip_max = sampling.max_level;
  // Linear filtering needs float results.
  require(!object.linear_filter || object.kind == exec::TexelKind::flt || object.read_normalized_float, Status::invalid_value);
  require(!object.read_normalized_float || object.channel_bits <= 16, Status::invalid_value);
}

struct Mips {
  std::shared_ptr<device::MipmappedArray> array;
  std::vector<exec::TextureObject> levels;
};

}  // namespace

uint64_t make_texture(const Resource& resource, const Sampling& sampling, std::vector<std::byte> resource_desc, std::vector<std::byte> texture_desc,
                      std::vector<std::byte> view_desc) {
  auto record = std::make_unique<device::ObjectRecord>();
  exec::TextureObject& object = record->object;
  if (resource.array) {
    set_array(object, *resource.array);
    record->keeps = resource.array;
  } else if (resource.mipmap) {
    auto mips = std::make_shared<Mips>();
    mips->array = resource.mipmap;
    for (auto& level : resource.mipmap->levels) {
      set_array(mips->levels.emplace_back(), *level);
      set_sampling(mips->levels.back(), sampling);
    }
    object = mips->levels[0];
    object.levels = uint8_t(mips->levels.size());
    object.mips = mips->levels.data();
    record->keeps = mips;
  } else {
    require(resource.address != 0 && resource.width > 0, Status::invalid_value);
    object.data = resource.address;
    object.width = uint32_t(resource.width);
    object.height = uint32_t(resource.height);
    object.pitch = resource.pitch;
    object.linear_memory = resource.height == 0;
    set_format(object, resource.format);
    uint64_t bytes = resource.height ? resource.pitch * (resource.height - 1) + resource.width * resource.format.texel_bytes() : resource.width * resource.format.texel_bytes();
    device::check_side({resource.address, 0, 0, nullptr}, bytes, true);
  }
  set_sampling(object, sampling);
  record->resource = std::move(resource_desc);
  record->texture = std::move(texture_desc);
  record->view = std::move(view_desc);
  return device::system().textures().add(std::move(record));
}

uint64_t make_surface(const Resource& resource, std::vector<std::byte> resource_desc) {
  require(resource.array != nullptr, Status::invalid_value);
  require(resource.array->flags & device::kSurface || resource.array->owner, Status::invalid_value);
  auto record = std::make_unique<device::ObjectRecord>();
  set_array(record->object, *resource.array);
  record->object.is_surface = true;
  record->keeps = resource.array;
  record->resource = std::move(resource_desc);
  return device::system().textures().add(std::move(record));
}

void destroy_object(uint64_t handle, bool surface) {
  if (handle == 0) return;
  const device::ObjectRecord* record = device::system().textures().find(handle);
  require(record && record->object.is_surface == surface, Status::invalid_value);
  device::system().textures().remove(handle);
}

const device::ObjectRecord& object_record(uint64_t handle) {
  const device::ObjectRecord* record = device::system().textures().find(handle);
  require(record != nullptr, Status::invalid_value);
  return *record;
}

}  // namespace orrery::api
