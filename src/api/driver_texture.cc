// Driver API: arrays, texture and surface objects.
#include <cstring>

#include "api/driver_copy.h"
#include "api/texture_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;

namespace {

template <class T>
std::vector<std::byte> bytes_of(const T* value) {
  auto first = reinterpret_cast<const std::byte*>(value);
  return {first, first + sizeof *value};
}

Resource resource_of(const CUDA_RESOURCE_DESC& desc) {
  Resource resource;
  if (desc.resType == 0) {
    resource.array = array_of(desc.res.array.hArray);
  } else if (desc.resType == 1) {
    resource.mipmap = handles<device::MipmappedArray>().get(desc.res.mipmap.hMipmappedArray);
  } else if (desc.resType == 2) {
    resource.address = desc.res.linear.devPtr;
    resource.format = driver_format(desc.res.linear.format, desc.res.linear.numChannels);
    resource.width = desc.res.linear.sizeInBytes / resource.format.texel_bytes();
  } else {
    require(desc.resType == 3, Status::invalid_value);
    resource.address = desc.res.pitch2D.devPtr;
    resource.format = driver_format(desc.res.pitch2D.format, desc.res.pitch2D.numChannels);
    resource.width = desc.res.pitch2D.width;
    resource.height = desc.res.pitch2D.height;
    resource.pitch = desc.res.pitch2D.pitchInBytes;
  }
  return resource;
}

CUarray create_array(Context& context, const CUDA_ARRAY3D_DESCRIPTOR& p) {
  auto array = device::make_array(context.device(), p.Width, p.Height, p.Depth, driver_format(p.Format, p.NumChannels), p.Flags);
  return reinterpret_cast<CUarray>(handles<device::Array>().add(array));
}

}  // namespace

API(cuArray3DCreate_v2)(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* p) {
  return driver_in([&](Context& context) {
    require(out && p, Status::invalid_value);
    *out = create_array(context, *p);
  });
}
API(cuArrayCreate_v2)(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* p) {
  return driver_in([&](Context& context) {
    require(out && p, Status::invalid_value);
    *out = create_array(context, {p->Width, p->Height, 0, p->Format, p->NumChannels, 0});
  });
}
API(cuArrayDestroy)(CUarray array) {
  return driver_in([&](Context& context) {
    auto taken = handles<device::Array>().take(array);
    wait_for_use(context);
  });
}
API(cuArray3DGetDescriptor_v2)(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray array) {
  return driver_in([&](Context&) {
    auto found = array_of(array);
    *out = {found->width, found->height, found->depth, driver_format_number(found->format), unsigned(found->format.channels()), found->flags};
  });
}
API(cuArrayGetDescriptor_v2)(CUDA_ARRAY_DESCRIPTOR* out, CUarray array) {
  return driver_in([&](Context&) {
    auto found = array_of(array);
    *out = {found->width, found->height, driver_format_number(found->format), unsigned(found->format.channels())};
  });
}
API(cuMipmappedArrayCreate)(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* p, unsigned levels) {
  return driver_in([&](Context& context) {
    require(out && p && levels > 0 && levels < 32, Status::invalid_value);
    auto mipmap = std::make_shared<device::MipmappedArray>();
    for (unsigned level = 0; level < levels; level++) {
      auto shrink = [&](size_t n) { return n ? std::max<size_t>(1, n >> level) : 0; };
      size_t depth = p->Flags & device::kLayered ? p->Depth : shrink(p->Depth);
      mipmap->levels.push_back(
          device::make_array(context.device(), shrink(p->Width), shrink(p->Height), depth, driver_format(p->Format, p->NumChannels), p->Flags));
    }
    *out = reinterpret_cast<CUmipmappedArray>(handles<device::MipmappedArray>().add(mipmap));
  });
}
API(cuMipmappedArrayGetLevel)(CUarray* out, CUmipmappedArray mipmap, unsigned level) {
  return driver_in([&](Context&) {
    auto found = handles<device::MipmappedArray>().get(mipmap);
    require(out && level < found->levels.size(), Status::invalid_value);
    *out = reinterpret_cast<CUarray>(handles<device::Array>().add(found->levels[level]));
  });
}
API(cuMipmappedArrayDestroy)(CUmipmappedArray mipmap) {
  return driver_in([&](Context& context) {
    auto taken = handles<device::MipmappedArray>().take(mipmap);
    wait_for_use(context);
  });
}

API(cuTexObjectCreate)(unsigned long long* out, const CUDA_RESOURCE_DESC* resource, const CUDA_TEXTURE_DESC* texture, const void* view) {
  return driver_in([&](Context&) {
    require(out && resource && texture, Status::invalid_value);
    if (view) throw Failure(Status::not_supported, "resource views of textures are not supported");
    Sampling sampling;
    std::copy_n(texture->addressMode, 3, sampling.address_mode);
    std::copy_n(texture->borderColor, 4, sampling.border);
    sampling.linear = texture->filterMode == 1;
    sampling.normalized = texture->flags & 2;
    sampling.as_float = !(texture->flags & 1);  // CU_TRSF_READ_AS_INTEGER
    sampling.srgb = texture->flags & 0x10;
    sampling.mip_linear = texture->mipmapFilterMode == 1;
    sampling.bias = texture->mipmapLevelBias;
    sampling.min_level = texture->minMipmapLevelClamp;
    sampling.max_level = texture->maxMipmapLevelClamp;
    Resource source = resource_of(*resource);
    const device::Format& format = source.array ? source.array->format : source.mipmap ? source.mipmap->levels[0]->format : source.format;
    if (format.bits[0] == 32) sampling.as_float = false;
    *out = make_texture(source, sampling, bytes_of(resource), bytes_of(texture), {});
  });
}
API(cuTexObjectDestroy)(unsigned long long handle) {
  return driver_in([&](Context& context) {
    wait_for_use(context);
    destroy_object(handle, false);
  });
}
API(cuTexObjectGetResourceDesc)(CUDA_RESOURCE_DESC* out, unsigned long long handle) {
  return driver([&] { std::memcpy(out, object_record(handle).resource.data(), sizeof *out); });
}
API(cuTexObjectGetTextureDesc)(CUDA_TEXTURE_DESC* out, unsigned long long handle) {
  return driver([&] { std::memcpy(out, object_record(handle).texture.data(), sizeof *out); });
}
API(cuSurfObjectCreate)(unsigned long long* out, const CUDA_RESOURCE_DESC* resource) {
  return driver_in([&](Context&) {
    require(out && resource && resource->resType == 0, Status::invalid_value);
    *out = make_surface(resource_of(*resource), bytes_of(resource));
  });
}
API(cuSurfObjectDestroy)(unsigned long long handle) {
  return driver_in([&](Context& context) {
    wait_for_use(context);
    destroy_object(handle, true);
  });
}
API(cuSurfObjectGetResourceDesc)(CUDA_RESOURCE_DESC* out, unsigned long long handle) {
  return driver([&] { std::memcpy(out, object_record(handle).resource.data(), sizeof *out); });
}
