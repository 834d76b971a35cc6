// Driver descriptions of copies and array formats; see driver_copy.h.
#include "api/driver_copy.h"

#include <cstring>

namespace orrery::api {

abi::CUDA_MEMCPY3D driver_box_of(const abi::CUDA_MEMCPY2D& p) {
  abi::CUDA_MEMCPY3D box{};
  box.srcXInBytes = p.srcXInBytes, box.srcY = p.srcY, box.srcMemoryType = p.srcMemoryType, box.srcHost = p.srcHost;
  box.srcDevice = p.srcDevice, box.srcArray = p.srcArray, box.srcPitch = p.srcPitch;
  box.dstXInBytes = p.dstXInBytes, box.dstY = p.dstY, box.dstMemoryType = p.dstMemoryType, box.dstHost = p.dstHost;
  box.dstDevice = p.dstDevice, box.dstArray = p.dstArray, box.dstPitch = p.dstPitch;
  box.WidthInBytes = p.WidthInBytes, box.Height = p.Height, box.Depth = 1;
  return box;
}

namespace {

device::CopySide side(int type, uint64_t host, uint64_t address, abi::CUarray array, size_t x, size_t y, size_t z, size_t pitch, size_t rows, size_t width,
                      size_t height) {
  require(type >= 1 && type <= 4, Status::invalid_value);
  if (type == 3) return array_side(array_of(array), x, y, z);
  if (pitch == 0) pitch = width + x;
  if (rows == 0) rows = height + y;
  require(pitch >= width, Status::invalid_value);
  uint64_t base = type == 1 ? host : address;
  require(base != 0, Status::invalid_value);
  return {base + z * pitch * rows + y * pitch + x, pitch, pitch * rows, nullptr};
}

}  // namespace

device::CopyWork driver_box(const abi::CUDA_MEMCPY3D& p) {
  device::CopyWork work;
  if (p.WidthInBytes * p.Height * p.Depth == 0) return work;
  work.src = side(p.srcMemoryType, reinterpret_cast<uint64_t>(p.srcHost), p.srcDevice, p.srcArray, p.srcXInBytes, p.srcY, p.srcZ, p.srcPitch, p.srcHeight,
                  p.WidthInBytes, p.Height);
  work.dst = side(p.dstMemoryType, reinterpret_cast<uint64_t>(p.dstHost), p.dstDevice, p.dstArray, p.dstXInBytes, p.dstY, p.dstZ, p.dstPitch, p.dstHeight,
                  p.WidthInBytes, p.Height);
  work.width = p.WidthInBytes;
  work.height = p.Height;
  work.depth = p.Depth;
  static_assert(sizeof p <= sizeof work.description);
  std::memcpy(work.description.data(), &p, sizeof p);
  return work;
}

device::Format driver_format(int format, unsigned channels) {
  struct Row {
    int number, bits;
    exec::TexelKind kind;
  };
  static const Row kRows[] = {{1, 8, exec::TexelKind::uint},  {2, 16, exec::TexelKind::uint}, {3, 32, exec::TexelKind::uint}, {8, 8, exec::TexelKind::sint},
                              {9, 16, exec::TexelKind::sint}, {10, 32, exec::TexelKind::sint}, {16, 16, exec::TexelKind::flt}, {32, 32, exec::TexelKind::flt}};
  require(channels == 1 || channels == 2 || channels == 4, Status::invalid_value);
  for (const Row& row : kRows) {
    if (row.number != format) continue;
    device::Format result;
    result.kind = row.kind;
    for (unsigned i = 0; i < 4; i++) result.bits[i] = uint8_t(i < channels ? row.bits : 0);
    return result;
  }
  throw Failure(Status::not_supported, fmt::format("arrays of format {:#x} are not supported", format));
}

int driver_format_number(const device::Format& format) {
  int size = format.bits[0] == 8 ? 0 : format.bits[0] == 16 ? 1 : 2;
  if (format.kind == exec::TexelKind::uint) return 1 + size;
  if (format.kind == exec::TexelKind::sint) return 8 + size;
  return format.bits[0] == 16 ? 16 : 32;
}

}  // namespace orrery::api
