// Descriptions of copies; see copying.h. Positions and widths count texels where an array takes part, else bytes.
#include "api/copying.h"

#include <cstring>

namespace orrery::api {

device::Direction direction_of(int kind) {
  require(kind >= 0 && kind <= 4, Status::invalid_memcpy_direction);
  return device::Direction(kind);
}

device::CopyWork linear_copy(void* dst, const void* src, size_t bytes) {
  device::CopyWork work;
  work.dst = {reinterpret_cast<uint64_t>(dst), bytes, bytes, nullptr};
  work.src = {reinterpret_cast<uint64_t>(src), bytes, bytes, nullptr};
  work.width = bytes;
  return work;
}

namespace {

device::CopySide box_side(abi::cudaArray_t handle, const abi::cudaPos& pos, const abi::cudaPitchedPtr& ptr, size_t texel, const abi::cudaExtent& extent) {
  if (handle) {
    auto array = array_of(handle);
    require(pos.x + extent.width <= array->width && pos.y + extent.height <= array->rows() && pos.z + extent.depth <= array->slices(), Status::invalid_value);
    return array_side(array, pos.x * array->format.texel_bytes(), pos.y, pos.z);
  }
  require(extent.height <= 1 || ptr.pitch >= extent.width * texel, Status::invalid_pitch);
  // A host box beside an array gives its row length in texels or bytes; the pitch counts.
  uint64_t rows = ptr.ysize ? ptr.ysize : extent.height;
  return {reinterpret_cast<uint64_t>(ptr.ptr) + pos.z * ptr.pitch * rows + pos.y * ptr.pitch + pos.x, ptr.pitch, ptr.pitch * rows, nullptr};
}

}  // namespace

device::CopyWork box_copy(const abi::cudaMemcpy3DParms& p) {
  require((p.srcArray != nullptr) != (p.srcPtr.ptr != nullptr) && (p.dstArray != nullptr) != (p.dstPtr.ptr != nullptr), Status::invalid_value);
  size_t texel = 1;
  if (p.srcArray) texel = array_of(p.srcArray)->format.texel_bytes();
  if (p.dstArray) texel = array_of(p.dstArray)->format.texel_bytes();
  device::CopyWork work;
  work.src = box_side(p.srcArray, p.srcPos, p.srcPtr, texel, p.extent);
  work.dst = box_side(p.dstArray, p.dstPos, p.dstPtr, texel, p.extent);
  work.width = p.extent.width * texel;
  work.height = p.extent.height;
  work.depth = p.extent.depth;
  static_assert(sizeof p <= sizeof work.description);
  std::memcpy(work.description.data(), &p, sizeof p);
  return work;
}

}  // namespace orrery::api
