// Runtime API: allocation, pools, host memory, advice, arrays.
#include <cstring>

#include "api/memory_calls.h"
#include "api/program.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::MemoryPool;

API(cudaMalloc)(void** out, size_t bytes) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = allocate_device(context, bytes);
  });
}
API(cudaMallocHost)(void** out, size_t bytes) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = allocate_host(context, bytes, 0);
  });
}
API(cudaHostAlloc)(void** out, size_t bytes, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && flags <= 7, Status::invalid_value);
    *out = allocate_host(context, bytes, flags);
  });
}
API(cudaMallocManaged)(void** out, size_t bytes, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = allocate_managed(context, bytes, flags);
  });
}
API(cudaMallocPitch)(void** out, size_t* pitch, size_t width, size_t rows) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && pitch != nullptr, Status::invalid_value);
    *out = allocate_pitched(context, pitch, width, rows);
  });
}
API(cudaMalloc3D)(cudaPitchedPtr* out, cudaExtent extent) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    size_t pitch = 0;
    void* address = allocate_pitched(context, &pitch, extent.width, extent.height * extent.depth);
    *out = {address, pitch, extent.width, extent.height};
  });
}
API(cudaFree)(void* address) {
  return runtime_in([&](Context& context) { free_device(context, address); });
}
API(cudaFreeHost)(void* address) {
  return runtime_in([&](Context& context) { free_host(context, address); });
}
API(cudaHostRegister)(void* address, size_t bytes, unsigned flags) {
  return runtime_in([&](Context&) { register_host(address, bytes, flags); });
}
API(cudaHostUnregister)(void* address) {
  return runtime_in([&](Context&) { unregister_host(address); });
}
API(cudaHostGetDevicePointer)(void** out, void* host, unsigned) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    *out = device_pointer_of_host(host);
  });
}
API(cudaHostGetFlags)(unsigned* flags, void* host) {
  return runtime_in([&](Context&) {
    require(flags != nullptr, Status::invalid_value);
    *flags = host_flags(host);
  });
}
API(cudaMemGetInfo)(size_t* available, size_t* total) {
  return runtime_in([&](Context& context) {
    require(available != nullptr && total != nullptr, Status::invalid_value);
    device::system().deferred().run();
    *available = context.device().free_memory();
    *total = context.device().total_memory();
  });
}
API(cudaPointerGetAttributes)(cudaPointerAttributes12* out, const void* pointer) {
  return runtime_in([&](Context&) {
    require(out != nullptr, Status::invalid_value);
    device::Place place = device::place_of(reinterpret_cast<uint64_t>(pointer));
    void* address = const_cast<void*>(pointer);
    if (place.pageable) *out = {0, -2, nullptr, address};
    else if (place.kind == exec::MemoryKind::pinned) *out = {1, place.device, address, address};
    else if (place.kind == exec::MemoryKind::managed) *out = {3, place.device, address, address};
    else *out = {2, place.device, address, nullptr};
  });
}

API(cudaMallocAsync)(void** out, size_t bytes, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = allocate_async(context, stream_of(context, stream), context.device().pool(), bytes);
  });
}
PER_THREAD(cudaMallocAsync, _ptsz)
API(cudaMallocFromPoolAsync)(void** out, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    require(out != nullptr, Status::invalid_value);
    *out = allocate_async(context, stream_of(context, stream), handles<MemoryPool>().get(pool, Status::invalid_value), bytes);
  });
}
PER_THREAD(cudaMallocFromPoolAsync, _ptsz)
API(cudaFreeAsync)(void* address, cudaStream_t stream) {
  return runtime_in([&](Context& context) { free_async(context, stream_of(context, stream), address); });
}
PER_THREAD(cudaFreeAsync, _ptsz)
API(cudaMemPoolCreate)(cudaMemPool_t* out, const cudaMemPoolProps* props) {
  return runtime_in([&](Context&) {
    require(out != nullptr && props != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaMemPool_t>(make_pool(*props).get());
  });
}
API(cudaMemPoolDestroy)(cudaMemPool_t pool) {
  return runtime_in([&](Context& context) {
    auto taken = handles<MemoryPool>().take(pool, Status::invalid_value);
    if (context.device().pool() == taken) context.device().set_pool(context.device().default_pool_ref());
    wait_for_use(context);
  });
}
API(cudaMemPoolTrimTo)(cudaMemPool_t pool, size_t keep) {
  return runtime_in([&](Context&) { handles<MemoryPool>().get(pool, Status::invalid_value)->trim(keep); });
}
API(cudaMemPoolSetAttribute)(cudaMemPool_t pool, int attribute, void* value) {
  return runtime_in([&](Context&) { set_pool_attribute(*handles<MemoryPool>().get(pool, Status::invalid_value), attribute, value); });
}
API(cudaMemPoolGetAttribute)(cudaMemPool_t pool, int attribute, void* value) {
  return runtime_in([&](Context&) { get_pool_attribute(*handles<MemoryPool>().get(pool, Status::invalid_value), attribute, value); });
}
API(cudaMemPoolSetAccess)(cudaMemPool_t pool, const cudaMemAccessDesc* list, size_t count) {
  return runtime_in([&](Context&) {
    auto found = handles<MemoryPool>().get(pool, Status::invalid_value);
    for (size_t i = 0; i < count; i++) {
      require(list[i].location.type == 1, Status::invalid_value);
      device::system().device(list[i].location.id);
      found->access[list[i].location.id] = list[i].flags;
    }
  });
}
API(cudaMemPoolGetAccess)(int* flags, cudaMemPool_t pool, cudaMemLocation* location) {
  return runtime_in([&](Context&) {
    auto found = handles<MemoryPool>().get(pool, Status::invalid_value);
    require(flags != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    auto at = found->access.find(location->id);
    *flags = location->id == found->device().ordinal() ? 3 : at == found->access.end() ? 0 : at->second;
  });
}
API(cudaDeviceGetDefaultMemPool)(cudaMemPool_t* out, int ordinal) {
  return runtime([&] {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaMemPool_t>(default_pool_handle(device::system().device(ordinal)));
  });
}
API(cudaDeviceGetMemPool)(cudaMemPool_t* out, int ordinal) {
  return runtime([&] {
    require(out != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaMemPool_t>(current_pool_handle(device::system().device(ordinal)));
  });
}
API(cudaDeviceSetMemPool)(int ordinal, cudaMemPool_t pool) {
  return runtime([&] { device::system().device(ordinal).set_pool(handles<MemoryPool>().get(pool, Status::invalid_value)); });
}
API(cudaMemGetDefaultMemPool)(cudaMemPool_t* out, cudaMemLocation* location, int) {
  return runtime([&] {
    require(out != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    *out = reinterpret_cast<cudaMemPool_t>(default_pool_handle(device::system().device(location->id)));
  });
}
API(cudaMemGetMemPool)(cudaMemPool_t* out, cudaMemLocation* location, int) {
  return runtime([&] {
    require(out != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    *out = reinterpret_cast<cudaMemPool_t>(current_pool_handle(device::system().device(location->id)));
  });
}
API(cudaMemSetMemPool)(cudaMemLocation* location, int, cudaMemPool_t pool) {
  return runtime([&] {
    require(location != nullptr && location->type == 1, Status::invalid_value);
    device::system().device(location->id).set_pool(handles<MemoryPool>().get(pool, Status::invalid_value));
  });
}

API(cudaMemAdvise)(const void* address, size_t bytes, int advice, cudaMemLocation location) {
  return runtime_in([&](Context&) { advise(reinterpret_cast<uint64_t>(address), bytes, advice, location); });
}
API(cudaMemAdvise_12)(const void* address, size_t bytes, int advice, int ordinal) {
  return orrery_cudaMemAdvise(address, bytes, advice, {ordinal < 0 ? 2 : 1, ordinal});
}
API(cudaMemPrefetchAsync)(const void* address, size_t bytes, cudaMemLocation location, unsigned, cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    stream_of(context, stream);
    note_prefetch(reinterpret_cast<uint64_t>(address), bytes, location);
  });
}
PER_THREAD(cudaMemPrefetchAsync, _ptsz)
API(cudaMemPrefetchAsync_12)(const void* address, size_t bytes, int ordinal, cudaStream_t stream) {
  return orrery_cudaMemPrefetchAsync(address, bytes, {ordinal < 0 ? 2 : 1, ordinal}, 0, stream);
}
PER_THREAD(cudaMemPrefetchAsync_12, _ptsz)
API(cudaMemPrefetchBatchAsync)(void** addresses, size_t* sizes, size_t count, cudaMemLocation* locations, size_t* first, size_t n, unsigned long long,
                               cudaStream_t stream) {
  return runtime_in([&](Context& context) {
    stream_of(context, stream);
    for (size_t i = 0, l = 0; i < count; i++) {
      while (l + 1 < n && first[l + 1] <= i) l++;
      note_prefetch(reinterpret_cast<uint64_t>(addresses[i]), sizes[i], locations[l]);
    }
  });
}
PER_THREAD(cudaMemPrefetchBatchAsync, _ptsz)
API(cudaMemRangeGetAttribute)(void* data, size_t size, int attribute, const void* address, size_t) {
  return runtime_in([&](Context&) { get_range_attribute(data, size, attribute, reinterpret_cast<uint64_t>(address)); });
}
API(cudaMemRangeGetAttributes)(void** data, size_t* sizes, int* attributes, size_t count, const void* address, size_t) {
  return runtime_in([&](Context&) {
    for (size_t i = 0; i < count; i++) get_range_attribute(data[i], sizes[i], attributes[i], reinterpret_cast<uint64_t>(address));
  });
}
API(cudaStreamAttachMemAsync)(cudaStream_t stream, void*, size_t, unsigned) {
  return runtime_in([&](Context& context) { stream_of(context, stream); });
}
PER_THREAD(cudaStreamAttachMemAsync, _ptsz)

API(cudaMallocArray)(cudaArray_t* out, const cudaChannelFormatDesc* desc, size_t width, size_t height, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && desc != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaArray_t>(handles<device::Array>().add(device::make_array(context.device(), width, height, 0, format_of(*desc), flags)));
  });
}
API(cudaMalloc3DArray)(cudaArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && desc != nullptr, Status::invalid_value);
    *out = reinterpret_cast<cudaArray_t>(
        handles<device::Array>().add(device::make_array(context.device(), extent.width, extent.height, extent.depth, format_of(*desc), flags)));
  });
}
API(cudaFreeArray)(cudaArray_t array) {
  return runtime_in([&](Context& context) {
    if (!array) return;
    auto taken = handles<device::Array>().take(array);
    wait_for_use(context);
  });
}
API(cudaMallocMipmappedArray)(cudaMipmappedArray_t* out, const cudaChannelFormatDesc* desc, cudaExtent extent, unsigned levels, unsigned flags) {
  return runtime_in([&](Context& context) {
    require(out != nullptr && desc != nullptr && levels > 0 && levels < 32, Status::invalid_value);
    auto mipmap = std::make_shared<device::MipmappedArray>();
    for (unsigned level = 0; level < levels; level++) {
      auto shrink = [&](size_t n) { return n ? std::max<size_t>(1, n >> level) : 0; };
      size_t depth = flags & device::kLayered ? extent.depth : shrink(extent.depth);
      mipmap->levels.push_back(device::make_array(context.device(), shrink(extent.width), shrink(extent.height), depth, format_of(*desc), flags));
    }
    *out = reinterpret_cast<cudaMipmappedArray_t>(handles<device::MipmappedArray>().add(mipmap));
  });
}
API(cudaGetMipmappedArrayLevel)(cudaArray_t* out, cudaMipmappedArray_const_t mipmap, unsigned level) {
  return runtime_in([&](Context&) {
    auto found = handles<device::MipmappedArray>().get(mipmap);
    require(out != nullptr && level < found->levels.size(), Status::invalid_value);
    *out = reinterpret_cast<cudaArray_t>(handles<device::Array>().add(found->levels[level]));
  });
}
API(cudaFreeMipmappedArray)(cudaMipmappedArray_t mipmap) {
  return runtime_in([&](Context& context) {
    if (!mipmap) return;
    auto taken = handles<device::MipmappedArray>().take(mipmap);
    wait_for_use(context);
  });
}
API(cudaArrayGetInfo)(cudaChannelFormatDesc* desc, cudaExtent* extent, unsigned* flags, cudaArray_t array) {
  return runtime_in([&](Context&) {
    auto found = array_of(array);
    if (desc) *desc = channel_of(found->format);
    if (extent) *extent = {found->width, found->height, found->depth};
    if (flags) *flags = found->flags;
  });
}
API(cudaGetChannelDesc)(cudaChannelFormatDesc* desc, cudaArray_const_t array) {
  return runtime_in([&](Context&) {
    require(desc != nullptr, Status::invalid_value);
    *desc = channel_of(array_of(array)->format);
  });
}
API(cudaArrayGetMemoryRequirements)(cudaArrayMemoryRequirements* out, cudaArray_t array, int) {
  return runtime_in([&](Context&) {
    auto found = array_of(array);
    *out = {};
    out->size = found->slice * found->slices();
    out->alignment = 512;
  });
}
extern "C" cudaChannelFormatDesc orrery_cudaCreateChannelDesc(int x, int y, int z, int w, int kind) { return {x, y, z, w, kind}; }
API(cudaDeviceGetGraphMemAttribute)(int ordinal, int, void* value) {
  return runtime([&] {
    device::system().device(ordinal);
    require(value != nullptr, Status::invalid_value);
    uint64_t none = 0;
    std::memcpy(value, &none, 8);
  });
}
API(cudaDeviceSetGraphMemAttribute)(int ordinal, int, void*) {
  return runtime([&] { device::system().device(ordinal); });
}
API(cudaDeviceGraphMemTrim)(int ordinal) {
  return runtime([&] { device::system().device(ordinal); });
}
