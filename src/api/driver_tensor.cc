// Driver API: tensor maps. The layout of a map, and the checks of every argument, are in exec/tensor_map.h.
#include "api/abi_driver.h"
#include "api/entry.h"
#include "exec/tensor_map.h"

using namespace orrery;
using namespace orrery::api;
using namespace orrery::abi;
using exec::EncodeStatus;
using exec::TensorMap;
using exec::TensorSpec;

namespace {

void require_ok(EncodeStatus s) {
  require(s != EncodeStatus::not_supported, Status::not_supported);
  require(s == EncodeStatus::ok, Status::invalid_value);
}

TensorMap* map_of(CUtensorMap* out) { return reinterpret_cast<TensorMap*>(out); }

TensorSpec spec_of(int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const uint32_t* element_strides,
                   int interleave, int swizzle, int promotion, int fill) {
  return {uint32_t(type), rank, reinterpret_cast<uint64_t>(address), dims, strides, element_strides, uint32_t(interleave), uint32_t(swizzle),
          uint32_t(promotion), uint32_t(fill)};
}

}  // namespace

API(cuTensorMapEncodeTiled)(CUtensorMap* out, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                            const uint32_t* element_strides, int interleave, int swizzle, int promotion, int fill) {
  return driver([&] {
    require_ok(encode_tiled(map_of(out), spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill), box));
  });
}
API(cuTensorMapEncodeIm2col)(CUtensorMap* out, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const int* lower,
                             const int* upper, unsigned channels, unsigned pixels, const uint32_t* element_strides, int interleave, int swizzle, int promotion,
                             int fill) {
  return driver([&] {
    require_ok(encode_im2col(map_of(out), spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill), lower, upper,
                             channels, pixels));
  });
}
API(cuTensorMapEncodeIm2colWide)(CUtensorMap* out, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, int lower,
                                 int upper, unsigned channels, unsigned pixels, const uint32_t* element_strides, int interleave, int mode, int swizzle,
                                 int promotion, int fill) {
  return driver([&] {
    require_ok(encode_im2col_wide(map_of(out), spec_of(type, rank, address, dims, strides, element_strides, interleave, swizzle, promotion, fill), lower,
                                  upper, channels, pixels, uint32_t(mode)));
  });
}
API(cuTensorMapReplaceAddress)(CUtensorMap* map, void* address) {
  return driver([&] { require_ok(replace_address(map_of(map), reinterpret_cast<uint64_t>(address))); });
}
