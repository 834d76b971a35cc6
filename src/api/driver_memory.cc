// Driver API: memory, copies, fills, pools, pointer attributes.
#include <cstring>

#include "api/abi_driver.h"
#include "api/driver_copy.h"
#include "api/memory_calls.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::device::CopySide;
using orrery::device::CopyWork;
using orrery::device::Direction;
using orrery::device::FillWork;
using orrery::device::MemoryPool;

namespace {

CopySide line(uint64_t address, size_t bytes) { return {address, bytes, bytes, nullptr}; }

int copy_line(uint64_t dst, uint64_t src, size_t bytes, Direction direction, CUstream stream, bool async) {
  return driver_in([&](Context& context) {
    if (bytes == 0) return;
    CopyWork work;
    work.dst = line(dst, bytes);
    work.src = line(src, bytes);
    work.width = bytes;
    auto target = stream_of(context, stream);
    submit_copy(target->context(), target, work, direction, async);
  });
}
uint64_t number(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

int copy_array(CUarray array, size_t offset, uint64_t other, size_t bytes, bool to_array, CUstream stream, bool async) {
  return driver_in([&](Context& context) {
    CopyWork work;
    (to_array ? work.dst : work.src) = array_side(array_of(array), offset, 0, 0);
    (to_array ? work.src : work.dst) = line(other, bytes);
    work.width = bytes;
    submit_copy(context, stream_of(context, stream), work, Direction::automatic, async);
  });
}

int fill(CUdeviceptr address, size_t pitch, uint32_t value, uint32_t element, size_t width, size_t height, CUstream stream, bool async) {
  return driver_in([&](Context& context) {
    if (width == 0 || height == 0) return;
    require(height == 1 || pitch >= width * element, Status::invalid_value);
    auto target = stream_of(context, stream);
    submit_fill(target->context(), target, FillWork{address, pitch, 0, value, element, width, height, 1}, async);
  });
}

int copy_box(const CUDA_MEMCPY3D* p, CUstream stream, bool async) {
  return driver_in([&](Context& context) {
    require(p != nullptr, Status::invalid_value);
    submit_copy(context, stream_of(context, stream), driver_box(*p), Direction::automatic, async);
  });
}
int copy_rows(const CUDA_MEMCPY2D* p, CUstream stream, bool async) {
  if (!p) return 1;
  CUDA_MEMCPY3D box = driver_box_of(*p);
  return copy_box(&box, stream, async);
}

}  // namespace

API(cuMemAlloc_v2)(CUdeviceptr* out, size_t bytes) {
  return driver_in([&](Context& context) {
    require(out != nullptr && bytes > 0, Status::invalid_value);
    *out = number(allocate_device(context, bytes));
  });
}
API(cuMemAllocPitch_v2)(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  return driver_in([&](Context& context) {
    require(out && pitch && width && height && (element == 4 || element == 8 || element == 16), Status::invalid_value);
    *out = number(allocate_pitched(context, pitch, width, height));
  });
}
API(cuMemFree_v2)(CUdeviceptr address) {
  return driver_in([&](Context& context) { free_device(context, reinterpret_cast<void*>(address)); });
}
API(cuMemAllocHost_v2)(void** out, size_t bytes) {
  return driver_in([&](Context& context) { *out = allocate_host(context, bytes, 0); });
}
API(cuMemHostAlloc)(void** out, size_t bytes, unsigned flags) {
  return driver_in([&](Context& context) { *out = allocate_host(context, bytes, flags); });
}
API(cuMemFreeHost)(void* address) {
  return driver_in([&](Context& context) { free_host(context, address); });
}
API(cuMemAllocManaged)(CUdeviceptr* out, size_t bytes, unsigned flags) {
  return driver_in([&](Context& context) { *out = number(allocate_managed(context, bytes, flags & 3)); });
}
API(cuMemHostRegister_v2)(void* address, size_t bytes, unsigned flags) {
  return driver_in([&](Context&) { register_host(address, bytes, flags); });
}
API(cuMemHostRegister)(void* address, size_t bytes, unsigned flags) { return orrery_cuMemHostRegister_v2(address, bytes, flags); }
API(cuMemHostUnregister)(void* address) {
  return driver_in([&](Context&) { unregister_host(address); });
}
API(cuMemHostGetDevicePointer_v2)(CUdeviceptr* out, void* host, unsigned) {
  return driver_in([&](Context&) { *out = number(device_pointer_of_host(host)); });
}
API(cuMemHostGetFlags)(unsigned* flags, void* host) {
  return driver_in([&](Context&) { *flags = host_flags(host); });
}
API(cuMemGetInfo_v2)(size_t* available, size_t* total) {
  return driver_in([&](Context& context) {
    device::system().deferred().run();
    *available = context.device().free_memory();
    *total = context.device().total_memory();
  });
}
API(cuMemGetAddressRange_v2)(CUdeviceptr* base, size_t* size, CUdeviceptr address) {
  return driver_in([&](Context&) {
    device::Place place = device::place_of(address);
    require(!place.pageable, Status::not_found);
    if (base) *base = place.start;
    if (size) *size = place.size;
  });
}

API(cuMemcpy)(CUdeviceptr dst, CUdeviceptr src, size_t bytes) { return copy_line(dst, src, bytes, Direction::automatic, nullptr, false); }
PER_THREAD(cuMemcpy, _ptds)
API(cuMemcpyAsync)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) { return copy_line(dst, src, bytes, Direction::automatic, stream, true); }
PER_THREAD(cuMemcpyAsync, _ptsz)
API(cuMemcpyHtoD_v2)(CUdeviceptr dst, const void* src, size_t bytes) { return copy_line(dst, number(src), bytes, Direction::host_to_device, nullptr, false); }
PER_THREAD(cuMemcpyHtoD_v2, _ptds)
API(cuMemcpyHtoDAsync_v2)(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) { return copy_line(dst, number(src), bytes, Direction::host_to_device, stream, true); }
PER_THREAD(cuMemcpyHtoDAsync_v2, _ptsz)
API(cuMemcpyDtoH_v2)(void* dst, CUdeviceptr src, size_t bytes) { return copy_line(number(dst), src, bytes, Direction::device_to_host, nullptr, false); }
PER_THREAD(cuMemcpyDtoH_v2, _ptds)
API(cuMemcpyDtoHAsync_v2)(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) { return copy_line(number(dst), src, bytes, Direction::device_to_host, stream, true); }
PER_THREAD(cuMemcpyDtoHAsync_v2, _ptsz)
API(cuMemcpyDtoD_v2)(CUdeviceptr dst, CUdeviceptr src, size_t bytes) { return copy_line(dst, src, bytes, Direction::device_to_device, nullptr, false); }
PER_THREAD(cuMemcpyDtoD_v2, _ptds)
API(cuMemcpyDtoDAsync_v2)(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) { return copy_line(dst, src, bytes, Direction::device_to_device, stream, true); }
PER_THREAD(cuMemcpyDtoDAsync_v2, _ptsz)
API(cuMemcpyPeer)(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes) { return copy_line(dst, src, bytes, Direction::automatic, nullptr, false); }
PER_THREAD(cuMemcpyPeer, _ptds)
API(cuMemcpyPeerAsync)(CUdeviceptr dst, CUcontext, CUdeviceptr src, CUcontext, size_t bytes, CUstream stream) { return copy_line(dst, src, bytes, Direction::automatic, stream, true); }
PER_THREAD(cuMemcpyPeerAsync, _ptsz)
API(cuMemcpyHtoA_v2)(CUarray dst, size_t offset, const void* src, size_t bytes) { return copy_array(dst, offset, number(src), bytes, true, nullptr, false); }
API(cuMemcpyHtoAAsync_v2)(CUarray dst, size_t offset, const void* src, size_t bytes, CUstream stream) { return copy_array(dst, offset, number(src), bytes, true, stream, true); }
API(cuMemcpyAtoH_v2)(void* dst, CUarray src, size_t offset, size_t bytes) { return copy_array(src, offset, number(dst), bytes, false, nullptr, false); }
API(cuMemcpyAtoHAsync_v2)(void* dst, CUarray src, size_t offset, size_t bytes, CUstream stream) { return copy_array(src, offset, number(dst), bytes, false, stream, true); }
API(cuMemcpyDtoA_v2)(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes) { return copy_array(dst, offset, src, bytes, true, nullptr, false); }
API(cuMemcpyAtoD_v2)(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes) { return copy_array(src, offset, dst, bytes, false, nullptr, false); }
API(cuMemcpyAtoA_v2)(CUarray dst, size_t to, CUarray src, size_t from, size_t bytes) {
  return driver_in([&](Context& context) {
    CopyWork work;
    work.dst = array_side(array_of(dst), to, 0, 0);
    work.src = array_side(array_of(src), from, 0, 0);
    work.width = bytes;
    submit_copy(context, stream_of(context, nullptr), work, Direction::automatic, false);
  });
}
API(cuMemcpy2D_v2)(const CUDA_MEMCPY2D* p) { return copy_rows(p, nullptr, false); }
PER_THREAD(cuMemcpy2D_v2, _ptds)
API(cuMemcpy2DUnaligned_v2)(const CUDA_MEMCPY2D* p) { return copy_rows(p, nullptr, false); }
PER_THREAD(cuMemcpy2DUnaligned_v2, _ptds)
API(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D* p, CUstream stream) { return copy_rows(p, stream, true); }
PER_THREAD(cuMemcpy2DAsync_v2, _ptsz)
API(cuMemcpy3D_v2)(const CUDA_MEMCPY3D* p) { return copy_box(p, nullptr, false); }
PER_THREAD(cuMemcpy3D_v2, _ptds)
API(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D* p, CUstream stream) { return copy_box(p, stream, true); }
PER_THREAD(cuMemcpy3DAsync_v2, _ptsz)
// The peer form has contexts where the plain one has reserved pointers; memory is one.
API(cuMemcpy3DPeer)(const CUDA_MEMCPY3D* p) { return copy_box(p, nullptr, false); }
PER_THREAD(cuMemcpy3DPeer, _ptds)
API(cuMemcpy3DPeerAsync)(const CUDA_MEMCPY3D* p, CUstream stream) { return copy_box(p, stream, true); }
PER_THREAD(cuMemcpy3DPeerAsync, _ptsz)
API(cuMemcpyBatchAsync_v2)(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, void*, size_t*, size_t, CUstream stream) {
  for (size_t i = 0; i < count; i++)
    if (int code = copy_line(dsts[i], srcs[i], sizes[i], Direction::automatic, stream, true)) return code;
  return 0;
}
PER_THREAD(cuMemcpyBatchAsync_v2, _ptsz)
API(cuMemcpyBatchAsync)(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count, void* attributes, size_t* first, size_t n, size_t* failed, CUstream stream) {
  if (failed) *failed = SIZE_MAX;
  return orrery_cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attributes, first, n, stream);
}

API(cuMemsetD8_v2)(CUdeviceptr address, unsigned char value, size_t count) { return fill(address, count, value, 1, count, 1, nullptr, false); }
PER_THREAD(cuMemsetD8_v2, _ptds)
API(cuMemsetD16_v2)(CUdeviceptr address, unsigned short value, size_t count) { return fill(address, 2 * count, value, 2, count, 1, nullptr, false); }
PER_THREAD(cuMemsetD16_v2, _ptds)
API(cuMemsetD32_v2)(CUdeviceptr address, unsigned value, size_t count) { return fill(address, 4 * count, value, 4, count, 1, nullptr, false); }
PER_THREAD(cuMemsetD32_v2, _ptds)
API(cuMemsetD2D8_v2)(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height) { return fill(address, pitch, value, 1, width, height, nullptr, false); }
PER_THREAD(cuMemsetD2D8_v2, _ptds)
API(cuMemsetD2D16_v2)(CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height) { return fill(address, pitch, value, 2, width, height, nullptr, false); }
PER_THREAD(cuMemsetD2D16_v2, _ptds)
API(cuMemsetD2D32_v2)(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height) { return fill(address, pitch, value, 4, width, height, nullptr, false); }
PER_THREAD(cuMemsetD2D32_v2, _ptds)
API(cuMemsetD8Async)(CUdeviceptr address, unsigned char value, size_t count, CUstream stream) { return fill(address, count, value, 1, count, 1, stream, true); }
PER_THREAD(cuMemsetD8Async, _ptsz)
API(cuMemsetD16Async)(CUdeviceptr address, unsigned short value, size_t count, CUstream stream) { return fill(address, 2 * count, value, 2, count, 1, stream, true); }
PER_THREAD(cuMemsetD16Async, _ptsz)
API(cuMemsetD32Async)(CUdeviceptr address, unsigned value, size_t count, CUstream stream) { return fill(address, 4 * count, value, 4, count, 1, stream, true); }
PER_THREAD(cuMemsetD32Async, _ptsz)
API(cuMemsetD2D8Async)(CUdeviceptr address, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream) { return fill(address, pitch, value, 1, width, height, stream, true); }
PER_THREAD(cuMemsetD2D8Async, _ptsz)
API(cuMemsetD2D16Async)(CUdeviceptr address, size_t pitch, unsigned short value, size_t width, size_t height, CUstream stream) { return fill(address, pitch, value, 2, width, height, stream, true); }
PER_THREAD(cuMemsetD2D16Async, _ptsz)
API(cuMemsetD2D32Async)(CUdeviceptr address, size_t pitch, unsigned value, size_t width, size_t height, CUstream stream) { return fill(address, pitch, value, 4, width, height, stream, true); }
PER_THREAD(cuMemsetD2D32Async, _ptsz)

API(cuMemAllocAsync)(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return driver_in([&](Context& context) { *out = number(allocate_async(context, stream_of(context, stream), context.device().pool(), bytes)); });
}
PER_THREAD(cuMemAllocAsync, _ptsz)
API(cuMemAllocFromPoolAsync)(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream stream) {
  return driver_in([&](Context& context) {
    *out = number(allocate_async(context, stream_of(context, stream), handles<MemoryPool>().get(pool, Status::invalid_value), bytes));
  });
}
PER_THREAD(cuMemAllocFromPoolAsync, _ptsz)
API(cuMemFreeAsync)(CUdeviceptr address, CUstream stream) {
  return driver_in([&](Context& context) { free_async(context, stream_of(context, stream), reinterpret_cast<void*>(address)); });
}
PER_THREAD(cuMemFreeAsync, _ptsz)
API(cuMemPoolCreate)(CUmemoryPool* out, const cudaMemPoolProps* props) {
  return driver_in([&](Context&) {
    require(out != nullptr && props != nullptr, Status::invalid_value);
    *out = reinterpret_cast<CUmemoryPool>(make_pool(*props).get());
  });
}
API(cuMemPoolDestroy)(CUmemoryPool pool) {
  return driver_in([&](Context& context) {
    auto taken = handles<MemoryPool>().take(pool, Status::invalid_value);
    if (context.device().pool() == taken) context.device().set_pool(context.device().default_pool_ref());
    wait_for_use(context);
  });
}
API(cuMemPoolTrimTo)(CUmemoryPool pool, size_t keep) {
  return driver([&] { handles<MemoryPool>().get(pool, Status::invalid_value)->trim(keep); });
}
API(cuMemPoolSetAttribute)(CUmemoryPool pool, int attribute, void* value) {
  return driver([&] { set_pool_attribute(*handles<MemoryPool>().get(pool, Status::invalid_value), attribute, value); });
}
API(cuMemPoolGetAttribute)(CUmemoryPool pool, int attribute, void* value) {
  return driver([&] { get_pool_attribute(*handles<MemoryPool>().get(pool, Status::invalid_value), attribute, value); });
}
API(cuMemPoolSetAccess)(CUmemoryPool pool, const cudaMemAccessDesc* list, size_t count) {
  return driver([&] {
    auto found = handles<MemoryPool>().get(pool, Status::invalid_value);
    for (size_t i = 0; i < count; i++) found->access[list[i].location.id] = list[i].flags;
  });
}
API(cuMemPoolGetAccess)(int* flags, CUmemoryPool pool, const cudaMemLocation* location) {
  return driver([&] {
    auto found = handles<MemoryPool>().get(pool, Status::invalid_value);
    require(flags != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    auto at = found->access.find(location->id);
    *flags = location->id == found->device().ordinal() ? 3 : at == found->access.end() ? 0 : at->second;
  });
}
API(cuMemGetDefaultMemPool)(CUmemoryPool* out, const cudaMemLocation* location, int) {
  return driver([&] {
    require(out != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    *out = reinterpret_cast<CUmemoryPool>(default_pool_handle(device::system().device(location->id)));
  });
}
API(cuMemGetMemPool)(CUmemoryPool* out, const cudaMemLocation* location, int) {
  return driver([&] {
    require(out != nullptr && location != nullptr && location->type == 1, Status::invalid_value);
    *out = reinterpret_cast<CUmemoryPool>(current_pool_handle(device::system().device(location->id)));
  });
}
API(cuMemSetMemPool)(const cudaMemLocation* location, int, CUmemoryPool pool) {
  return driver([&] {
    require(location != nullptr && location->type == 1, Status::invalid_value);
    device::system().device(location->id).set_pool(handles<MemoryPool>().get(pool, Status::invalid_value));
  });
}
API(cuDeviceGetDefaultMemPool)(CUmemoryPool* out, CUdevice device) {
  return driver([&] { *out = reinterpret_cast<CUmemoryPool>(default_pool_handle(device::system().device(device))); });
}
API(cuDeviceGetMemPool)(CUmemoryPool* out, CUdevice device) {
  return driver([&] { *out = reinterpret_cast<CUmemoryPool>(current_pool_handle(device::system().device(device))); });
}
API(cuDeviceSetMemPool)(CUdevice device, CUmemoryPool pool) {
  return driver([&] { device::system().device(device).set_pool(handles<MemoryPool>().get(pool, Status::invalid_value)); });
}

API(cuMemAdvise_v2)(CUdeviceptr address, size_t bytes, int advice, cudaMemLocation location) {
  return driver_in([&](Context&) { advise(address, bytes, advice, location); });
}
API(cuMemAdvise)(CUdeviceptr address, size_t bytes, int advice, CUdevice device) { return orrery_cuMemAdvise_v2(address, bytes, advice, {device < 0 ? 2 : 1, device}); }
API(cuMemPrefetchAsync_v2)(CUdeviceptr address, size_t bytes, cudaMemLocation location, unsigned, CUstream stream) {
  return driver_in([&](Context& context) {
    stream_of(context, stream);
    note_prefetch(address, bytes, location);
  });
}
PER_THREAD(cuMemPrefetchAsync_v2, _ptsz)
API(cuMemPrefetchAsync)(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream) {
  return orrery_cuMemPrefetchAsync_v2(address, bytes, {device < 0 ? 2 : 1, device}, 0, stream);
}
PER_THREAD(cuMemPrefetchAsync, _ptsz)
API(cuMemRangeGetAttributes)(void** data, size_t* sizes, int* attributes, size_t count, CUdeviceptr address, size_t) {
  return driver_in([&](Context&) {
    for (size_t i = 0; i < count; i++) get_range_attribute(data[i], sizes[i], attributes[i], address);
  });
}
API(cuMemRangeGetAttribute)(void* data, size_t size, int attribute, CUdeviceptr address, size_t) {
  return driver_in([&](Context&) { get_range_attribute(data, size, attribute, address); });
}

namespace {

// One attribute of an address. Throws Failure(invalid_value) when memory is not CUDA's and the attribute needs it.
void pointer_attribute(void* out, int attribute, CUdeviceptr address) {
  device::Place place = device::place_of(address);
  auto give = [&](auto value) { std::memcpy(out, &value, sizeof value); };
  const bool pinned = place.kind == exec::MemoryKind::pinned;
  if (place.pageable && attribute != 8) throw Failure(Status::invalid_value);
  switch (attribute) {
    case 1: return give(reinterpret_cast<void*>(&device::system().device(place.device).primary()));
    case 2: return give(pinned ? 1u : 2u);
    case 3: return give(uint64_t(address));
    case 4:
      require(pinned || place.kind == exec::MemoryKind::managed, Status::invalid_value);
      return give(uint64_t(address));
    case 6: return give(0u);
    case 7: return give(uint64_t(place.start));
    case 8: return give(uint32_t(!place.pageable && place.kind == exec::MemoryKind::managed));
    case 9: return give(place.device);
    case 10: case 15: return give(0u);
    case 11: return give(uint64_t(place.start));
    case 12: return give(uint64_t(place.size));
    case 13: return give(1u);
    case 14: return give(uint64_t(0));
    case 16: return give(3u);
    case 17: return give(static_cast<void*>(nullptr));
    case 18: return give(uint64_t(place.size));
    case 19: return give(uint64_t(place.start));
    default: throw Failure(Status::invalid_value);
  }
}

}  // namespace

API(cuPointerGetAttribute)(void* out, int attribute, CUdeviceptr address) {
  return driver([&] {
    require(out != nullptr, Status::invalid_value);
    pointer_attribute(out, attribute, address);
  });
}
API(cuPointerGetAttributes)(unsigned count, int* attributes, void** out, CUdeviceptr address) {
  return driver([&] {
    bool ours = !device::place_of(address).pageable;
    for (unsigned i = 0; i < count; i++) {
      if (ours) pointer_attribute(out[i], attributes[i], address);
      else std::memset(out[i], 0, attributes[i] == 9 || attributes[i] == 2 || attributes[i] == 8 ? 4 : 8);
    }
  });
}
API(cuPointerSetAttribute)(const void*, int, CUdeviceptr address) {
  return driver([&] { require(!device::place_of(address).pageable, Status::invalid_value); });
}
