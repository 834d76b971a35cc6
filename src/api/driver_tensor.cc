// Driver API: tensor maps. The checks are those that the driver API reference lists for each argument.
#include <cstring>

#include "api/abi_driver.h"
#include "api/entry.h"
#include "exec/tensor_map.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using orrery::exec::TensorMap;

namespace {

constexpr int kTypeBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 1, 1, 1};

struct Shape {
  int type;
  unsigned rank;
  void* address;
  const uint64_t *dims, *strides;
  const uint32_t* element_strides;
  int interleave, swizzle, promotion, fill;
};

// Bytes that `n` elements take in a row of global memory; the packed sub-byte types count 16 elements in 8 or 12.
uint64_t row_bytes(int type, uint64_t n) {
  if (type == 13 || type == 14) return n / 2;
  if (type == 15) return n * 3 / 4;
  return n * uint64_t(kTypeBytes[type]);
}

void check_global(const Shape& s) {
  require(s.type >= 0 && s.type <= 15 && s.rank >= 1 && s.rank <= 5, Status::invalid_value);
  require(s.dims && s.element_strides && (s.strides || s.rank == 1), Status::invalid_value);
  require(s.interleave >= 0 && s.interleave <= 2 && (s.interleave == 0 || s.rank >= 3), Status::invalid_value);
  require(s.swizzle >= 0 && s.swizzle <= 6 && s.promotion >= 0 && s.promotion <= 3 && s.fill >= 0 && s.fill <= 1, Status::invalid_value);
  const bool packed = s.type >= 13;
  uint64_t align = s.interleave == 2 || s.type == 14 || s.type == 15 ? 32 : 16;
  require(s.address && reinterpret_cast<uint64_t>(s.address) % align == 0, Status::invalid_value);
  for (unsigned i = 0; i < s.rank; i++) {
    require(s.dims[i] >= 1 && s.dims[i] <= (uint64_t{1} << 32), Status::invalid_value);
    require(s.element_strides[i] >= 1 && s.element_strides[i] <= 8, Status::invalid_value);
  }
  if (packed) require(s.dims[0] % (s.type == 13 ? 2 : 128) == 0 && s.interleave == 0, Status::invalid_value);
  for (unsigned i = 0; i + 1 < s.rank; i++) {
    require(s.strides[i] % align == 0 && s.strides[i] < (uint64_t{1} << 40), Status::invalid_value);
    uint64_t below = i == 0 ? row_bytes(s.type, s.dims[0]) : s.strides[i - 1];
    require(s.strides[i] >= (s.interleave ? 0 : i == 0 ? below : 0), Status::invalid_value);
  }
  if (s.interleave == 2) require(s.swizzle == 1, Status::invalid_value);
  if (s.fill) require(s.type == 6 || s.type == 7 || s.type == 8 || s.type == 9 || (s.type >= 10 && s.type <= 12), Status::invalid_value);
}

TensorMap encode(const Shape& s) {
  TensorMap map;
  map.rank = uint8_t(s.rank);
  map.type = uint8_t(s.type);
  map.interleave = uint8_t(s.interleave);
  map.swizzle = uint8_t(s.swizzle);
  map.l2_promotion = uint8_t(s.promotion);
  map.fill_nan = uint8_t(s.fill);
  map.address = reinterpret_cast<uint64_t>(s.address);
  for (unsigned i = 0; i < s.rank; i++) {
    map.dims[i] = uint32_t(s.dims[i] - 1);
    map.element_strides[i] = uint8_t(s.element_strides[i]);
    if (i + 1 < s.rank) map.strides[i] = s.strides[i];
  }
  return map;
}

void check_inner(const Shape& s, uint64_t inner_bytes) {
  static constexpr uint64_t kSpan[] = {0, 32, 64, 128, 128, 128, 128};
  if (s.interleave == 0) {
    require(inner_bytes % 16 == 0, Status::invalid_value);
    if (s.swizzle) require(inner_bytes <= kSpan[s.swizzle], Status::invalid_value);
  }
}

}  // namespace

API(cuTensorMapEncodeTiled)(CUtensorMap* out, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                            const uint32_t* element_strides, int interleave, int swizzle, int promotion, int fill) {
  return driver([&] {
    require(out != nullptr && reinterpret_cast<uint64_t>(out) % 64 == 0 && box != nullptr, Status::invalid_value);
    Shape shape{type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill};
    check_global(shape);
    TensorMap map = encode(shape);
    for (unsigned i = 0; i < rank; i++) {
      require(box[i] >= 1 && box[i] <= 256, Status::invalid_value);
      map.box[i] = uint8_t(box[i] - 1);
    }
    check_inner(shape, type >= 14 ? box[0] : row_bytes(type, box[0]));
    std::memcpy(out, &map, sizeof map);
  });
}
API(cuTensorMapEncodeIm2col)(CUtensorMap* out, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const int* lower,
                             const int* upper, unsigned channels, unsigned pixels, const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                             int fill) {
  return driver([&] {
    require(out != nullptr && reinterpret_cast<uint64_t>(out) % 64 == 0 && lower && upper, Status::invalid_value);
    Shape shape{type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill};
    check_global(shape);
    require(rank >= 3 && channels >= 1 && channels <= 256 && pixels >= 1 && pixels <= 1024, Status::invalid_value);
    TensorMap map = encode(shape);
    map.im2col = 1;
    const int limit = rank == 3 ? 32768 : rank == 4 ? 128 : 16;
    for (unsigned i = 0; i + 2 < rank; i++) {
      require(lower[i] >= -limit && lower[i] < limit && upper[i] >= -limit && upper[i] < limit, Status::invalid_value);
      map.lower_corner[i] = int16_t(lower[i]);
      map.upper_corner[i] = int16_t(upper[i]);
    }
    map.channels_per_pixel = uint16_t(channels);
    map.pixels_per_column = uint16_t(pixels);
    check_inner(shape, row_bytes(type, channels));
    std::memcpy(out, &map, sizeof map);
  });
}
API(cuTensorMapReplaceAddress)(CUtensorMap* map, void* address) {
  return driver([&] {
    require(map != nullptr && address && reinterpret_cast<uint64_t>(address) % 16 == 0, Status::invalid_value);
    TensorMap decoded;
    std::memcpy(&decoded, map, sizeof decoded);
    require(decoded.magic == TensorMap::kMagic, Status::invalid_value);
    decoded.address = reinterpret_cast<uint64_t>(address);
    std::memcpy(map, &decoded, sizeof decoded);
  });
}
