// Runtime API: texture and surface objects.
#include <cstring>

#include "api/texture_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;

namespace {

template <class T>
std::vector<std::byte> bytes_of(const T* value) {
  if (!value) return {};
  auto first = reinterpret_cast<const std::byte*>(value);
  return {first, first + sizeof *value};
}

Resource resource_of(const cudaResourceDesc& desc) {
  Resource resource;
  switch (desc.resType) {
    case 0: resource.array = array_of(desc.res.array.array); break;
    case 1: resource.mipmap = handles<device::MipmappedArray>().get(desc.res.mipmap.mipmap); break;
    case 2:
      resource.address = reinterpret_cast<uint64_t>(desc.res.linear.devPtr);
      resource.format = format_of(desc.res.linear.desc);
      require(resource.format.texel_bytes() > 0, Status::invalid_channel_descriptor);
      resource.width = desc.res.linear.sizeInBytes / resource.format.texel_bytes();
      break;
    case 3:
      resource.address = reinterpret_cast<uint64_t>(desc.res.pitch2D.devPtr);
      resource.format = format_of(desc.res.pitch2D.desc);
      resource.width = desc.res.pitch2D.width;
      resource.height = desc.res.pitch2D.height;
      resource.pitch = desc.res.pitch2D.pitchInBytes;
      require(resource.pitch % 32 == 0 && resource.height > 0, Status::invalid_value);
      break;
    default: throw Failure(Status::invalid_value);
  }
  return resource;
}

template <class T>
int give(T* out, const std::vector<std::byte>& from) {
  require(out != nullptr && from.size() == sizeof *out, Status::invalid_value);
  std::memcpy(out, from.data(), sizeof *out);
  return 0;
}

}  // namespace

API(cudaCreateTextureObject)(cudaTextureObject_t* out, const cudaResourceDesc* resource, const cudaTextureDesc* texture, const cudaResourceViewDesc* view) {
  return runtime_in([&](Context&) {
    require(out && resource && texture, Status::invalid_value);
    if (view) throw Failure(Status::not_supported, "resource views of textures are not supported");
    Sampling sampling;
    std::copy_n(texture->addressMode, 3, sampling.address_mode);
    std::copy_n(texture->borderColor, 4, sampling.border);
    sampling.linear = texture->filterMode == 1;
    sampling.normalized = texture->normalizedCoords != 0;
    sampling.as_float = texture->readMode == 1;
    sampling.srgb = texture->sRGB != 0;
    sampling.mip_linear = texture->mipmapFilterMode == 1;
    sampling.bias = texture->mipmapLevelBias;
    sampling.min_level = texture->minMipmapLevelClamp;
    sampling.max_level = texture->maxMipmapLevelClamp;
    *out = make_texture(resource_of(*resource), sampling, bytes_of(resource), bytes_of(texture), bytes_of(view));
  });
}
API(cudaDestroyTextureObject)(cudaTextureObject_t handle) {
  return runtime_in([&](Context& context) {
    wait_for_use(context);
    destroy_object(handle, false);
  });
}
API(cudaGetTextureObjectResourceDesc)(cudaResourceDesc* out, cudaTextureObject_t handle) {
  return runtime_in([&](Context&) { give(out, object_record(handle).resource); });
}
API(cudaGetTextureObjectTextureDesc)(cudaTextureDesc* out, cudaTextureObject_t handle) {
  return runtime_in([&](Context&) { give(out, object_record(handle).texture); });
}
API(cudaCreateSurfaceObject)(cudaSurfaceObject_t* out, const cudaResourceDesc* resource) {
  return runtime_in([&](Context&) {
    require(out && resource && resource->resType == 0, Status::invalid_value);
    *out = make_surface(resource_of(*resource), bytes_of(resource));
  });
}
API(cudaDestroySurfaceObject)(cudaSurfaceObject_t handle) {
  return runtime_in([&](Context& context) {
    wait_for_use(context);
    destroy_object(handle, true);
  });
}
API(cudaGetSurfaceObjectResourceDesc)(cudaResourceDesc* out, cudaSurfaceObject_t handle) {
  return runtime_in([&](Context&) { give(out, object_record(handle).resource); });
}
